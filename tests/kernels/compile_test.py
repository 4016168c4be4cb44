"""Kernel bodies as text: every one compiles freestanding as C++17 with each compiler there is, and with NVRTC where its library
is, the loops of the fast ones are vectorised, wrong ones do not compile and say why, and a library of kernels exports one
symbol.

usage: compile_test.py --root TREE --compilers g++ clang++-14 … [--library x.so]
"""

import argparse
import ctypes
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

FLAGS = ["-std=c++17", "-ffreestanding", "-fno-exceptions", "-nostdinc++", "-O1", "-Wall", "-Wextra",
         "-Wno-unused-parameter", "-Werror", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]

# As cmake/tandem_kernels.cmake builds them for x86-64-v3.
FAST = ["-std=c++20", "-O3", "-march=x86-64-v3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]

# Loops that must be vectorised: the kernel, the file and the text of the line where its loop begins.
VECTOR_LOOPS = [
    ("Saxpy", "saxpy", "for (int64_t j = 0; j < n; ++j) Body::Call(TaskAt(first, j), a);"),
    ("BlackScholes", "black_scholes", "for (int64_t j = 0; j < n; ++j) fault[j] = Body::Call(TaskAt(block, j), a).code;"),
]

KERNEL = """
#include "tandem/body.h"
#include "tandem/cpu_range.h"
namespace TANDEM_KERNELS {
struct K {
  static constexpr char kName[] = "k";
  static constexpr char kSignature[] = "%(signature)s";
  static constexpr auto kClass = tandem::OutputClass::%(output_class)s;
  static constexpr double kCostNs = 1;
  %(members)s
};
}
static_assert(tandem::CheckKernel<TANDEM_KERNELS::K>());
"""

MAP = "x[n]:f32 -> y[n]:f32"
MAP_ARGS = "struct Args { tandem::PerTask<const float> x; tandem::PerTask<float> y; };"
EACH = "TANDEM_BODY void Each(tandem::Task t, const Args& a) { }"
SUM_ARGS = "struct Args { tandem::PerTask<const float> x; };"
REDUCE = "TANDEM_BODY void Each(tandem::Task t, const Args& a, Partial& p) { }"


def kernel(members, signature=MAP, output_class="kBitwise"):
    return KERNEL % {"signature": signature, "output_class": output_class, "members": members}


def without(member):
    """A map that lacks what begins so."""
    return "\n".join(line for line in kernel(MAP_ARGS + "\n" + EACH).split("\n") if member not in line)


RIGHT = [
    ("a map", kernel(MAP_ARGS + EACH)),
    ("extents at the end", kernel(
        "struct Args { tandem::PerTask<const float> x; tandem::PerTask<float> y; int64_t n; };" + EACH)),
    ("scalars between", kernel(
        "struct Args { uint8_t b; int32_t k; double d; const int64_t* x; tandem::f16* y; };" + EACH,
        "b:bool = true, k:i32 = 3 in [1, 4], d:f64, x[n,k]:i64 -> y[n]:f16")),
    ("a sum in lanes", kernel(
        SUM_ARGS + "using Partial = tandem::Lanes<float>;" + REDUCE, "x[n]:f32 -> s:f32 : sum")),
]

WRONG = [
    ("a sum of floats in bins", kernel(
        SUM_ARGS + "using Partial = tandem::Bins<float, 4>;" + REDUCE, "x[n]:f32 -> s[4]:f32 : sum"),
     "Bins is for integers"),
    ("a run-time number of float bins", kernel(
        SUM_ARGS + "using Partial = tandem::Counts<float>;" + REDUCE, "x[n]:f32 -> s[4]:f32 : sum"),
     "Counts is for integers"),
    ("integers in lanes", kernel(
        SUM_ARGS + "using Partial = tandem::Lanes<int>;" + REDUCE, "x[n]:f32 -> s:i32 : sum"),
     "Lanes is for floats"),
    ("members in another order", kernel(
        "struct Args { tandem::PerTask<float> y; tandem::PerTask<const float> x; };" + EACH),
     "Args does not follow"),
    ("another type", kernel(
        "struct Args { tandem::PerTask<const double> x; tandem::PerTask<float> y; };" + EACH),
     "Args does not follow"),
    ("a writable operand", kernel(
        "struct Args { tandem::PerTask<float> x; tandem::PerTask<float> y; };" + EACH),
     "Args does not follow"),
    ("a member too many", kernel(
        "struct Args { tandem::PerTask<const float> x; tandem::PerTask<float> y; int64_t n, split, more; };" + EACH),
     "Args does not follow"),
    ("a scalar of another width", kernel(
        "struct Args { int32_t k; tandem::PerTask<float> y; };" + EACH, "k:i64 -> y[n]:f32"),
     "Args does not follow"),
    ("no partial", kernel(SUM_ARGS + EACH, "x[n]:f32 -> s:f32 : sum"), "Partial needs one reducer"),
    ("a partial of another reduction", kernel(
        SUM_ARGS + "using Partial = tandem::Min<float>;" + REDUCE, "x[n]:f32 -> s:f32 : sum"),
     "Partial needs one reducer"),
    ("a scalar reducer for an array", kernel(
        SUM_ARGS + "using Partial = tandem::Lanes<float>;" + REDUCE, "x[n]:f32 -> s[3]:f32 : sum"),
     "Partial needs one reducer"),
    ("no form", kernel(MAP_ARGS), "a kernel has one form"),
    ("two forms", kernel(
        MAP_ARGS + EACH + "TANDEM_BODY void Block(const tandem::Group&, tandem::Task, const Args&) {}"),
     "a kernel has one form"),
    ("tolerant without a tolerance", kernel(MAP_ARGS + EACH, output_class="kTolerant"), "class tolerant needs"),
    ("a signature without outputs", kernel(MAP_ARGS + EACH, "x[n]:f32"), "kSignature cannot be read"),
    ("an unknown dtype", kernel(MAP_ARGS + EACH, "x[n]:float -> y[n]:f32"), "kSignature cannot be read"),
    ("no name", without("kName["), "a kernel needs kName"),
    ("no signature", without("kSignature["), "a kernel needs kSignature"),
    ("no class", without("kClass ="), "a kernel needs kClass"),
    ("no cost", without("kCostNs ="), "a kernel needs kCostNs"),
    ("no arguments", without("struct Args"), "a kernel needs Args"),
    ("an unclosed bracket", kernel(MAP_ARGS + EACH, "x[n:f32 -> y[n]:f32"), "kSignature cannot be read"),
]


# A thread of each form of a body.
NVRTC_USE = """
#include "HEADER"
#include "tandem/cpu_range.h"
template <class K> __global__ void Use(typename K::Args a, void* memory) {
  const tandem::Task t{threadIdx.x, threadIdx.x};
  if constexpr (tandem::kHasItem<K>) {
    const auto* work = static_cast<const tandem::Work<K>*>(memory);
    K::Item(tandem::Cell{}, a, work->shape, work->stage);
  } else if constexpr (tandem::kHasBlock<K>) {
    K::Block(tandem::Group(memory), t, a);
  } else if constexpr (tandem::kHasPartial<K>) {
    typename tandem::PartialOf<K>::type partial{};
    K::Each(t, a, partial);
  } else if constexpr (tandem::kHasEach<K>) {
    K::Each(t, a);
  }
}
"""


def load_nvrtc():
    """CUDA's run-time compiler; None where it is not installed."""
    found = sorted(glob.glob("/usr/local/cuda*/lib*/libnvrtc.so*"))
    for name in ["libnvrtc.so", *(f"libnvrtc.so.{major}" for major in (13, 12, 11)), *found]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def nvrtc_compile(library, text, options):
    """(what it complained of, the PTX), one of them empty."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"body.cu", 0, None, None)
    arguments = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    failed = library.nvrtcCompileProgram(program, len(options), arguments) != 0
    size_of, read = (library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog) if failed else (
        library.nvrtcGetPTXSize, library.nvrtcGetPTX)
    size_of(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    read(program, buffer)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    said = buffer.value.decode(errors="replace")
    return (said or "it failed and said nothing", "") if failed else ("", said)


class Checker:
    def __init__(self, root):
        self.root = root
        self.failures = 0
        self.checks = 0

    def compile(self, compiler, text):
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "body.cc")
            with open(source, "w", encoding="utf-8") as f:
                f.write(text)
            return subprocess.run(
                [compiler, *FLAGS, *(["-Wno-pass-failed"] if "clang" in compiler else []), f"-I{self.root}/kernels/sdk/include", f"-I{self.root}", "-c", source,
                 "-o", os.devnull], capture_output=True, text=True, check=False)

    def expect(self, what, holds, why=""):
        self.checks += 1
        if not holds:
            self.failures += 1
            print(f"FAILED: {what}\n{why}")

    def headers(self, cuda=False):
        """The headers with kernels, and the names of their structs; with `cuda` those that a CUDA compiler sees."""
        found = []
        for header in sorted(glob.glob(f"{self.root}/kernels/*/*.h") + glob.glob(f"{self.root}/tests/kernels/probes/*.h")):
            with open(header, encoding="utf-8") as f:
                text = f.read()
            if cuda:
                text = re.sub(r"^#if TANDEM_CPU_FORMS$.*?^#endif", "", text, flags=re.DOTALL | re.MULTILINE)
            structs = re.findall(r"struct (\w+) \{\s+static constexpr char kName", text)
            if structs:
                found.append((header, structs))
        return found

    def bodies(self, compiler):
        self.expect("there are bodies", len(self.headers()) >= 10)
        for header, structs in self.headers():
            uses = "".join(f"auto* use_{s} = &tandem::CpuRange<TANDEM_KERNELS::{s}, "
                           f"tandem::CallEach<TANDEM_KERNELS::{s}>>;\n" for s in structs)
            text = f'#include "tandem/cpu_range.h"\n#include "{os.path.relpath(header, self.root)}"\n{uses}'
            result = self.compile(compiler, text)
            self.expect(f"{compiler} compiles {header} freestanding", result.returncode == 0, result.stderr)

    def fast(self, compiler, name, *flags):
        """The optimised unit of one kernel: what the compiler says, and its assembly."""
        struct = "".join(part.capitalize() for part in name.split("_"))
        with tempfile.TemporaryDirectory() as folder:
            source, assembly = os.path.join(folder, "body.cc"), os.path.join(folder, "body.s")
            with open(source, "w", encoding="utf-8") as f:
                f.write(f'#include "tandem/cpu_range.h"\n#include "kernels/{name}/{name}.h"\n'
                        f"auto* use = &tandem::CpuRange<TANDEM_KERNELS::{struct}, tandem::CallEach<TANDEM_KERNELS::{struct}>>;\n")
            result = subprocess.run([compiler, *FAST, *flags, f"-I{self.root}/kernels/sdk/include", f"-I{self.root}", "-S", source,
                                     "-o", assembly], capture_output=True, text=True, check=False)
            self.expect(f"{compiler} compiles {name} for v3", result.returncode == 0, result.stderr)
            with open(assembly, encoding="utf-8") as f:
                return result.stderr, f.read()

    def vectorises(self, compiler):
        remarks, vectorised = ((["-Rpass=loop-vectorize"], r"vectorized loop \(vectorization width: (?:[48]|16|32)")
                               if "clang" in compiler else (["-fopt-info-vec"], r"loop vectorized using 32 byte vectors"))
        with open(f"{self.root}/kernels/sdk/include/tandem/cpu_range.h", encoding="utf-8") as f:
            lines = f.read().splitlines()
        for struct, name, loop in VECTOR_LOOPS:
            at = [i + 1 for i, line in enumerate(lines) if line.strip() == loop]
            self.expect(f"the loop of {struct} is in cpu_range.h once", len(at) == 1, loop)
            said, _ = self.fast(compiler, name, *remarks)
            self.expect(f"{compiler} vectorises the loop of {struct}",
                        any(re.search(rf"cpu_range\.h:{line}:\d+: .*{vectorised}", said) for line in at), said)
        # Its vectors are written down; they must come out as registers of 32 bytes.
        _, assembly = self.fast(compiler, "monte_carlo_pi")
        self.expect(f"{compiler} makes 32-byte products of MonteCarloPi",
                    len(re.findall(r"vpmuludq\s.*%ymm", assembly)) >= 8, assembly[:2000])

    def nvrtc(self):
        """Every body as text, by CUDA's run-time compiler: what a GPU worker without nvcc does with it."""
        library = load_nvrtc()
        if library is None:
            print("SKIPPED: there is no libnvrtc; no body was compiled as text for CUDA")
            return
        options = [f"--include-path={self.root}/kernels/sdk/include", f"--include-path={self.root}", "--std=c++17", "--fmad=false",
                   "-default-device", "-DTANDEM_ISA=cuda"]
        for header, structs in self.headers(cuda=True):
            uses = "".join(f"template __global__ void Use<TANDEM_KERNELS::{s}>(typename TANDEM_KERNELS::{s}::Args, void*);\n"
                           for s in structs)
            problem, program = nvrtc_compile(
                library, NVRTC_USE.replace("HEADER", os.path.relpath(header, self.root)) + uses, options)
            self.expect(f"NVRTC compiles {header}", problem == "", problem)
            self.expect(f"NVRTC makes a grid of each kernel of {header}", program.count(".entry") == len(structs), program[:500])
        problem, _ = nvrtc_compile(library, NVRTC_USE.replace("HEADER", "nothing.h"), options)
        self.expect("NVRTC says what is wrong", "nothing.h" in problem, problem)

    def snippets(self, compiler):
        for name, text in RIGHT:
            result = self.compile(compiler, text)
            self.expect(f"{compiler}: {name} compiles", result.returncode == 0, result.stderr)
        for name, text, message in WRONG:
            result = self.compile(compiler, text)
            self.expect(f"{compiler}: {name} does not compile", result.returncode != 0)
            self.expect(f"{compiler}: {name} is explained by '{message}'", message in result.stderr, result.stderr)

    def exports(self, library):
        listed = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True,
                                check=True).stdout
        symbols = [line.split()[-1] for line in listed.splitlines()]
        self.expect(f"{library} exports tandem_library_v1 alone", symbols == ["tandem_library_v1"], listed)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    parser.add_argument("--compilers", nargs="+", required=True)
    parser.add_argument("--library")
    options = parser.parse_args()
    checker = Checker(options.root)
    for compiler in options.compilers:
        if shutil.which(compiler) is None:
            print(f"SKIPPED: there is no {compiler}")
            continue
        checker.bodies(compiler)
        checker.snippets(compiler)
        checker.vectorises(compiler)
    checker.nvrtc()
    if options.library:
        checker.exports(options.library)
    print(f"{checker.checks} checks, {checker.failures} failed")
    return 1 if checker.failures else 0


if __name__ == "__main__":
    sys.exit(main())
