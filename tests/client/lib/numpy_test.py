#!/usr/bin/env python3
"""What becomes of numpy's files, with numpy itself as the oracle: dtypes, orders, shapes, versions.

  numpy_test.py PROBE     the program of operand_probe.cc
"""
import hashlib
import io
import itertools
import os
import random
import subprocess
import sys
import tempfile
import unittest

import numpy

PROBE = sys.argv.pop(1)

# Ours, and numpy's without its byte order.
DTYPES = [("bool", "b1"), ("u8", "u1"), ("i8", "i1"), ("i16", "i2"), ("i32", "i4"), ("i64", "i8"), ("u32", "u4"),
          ("u64", "u8"), ("f16", "f2"), ("f32", "f4"), ("f64", "f8")]


class Probe:
    def __init__(self):
        self.process = subprocess.Popen([PROBE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, signature, *arguments):
        words = [signature, *arguments]
        self.process.stdin.write(b"".join(os.fsencode(word) + b"\0" for word in words) + b"\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().decode().rstrip("\n").split("\t")

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def random_array(rng, dtype, shape):
    size = int(numpy.prod(shape, dtype=numpy.int64)) * dtype.itemsize
    bits = numpy.frombuffer(rng.bytes(size), numpy.uint8)
    if dtype.kind == "b":
        bits = bits & 1
    return bits.view(dtype).reshape(shape)


def with_version(array, version):
    file = io.BytesIO()
    numpy.lib.format.write_array(file, array, version)
    return file.getvalue()


class NumpyTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.probe = Probe()
        cls.folder = tempfile.TemporaryDirectory(prefix="tandem-numpy-")

    @classmethod
    def tearDownClass(cls):
        cls.probe.close()
        cls.folder.cleanup()

    def write(self, name, content):
        path = os.path.join(self.folder.name, name)
        with open(path, "wb") as file:
            file.write(content)
        return path

    def expect(self, name, dtype, array):
        """The array's file, already written, is sent as its C-ordered little-endian bytes."""
        path = os.path.join(self.folder.name, name)
        dims = ",".join("abcdefgh"[:array.ndim])
        little = numpy.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"))
        found = self.probe(f"axis n, x[{dims}]:{dtype} -> y[n]:u8", f"x=@{path}", "n=1")
        shape = "[" + ",".join(map(str, array.shape)) + "]"
        self.assertEqual(found, ["ok", "x", dtype, shape, hashlib.sha256(little.tobytes()).hexdigest()],
                         f"{dtype} {array.dtype.str} {array.shape} {array.flags}")

    def test_every_dtype_order_byte_order_and_version(self):
        rng = numpy.random.default_rng(1)
        shapes = [(1,), (7,), (0,), (3, 5), (0, 7), (7, 0), (2, 3, 4), (1, 9), (9, 1), (4, 1, 3), (2, 2, 2, 3)]
        for (ours, theirs), order, byte_order in itertools.product(DTYPES, "CF", "<>"):
            for shape, version in zip(shapes, itertools.cycle([(1, 0), (2, 0), (3, 0)])):
                array = numpy.array(random_array(rng, numpy.dtype(byte_order + theirs), shape), order=order)
                self.write("x.npy", with_version(array, version))
                self.expect("x.npy", ours, array)

    def test_large_files_are_converted_in_pieces(self):
        rng = numpy.random.default_rng(2)
        # Over a chunk, over a block of rows, and rows wider than a tile of columns.
        for shape, kind in [((700_000,), ">f8"), ((300_001, 70), "<f4"), ((33, 131_073), ">f4"), ((70, 41, 300), ">i2")]:
            array = numpy.asfortranarray(random_array(rng, numpy.dtype(kind), shape))
            self.write("large.npy", with_version(array, (1, 0)))
            ours = dict((theirs, ours) for ours, theirs in DTYPES)[kind[1:]]
            self.expect("large.npy", ours, array)

    def test_bf16_comes_as_its_bits(self):
        bits = numpy.arange(9, dtype="<u2")
        digest = hashlib.sha256(bits.tobytes()).hexdigest()
        for array in (bits, bits.astype(">u2"), bits.view("V2")):
            path = self.write("bf16.npy", with_version(array, (1, 0)))
            self.assertEqual(self.probe("x[n]:bf16 -> y[n]:u8", f"x=@{path}"), ["ok", "x", "bf16", "[9]", digest])

    def test_a_npy_file_is_known_by_its_first_bytes_too(self):
        array = numpy.arange(5, dtype="<f4")
        self.write("renamed.dat", with_version(array, (1, 0)))
        self.expect("renamed.dat", "f32", array)

    def test_what_does_not_fit_says_what_is_expected_and_what_is_there(self):
        square = self.write("square.npy", with_version(numpy.zeros((3, 4), ">f8"), (1, 0)))
        for signature, reason, says in [
                ("x[n]:f64 -> y[n]:u8", "SHAPE_MISMATCH",
                 ["operand x takes f64[n], of 1 dimensions", "holds f64[3,4], of 2"]),
                ("x[n,k]:f32 -> y[n]:u8", "DTYPE_MISMATCH",
                 ["operand x takes f32[n, k]", "holds f64[3,4] (>f8)", "astype('<f4')"])]:
            found = self.probe(signature, f"x=@{square}")
            self.assertEqual(found[:2], ["error", reason])
            for words in says:
                self.assertIn(words, found[2])
        for array, says in [
                (numpy.zeros(3, "c8"), "<c8"), (numpy.zeros(3, "U4"), "<U4"), (numpy.zeros(3, "M8[s]"), "M8"),
                (numpy.array([None]), "Python objects"), (numpy.zeros(2, [("a", "f4")]), "structured"),
                (numpy.zeros(2, "g"), "f16"), (numpy.zeros(3, "S5"), "S5")]:
            file = io.BytesIO()
            numpy.save(file, array, allow_pickle=True)
            found = self.probe("x[n]:f32 -> y[n]:u8", "x=@" + self.write("odd.npy", file.getvalue()))
            self.assertEqual(found[:2], ["error", "BAD_FILE"], array.dtype)
            self.assertIn(says, found[2])

    def test_a_file_cut_anywhere_is_refused(self):
        whole = with_version(numpy.arange(4, dtype="<f4"), (2, 0))
        for cut in range(len(whole)):
            found = self.probe("x[n]:f32 -> y[n]:u8", "x=@" + self.write("cut.npy", whole[:cut]))
            self.assertEqual(found[0], "error", cut)
            self.assertIn(found[1], ("TRUNCATED", "BAD_FILE"), cut)

    def test_a_damaged_header_never_crashes_and_never_makes_a_wrong_array(self):
        rng = random.Random(3)
        array = numpy.arange(12, dtype="<f4").reshape(3, 4)
        whole = with_version(array, (1, 0))
        for _ in range(1000):
            bad = bytearray(whole)
            for _ in range(rng.choice((1, 1, 2, 8))):
                bad[rng.randrange(128)] = rng.randrange(256)
            path = self.write("bad.npy", bytes(bad))
            found = self.probe("x[n,k]:f32 -> y[n]:u8", f"x=@{path}")
            if found[0] == "error":
                self.assertNotEqual(found[1], "", found)
                continue
            theirs = numpy.load(path)  # numpy must agree that it is one
            little = numpy.ascontiguousarray(theirs).astype("<f4")
            self.assertEqual(found[4], hashlib.sha256(little.tobytes()).hexdigest())

    def test_hostile_headers(self):
        def file(dictionary, data=b"", version=1):
            length = len(dictionary).to_bytes(2 if version == 1 else 4, "little")
            return b"\x93NUMPY" + bytes([version, 0]) + length + dictionary.encode() + data
        cases = [
            ("a giant header", b"\x93NUMPY\x02\x00\xff\xff\xff\x7f" + b" " * 100, "at most"),
            ("a negative shape", file("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"), "negative"),
            ("a shape beyond 2^63", file("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}"),
             "2^63"),
            ("a product beyond 2^63", file("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}"),
             "2^63"),
            ("many dimensions", file("{'descr': '<f4', 'fortran_order': False, 'shape': (" + "1," * 2000 + ")}", b"abcd"),
             "dimensions"),
            ("code", file("{'descr': __import__('os'), 'fortran_order': False, 'shape': (1,)}", b"abcd"), "quoted text"),
            ("an unknown version", file("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", b"abcd", 9), "version"),
            ("too much data", file("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", b"abcdefgh"), "more"),
            ("nothing", b"", "10 bytes"),
        ]
        for name, content, says in cases:
            found = self.probe("x[n]:f32 -> y[n]:u8", "x=@" + self.write("hostile.npy", content))
            self.assertEqual(found[0], "error", name)
            self.assertIn(found[1], ("BAD_FILE", "TRUNCATED", "TOO_LARGE"), name)
            self.assertIn(says, found[2], name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
