"""Kernel bodies as text: every one compiles freestanding as C++17 with each compiler there is, wrong ones do not compile and
say why, and a library of kernels exports one symbol.

usage: compile_test.py --root TREE --compilers g++ clang++-14 … [--library x.so]
"""

import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

FLAGS = ["-std=c++17", "-ffreestanding", "-fno-exceptions", "-nostdinc++", "-O1", "-Wall", "-Wextra",
         "-Wno-unused-parameter", "-Werror", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]

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
OWN_MERGE = ("static int64_t PartialBytes(const Args&, int64_t n) { return 4 * n; } static void InitPartial(const Args&, void*) {}"
             "static int32_t Merge(const Args&, void*, int64_t, const void*, int64_t) { return 0; }")
REDUCE = "TANDEM_BODY void Each(tandem::Task t, const Args& a, Partial& p) { }"


def kernel(members, signature=MAP, output_class="kBitwise"):
    return KERNEL % {"signature": signature, "output_class": output_class, "members": members}


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
    ("a merge that the signature does not have", kernel(
        SUM_ARGS + OWN_MERGE + "static int64_t Cpu(const tandem::Run&, const Args&) { return 0; }",
        "x[n]:f32 -> s:f32 : sum"), "Merge is for a signature"),
    ("a merge without a loop of its own", kernel(
        SUM_ARGS + OWN_MERGE + EACH, "x[n]:f32 -> s[n]:f32 : merge"), "needs its own Cpu"),
    ("tolerant without a tolerance", kernel(MAP_ARGS + EACH, output_class="kTolerant"), "class tolerant needs"),
    ("a signature without outputs", kernel(MAP_ARGS + EACH, "x[n]:f32"), "kSignature cannot be read"),
    ("an unknown dtype", kernel(MAP_ARGS + EACH, "x[n]:float -> y[n]:f32"), "kSignature cannot be read"),
    ("an unclosed bracket", kernel(MAP_ARGS + EACH, "x[n:f32 -> y[n]:f32"), "kSignature cannot be read"),
]


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

    def bodies(self, compiler):
        headers = [h for h in sorted(glob.glob(f"{self.root}/kernels/*/*.h")
                                     + glob.glob(f"{self.root}/tests/kernels/probes/*.h"))
                   if "static constexpr char kSignature[]" in open(h, encoding="utf-8").read()]
        self.expect("there are bodies", len(headers) >= 10)
        for header in headers:
            with open(header, encoding="utf-8") as f:
                structs = re.findall(r"struct (\w+) \{\s+static constexpr char kName", f.read())
            uses = "".join(f"auto* use_{s} = &tandem::CpuRange<TANDEM_KERNELS::{s}, "
                           f"tandem::CallEach<TANDEM_KERNELS::{s}>>;\n" for s in structs)
            text = f'#include "tandem/cpu_range.h"\n#include "{os.path.relpath(header, self.root)}"\n{uses}'
            result = self.compile(compiler, text)
            self.expect(f"{compiler} compiles {header} freestanding", result.returncode == 0, result.stderr)

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
    if options.library:
        checker.exports(options.library)
    print(f"{checker.checks} checks, {checker.failures} failed")
    return 1 if checker.failures else 0


if __name__ == "__main__":
    sys.exit(main())
