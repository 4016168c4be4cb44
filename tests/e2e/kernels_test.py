#!/usr/bin/env python3
"""Every built-in kernel through a real cluster, against oracles written here in Python."""
import math
import os
import random
import struct
import sys
import unittest
import zlib

from processes import Processes, read_npy, write_npy

BIN = sys.argv.pop(1)
MASK = (1 << 64) - 1


def splitmix(seed, index):
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def philox4x32(key, counter):
    """Philox4x32-10, Salmon et al. 2011: key of two words, counter of four."""
    k0, k1 = key
    c0, c1, c2, c3 = counter
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & 0xFFFFFFFF, (p0 >> 32) ^ c3 ^ k1, p0 & 0xFFFFFFFF
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1, c2, c3


def pi_hits(seed, n):
    hits = 0
    for block in range((n + 3) // 4):
        words = philox4x32((seed & 0xFFFFFFFF, seed >> 32), (block & 0xFFFFFFFF, block >> 32, 0, 0))
        for word in words[:n - 4 * block]:
            x, y = (word & 0xFFFF) + 0.5, (word >> 16) + 0.5
            hits += x * x + y * y < 2.0 ** 32
    return hits


def png(width, height, rgb):
    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
    rows = b"".join(b"\0" + rgb[y * width * 3:(y + 1) * width * 3] for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def decode_grey_png(data):
    """8-bit grey, not interlaced; all filters."""
    width, height, depth, colour = struct.unpack(">IIBB", data[16:26])
    assert (depth, colour) == (8, 0)
    at, packed = 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IDAT":
            packed += data[at + 8:at + 8 + length]
        at += 12 + length
    raw, rows, above = zlib.decompress(packed), [], bytes(width)
    for y in range(height):
        kind, line = raw[y * (width + 1)], bytearray(raw[y * (width + 1) + 1:(y + 1) * (width + 1)])
        for x in range(width):
            a, b, c = line[x - 1] if x else 0, above[x], above[x - 1] if x else 0
            p = a + b - c
            paeth = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            line[x] = (line[x] + [0, a, b, (a + b) // 2, paeth][kind]) & 255
        above = bytes(line)
        rows.append(above)
    return width, height, rows


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
        codes, k = {"A": 0, "C": 1, "G": 2, "T": 3}, 5
        for canonical in (False, True):
            counts = [0] * 4 ** k
            for record in letters.upper().split("\n"):
                for i in range(len(record) - k + 1):
                    word = record[i:i + k]
                    if all(c in codes for c in word):
                        value = sum(codes[c] << 2 * (k - 1 - j) for j, c in enumerate(word))
                        reverse = sum((3 - codes[c]) << 2 * j for j, c in enumerate(word))
                        counts[min(value, reverse) if canonical else value] += 1
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
        cdf = lambda x: 0.5 * math.erfc(-x / math.sqrt(2))
        for i, call in enumerate(calls):
            s = 50 + 100 * ((splitmix(1, i) >> 40) * 2.0 ** -24)
            d1 = (math.log(s / 100) + (0.03 + 0.25 ** 2 / 2)) / 0.25
            self.assertAlmostEqual(call, s * cdf(d1) - 100 * math.exp(-0.03) * cdf(d1 - 0.25), delta=2e-4)

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
            width, height, rgb = pictures[name]
            luma = lambda x, y: sum(wt * c for wt, c in zip((77, 150, 29), rgb[3 * (min(max(y, 0), height - 1) * width +
                                    min(max(x, 0), width - 1)):][:3])) >> 8
            found = decode_grey_png(open(os.path.join(out, name), "rb").read())
            self.assertEqual(found[:2], (width, height))
            for y in range(height):
                for x in range(width):
                    gx = sum(wt * (luma(x + 1, y + j) - luma(x - 1, y + j)) for j, wt in ((-1, 1), (0, 2), (1, 1)))
                    gy = sum(wt * (luma(x + i, y + 1) - luma(x + i, y - 1)) for i, wt in ((-1, 1), (0, 2), (1, 1)))
                    self.assertEqual(found[2][y][x], min(255, int(math.sqrt(gx * gx + gy * gy) / 4)), (name, x, y))
        # Without --allow-failed the job fails and its results are still there.
        code, _, err = self.cluster.run("run", "image_sobel", f"image=@{self.path('in')}", "--out", f"edges=@{out}2/")
        self.assertEqual(code, 1)
        self.assertEqual(len(os.listdir(out + "2")), 5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
