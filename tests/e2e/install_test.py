#!/usr/bin/env python3
"""What is installed: into an empty prefix, two outside projects built against it, and a cluster run from it.

usage: install_test.py BIN (a build folder's bin)
"""
import glob
import json
import math
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

from pages import run_page
from processes import PATIENCE, Processes, read_npy, wait_for, write_npy

BIN = sys.argv.pop(1)
BUILD = os.path.dirname(BIN)
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def command(*argv, cwd=None, env=None, timeout=900):
    """Runs it, with the output of a failure in the error."""
    done = subprocess.run(argv, cwd=cwd, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=timeout)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(argv)}: exit {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def f32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tandem-install-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.prefix = cls.path("prefix")
        command("cmake", "--install", BUILD, "--prefix", cls.prefix)
        cls.weather = cls.build_kernels()
        cls.options = cls.build_client()
        cls.cluster = Processes(os.path.join(cls.prefix, "bin"))
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.__exit__, None, None, None)
        cls.cluster.start_master()
        for name in "ab":
            cls.cluster.start_worker(name, "--kernel-path", cls.weather)
        cls.cluster.wait_attached(2)

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.folder.name, *names)

    @classmethod
    def build(cls, example, *flags):
        """An outside project: a copy of an example, so that nothing of the tree is within its reach."""
        shutil.copytree(os.path.join(ROOT, "examples", example), cls.path(example))
        out = cls.path(example, "build")
        command("cmake", "-S", cls.path(example), "-B", out, "-DCMAKE_PREFIX_PATH=" + cls.prefix, *flags)
        command("cmake", "--build", out, "-j", os.environ.get("TANDEM_JOBS", "2"))
        return out

    @classmethod
    def build_kernels(cls):
        return os.path.join(cls.build("kernel", "-DTANDEM_CUDA=OFF"), "weather.so")

    @classmethod
    def build_client(cls):
        return os.path.join(cls.build("client"), "options")

    # ---- what is there

    def test_everything_is_installed(self):
        for name in ("bin/tandem", "bin/tandem-master", "bin/tandem-worker", "libexec/tandem/tandem-executor",
                     "lib/systemd/system/tandem-master.service", "lib/systemd/system/tandem-worker.service",
                     "etc/default/tandem-master", "etc/default/tandem-worker", "share/man/man1/tandem.1",
                     "share/bash-completion/completions/tandem", "share/zsh/site-functions/_tandem",
                     "share/fish/vendor_completions.d/tandem.fish", "share/man/man1/tandem-run.1", "share/man/man8/tandem-worker.8", "include/tandem/body.h",
                     "include/tandem/abi.h", "include/tandem/testing.h", "include/tandem/client/client.h",
                     "lib/libtandem-client.a", "lib/cmake/tandem/tandemConfig.cmake",
                     "lib/cmake/tandem/tandem_kernels.cmake", "lib/pkgconfig/tandem-client.pc",
                     "lib/pkgconfig/tandem-kernel-sdk.pc"):
            self.assertTrue(os.path.exists(os.path.join(self.prefix, name)), name + " is not installed")
        self.assertEqual(sorted(os.listdir(os.path.join(self.prefix, "bin"))), ["tandem", "tandem-master", "tandem-worker"])

    def test_manual_pages_render_without_warnings(self):
        if shutil.which("man") is None:
            self.skipTest("there is no man")
        pages = glob.glob(os.path.join(self.prefix, "share/man/man*/*"))
        self.assertGreaterEqual(len(pages), 8)
        for page in pages:
            done = subprocess.run(["man", "--warnings=all", "-l", page], capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, env={**os.environ, "MANPAGER": "cat", "MANWIDTH": "80"})
            self.assertEqual((done.returncode, done.stderr), (0, ""), page)
            self.assertIn("SYNOPSIS", done.stdout)

    def test_units_are_right_and_hardened(self):
        if shutil.which("systemd-analyze") is None:
            self.skipTest("there is no systemd-analyze")
        for unit in ("tandem-master", "tandem-worker"):
            file = os.path.join(self.prefix, "lib/systemd/system", unit + ".service")
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", file], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))
            report = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--no-pager", "--threshold=25", file],
                                    capture_output=True, text=True)
            self.assertEqual(report.returncode, 0, report.stdout + report.stderr)
            self.assertIn(os.path.join(self.prefix, "bin", unit), read(file))

    # ---- headers

    def test_each_public_header_of_the_client_stands_alone_and_shows_no_grpc_or_protobuf(self):
        include = os.path.join(self.prefix, "include")
        headers = [h for part in ("client", "model", "base") for h in glob.glob(f"{include}/tandem/{part}/*.h")]
        self.assertGreaterEqual(len(headers), 15)
        for header in headers:
            text = read(header)
            self.assertNotRegex(text, r"grpc::|google::protobuf|\.pb\.h|#include \"(common|client)/")
            name = os.path.relpath(header, include)
            seen = command("g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-M", "-MG", "-I", include,
                           "-include", name, "-x", "c++", "/dev/null")
            self.assertNotRegex(seen, r"grpc|google/protobuf", name)
            command("g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", include, "-include", name,
                    "-x", "c++", "/dev/null")

    def test_a_kernel_compiles_from_the_sdk_headers_alone(self):
        """With nothing of the standard library or anybody else in reach."""
        flags = command("pkg-config", "--cflags", "tandem-kernel-sdk", env=self.pkg_config()).split()
        for header in ("dew_point.h", "heating.h"):
            command("g++", "-std=c++17", "-ffreestanding", "-nostdinc++", "-fno-exceptions", "-Wall", "-Wextra", "-Werror",
                    "-fsyntax-only", *flags, "-x", "c++", os.path.join(ROOT, "examples/kernel", header))

    def pkg_config(self):
        return {"PKG_CONFIG_PATH": os.path.join(self.prefix, "lib/pkgconfig")}

    def test_the_client_builds_with_pkg_config(self):
        flags = command("pkg-config", "--cflags", "--libs", "tandem-client", env=self.pkg_config()).split()
        out = self.path("options-pc")
        command("g++", "-std=c++20", os.path.join(ROOT, "examples/client/main.cc"), "-o", out, *flags)
        self.assertEqual(command(out, self.cluster.address, "1000"), command(self.options, self.cluster.address, "1000"))

    # ---- the client

    def test_the_example_client_submits_watches_and_reads(self):
        done = subprocess.run([self.options, self.cluster.address, "5000"], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("5000 of 5000 tasks", done.stderr)
        path = self.path("call.npy")
        self.cluster.tandem("job", "results", "last", "--out", f"call=@{path}")
        self.assertEqual(done.stdout, "".join(f"{call:.4f}\n" for call in read_npy(path)[1][:3]))

    def test_the_example_client_says_what_is_wrong(self):
        done = subprocess.run([self.options, "127.0.0.1:1"], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 1)
        self.assertIn("(MASTER_UNAVAILABLE)", done.stderr)

    # ---- the library of kernels

    def test_the_library_exports_one_symbol(self):
        listed = command("nm", "-D", "--defined-only", self.weather).split("\n")
        self.assertEqual([line.split()[-1] for line in listed if line], ["tandem_library_v1"])

    def test_the_librarys_own_test_passes(self):
        command("ctest", "--test-dir", os.path.dirname(self.weather), "--output-on-failure", "--no-tests=error")

    def test_the_hash_is_that_of_the_sources(self):
        """Another compiler's flags make the same identity, another text another one."""
        identity = json.loads(self.cluster.tandem("kernel", "show", "dew_point", "-o", "json")[0])["identity"]
        source = self.path("other")
        shutil.copytree(os.path.join(ROOT, "examples/kernel"), source)
        hashes = []
        for text in (None, "// a comment\n"):
            if text is not None:
                with open(os.path.join(source, "dew_point.h"), "a") as file:
                    file.write(text)
            out = os.path.join(source, "build")
            command("cmake", "-S", source, "-B", out, "-DCMAKE_PREFIX_PATH=" + self.prefix, "-DTANDEM_CUDA=OFF",
                    "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS=-g")
            command("cmake", "--build", out, "--target", "tandem_hash_dew_point")
            hashes.append(re.search(r"0x([0-9a-f]{16})", read(f"{out}/kernel_hashes/dew_point_hash.h")).group(1))
        self.assertEqual("dew_point@" + hashes[0], identity)
        self.assertNotEqual(hashes[0], hashes[1])

    def operand(self, name, values):
        path = self.path(f"{self.id().split('.')[-1]}.{name}.npy")
        write_npy(path, "<f4", (len(values),), values)
        return f"{name}=@{path}"

    @staticmethod
    def dew_point(c, h):
        g = math.log(h / 100) + 17.625 * c / (243.04 + c)
        return 243.04 * g / (17.625 - g)

    def test_a_map_with_task_failures(self):
        rng = random.Random(1)
        n = 20_000
        c, h = [rng.uniform(-40, 55) for _ in range(n)], [rng.uniform(1, 100) for _ in range(n)]
        h[777], h[19_999], c[5000] = 0.0, 101.0, 99.0
        out = self.path("dew.npy")
        args = ["dew_point", self.operand("temperature", c), self.operand("humidity", h), "--grain", "100"]
        _, err = self.cluster.tandem("run", *args, "--allow-failed", "--out", f"dew=@{out}")
        self.assertIn("humidity is not above 0 and at most 100", err)
        failed = json.loads(self.cluster.tandem("job", "failures", "last", "-o", "json")[0])["items"]
        self.assertEqual({item["task"]: item["reason"] for item in failed},
                         {777: "humidity is not above 0 and at most 100", 19_999: "humidity is not above 0 and at most 100",
                          5000: "temperature is not between -45 and 60"})
        shape, dew = read_npy(out)
        self.assertEqual(shape, (n,))
        for i in range(n):
            if i not in (777, 5000, 19_999):
                self.assertAlmostEqual(dew[i], self.dew_point(f32(c[i]), f32(h[i])), delta=1e-3)
        # Without --allow-failed such a job fails.
        self.assertEqual(self.cluster.run("run", *args, "--out", f"dew=@{out}", "--force")[0], 1)

    def test_a_float_sum_has_the_same_bytes_for_any_cut_on_one_worker_or_two(self):
        rng = random.Random(2)
        c = [rng.uniform(-20, 35) for _ in range(50_000)]
        operand = self.operand("temperature", c)
        found = set()
        for flags in (("--max-lease", "1"), ("--max-lease", "3"), (), ("--max-lease", "1000")):
            path = self.path("hours.npy")
            out, _ = self.cluster.tandem("run", "heating", operand, "--grain", "512", *flags, "--out",
                                         f"degree_hours=@{path}", "--force")
            found.add(read_npy(path)[1])
            self.assertIn("coldest", out)
        self.assertEqual(len(found), 1)
        exact = math.fsum(max(18 - f32(t), 0) for t in c)
        self.assertAlmostEqual(found.pop()[0], exact, delta=1e-4 * exact)

    def test_many_small_jobs_share_batches(self):
        """Jobs with operands of their own run in one call of the kernel."""
        with Processes(os.path.join(self.prefix, "bin")) as cluster:
            cluster.start_master()
            cluster.start_worker("w", "--kernel-path", self.weather)
            cluster.wait_attached(1)
            # It comes back to find all of them waiting.
            cluster.workers["w"].send_signal(signal.SIGTERM)
            cluster.workers["w"].wait(timeout=PATIENCE)
            rng = random.Random(3)
            jobs = {}
            for _ in range(40):
                c, h = [rng.uniform(-20, 35) for _ in range(40)], [rng.uniform(5, 95) for _ in range(40)]
                job = cluster.submit("dew_point", self.listed("temperature", c), self.listed("humidity", h))
                jobs[job] = [self.dew_point(f32(a), f32(b)) for a, b in zip(c, h)]
            cluster.start_worker("w", "--kernel-path", self.weather)
            cluster.tandem("job", "wait", f"{min(jobs)}-{max(jobs)}")
            for job, values in jobs.items():
                path = self.path("small.npy")
                cluster.tandem("job", "results", str(job), "--out", f"dew=@{path}", "--force")
                for found, value in zip(read_npy(path)[1], values, strict=True):
                    self.assertAlmostEqual(found, value, delta=1e-3)
            # Workers tell their counters once a second.
            wait_for("parts that share a batch",
                     lambda: cluster.counters().get("worker_merged_parts_total", 0) >= len(jobs) // 4)

    def test_the_page_about_kernels_does_what_it_says(self):
        folder = self.path("page")
        os.mkdir(folder)
        out = run_page(os.path.join(ROOT, "docs/kernels.md"), folder,
                       {"PATH": os.path.join(self.prefix, "bin") + ":" + os.environ["PATH"], "CMAKE_PREFIX_PATH": self.prefix},
                       timeout=600)
        for says in ("100% tests passed", "humidity is not above 0 and at most 100", "degree_hours ="):
            self.assertIn(says, out)

    @staticmethod
    def listed(name, values):
        return f"{name}=[{','.join(repr(v) for v in values)}]"


if __name__ == "__main__":
    unittest.main(verbosity=2)
