#!/usr/bin/env python3
"""Explanations: numbers that add up, findings that hold, also after the master was killed; worker top."""
import json
import sys
import unittest

from processes import Processes, wait_for, write_npy

BIN = sys.argv.pop(1)


class ExplainTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Processes(BIN)
        self.enterContext(self.cluster)
        self.cluster.start_master()

    def explain(self, job):
        return json.loads(self.cluster.tandem("job", "explain", str(job), "-o", "json")[0])

    def tokens(self, job):
        return [finding["token"] for finding in self.explain(job)["findings"]]

    def test_the_account_adds_up_and_outlives_the_master(self):
        for name in ("w0", "w1"):
            self.cluster.start_worker(name)
        self.cluster.wait_attached(2)
        job = self.cluster.submit("monte_carlo_pi", "n=2000000000", "seed=5")
        self.cluster.tandem("job", "wait", str(job))
        info = self.cluster.job(job)
        account = self.explain(job)["account"]
        workers = account["workers"]
        self.assertEqual(sum(w["tasks"] for w in workers), 2000000000)
        self.assertEqual(sum(w["leaves"] for w in workers), info["leaves"])
        self.assertGreaterEqual(sum(w["leases"] for w in workers), 1)
        # What executors counted and what commits said was device time are one thing, told in two ways.
        body = sum(w["body_seconds"] + w["host_seconds"] for w in workers)
        busy = info["busy_seconds"] * max(w["groups"] for w in workers)
        self.assertAlmostEqual(body, busy, delta=0.1 * busy)
        whole = account["pending_seconds"] + account["running_seconds"] + account["merging_seconds"]
        self.assertGreaterEqual(whole, account["running_seconds"])
        self.assertGreater(account["commits"], 0)
        self.assertTrue(self.tokens(job))
        text = self.cluster.tandem("job", "explain", str(job))[0]
        for word in ("w0", "w1", "commits", "BODY"):
            self.assertIn(word, text)
        self.cluster.kill_master()
        self.cluster.start_master()
        self.assertEqual(self.explain(job)["account"], account)

    def test_where_operands_came_from_is_counted(self):
        self.cluster.start_worker("w0")
        self.cluster.wait_attached(1)
        path = self.cluster.path("x.npy")
        write_npy(path, "<f4", (300_000,), [1.0] * 300_000)
        uploaded = self.cluster.submit("saxpy", "scale=2", f"x=@{path}", "y=iota")
        self.cluster.tandem("job", "wait", str(uploaded))
        worker = self.explain(uploaded)["account"]["workers"][0]
        self.assertEqual(worker["mapped_bytes"] + worker["fetched_bytes"], 1_200_000)
        self.assertEqual(worker["generated_bytes"], 1_200_000)
        self.assertEqual(worker["pushed_output_bytes"] + worker["inline_output_bytes"], 1_200_000)
        shared = self.cluster.submit("saxpy", "scale=2", f"x=path:{path}", f"y=path:{path}")
        self.cluster.tandem("job", "wait", str(shared))
        worker = self.explain(shared)["account"]["workers"][0]
        self.assertEqual((worker["path_bytes"], worker["mapped_bytes"], worker["fetched_bytes"]), (2_400_000, 0, 0))

    def test_a_job_that_waits_and_one_that_failed_say_so_first(self):
        job = self.cluster.submit("noop", "n=5")
        wait_for("the reason", lambda: self.tokens(job)[0] == "NO_WORKER")
        self.assertIn("tandem worker start", self.cluster.tandem("job", "explain", str(job))[0])
        self.cluster.start_worker("w0")
        self.cluster.tandem("job", "wait", str(job))
        waits = {w["reason"]: w["seconds"] for w in self.explain(job)["account"]["waits"]}
        self.assertGreater(waits["NO_WORKER"], 0)
        code, _, err = self.cluster.run("job", "explain", "999")
        self.assertEqual(code, 3, err)
        self.assertIn("(JOB_NOT_FOUND)", err)

    def test_workers_explain_themselves_and_top_shows_their_rates(self):
        self.cluster.start_worker("w0")
        self.cluster.wait_attached(1)
        said = json.loads(self.cluster.tandem("worker", "explain", "w0", "-o", "json")[0])
        self.assertEqual(said["findings"][0]["token"], "NO_WORK")
        job = self.cluster.submit("monte_carlo_pi", "n=100000000000")
        wait_for("the job to run", lambda: self.cluster.job(job)["leases"] > 0)
        wait_for("a rate", lambda: json.loads(
            self.cluster.tandem("worker", "explain", "w0", "-o", "json")[0])["worker"]["rates"])
        said = json.loads(self.cluster.tandem("worker", "explain", "w0", "-o", "json")[0])
        self.assertEqual(said["findings"][0]["token"], "WORKING")
        self.assertEqual([j["job"] for j in said["jobs"]], [job])
        self.assertIn("learned rates", self.cluster.tandem("worker", "explain", "w0")[0])

        def busy():
            """A piece counts when it has ended: not every look sees one."""
            row = self.top("--every", "300ms")
            return row if row["tasks_per_second"] > 0 and row["busy_ratio"] > 0 else None
        row = wait_for("tasks to be done", busy)
        self.assertEqual((row["name"], row["state"], row["jobs"]), ("w0", "ATTACHED", [job]))
        out = self.cluster.tandem("worker", "top", "--once", "--every", "200ms")[0].splitlines()
        self.assertEqual(len(out), 2)
        self.assertIn("TASKS/S", out[0])
        self.assertNotIn("\x1b", "".join(out))
        self.cluster.tandem("job", "cancel", str(job))

    def top(self, *flags):
        return json.loads(self.cluster.tandem("worker", "top", "--once", "-o", "json", *flags)[0])["items"][0]

    def test_jobs_are_listed_by_kernel_owner_label_and_time_in_pages(self):
        jobs = [self.cluster.submit("noop", "n=1", "--label", f"n={i % 2}") for i in range(5)]
        pi = self.cluster.submit("monte_carlo_pi", "n=10")

        def listed(*flags):
            return [item["id"] for item in json.loads(
                self.cluster.tandem("job", "ls", "-o", "json", *flags)[0])["items"]]
        self.assertEqual(listed("--kernel", "noop"), jobs[::-1])
        self.assertEqual(listed("--kernel", "monte_carlo_pi", "--state", "PENDING"), [pi])
        self.assertEqual(listed("--label", "n=1"), [jobs[3], jobs[1]])
        self.assertEqual(listed("--since", "1h"), [pi, *jobs[::-1]])
        self.assertEqual(listed("--owner", "somebody-else"), [])
        out, err = self.cluster.tandem("job", "ls", "--limit", "4", "-o", "name")
        self.assertEqual(out.split(), [str(j) for j in (pi, jobs[4], jobs[3], jobs[2])])
        token = err.split("--page ")[1].split()[0]
        out, err = self.cluster.tandem("job", "ls", "--limit", "4", "--page", token, "-o", "name")
        self.assertEqual(out.split(), [str(j) for j in (jobs[1], jobs[0])])
        self.assertNotIn("--page", err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
