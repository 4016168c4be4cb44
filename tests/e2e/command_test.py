#!/usr/bin/env python3
"""The command: output formats, exit codes, and errors that say what to do."""
import json
import os
import subprocess
import sys
import unittest

from processes import Processes

BIN = sys.argv.pop(1)


class CommandTest(unittest.TestCase):
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

    def refused(self, code, reason, says, *args):
        found, out, err = self.cluster.run(*args)
        self.assertEqual(found, code, out + err)
        self.assertIn(f"({reason})", err)
        self.assertIn(says, err)
        self.assertEqual(out, "")

    def test_errors_name_the_fault_the_reason_and_the_remedy(self):
        self.refused(3, "UNKNOWN_KERNEL", "did you mean black_scholes?", "run", "black_schols")
        self.refused(2, "UNKNOWN_OPERAND", "did you mean seed?", "run", "noop", "n=1", "sead=1")
        self.refused(2, "MISSING_AXIS_EXTENT", "n", "run", "noop")
        self.refused(2, "AXIS_NOT_SPLITTABLE", "", "run", "gradient", "x=constant(1)", "label=constant(1)", "w=constant(1)",
                     "n=10", "d=3", "--split", "d")
        self.refused(2, "SCALAR_OUT_OF_RANGE", "15", "run", "kmer_count", "base=[65,67]", "k=99")
        self.refused(3, "JOB_NOT_FOUND", "999999", "job", "show", "999999")
        self.refused(2, "BAD_ARGUMENT", "names no jobs", "job", "show", "seven")
        self.refused(2, "SHAPE_MISMATCH", "", "run", "saxpy", "scale=1", "x=[1,2,3]", "y=[1,2]")

    def test_what_is_not_honoured_yet_is_refused_by_name(self):
        for says, *flag in (("--cpus = 2", "--cpus", "2"), ("--gpus = 0.5", "--gpus", "0.5"),
                            ("--mem = 2GiB", "--mem", "2GiB"), ("--after = jobs/3", "--after", "3"),
                            ("--after", "--after", "last")):
            for command in ("run", "submit"):
                self.refused(2, "NOT_YET_HONOURED", says, command, "noop", "n=1", *flag)
        self.refused(2, "BAD_RESOURCES", "--gpus", "run", "noop", "n=1", "--gpus", "none")
        self.refused(2, "BAD_ARGUMENT", "--after", "run", "noop", "n=1", "--after", "yesterday")

    def test_a_missing_master_is_said_at_once(self):
        done = subprocess.run([self.cluster.program("tandem"), "--address", "127.0.0.1:1", "job", "ls"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 5)
        self.assertIn("tandem up", done.stderr)
        self.assertIn("(MASTER_UNAVAILABLE)", done.stderr)

    def test_mistyped_subcommands_are_usage_errors(self):
        code, _, err = self.cluster.run("job", "lst")
        self.assertEqual(code, 2)
        self.assertIn("did you mean ls?", err)

    def test_json_has_a_version_and_stable_names(self):
        job = self.cluster.submit("noop", "n=100", "--name", "shape", "--label", "team=a")
        self.cluster.tandem("job", "wait", str(job))
        found = self.cluster.job(job)
        self.assertEqual(
            sorted(found),
            sorted(["api_version", "kind", "id", "name", "kernel", "owner", "state", "wait_reason", "reason", "tasks",
                    "tasks_done", "tasks_failed", "leaves", "grain", "split_axis", "leases", "retried_tasks",
                    "busy_seconds", "priority", "labels", "submitted", "started", "ended", "outputs"]))
        self.assertEqual((found["api_version"], found["kind"], found["state"], found["tasks_done"]),
                         ("tandem.v1", "job", "SUCCEEDED", 100))
        self.assertEqual(found["labels"], {"team": "a"})
        listed = json.loads(self.cluster.tandem("job", "ls", "--name", "shape", "-o", "json")[0])
        self.assertEqual([item["id"] for item in listed["items"]], [job])
        workers = json.loads(self.cluster.tandem("worker", "ls", "-o", "json")[0])["items"]
        self.assertEqual(workers[0]["name"], "w")
        self.assertEqual(workers[0]["devices"][0]["kind"], "cpu")
        kernels = self.cluster.tandem("kernel", "ls", "-o", "name")[0].split()
        self.assertEqual(sorted(kernels), sorted(
            ["asian_option", "bilateral_filter", "black_scholes", "gemm", "gradient", "histogram", "image_sobel",
             "image_thumbnail", "kmer_count", "linear", "mandelbrot", "monte_carlo_pi", "noop", "saxpy", "sort", "spin"]))

    def test_a_dry_run_tells_the_plan_and_submits_nothing(self):
        before = self.cluster.tandem("job", "ls", "-o", "name")[0]
        out, err = self.cluster.tandem("run", "monte_carlo_pi", "n=1000000", "--dry-run")
        self.assertIn("1000000 tasks", out)
        self.assertIn("nothing was submitted", err)
        self.assertEqual(self.cluster.tandem("job", "ls", "-o", "name")[0], before)

    def test_existing_files_are_kept_unless_forced(self):
        path = self.cluster.path("kept.npy")
        open(path, "w").write("precious")
        self.refused(2, "PATH_EXISTS", "--force", "run", "noop", "n=1", "--out", f"value=@{path}")
        self.assertEqual(open(path).read(), "precious")
        self.cluster.tandem("run", "noop", "n=1", "--out", f"value=@{path}", "--force")
        self.assertEqual(os.path.getsize(path) % 64, 8)

    def test_a_request_id_names_one_job(self):
        first = self.cluster.submit("noop", "n=10", "--request-id", "one-and-only")
        self.assertEqual(self.cluster.submit("noop", "n=10", "--request-id", "one-and-only"), first)
        self.refused(2, "REQUEST_ID_REUSED", "", "submit", "noop", "n=11", "--request-id", "one-and-only")

    def test_enormous_jobs_are_accepted_at_once(self):
        for tasks in (10 ** 9, 10 ** 15, 10 ** 18):
            job = self.cluster.submit("monte_carlo_pi", f"n={tasks}")
            self.cluster.tandem("job", "cancel", str(job))

    def test_selectors(self):
        jobs = [self.cluster.submit("noop", "n=1") for _ in range(3)]
        out = self.cluster.tandem("job", "show", f"{jobs[0]}-{jobs[2]}:2", "-o", "json")[0]
        self.assertEqual([job["id"] for job in json.loads(out)["items"]], [jobs[0], jobs[2]])
        last = json.loads(self.cluster.tandem("job", "show", "last", "-o", "json")[0])
        self.assertEqual(last["id"], jobs[2])

    def test_what_is_no_regular_file_is_refused(self):
        fifo = self.cluster.path("fifo")
        os.mkfifo(fifo)
        self.refused(2, "PATH_UNREADABLE", "no regular file", "run", "histogram", f"value=@{fifo}")

    def test_up_runs_a_cluster_and_leaves_nothing_behind(self):
        ready = self.cluster.path("up.ready")
        up = subprocess.Popen([self.cluster.program("tandem"), "up", "--workers", "2", "--port", "0", "--ready-file", ready],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        from processes import wait_for
        wait_for("the cluster", lambda: os.path.exists(ready))
        info = json.load(open(ready))
        done = subprocess.run([self.cluster.program("tandem"), "--address", info["address"], "run", "noop", "n=5"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        up.terminate()
        up.communicate(timeout=60)
        self.assertFalse(os.path.exists(info["directory"]))
        for pid in [info["master_pid"]] + [worker["pid"] for worker in info["workers"]]:
            self.assertFalse(os.path.exists(f"/proc/{pid}"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
