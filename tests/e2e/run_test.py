#!/usr/bin/env python3
"""`tandem run`: dry runs, refusals before anything runs, following, leaving a job and coming back."""
import json
import os
import signal
import subprocess
import sys
import unittest

from processes import Processes, free_port, wait_for, write_npy

BIN = sys.argv.pop(1)


def refused_connections():
    """How many attempts to connect have failed on this machine."""
    with open("/proc/net/snmp") as file:
        names, values = [line.split() for line in file if line.startswith("Tcp:")]
    return int(values[names.index("AttemptFails")])


class RunTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Processes(BIN)
        cls.cluster.__enter__()
        cls.cluster.start_master()
        cls.cluster.start_worker("w")
        cls.cluster.wait_attached(1)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    def jobs(self):
        return self.cluster.tandem("job", "ls", "-o", "name")[0]

    def refused(self, code, reason, says, *args):
        before = self.jobs()
        found, out, err = self.cluster.run(*args)
        self.assertEqual(found, code, out + err)
        self.assertIn(f"({reason})", err)
        self.assertIn(says, err)
        self.assertEqual(self.jobs(), before)
        # A dry run refuses it too.
        if args[0] in ("run", "submit"):
            self.assertEqual(self.cluster.run(*args, "--dry-run")[0], code)

    def test_a_dry_run_tells_shapes_leaves_bytes_and_submits_nothing(self):
        path = self.cluster.path("genome.fa")
        with open(path, "w") as file:
            file.write(">one\n" + "ACGT" * 25_000 + "\n")
        before = self.jobs()
        out, err = self.cluster.tandem("run", "kmer_count", f"base=@{path}", "k=15", "--dry-run")
        self.assertIn("nothing was submitted", err)
        self.assertRegex(out, r"output +count u32\[1073741824\]: 4GiB, reduced")
        self.assertRegex(out, r"operand +base u8\[100000\]: 97.7KiB, ")
        self.assertRegex(out, r"to upload +97.7KiB")
        plan = json.loads(self.cluster.tandem("run", "kmer_count", f"base=@{path}", "k=15", "--dry-run", "-o", "json")[0])
        self.assertEqual(sorted(plan), ["api_version", "grain", "kernel", "kind", "leaves", "operands", "outputs",
                                        "split_axis", "tasks", "upload_bytes"])
        self.assertEqual((plan["kind"], plan["upload_bytes"], plan["outputs"][0]["bytes"]), ("plan", 100_000, 2 ** 32))
        self.assertEqual(sorted(plan["operands"][0]), ["bytes", "how", "name", "tensor"])
        self.assertEqual(self.jobs(), before)
        # What the master has is not sent again.
        self.cluster.tandem("run", "kmer_count", f"base=@{path}", "k=3")
        self.assertIn("to upload   0B", self.cluster.tandem("run", "kmer_count", f"base=@{path}", "k=15", "--dry-run")[0])

    def test_targets_are_refused_before_anything_runs(self):
        missing = self.cluster.path("missing", "x.npy")
        self.refused(4, "PATH_UNWRITABLE", "there is no directory", "run", "noop", "n=1", "--out", f"value=@{missing}")
        self.refused(3, "OUTPUT_NOT_FOUND", "did you mean value?", "run", "noop", "n=1", "--out", "valu=@x.npy")
        self.refused(2, "BAD_ARGUMENT", "--out", "run", "noop", "n=1", "--out", "value=x.npy")

    def test_names_and_labels_are_checked_with_their_field(self):
        long = "x" * 100_000
        for words, reason, field in (
                (["--name", "a\x01b"], "BAD_SPEC", "name"),
                (["--name", "a\nb"], "BAD_SPEC", "name"),
                (["--name", os.fsdecode(b"\xff\xfe")], "BAD_SPEC", "name"),
                (["--name", long], "LIMIT_EXCEEDED", "name"),
                (["--label", "k\x07=v"], "BAD_SPEC", "labels"),
                (["--label", "k=" + long], "LIMIT_EXCEEDED", "labels.k"),
                (["--request-id", "a\x1b"], "BAD_SPEC", "request_id"),
                (["--request-id", os.fsdecode(b"\xc3")], "BAD_SPEC", "request_id"),
                (["--split", os.fsdecode(b"\xff")], "BAD_SPEC", "split_axis")):
            code, out, err = self.cluster.run("submit", "noop", "n=1", *words, "-o", "json")
            self.assertEqual(code, 2, err)
            error = json.loads(out)["error"]
            self.assertEqual((error["reason"], error["field"]), (reason, field), error)
            self.assertLess(len(err), 400)
        # What is UTF-8 and printable is taken.
        job = self.cluster.submit("noop", "n=1", "--name", "größe ≥ 1", "--label", "größe=≥")
        self.assertEqual(self.cluster.job(job)["name"], "größe ≥ 1")

    def test_errors_name_the_argument(self):
        self.refused(2, "SHAPE_MISMATCH", "x", "run", "saxpy", "scale=1", "x=[1,2,3]", "y=[1,2]")
        path = self.cluster.path("square.npy")
        write_npy(path, "<f4", (2, 2), [1, 2, 3, 4])
        for words in ((f"x=@{path}", "y=[1,2]"), ("x=constant(nan)", "y=[1,2]"), ("x=iota(1)", "y=[1,2]"), ("x=[1,2", "y=[1,2]")):
            found, _, err = self.cluster.run("run", "saxpy", "scale=1", *words)
            if found != 0:
                self.assertEqual(found, 2, err)
                self.assertRegex(err, r"\b(argument|operand) x\b")
        self.refused(2, "UNKNOWN_AXIS", "did you mean n?", "run", "noop", "n=5", "--split", "nn")

    def test_follow_prints_tasks_in_order_as_they_end(self):
        out, _ = self.cluster.tandem("run", "saxpy", "scale=2", "x=[1,2,3,4,5]", "y=[10,20,30,40,50]", "--grain", "2",
                                     "--follow")
        self.assertEqual(out, "0 z=12\n1 z=24\n2 z=36\n3 z=48\n4 z=60\n")
        for output in ("jsonl", "json"):
            out, _ = self.cluster.tandem("run", "noop", "n=10000", "--grain", "16", "--follow", "-o", output)
            lines = [json.loads(line) for line in out.splitlines()]
            self.assertEqual([line["task"] for line in lines[:-1]], list(range(10000)))
            self.assertEqual(lines[0]["kind"], "task_result")
            self.assertEqual(lines[-1]["kind"], "job")

    def test_a_job_that_fails_exits_with_1_unless_that_is_allowed(self):
        folder = self.cluster.path("images")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "broken.png"), "wb") as file:
            file.write(b"no image")
        code, out, err = self.cluster.run("run", "image_sobel", f"image=@{folder}/", "-o", "json")
        self.assertEqual(code, 1, err)
        self.assertEqual((json.loads(out)["state"], json.loads(out)["tasks_failed"]), ("FAILED", 1))
        self.assertIn("broken.png", err)
        self.assertEqual(self.cluster.run("job", "wait", "last")[0], 1)
        self.assertEqual(self.cluster.run("run", "image_sobel", f"image=@{folder}/", "--allow-failed")[0], 0)
        out, _ = self.cluster.tandem("run", "image_sobel", f"image=@{folder}/", "--allow-failed", "--follow")
        self.assertRegex(out, r"^0 failed: ")

    def test_results_in_every_format(self):
        job = str(self.cluster.submit("saxpy", "scale=2", "x=[1,2]", "y=[10,20]"))
        self.cluster.tandem("job", "wait", job)
        self.assertEqual(self.cluster.tandem("job", "results", job)[0], "z = [12, 24]\n")
        results = json.loads(self.cluster.tandem("job", "results", job, "-o", "json")[0])
        self.assertEqual(results, {"api_version": "tandem.v1", "kind": "results", "job": int(job),
                                   "outputs": {"z": [12, 24]}})
        self.assertEqual(self.cluster.tandem("job", "show", job, "-o", "name")[0], job + "\n")

    def test_run_gives_its_values_in_every_format(self):
        words = ("run", "saxpy", "scale=2", "x=[1,2]", "y=[10,20]", "-q")
        self.assertEqual(self.cluster.tandem(*words)[0], "z = [12, 24]\n")
        for form in ("json", "jsonl"):
            out, err = self.cluster.tandem(*words, "-o", form)
            job = json.loads(out)
            self.assertEqual((job["api_version"], job["kind"], job["results"]), ("tandem.v1", "job", {"z": [12, 24]}))
            results = json.loads(self.cluster.tandem("job", "results", "last", "-o", "json")[0])
            self.assertEqual(job["results"], results["outputs"])
            self.assertNotIn("not shown", err)
        out, err = self.cluster.tandem(*words, "-o", "name")
        self.assertRegex(out, r"^\d+\n$")
        self.assertIn(f"not shown: z f32[2]; fetch with `tandem job results {out.strip()} ", err)
        # What was written or printed already, or is too large, is not there again.
        file = self.cluster.path("written.npy")
        self.assertEqual(json.loads(self.cluster.tandem(*words, "-o", "json", "--out", f"z=@{file}")[0])["results"], {})
        last = self.cluster.tandem(*words, "-o", "jsonl", "--follow")[0].splitlines()[-1]
        self.assertNotIn("results", json.loads(last))
        out, err = self.cluster.tandem("run", "noop", "n=5000", "-q", "-o", "json")
        self.assertEqual(json.loads(out)["results"], {})
        self.assertIn("not shown: value", err)

    def test_cancelling_all_ends_what_runs_and_counts_the_rest(self):
        self.cluster.tandem("run", "noop", "n=1", "-q")
        done = self.cluster.tandem("job", "ls", "--limit", "1", "-o", "name")[0].strip()
        self.cluster.tandem("job", "cancel", "all")  # what other tests have left
        ended = len(self.cluster.tandem("job", "ls", "--limit", "100000", "-o", "name")[0].split())
        running = self.cluster.submit("monte_carlo_pi", "n=100000000000000")
        out, err = self.cluster.tandem("job", "cancel", "all", "-o", "json")
        self.assertEqual([job["id"] for job in json.loads(out)["items"]], [running])
        said = err.splitlines()
        self.assertIn(f"job {running} CANCELLED", said[0])
        self.assertEqual(said[1:], [f"{ended} job{'' if ended == 1 else 's'} had already ended"])
        _, err = self.cluster.tandem("job", "cancel", f"{done},{done}")
        self.assertEqual(err, "2 jobs had already ended\n")

    def test_errors_name_the_flag(self):
        for words, says in ((("--time-limit", "0s"), "--time-limit 0s"), (("--name", "a\nb"), "tandem: --name "),
                            (("--label", "k=" + "x" * 100_000), "--label k has"), (("--cpus", "2"), "--cpus")):
            code, _, err = self.cluster.run("submit", "noop", "n=1", *words)
            self.assertEqual(code, 2, err)
            self.assertIn(says, err)
        _, _, err = self.cluster.run("job", "results", "last", "--tasks", "5-3")
        self.assertIn("the end comes before the beginning; give 3-5 (BAD_ARGUMENT)", err)

    def test_flags_arrive(self):
        job = self.cluster.submit("noop", "n=10", "--name", "flags", "--label", "a=1", "--label", "b=2", "--priority",
                                  "-5", "--reproducible", "--allow-failed", "--grain", "5")
        found = self.cluster.job(job)
        self.assertEqual((found["name"], found["labels"], found["priority"], found["grain"]),
                         ("flags", {"a": "1", "b": "2"}, -5, 5))
        self.assertEqual(self.cluster.tandem("job", "ls", "--label", "a=1", "--label", "b=2", "-o", "name")[0], f"{job}\n")
        self.assertEqual(self.cluster.tandem("job", "ls", "--label", "a=2", "-o", "name")[0], "")

    def test_cancelling_an_ended_job_is_no_error(self):
        job = self.cluster.submit("noop", "n=1")
        self.cluster.tandem("job", "wait", str(job))
        code, out, err = self.cluster.run("job", "cancel", str(job), "-o", "json")
        self.assertEqual(code, 0, err)
        self.assertIn("it had already ended: job", err)
        self.assertEqual(json.loads(out)["state"], "SUCCEEDED")

    def test_out_to_a_full_disk_keeps_the_results(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([self.cluster.program("tandem"), "--address", self.cluster.address, "run", "noop",
                                   "n=1000", "--out", "value=-"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertIn("(DISK_FULL)", done.stderr)


class LeaveTest(unittest.TestCase):
    """Without a worker a job waits for as long as it takes to leave it."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Processes(BIN)
        cls.cluster.__enter__()
        cls.cluster.start_master()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    def test_ctrl_c_detaches_and_wait_comes_back(self):
        run = self.cluster.start_command("run", "noop", "n=1000")
        job = run.stderr.readline().split()[1]
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 130, err)
        self.assertIn("(INTERRUPTED)", err)
        self.assertIn(f"tandem job wait {job}", err)
        self.assertIn(f"tandem job cancel {job}", err)
        self.assertEqual(self.cluster.job(job)["state"], "PENDING")
        self.assertIn(f"job {job} PENDING: ", self.cluster.tandem("job", "progress", job)[0])
        wait = self.cluster.start_command("job", "wait", job)
        self.cluster.tandem("job", "cancel", job)
        _, err = wait.communicate(timeout=60)
        self.assertEqual(wait.returncode, 7, err)
        # Cancelled already: that is what was wanted.
        code, _, err = self.cluster.run("job", "cancel", job)
        self.assertEqual(code, 0, err)

    def test_a_second_ctrl_c_cancels_if_so_asked(self):
        run = self.cluster.start_command("run", "noop", "n=1000", "--on-ctrl-c", "ask")
        job = run.stderr.readline().split()[1]
        run.send_signal(signal.SIGINT)
        self.assertIn("again", run.stderr.readline())
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 7, err)
        self.assertEqual(self.cluster.job(job)["state"], "CANCELLED")

    def test_a_job_that_waits_says_why(self):
        job = self.cluster.submit("noop", "n=5")
        self.assertEqual(self.cluster.job(job)["wait_reason"], "NO_WORKER")
        for command in ("show", "progress"):
            self.assertIn("tandem worker start", self.cluster.tandem("job", command, str(job))[0])
        self.cluster.tandem("job", "cancel", str(job))


class TextTest(unittest.TestCase):
    """Names that are not UTF-8, as a terminal of another encoding sends them."""

    def test_they_are_refused_before_protobuf_sees_them(self):
        with Processes(BIN) as cluster:
            cluster.start_master()
            for words in (["worker", "show"], ["worker", "drain"], ["worker", "resume"], ["worker", "explain"],
                          ["kernel", "show"], ["job", "ls", "--kernel"], ["job", "ls", "--page"],
                          ["job", "ls", "--owner"], ["job", "ls", "--name"], ["run"]):
                code, out, err = cluster.run(*words, b"\xe9")
                self.assertIn((code, out), [(2, ""), (3, "")] if words[-1] in ("run", "show") else [(2, "")], words)
                self.assertRegex(err, r'^tandem: .*"\\xe9".* \((BAD_ARGUMENT|UNKNOWN_KERNEL|BAD_\w+)\)\n$', words)


class EarlyTest(unittest.TestCase):
    """A client that starts before its master."""

    def test_it_finds_the_master_that_comes_up(self):
        with Processes(BIN) as cluster:
            cluster.address = f"127.0.0.1:{free_port()}"
            # gRPC by itself would look again after 10 s or more.
            os.environ["TANDEM_PATIENCE"] = "8s"
            self.addCleanup(os.environ.pop, "TANDEM_PATIENCE")
            before = refused_connections()
            client = cluster.start_command("master", "status")
            wait_for("it to have knocked in vain", lambda: refused_connections() >= before + 4)
            cluster.start_master()
            out, err = client.communicate(timeout=60)
            self.assertEqual(client.returncode, 0, err)
            self.assertIn(cluster.address, out)


class AwayTest(unittest.TestCase):
    """A master that goes away in the middle of `run`."""

    def test_it_is_waited_for_and_missed_in_the_end(self):
        with Processes(BIN) as cluster:
            cluster.start_master()
            os.environ["TANDEM_WATCH_PATIENCE"] = "2s"
            self.addCleanup(os.environ.pop, "TANDEM_WATCH_PATIENCE")
            run = cluster.start_command("run", "noop", "n=1000")
            job = run.stderr.readline().split()[1]
            cluster.kill_master()
            self.assertIn("is away; waiting up to 2s", run.stderr.readline())
            _, err = run.communicate(timeout=60)
            self.assertEqual(run.returncode, 5, err)
            self.assertIn("(MASTER_UNAVAILABLE)", err)
            self.assertIn(f"tandem job wait {job}", err)
            cluster.start_master()
            cluster.tandem("job", "cancel", job)

    def test_it_comes_back(self):
        with Processes(BIN) as cluster:
            cluster.start_master()
            run = cluster.start_command("run", "noop", "n=1000")
            self.assertIn("submitted", run.stderr.readline())
            job = json.loads(cluster.tandem("job", "show", "last", "-o", "json")[0])
            self.assertEqual(job["wait_reason"], "NO_WORKER")
            self.assertIn("tandem worker start", cluster.tandem("job", "show", "last")[0])
            cluster.kill_master()
            self.assertIn("is away", run.stderr.readline())
            cluster.start_master()
            cluster.start_worker("w")
            _, err = run.communicate(timeout=120)
            self.assertEqual(run.returncode, 0, err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
