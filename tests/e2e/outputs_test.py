#!/usr/bin/env python3
"""Outputs: where results can go, and what becomes of them when that place will not have them."""
import json
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import tempfile
import zlib

import numpy

from cluster_case import ClusterCase, main
from processes import wait_for

SAXPY = ("run", "saxpy", "scale=2", "x=iota", "y=constant(1)", "-q")


def png(width, height):
    """A grey ramp as PNG, by hand."""
    rows = b"".join(b"\0" + bytes((x * 7 + y * 3) % 256 for x in range(width)) for y in range(height))

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class OutputsTest(ClusterCase):
    def left_behind(self, folder):
        return [name for name in os.listdir(folder) if name.endswith(".part")]

    def test_dense_outputs_go_to_npy_raw_stdout_and_shared_paths(self):
        want = 2 * numpy.arange(1000, dtype="f4") + 1
        npy, raw, shared = self.path("z.npy"), self.path("z.raw"), self.path("shared.npy")
        for target, read in ((f"@{npy}", lambda out: numpy.load(npy)), (f"@{raw}", lambda out: numpy.fromfile(raw, "<f4")),
                             (f"path:{shared}", lambda out: numpy.load(shared)),
                             ("-", lambda out: numpy.frombuffer(out, "<f4"))):
            out = self.ok(*SAXPY, "n=1000", "--out", f"z={target}")
            numpy.testing.assert_array_equal(read(out), want)
        self.assertEqual(numpy.load(npy).dtype, numpy.dtype("<f4"))
        mask = os.umask(0)
        os.umask(mask)
        self.assertEqual(os.stat(npy).st_mode & 0o777, 0o666 & ~mask)
        self.assertEqual(self.left_behind(self.cluster.folder.name), [])

    def test_a_large_output_that_nobody_asked_for_says_how_to_get_it(self):
        code, out, err = self.command("run", "saxpy", "scale=1", "x=iota", "y=iota", "n=5000", "-q")
        self.assertEqual((code, out), (0, b""), err)
        job = self.cluster.tandem("job", "ls", "-o", "name", "--limit", "1")[0].strip()
        [line] = [line for line in err.splitlines() if line.startswith("not shown: ")]
        self.assertEqual(line, f"not shown: z f32[5000]; fetch with `tandem job results {job} --out z=@z.npy`")
        os.makedirs(self.path("fetched"))
        self.ok(*line.split("`")[1].split()[1:], cwd=self.path("fetched"))
        self.assertEqual(numpy.load(self.path("fetched/z.npy"))[3], 6)
        _, out, err = self.command("job", "results", job)
        self.assertIn(line, err)
        _, out, err = self.command("run", "saxpy", "scale=1", "x=[1]", "y=[2]", "-q")
        self.assertEqual(out, b"z = [3]\n")
        self.assertNotIn("not shown", err)

    def test_failures_name_the_file(self):
        for name in ("good.png", "bad.png"):
            self.write(f"pictures/{name}", b"no picture" if name == "bad.png" else png(8, 8))
        code, _, err = self.command("run", "image_sobel", "image=@" + self.path("pictures/"), "-q")
        self.assertEqual(code, 1, err)
        self.assertIn("bad.png", err)
        _, _, err = self.command("job", "wait", "last", "-q")
        self.assertRegex(err, r"task \d \(.*bad\.png\): ")
        out = self.ok("job", "failures", "last").decode()
        self.assertIn("ITEM", out)
        self.assertRegex(out, r"(?m)^\d +\d +\S*bad\.png +\S")
        [item] = json.loads(self.ok("job", "failures", "last", "-o", "json"))["items"]
        self.assertTrue(item["item"].endswith("bad.png"), item)

    def test_several_outputs_at_once_and_nothing_else_on_stdout(self):
        args = ("run", "black_scholes", "spot=[100]", "strike=[100]", "years=[1]", "rate=0", "volatility=0.2")
        out = self.ok(*args, "--out", "call=-", "--out", "put=@" + self.path("put.npy"))
        self.assertEqual(len(out), 4)
        numpy.testing.assert_allclose(numpy.frombuffer(out, "<f4"), numpy.load(self.path("put.npy")), rtol=1e-4)
        self.assertEqual(len(self.ok(*args, "--out", "call=-")), 4)  # `put` is not printed behind it
        same = self.path("same.npy")
        self.refused(2, "BAD_ARGUMENT", "two outputs", *args, "--out", f"call=@{same}", "--out", f"put=@{same}")
        self.refused(2, "BAD_ARGUMENT", "two outputs", *args, "--out", "call=-", "--out", "put=-")

    def test_ragged_outputs_are_a_file_each_named_as_the_inputs(self):
        names = ("b.png", "a.png", "sub.dir.png")
        for at, name in enumerate(names):
            self.write(f"in/{name}", png(20 + at, 10))
        first = self.path("edges")
        self.ok("run", "image_sobel", "image=@" + self.path("in/"), "--out", f"edges=@{first}/", "-q")
        self.assertEqual(sorted(os.listdir(first)), sorted(names))
        # By a list on stdin, in its order; the names are kept with the job, for later.
        listed = "".join(self.path(f"in/{name}") + "\n" for name in names)
        second = self.path("edges2")
        out = self.ok("submit", "image_sobel", "image=@list:-", input=listed.encode())
        job = out.decode().strip()
        self.ok("job", "wait", job, "-q")
        self.ok("job", "results", job, "--out", f"edges=@{second}/")
        third = self.path("edges3")
        self.ok("job", "results", job, "--tasks", "1-2", "--out", f"edges=@{third}/")
        self.assertEqual(sorted(os.listdir(third)), sorted(names[1:]))
        code, _, err = self.command("job", "results", job, "--tasks", "1-3", "--out", "edges=@" + self.path("edges4/"))
        self.assertEqual(code, 2)
        self.assertIn("has tasks 0-2 (BAD_ARGUMENT)", err)
        for name in names:
            with open(os.path.join(first, name), "rb") as one, open(os.path.join(second, name), "rb") as other:
                self.assertEqual(one.read(), other.read())
        self.refused(2, "PATH_EXISTS", "is not empty", "run", "image_sobel", "image=@" + self.path("in/"),
                     "--out", f"edges=@{second}/")
        self.refused(2, "BAD_ARGUMENT", "give a directory", "run", "image_sobel", "image=@" + self.path("in/"),
                     "--out", "edges=@" + self.path("edges.npy"))
        self.refused(2, "BAD_ARGUMENT", "give a directory", "run", "image_sobel", "image=@" + self.path("in/"),
                     "--out", "edges=-")

    def test_what_cannot_be_written_is_refused_before_the_run(self):
        there = self.write("there.npy", "precious")
        folder = os.path.dirname(self.write("folder/file", "x"))
        for code, reason, says, target in (
                (2, "PATH_EXISTS", "--force", f"@{there}"),
                (4, "PATH_UNWRITABLE", "there is no directory", "@" + self.path("no/where/z.npy")),
                (4, "PATH_UNWRITABLE", "Not a directory", f"@{there}/z.npy"),
                (2, "BAD_ARGUMENT", "give a file", f"@{folder}"),
                (2, "BAD_ARGUMENT", "absolute", "path:z.npy"),
                (2, "BAD_ARGUMENT", "none of name=@", "z.npy"),
                (2, "BAD_ARGUMENT", "none of name=@", "@")):
            self.refused(code, reason, says, *SAXPY, "n=10", "--out", f"z={target}")
        self.refused(3, "OUTPUT_NOT_FOUND", ["did you mean z?", "there is z"], *SAXPY, "n=10", "--out", "x=@x.npy")
        code, _, err = self.command(*SAXPY, "n=10", "--out", "z=-", "-o", "json")
        self.assertEqual(code, 2)
        self.assertIn("stdout", err)
        with open(there, encoding="utf-8") as file:
            self.assertEqual(file.read(), "precious")

    def test_force_replaces_a_file_whole_and_only_a_file(self):
        there = self.write("old.npy", b"x" * 10_000)
        os.chmod(there, 0o640)
        link = self.path("link.npy")
        os.symlink(there, link)
        self.ok(*SAXPY, "n=10", "--out", f"z=@{link}", "--force")
        self.assertTrue(os.path.islink(link))
        self.assertEqual(len(numpy.load(there)), 10)
        self.assertEqual(os.stat(there).st_mode & 0o777, 0o640)
        self.ok(*SAXPY, "n=10", "--out", "z=@/dev/null", "--force")
        self.ok(*SAXPY, "n=10", "--out", "z=@/dev/null")
        self.assertTrue(os.path.exists("/dev/null") and not os.path.isfile("/dev/null"))

    def test_a_socket_is_no_place_for_an_output(self):
        path = self.path("socket")
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path)
            self.refused(4, "PATH_UNWRITABLE", "it is a socket", *SAXPY, "n=10", "--out", f"z=@{path}", "--force")

    def test_several_jobs_do_not_write_over_one_another(self):
        jobs = [str(self.cluster.submit("saxpy", "scale=1", "x=[1]", "y=[2]")) for _ in range(2)]
        self.ok("job", "wait", ",".join(jobs), "-q")
        there = self.path("one.npy")
        self.refused(2, "BAD_ARGUMENT", "for the results of 2 jobs", "job", "results", ",".join(jobs), "--out", f"z=@{there}",
                     "--force")
        self.assertFalse(os.path.exists(there))
        self.assertEqual(len(self.ok("job", "results", ",".join(jobs), "--out", "z=-")), 8)

    def test_zeros_of_tasks_that_failed_are_said_to_be_none(self):
        # The second of three tasks divides more points than a task may have time for.
        job = self.ok("submit", "spin", "work=[1,4000000000,1]", "--time-limit", "200ms", "--grain", "1", "--max-failures",
                      "9").decode().strip()
        self.assertEqual(self.command("job", "wait", job, "-q")[0], 1)
        line = f"1 task failed; its values are zeros: tandem job failures {job}"
        for more in ((), ("-o", "json"), ("--out", "value=@" + self.path("zeros.npy")), ("--tasks", "1-2")):
            code, _, err = self.command("job", "results", job, *more)
            self.assertEqual((code, err.splitlines()), (0, [line]), more)
        _, _, err = self.command("job", "results", job, "--tasks", "2")
        self.assertEqual(err, "")

    def check_remedy(self, err):
        """The error tells a command that fetches the results elsewhere; it works."""
        self.assertIn("(DISK_FULL)", err)
        job = err.split("tandem job results ")[1].split()[0]
        again = self.path(f"again-{job}.npy")
        self.ok("job", "results", job, "--out", f"z=@{again}")
        return numpy.load(again)

    def test_a_disk_that_fills_while_it_is_written_loses_nothing(self):
        code, _, err = self.command(*SAXPY, "n=100000", "--out", "z=@/dev/full")
        self.assertEqual(code, 6, err)
        self.assertEqual(len(self.check_remedy(err)), 100_000)
        out = self.path("limited.npy")

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        code, _, err = self.command(*SAXPY, "n=100000", "--out", f"z=@{out}", preexec_fn=limit)
        self.assertEqual(code, 6, err)
        self.assertEqual(len(self.check_remedy(err)), 100_000)
        self.assertFalse(os.path.exists(out))
        self.assertEqual(self.left_behind(self.cluster.folder.name), [])

    def test_too_little_room_is_known_before_the_run(self):
        folder = self.path("small")
        os.mkdir(folder)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("no small file system can be mounted here")
        self.addCleanup(subprocess.run, ["umount", folder], check=True)
        self.refused(6, "DISK_FULL", ["there is room for", "64KiB"], *SAXPY, "n=100000", "--out", f"z=@{folder}/z.npy")
        self.ok(*SAXPY, "n=1000", "--out", f"z=@{folder}/z.npy")

    def test_ctrl_c_while_results_are_written_leaves_no_half_file(self):
        out = self.path("interrupted.npy")
        self.ok("run", "noop", "n=3000000", "-q")
        with tempfile.TemporaryDirectory(dir=self.cluster.folder.name) as folder:
            pipe = os.path.join(folder, "pipe")
            os.mkfifo(pipe)
            # A pipe nobody empties holds the command in the middle of its writing.
            writer = self.cluster.start_command("job", "results", "last", "--out", f"value=@{pipe}")
            with open(pipe, "rb") as reader:
                reader.read(10)
                writer.send_signal(signal.SIGINT)
                reader.read(1 << 20)
                reader.read()
            _, err = writer.communicate(timeout=60)
            self.assertIn("(INTERRUPTED)", err)
            self.assertIn("tandem job results", err)
            self.assertNotEqual(writer.returncode, 0)
        self.assertFalse(os.path.exists(out))

    def test_ctrl_c_while_a_pipe_has_no_reader(self):
        self.ok("run", "noop", "n=3", "-q")
        pipe = self.path("unread")
        os.mkfifo(pipe)
        writer = self.cluster.start_command("job", "results", "last", "--out", f"value=@{pipe}")

        def waits():
            self.assertIsNone(writer.poll())
            with open(f"/proc/{writer.pid}/syscall", encoding="utf-8") as file:
                return file.read().split()[0] in ("257", "56")  # it sleeps in openat, on x86-64 and Arm
        wait_for("the pipe to be opened", waits)
        writer.send_signal(signal.SIGINT)
        _, err = writer.communicate(timeout=60)
        self.assertEqual(writer.returncode, 130, err)
        self.assertIn("(INTERRUPTED)", err)
        self.assertIn("tandem job results", err)

    def test_results_while_the_job_runs_and_after_a_failure(self):
        steps = "work=" + self.path("work.npy")
        numpy.save(self.path("work.npy"), numpy.array([1] * 8 + [400_000_000] * 8, "<u4"))
        job = str(self.cluster.submit("spin", steps.replace("=", "=@"), "--grain", "4", "--max-lease", "1"))
        wait_for("the first tasks", lambda: self.cluster.job(job)["tasks_done"] >= 8)
        out = self.ok("job", "results", job, "--tasks", "0-7", "--out", "value=-")
        self.assertEqual(len(out), 64)
        if self.cluster.job(job)["state"] == "RUNNING":
            code, _, err = self.command("job", "results", job, "--out", "value=@" + self.path("early.npy"))
            if code != 0:  # else it has just ended
                self.assertIn("(RESULT_NOT_READY)", err)
                self.assertIn("not done yet", err)
                self.assertFalse(os.path.exists(self.path("early.npy")))
        reduced = str(self.cluster.submit("monte_carlo_pi", "n=100000000000000"))
        code, _, err = self.command("job", "results", reduced)
        self.assertNotEqual(code, 0, err)
        self.assertIn("(RESULT_NOT_READY)", err)
        self.ok("job", "cancel", reduced)
        code, out, err = self.command("job", "results", reduced)
        self.assertEqual((code, out), (7, b""), err)
        self.assertIn("(JOB_CANCELLED)", err)
        self.ok("job", "wait", job, "-q")
        self.assertEqual(len(self.ok("job", "results", job, "--out", "value=-")), 128)
        # One of three images is none: the others' results are there.
        for name, content in (("a", png(8, 8)), ("b", b"no image"), ("c", png(8, 8))):
            self.write(f"mixed/{name}.png", content)
        edges = self.path("mixed-edges")
        code, _, err = self.command("run", "image_sobel", "image=@" + self.path("mixed/"), "--out", f"edges=@{edges}/")
        self.assertEqual(code, 1, err)
        self.assertIn("b.png", err)
        self.assertEqual(sorted(os.listdir(edges)), ["a.png", "c.png"])
        failed = json.loads(self.ok("job", "failures", "last", "-o", "json"))["items"]
        self.assertEqual([item["task"] for item in failed], [1])

    def read_of_what_never_ran(self, job, code, token):
        """What is done is named and can be read; all else is refused, and never zeros."""
        npy = self.path(f"part-{job}.npy")
        for args in ((), ("--out", f"value=@{npy}")):
            found, out, err = self.command("job", "results", job, *args)
            self.assertEqual((found, out), (code, b""), err)
            self.assertIn(f"({token})", err)
            self.assertIn(f"job {job}", err)
        self.assertFalse(os.path.exists(npy))
        first, last = re.search(r"--tasks (\d+)(?:-(\d+))?", err).groups()
        last = last or first
        done = int(last) - int(first) + 1
        self.assertLessEqual(done, self.cluster.job(job)["tasks_done"])
        out = self.ok("job", "results", job, "--tasks", f"{first}-{last}", "--out", "value=-")
        self.assertTrue(numpy.frombuffer(out, "<u8").all())
        self.assertEqual(len(out), 8 * done)

    def test_tasks_that_never_ran_are_never_zeros(self):
        # Cancelled after its first tasks: what those of them that ran left is read, and only that.
        job = str(self.cluster.submit("spin", "work=constant(30000000)", "n=1000", "--grain", "1", "--max-lease", "1"))
        wait_for("the first tasks", lambda: self.cluster.job(job)["tasks_done"] >= 4)
        self.ok("job", "cancel", job)
        self.assertLess(self.cluster.job(job)["tasks_done"], 1000)
        self.read_of_what_never_ran(job, 7, "JOB_CANCELLED")
        # Before any.
        self.ok("worker", "drain", "w")
        job = str(self.cluster.submit("spin", "work=constant(1)", "n=3"))
        self.ok("job", "cancel", job)
        self.ok("worker", "resume", "w")
        code, out, err = self.command("job", "results", job)
        self.assertEqual((code, out), (7, b""), err)
        self.assertIn("none is done", err)

    def test_images_that_were_never_reached_are_not_left_out_in_silence(self):
        self.ok("worker", "drain", "w")
        for name in ("a", "b"):
            self.write(f"unseen/{name}.png", png(8, 8))
        job = str(self.cluster.submit("image_sobel", "image=@" + self.path("unseen/")))
        edges = self.path("unseen-edges")
        for code, token in ((5, "RESULT_NOT_READY"), (7, "JOB_CANCELLED")):
            found, _, err = self.command("job", "results", job, "--out", f"edges=@{edges}/")
            self.assertEqual(found, code, err)
            self.assertIn(f"({token})", err)
            self.assertFalse(os.path.exists(edges))
            self.ok("job", "cancel", job)
        self.ok("worker", "resume", "w")

    def test_what_a_job_that_gave_up_never_ran_is_an_error(self):
        # The first image is none, and one failure is one too many for the job.
        self.write("bad/0.png", b"no image")
        for at in range(1, 3000):
            self.write(f"bad/{at}.png", png(8, 8))
        job = str(self.cluster.submit("image_sobel", "image=@" + self.path("bad/"), "--grain", "1", "--max-lease", "1",
                                      "--max-failures", "0"))
        self.command("job", "wait", job, "-q")
        state = self.cluster.job(job)
        self.assertEqual(state["state"], "FAILED")
        self.assertLess(state["tasks_done"], 3000)
        found, _, err = self.command("job", "results", job, "--out", "edges=@" + self.path("bad-edges/"))
        self.assertEqual(found, 1, err)
        self.assertIn("(JOB_FAILED)", err)


if __name__ == "__main__":
    main()
