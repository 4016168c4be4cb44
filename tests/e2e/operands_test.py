#!/usr/bin/env python3
"""Operands: every way to name bytes, and what is said of those that cannot be used."""
import contextlib
import glob
import json
import os
import random
import resource
import shutil
import subprocess

import numpy

from cluster_case import ClusterCase, main
from processes import wait_for


def histogram(bytes_):
    return numpy.bincount(numpy.frombuffer(bytes_, numpy.uint8), minlength=256)


def kmers(sequences, k):
    counts = numpy.zeros(4 ** k, numpy.uint32)
    for sequence in sequences:
        for at in range(len(sequence) - k + 1):
            word = sequence[at:at + k].upper()
            if set(word) <= set("ACGT"):
                code = 0
                for letter in word:
                    code = code * 4 + "ACGT".index(letter)
                counts[code] += 1
    return counts


class OperandsTest(ClusterCase):
    def save(self, name, array):
        path = self.path(name)
        numpy.save(path, array)
        return path

    def saxpy(self, x, y, scale="2"):
        out = self.path("z.npy")
        self.ok("run", "saxpy", f"scale={scale}", f"x={x}", f"y={y}", "--out", f"z=@{out}", "--force", "-q")
        return numpy.load(out)

    def test_arrays_of_either_order_and_byte_order_run_alike(self):
        rng = numpy.random.default_rng(5)
        x, w, b = (rng.random(shape, "f4") for shape in ((40, 30), (20, 30), (20,)))
        want = x @ w.T + b
        for turn in (numpy.ascontiguousarray, numpy.asfortranarray):
            for kind in ("<f4", ">f4"):
                args = [f"{name}=@" + self.save(f"{name}.npy", turn(array).astype(kind))
                        for name, array in (("x", x), ("w", w), ("b", b))]
                self.ok("run", "linear", *args, "--out", "y=@" + self.path("y.npy"), "--force", "-q")
                numpy.testing.assert_allclose(numpy.load(self.path("y.npy")), want, rtol=1e-4)

    def test_gemm_split_either_way_is_the_product(self):
        rng = numpy.random.default_rng(6)
        a, b = rng.random((70, 33), "f4") - 0.5, rng.random((33, 41), "f4") - 0.5
        operands = ["a=@" + self.save("a.npy", a), "b=@" + self.save("b.npy", b)]
        for split in ("m", "n"):
            self.ok("run", "gemm", *operands, "--split", split, "--grain", "4", "--max-lease", "2",
                    "--out", "c=@" + self.path("c.npy"), "--force", "-q")
            numpy.testing.assert_allclose(numpy.load(self.path("c.npy")), a.astype("f8") @ b, atol=1e-5)

    def test_sort_merges_runs_of_leaves(self):
        key = numpy.random.default_rng(7).integers(-2 ** 63, 2 ** 63 - 1, 100_001)
        for grain in ("1000", "65536"):
            self.ok("run", "sort", "key=@" + self.save("key.npy", key), "--grain", grain,
                    "--out", "sorted=@" + self.path("sorted.npy"), "--force", "-q")
            numpy.testing.assert_array_equal(numpy.load(self.path("sorted.npy")), numpy.sort(key))

    def test_mandelbrot_and_bilateral_filter_make_their_pictures(self):
        self.ok("run", "mandelbrot", "n=12000", "width=120", "pixel=0.025", "limit=50", "left=-2.25", "top=1.25",
                "--out", "steps=@" + self.path("steps.npy"), "--force", "-q")
        y, x = numpy.divmod(numpy.arange(12000), 120)
        c, z = (-2.25 + x * 0.025) + 1j * (1.25 - y * 0.025), numpy.zeros(12000, "c16")
        steps, inside = numpy.zeros(12000, "i4"), numpy.ones(12000, bool)
        for _ in range(50):
            z[inside] = z[inside] ** 2 + c[inside]
            inside &= numpy.abs(z) <= 2
            steps += inside
        # A point whose orbit touches the circle may go either way by its last bit.
        self.assertLess(numpy.count_nonzero(numpy.load(self.path("steps.npy")) != steps), 12)
        image = numpy.zeros((3, 20, 30), "f4")
        image[:, :, 15:] = 1
        image += numpy.random.default_rng(8).normal(0, 0.02, image.shape).astype("f4")
        self.ok("run", "bilateral_filter", "image=@" + self.save("image.npy", image), "sigma_value=0.1",
                "--out", "smooth=@" + self.path("smooth.npy"), "--force", "-q")
        smooth = numpy.load(self.path("smooth.npy"))
        self.assertLess(smooth[:, :, :15].std(), 0.01)  # noise goes, the edge stays
        self.assertGreater((smooth[:, :, 15] - smooth[:, :, 14]).min(), 0.9)

    def test_raw_files_take_their_shape_from_what_is_known(self):
        x = numpy.arange(12, dtype="<f4")
        raw = self.write("x.raw", x.tobytes())
        numpy.testing.assert_array_equal(self.saxpy(f"@{raw}", f"@{raw}"), 3 * x)
        w = self.save("w.npy", numpy.eye(4, dtype="f4"))
        b = self.save("b.npy", numpy.zeros(4, "f4"))
        for named in (raw, f"{raw}:[3,4]"):
            self.ok("run", "linear", f"x=@{named}", f"w=@{w}", f"b=@{b}", "--out", "y=@" + self.path("y.npy"),
                    "--force", "-q")
            numpy.testing.assert_array_equal(numpy.load(self.path("y.npy")), x.reshape(3, 4))
        odd = self.write("odd.raw", b"12345")
        self.refused(2, "SHAPE_MISMATCH", ["not a multiple of 4", "f32[n]", "little-endian"],
                     "run", "saxpy", "scale=1", f"x=@{odd}", "y=constant(1)")
        self.refused(2, "SHAPE_MISMATCH", ["48 bytes", "f32[5,5] takes 100"],
                     "run", "linear", f"x=@{raw}:[5,5]", f"w=@{w}", f"b=@{b}")
        self.refused(2, "SHAPE_MISMATCH", "is not known", "run", "linear", f"x=@{raw}", "w=constant(1)", "b=constant(1)")
        text = self.write("table.csv", "1,2,3,4")
        self.refused(2, "BAD_FILE", "numpy.save", "run", "saxpy", "scale=1", f"x=@{text}", "y=constant(1)")

    def test_nan_and_infinity_go_through(self):
        x = numpy.array([numpy.nan, numpy.inf, -numpy.inf, -0.0], "f4")
        out = self.saxpy("@" + self.save("nan.npy", x), "[0,nan,inf,0]")
        numpy.testing.assert_array_equal(out, [numpy.nan, numpy.nan, numpy.nan, 0])

    def test_fasta_with_records_cases_n_and_crlf(self):
        text = ">one first\r\nACGTNacgt\r\nTTTT\r\n\r\n>two\r\n;a comment\r\nGGGGG"
        fasta = self.write("genome.FA", text)
        self.ok("run", "kmer_count", f"base=@{fasta}", "k=3", "--out", "count=@" + self.path("k.npy"), "--force", "-q")
        numpy.testing.assert_array_equal(numpy.load(self.path("k.npy")), kmers(["ACGTNacgtTTTT", "GGGGG"], 3))
        for content, says in (("", "empty"), ("ACGT\n", "before any header"), (">x\n", "no letters"),
                              (b"\x00\x01\x02", "binary"), (">x\rACGT\r", "CR alone"), (b"\x1f\x8b\x08", "gunzip"),
                              (">x\nAC7T\n", "line 2")):
            bad = self.write("bad.fa", content)
            self.refused(2, "BAD_FILE", ["bad.fa", says], "run", "kmer_count", f"base=@{bad}", "k=3")
        self.refused(2, "BAD_FILE", "base=@", "run", "kmer_count", f"base=path:{fasta}", "k=3")

    def test_generators_lists_and_scalars(self):
        numpy.testing.assert_array_equal(self.saxpy("iota(start=1,step=2)", "[10,20,30]"), [12, 26, 40])
        numpy.testing.assert_array_equal(self.saxpy("constant(3)", "[1,2]", scale="-1e0"), [-2, -1])
        for value, says in (("uniform(lo=2,hi=1)", "no finite range"), ("constant()", "needs value"),
                            ("iota(step=x)", "step"), ("uniform(seed=1", "does not end"),
                            ("constant(nan", "does not end"), ("iota(hi=3)", "hi")):
            self.refused(2, "BAD_LOCATOR", says, "run", "saxpy", "scale=1", f"x={value}", "y=[1,2]")
        for value, says in (("unifrom(seed=1)", "did you mean uniform?"), ("uniform(sed=1)", "did you mean seed?"),
                            ("iota(stepp=2)", "did you mean step?"), ("constant(valu=2)", "did you mean value?"),
                            ("constnat", "did you mean constant?"), ("gauss(seed=1)", "no known name")):
            self.refused(2, "BAD_LOCATOR", says, "run", "saxpy", "scale=1", f"x={value}", "y=[1,2]")
        for value in ("@*.npy", "@list:names.txt", "path:/none/*.npy"):
            self.refused(2, "BAD_ARGUMENT", ["names many files", "operand x is one array", "join them"], "run", "saxpy",
                         "scale=1", f"x={value}", "y=[1,2]")
        for value in ("1e50", "-1e39", "1e-60"):
            self.refused(2, "BAD_ARGUMENT", "out of the range of f32", "run", "saxpy", f"scale={value}", "x=[1]", "y=[1]")
        self.refused(2, "BAD_ARGUMENT", "constant(3.5)", "run", "saxpy", "scale=1", "x=3.5", "y=[1]")
        forgotten = self.write("forgotten.raw", b"1234")
        self.refused(2, "BAD_ARGUMENT", f"x=@{forgotten}", "run", "saxpy", "scale=1", f"x={forgotten}", "y=[1]")
        self.refused(2, "BAD_ARGUMENT", f"image=@{forgotten}", "run", "image_sobel", f"image={forgotten}")
        self.refused(2, "UNKNOWN_OPERAND", "--out z=@", "run", "saxpy", "scale=1", "x=[1]", "y=[1]", "z=[1]")
        self.refused(2, "BAD_ARGUMENT", "']'", "run", "saxpy", "scale=1", "x=[1,2", "y=[1]")

    def test_what_is_no_regular_file_is_refused(self):
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        os.makedirs(self.path("folder"), exist_ok=True)
        os.symlink(self.path("nowhere"), self.path("dangling"))
        for name, code, says in ((fifo, 2, "pipe"), (self.path("folder"), 2, "directory"), ("/dev/zero", 2, "device"),
                                 ("/proc/self/mem", 2, "cannot read"), ("/proc/cpuinfo", 2, "no size"),
                                 (self.path("dangling"), 3, "a link to a file that is not there"),
                                 (self.path("none"), 3, "No such file")):
            for form in ("@", "path:"):
                self.refused(code, "PATH_UNREADABLE", says, "run", "histogram", f"value={form}{name}")
        name = os.fsencode(self.path("caf")) + b"\xe9"
        with open(name, "wb") as file:
            file.write(b"x")
        for form in (b"@", b"path:"):
            self.refused(2, "PATH_UNREADABLE", "not UTF-8", "run", "histogram", b"value=" + form + name)
            self.refused(2, "PATH_UNREADABLE", "not UTF-8", "run", "image_sobel", b"image=" + form + name)

    def test_a_folder_without_files_is_refused(self):
        os.makedirs(self.path("barren"), exist_ok=True)
        for form in ("@", "path:"):
            self.refused(2, "BAD_ARGUMENT", ["barren", "holds no files"], "run", "image_sobel",
                         f"image={form}{self.path('barren')}/")

    def test_a_file_that_may_not_be_read_is_refused(self):
        secret = self.write("secret.raw", "secret")
        os.chmod(secret, 0)
        if os.geteuid() == 0:  # root reads everything
            os.chmod(self.cluster.folder.name, 0o755)
            program = os.path.join("/tmp", os.path.basename(self.cluster.folder.name) + "-tandem")
            shutil.copy(self.cluster.program("tandem"), program)
            self.addCleanup(os.remove, program)
            argv, user = [program], {"user": 65534, "group": 65534}
        else:
            argv, user = [self.cluster.program("tandem")], {}
        done = subprocess.run([*argv, "--address", self.cluster.address, "run", "histogram", f"value=@{secret}"],
                              capture_output=True, text=True, cwd="/", **user,
                              env={**os.environ, "HOME": "/nonexistent", "ASAN_OPTIONS": "detect_leaks=0"})
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("Permission denied (PATH_UNREADABLE)", done.stderr)

    def test_a_sparse_file_is_streamed_and_never_held(self):
        size = 600 << 20
        path = self.write("sparse.raw", b"")
        os.truncate(path, size)
        self.assertLess(os.stat(path).st_blocks, 1000)

        for form in ("@", "path:"):
            out = self.ok("run", "histogram", f"value={form}{path}", "--out", "count=-", "-q")
            counts = numpy.frombuffer(out, "<u8")
            self.assertEqual((counts[0], counts.sum()), (size, size))
        # Of no command so far, this one included, was more in memory than half of the file; AddressSanitizer keeps
        # 256 MiB of what was freed besides.
        kept = 256 << 20 if "ASAN_OPTIONS" in os.environ else 0
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10, size // 2 + kept)

    def test_the_same_bytes_are_uploaded_once(self):
        rng = numpy.random.default_rng(6)
        content = rng.bytes(3 << 20)
        first, again = self.write("first.raw", content), self.write("again.raw", content)
        uploads = []
        for path in (first, again):
            self.ok("run", "histogram", f"value=@{path}", "--out", "count=@" + self.path("h.npy"), "--force", "-q")
            numpy.testing.assert_array_equal(numpy.load(self.path("h.npy")), histogram(content))
            # A file of each upload comes into this folder, and goes when it is whole.
            folder, = glob.glob(self.path("master/uploads/*"))
            uploads.append(os.stat(folder).st_mtime_ns)
        self.assertEqual(uploads[0], uploads[1])


class PathOperandsTest(ClusterCase):
    """path: operands, read by the workers: what changes between submit and run fails what needs it."""

    @contextlib.contextmanager
    def no_worker(self):
        """What is submitted within waits for the worker that comes back at the end."""
        self.cluster.stop_worker("w")
        yield
        self.cluster.start_worker("w")
        self.cluster.wait_attached(1)

    def end(self, job):
        self.command("job", "wait", str(job), "-q")
        return self.cluster.job(job)

    def test_a_path_is_read_by_the_worker_and_not_uploaded(self):
        x = numpy.arange(700_000, dtype="<f4")
        numpy.save(self.path("x.npy"), x)
        raw = self.write("y.raw", (2 * x).tobytes())
        out = self.path("z.npy")
        code, _, err = self.command("run", "saxpy", "scale=1", "x=path:" + self.path("x.npy"), f"y=path:{raw}",
                                    "--out", f"z=@{out}", "--force")
        self.assertEqual(code, 0, err)
        self.assertNotIn("upload", err)
        numpy.testing.assert_array_equal(numpy.load(out), 3 * x)
        relative = os.path.relpath(raw, "/")
        self.ok("run", "saxpy", "scale=1", f"x=path:{relative}", f"y=path:{relative}", "-q", cwd="/")
        for order, kind in (("F", "<f4"), ("C", ">f4")):
            numpy.save(self.path("f.npy"), numpy.zeros((3, 4), kind, order))
            self.refused(2, "BAD_FILE", ["workers do not read", "x=@"], "run", "linear", "x=path:" + self.path("f.npy"),
                         "w=constant(1)", "b=constant(1)", "m=2")

    def test_a_path_that_changes_or_goes_before_it_is_read_fails_the_job(self):
        def rewrite(path):
            with open(path, "r+b") as file:
                file.write(b"other")

        def truncate(path):
            os.truncate(path, 10)

        def content_alone(path):
            before = os.stat(path)
            rewrite(path)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

        def replace(path):
            other = self.write("other.raw", b"y" * 100_000)
            os.rename(other, path)
        jobs = []
        with self.no_worker():
            for change, says in ((rewrite, "was modified"), (truncate, "another size"), (os.remove, "has gone"),
                                 (content_alone, "another content"), (replace, "was modified")):
                path = self.write(f"{change.__name__}.raw", b"x" * 100_000)
                os.utime(path, ns=(10 ** 18, 10 ** 18))
                jobs.append((self.cluster.submit("histogram", f"value=path:{path}"), says))
                change(path)
        for job, says in jobs:
            ended = self.end(job)
            self.assertEqual(ended["state"], "FAILED", says)
            self.assertTrue(ended["reason"].startswith("PATH_CHANGED: "), ended["reason"])
            self.assertIn(says, ended["reason"])

    def test_a_path_that_changes_while_it_is_read_yields_its_old_bytes_or_an_error(self):
        rng = random.Random(7)
        ends = set()
        for number in range(12):
            content = rng.randbytes(6 << 20)
            path = self.write(f"racing{number}.raw", content)
            job = self.cluster.submit("histogram", f"value=path:{path}", "--grain", "4096", "--max-lease", "2")
            wait_for("some of it", lambda: self.cluster.job(job)["leases"] > 0)
            change = number % 6
            if change == 0:
                with open(path, "r+b") as file:
                    file.seek(rng.randrange(len(content)))
                    file.write(b"changed")
            elif change == 1:
                os.truncate(path, rng.randrange(len(content)))
            elif change == 2:
                os.remove(path)
            elif change == 3:
                os.rename(self.write("another.raw", rng.randbytes(len(content))), path)
            elif change == 4:
                with open(path, "ab") as file:
                    file.write(b"more")
            ended = self.end(job)
            ends.add(ended["state"])
            if ended["state"] == "FAILED":
                self.assertNotEqual(change, 5, ended["reason"])
                self.assertTrue(ended["reason"].startswith("PATH_CHANGED: "), ended["reason"])
                continue
            counts = numpy.frombuffer(self.ok("job", "results", str(job), "--out", "count=-"), "<u8")
            numpy.testing.assert_array_equal(counts, histogram(content))
        self.assertIn("SUCCEEDED", ends)

    def test_an_item_that_changes_or_goes_fails_its_task_alone(self):
        folder = os.path.dirname(self.write("items/a.txt", "no image"))
        for name in "bcd":
            self.write(f"items/{name}.txt", "no image either")
        with self.no_worker():
            job = self.cluster.submit("image_sobel", f"image=path:{folder}/", "--allow-failed")
            self.write("items/b.txt", "changed")
            os.remove(self.path("items/c.txt"))
        ended = self.end(job)
        self.assertEqual(ended["tasks_failed"], 4)
        out = json.loads(self.ok("job", "failures", str(job), "-o", "json"))
        reasons = [item["reason"] for item in out["items"]]
        self.assertTrue(reasons[1].startswith("PATH_CHANGED: ") and "another size" in reasons[1], reasons)
        self.assertTrue(reasons[2].startswith("PATH_CHANGED: ") and "has gone" in reasons[2], reasons)
        for other in (reasons[0], reasons[3]):
            self.assertNotIn("PATH_CHANGED", other)

    def test_a_path_that_no_worker_sees_waits_and_says_so(self):
        folder = self.path("only_here")
        path = self.write("only_here/v.raw", b"x" * 10)
        with self.no_worker():
            job = self.cluster.submit("histogram", f"value=path:{path}")
            os.rename(folder, folder + "-gone")
        wait_for("the job to say why it waits", lambda: self.cluster.job(job)["wait_reason"] == "UNSATISFIABLE")
        self.assertIn("PATH_UNREADABLE", self.cluster.job(job)["reason"])
        self.command("job", "cancel", str(job))


if __name__ == "__main__":
    main()
