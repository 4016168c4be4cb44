#!/usr/bin/env python3
"""Every built-in kernel through a real cluster, against the oracles of kernel_cases.py."""
import json
import math
import os
import random
import struct
import sys
import unittest

from kernel_cases import call_price, decode_png, kernel_cases, pi_hits, png, sobel, splitmix, word_counts
from processes import Processes, read_npy, write_npy

BIN = sys.argv.pop(1)

class KernelsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Processes(BIN)
        cls.cluster.__enter__()
        cls.cluster.start_master()
        cls.cluster.start_worker("a")
        cls.cluster.start_worker("b", "--local-data", "never")
        cls.cluster.wait_attached(2)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    def path(self, name):
        return self.cluster.path(self.id().split(".")[-1] + "." + name)

    def result(self, kernel, output, *args, flags=()):
        path = self.path(output + ".npy")
        self.cluster.tandem("run", kernel, *args, "--out", f"{output}=@{path}", "--force", *flags)
        return read_npy(path)

    def test_every_built_in_kernel(self):
        os.mkdir(self.path("cases"))
        cases = kernel_cases(self.path("cases"))
        kernels = json.loads(self.cluster.tandem("kernel", "ls", "-o", "json")[0])["items"]
        self.assertEqual(sorted(cases), sorted(kernel["name"] for kernel in kernels if kernel["builtin"]))
        for name, case in cases.items():
            with self.subTest(name):
                place = case.place(self.path("cases"), name)
                self.cluster.tandem("run", name, *case.args, "--out", f"{case.output}=@{place}")
                case.check(self, place)

    def test_noop_with_every_kind_of_lease(self):
        expected = tuple(splitmix(5, i) for i in range(10_000))
        for flags in ((), ("--grain", "1"), ("--grain", "1", "--max-lease", "1"), ("--grain", "7")):
            shape, values = self.result("noop", "value", "n=10000", "seed=5", flags=flags)
            self.assertEqual(shape, (10_000,))
            self.assertEqual(values, expected)

    def test_zero_tasks_are_done_at_once(self):
        shape, values = self.result("noop", "value", "n=0")
        self.assertEqual((shape, values), ((0,), ()))
        out, _ = self.cluster.tandem("run", "monte_carlo_pi", "n=0")
        self.assertEqual(out.strip(), "hits = 0")

    def test_monte_carlo_pi_is_a_function_of_seed_and_task(self):
        for seed in (7, 1 << 40):
            out, _ = self.cluster.tandem("run", "monte_carlo_pi", "n=20003", f"seed={seed}", "--grain", "100")
            self.assertEqual(out.strip(), f"hits = {pi_hits(seed, 20003)}")

    def test_kmer_count_with_windows_over_cuts(self):
        rng = random.Random(1)
        letters = "".join(rng.choice("ACGTacgtN") if rng.random() < 0.97 else "\n" for _ in range(30_000))
        fasta = self.path("x.fa")
        open(fasta, "w").write(">one\n" + letters.replace("\n", "\n>more\n") + "\n")
        k = 5
        for canonical in (False, True):
            counts = [sum(of) for of in zip(*(word_counts(record, k, canonical) for record in letters.split("\n")))]
            _, found = self.result("kmer_count", "count", f"base=@{fasta}", f"k={k}", f"canonical={str(canonical).lower()}",
                                   flags=("--grain", "1000"))
            self.assertEqual(found, tuple(counts))

    def test_histogram(self):
        data = bytes(random.Random(2).choices(range(256), k=200_000))
        open(self.path("x.raw"), "wb").write(data)
        for source in ("@", "path:"):
            _, counts = self.result("histogram", "count", f"value={source}{self.path('x.raw')}")
            self.assertEqual(counts, tuple(data.count(bytes([b])) for b in range(256)))

    def test_black_scholes(self):
        shape, calls = self.result("black_scholes", "call", "spot=uniform(seed=1,lo=50,hi=150)", "strike=constant(100)",
                                   "years=constant(1)", "rate=0.03", "volatility=0.25", "n=5000", flags=("--grain", "333"))
        for i, call in enumerate(calls):
            s = 50 + 100 * ((splitmix(1, i) >> 40) * 2.0 ** -24)
            self.assertAlmostEqual(call, call_price(s, 100, 1, 0.03, 0.25), delta=2e-4)

    def test_linear_split_over_either_axis(self):
        rng = random.Random(3)
        n, m, k = 37, 29, 11
        x = [rng.uniform(-1, 1) for _ in range(n * k)]
        w = [rng.uniform(-1, 1) for _ in range(m * k)]
        b = [rng.uniform(-1, 1) for _ in range(m)]
        for name, shape, values in (("x", (n, k), x), ("w", (m, k), w), ("b", (m,), b)):
            write_npy(self.path(name + ".npy"), "<f4", shape, values)
        operands = [f"{name}=@{self.path(name + '.npy')}" for name in "xwb"]
        results = {}
        for axis in "nm":
            shape, results[axis] = self.result("linear", "y", *operands, flags=("--split", axis, "--grain", "3"))
            self.assertEqual(shape, (n, m))
            for i in range(n):
                for j in range(m):
                    exact = math.fsum(x[i * k + c] * w[j * k + c] for c in range(k)) + b[j]
                    self.assertAlmostEqual(results[axis][i * m + j], exact, delta=1e-5)

    def test_gradient_has_the_same_bytes_for_any_cut_into_leases(self):
        rng = random.Random(4)
        n, d = 3000, 6
        x = [struct.unpack("f", struct.pack("f", rng.gauss(0, 1)))[0] for _ in range(n * d)]
        label = [float(rng.random() < 0.5) for _ in range(n)]
        w = [struct.unpack("f", struct.pack("f", rng.gauss(0, 1)))[0] for _ in range(d)]
        for name, shape, values in (("x", (n, d), x), ("label", (n,), label), ("w", (d,), w)):
            write_npy(self.path(name + ".npy"), "<f4", shape, values)
        operands = [f"{name}=@{self.path(name + '.npy')}" for name in ("x", "label", "w")]
        found = set()
        for flags in (("--grain", "64"), ("--grain", "64", "--max-lease", "1"), ("--grain", "64", "--max-lease", "3")):
            found.add(self.result("gradient", "grad", *operands, flags=flags)[1])
        self.assertEqual(len(found), 1)
        z = [math.fsum(x[i * d + j] * w[j] for j in range(d)) for i in range(n)]
        for j, value in enumerate(found.pop()):
            exact = math.fsum((1 / (1 + math.exp(-z[i])) - label[i]) * x[i * d + j] for i in range(n))
            self.assertAlmostEqual(value, exact, delta=1e-3 * max(1, abs(exact)))

    def test_images_and_one_that_is_truncated(self):
        os.mkdir(self.path("in"))
        rng = random.Random(5)
        pictures = {}
        for i in range(6):
            width, height = rng.randint(1, 40), rng.randint(1, 30)
            rgb = bytes(rng.choices(range(256), k=width * height * 3))
            pictures[f"p{i}.png"] = (width, height, rgb)
            open(os.path.join(self.path("in"), f"p{i}.png"), "wb").write(png(width, height, rgb))
        broken = os.path.join(self.path("in"), "p3.png")
        whole = open(broken, "rb").read()
        open(broken, "wb").write(whole[:len(whole) // 2])
        out = self.path("out")
        _, err = self.cluster.tandem("run", "image_sobel", f"image=@{self.path('in')}", "--out", f"edges=@{out}/",
                                     "--allow-failed")
        self.assertIn("p3.png): truncated image", err)
        self.assertEqual(sorted(os.listdir(out)), [f"p{i}.png" for i in (0, 1, 2, 4, 5)])
        for name in os.listdir(out):
            found = decode_png(open(os.path.join(out, name), "rb").read())
            self.assertEqual(found, sobel(*pictures[name]), name)
        # Without --allow-failed the job fails and its results are still there.
        code, _, err = self.cluster.run("run", "image_sobel", f"image=@{self.path('in')}", "--out", f"edges=@{out}2/")
        self.assertEqual(code, 1)
        self.assertEqual(len(os.listdir(out + "2")), 5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
