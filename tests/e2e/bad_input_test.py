#!/usr/bin/env python3
"""Jobs that cannot be, jobs of no tasks and of far too many: each has its answer."""
import os
import struct

import numpy

from cluster_case import ClusterCase, main

BLACK_SCHOLES = ("run", "black_scholes", "spot=[100]", "strike=[100]", "years=[1]", "rate=0.1", "volatility=0.2")


class NoTasksTest(ClusterCase):
    def test_jobs_of_no_tasks_are_done_at_once_and_reductions_give_their_identity(self):
        self.assertEqual(self.ok("run", "monte_carlo_pi", "n=0", "--out", "hits=-", "-q"), struct.pack("<Q", 0))
        empty = self.write("empty.raw", b"")
        counts = self.ok("run", "histogram", f"value=@{empty}", "--out", "count=-", "-q")
        self.assertEqual(counts, bytes(256 * 8))
        # A sequence shorter than one word has no word.
        words = self.ok("run", "kmer_count", "base=[65,67]", "k=3", "--out", "count=-", "-q")
        self.assertEqual(words, bytes(4 ** 3 * 4))
        grad = self.ok("run", "gradient", "x=constant(1)", "label=constant(1)", "w=[1,2,3]", "n=0", "--out", "grad=-", "-q")
        self.assertEqual(grad, bytes(12))

    def test_concatenated_outputs_of_no_tasks_are_empty_arrays(self):
        for name, shape in (("zero.npy", (0,)), ("zero2.npy", (0, 7))):
            numpy.save(self.path(name), numpy.zeros(shape, "f4"))
        out = self.path("z.npy")
        self.ok("run", "saxpy", "scale=1", "x=@" + self.path("zero.npy"), "y=[]", "--out", f"z=@{out}", "-q")
        self.assertEqual((numpy.load(out).shape, numpy.load(out).dtype), ((0,), numpy.dtype("<f4")))
        self.ok("run", "linear", "x=@" + self.path("zero2.npy"), "w=constant(1)", "b=constant(1)", "m=3", "--out",
                f"y=@{out}", "--force", "-q")
        self.assertEqual(numpy.load(out).shape, (0, 3))

    def test_they_need_no_worker(self):
        self.cluster.stop_worker("w")
        job = self.cluster.submit("noop", "n=0")
        self.ok("job", "wait", str(job), "-q")
        self.assertEqual(self.cluster.job(job)["state"], "SUCCEEDED")
        self.cluster.start_worker("w")
        self.cluster.wait_attached(1)


class BadJobsTest(ClusterCase):
    def test_names_with_control_characters_are_refused_and_shown_escaped(self):
        for at, (control, shown) in enumerate((("\n", "\\x0a"), ("\t", "\\x09"), ("\x1b", "\\x1b"), ("\x7f", "\\x7f"))):
            path = self.write(f"controls/{at}/a{control}b.png", b"ACGT")
            for words in (("run", "kmer_count", f"base=@{path}", "k=2"), ("data", "put", path),
                          ("submit", "image_sobel", "image=@" + os.path.dirname(path) + "/"),
                          ("submit", "image_sobel", "image=path:" + os.path.dirname(path) + "/")):
                err = self.refused(2, "PATH_UNREADABLE", ["has control characters; rename it", f"a{shown}b.png"], *words)
                self.assertEqual(err.count("\n"), 1)

    def test_dtypes_ranks_and_extents_name_operand_expected_and_given(self):
        def save(name, array):
            numpy.save(self.path(name), array)
            return "@" + self.path(name)
        flat, square = save("flat.npy", numpy.zeros(12, "f4")), save("square.npy", numpy.zeros((3, 4), "f4"))
        double, scalar = save("double.npy", numpy.zeros(12)), save("scalar.npy", numpy.float32(1))
        for reason, says, args in (
                ("DTYPE_MISMATCH", ["operand x takes f32[n]", "holds f64[12]", "astype('<f4')"], (f"x={double}", "y=iota")),
                ("SHAPE_MISMATCH", ["operand x takes f32[n], of 1", "f32[3,4], of 2"], (f"x={square}", "y=iota")),
                ("SHAPE_MISMATCH", ["f32[n], of 1", "f32[], of 0"], (f"x={scalar}", "y=iota")),
                ("SHAPE_MISMATCH", ["operand y", "has 2 elements, expected 12", "n = 12 (from operand x)"],
                 (f"x={flat}", "y=[1,2]")),
                ("SHAPE_MISMATCH", ["expected 7", "given by the job"], (f"x={flat}", f"y={flat}", "n=7"))):
            self.refused(2, reason, says, "run", "saxpy", "scale=1", *args)
        self.refused(2, "SHAPE_MISMATCH", ["operand w", "dimension 1 (k)", "4"], "run", "linear", f"x={square}",
                     "w=" + save("w.npy", numpy.zeros((2, 5), "f4")), "b=[1,2]")

    def test_unknown_names_suggest_the_nearest(self):
        for code, reason, says, args in (
                (3, "UNKNOWN_KERNEL", "did you mean histogram?", ("histgram",)),
                (3, "UNKNOWN_KERNEL", "tandem kernel ls", ("quite_another",)),
                (2, "UNKNOWN_OPERAND", "did you mean strike?", (*BLACK_SCHOLES[1:], "strik=[1]")),
                (2, "UNKNOWN_OPERAND", "did you mean volatility?", (*BLACK_SCHOLES[1:], "volatilty=1")),
                (2, "UNKNOWN_AXIS", ["no axis", "did you mean n?"], (*BLACK_SCHOLES[1:], "--split", "m")),
                (2, "MISSING_OPERAND", "strike", ("black_scholes", "spot=[1]", "years=[1]", "rate=0", "volatility=1")),
                (2, "MISSING_SCALAR", "rate", ("black_scholes", "spot=[1]", "strike=[1]", "years=[1]", "volatility=1")),
                (2, "BAD_ARGUMENT", "twice", (*BLACK_SCHOLES[1:], "rate=2")),
                (2, "BAD_ARGUMENT", "name=value", (*BLACK_SCHOLES[1:], "rate")),
                (2, "MISSING_AXIS_EXTENT", "n=1000000", ("saxpy", "scale=1", "x=iota", "y=iota"))):
            self.refused(code, reason, says, "run", *args)

    def test_an_axis_that_cannot_be_split_says_why(self):
        self.refused(2, "AXIS_NOT_SPLITTABLE", ["k"], "run", "linear", "x=constant(1)", "w=constant(1)", "b=constant(1)",
                     "n=4", "m=4", "k=4", "--split", "k")
        # The other axis that can be split gives the same bytes.
        outs = [self.ok("run", "linear", "x=iota", "w=constant(1)", "b=iota", "n=3", "m=4", "k=5", "--split", axis,
                        "--out", "y=-", "-q") for axis in "nm"]
        self.assertEqual(outs[0], outs[1])

    def test_scalars_out_of_bounds(self):
        for reason, says, scalar in (
                ("SCALAR_OUT_OF_RANGE", ["k is 16", "1 to 15"], "k=16"), ("SCALAR_OUT_OF_RANGE", "k is 0", "k=0"),
                ("BAD_ARGUMENT", "whole number", "k=2.5"), ("BAD_ARGUMENT", "from -2147483648", "k=99999999999"),
                ("BAD_ARGUMENT", "whole number", "k=nan"), ("BAD_ARGUMENT", "whole number", "k="),
                ("BAD_ARGUMENT", "true, false, 1 or 0", "canonical=maybe")):
            self.refused(2, reason, says, "run", "kmer_count", "base=[65]", scalar)
        for value in ("1e999", "fast", "", "0x1p3", "1,5"):
            self.refused(2, "BAD_ARGUMENT", "argument rate", *(word if not word.startswith("rate") else f"rate={value}"
                                                               for word in BLACK_SCHOLES))

    def test_numbers_that_must_be_finite(self):
        for value in ("constant(nan)", "constant(inf)", "uniform(lo=0,hi=inf)", "iota(start=nan)"):
            err = self.refused(2, "BAD_LOCATOR", "", "run", "saxpy", "scale=1", f"x={value}", "y=[1,2]")
            self.assertTrue("finite" in err, err)

    def test_sizes_that_overflow(self):
        for reason, args in (
                ("TOO_LARGE", ("noop", f"n={2 ** 63 - 1}")),
                ("TOO_LARGE", ("saxpy", "scale=1", "x=iota", "y=iota", f"n={2 ** 62}")),
                ("TOO_LARGE", ("linear", "x=constant(1)", "w=constant(1)", "b=constant(1)", f"n={10 ** 10}",
                               f"m={10 ** 10}", "k=1")),
                ("TOO_LARGE", ("gradient", "x=constant(1)", "label=constant(1)", "w=constant(1)", "n=1", f"d={2 ** 40}")),
                ("BAD_ARGUMENT", ("noop", f"n={2 ** 63}")), ("BAD_ARGUMENT", ("noop", "n=-1")),
                ("BAD_ARGUMENT", ("noop", "n=1e3")), ("BAD_ARGUMENT", ("noop", "n="))):
            self.refused(2, reason, "", "run", *args)

    def test_ten_to_the_eighteen_tasks_are_accepted_and_run(self):
        job = self.cluster.submit("monte_carlo_pi", f"n={10 ** 18}")
        found = self.cluster.job(job)
        self.assertEqual(found["tasks"], 10 ** 18)
        self.ok("job", "cancel", str(job))
        self.refused(2, "TOO_LARGE", "6.94EiB", "run", "noop", f"n={10 ** 18}")  # a result of so many

    def test_a_job_of_too_long_a_message_is_refused_whole(self):
        names = [self.write(f"many/{at:05}-" + "x" * 190, b"y") for at in range(20_000)]
        self.assertEqual(len(names), 20_000)
        folder = self.path("many")
        # 20,000 paths of this length are more than a job holds; their bytes are packed.
        self.refused(2, "TOO_LARGE", "pack", "run", "image_sobel", f"image=path:{folder}/")
        self.assertIn("20000 tasks", self.ok("run", "image_sobel", f"image=@{folder}/", "--dry-run").decode())
        self.write("many/one-more", b"y")
        self.refused(6, "LIMIT_EXCEEDED", "image=@", "run", "image_sobel", f"image=path:{folder}/")


if __name__ == "__main__":
    main()
