#!/usr/bin/env python3
"""Drained workers: what runs finishes, nothing new comes, the master's restart forgets nothing of it."""
import json
import sys
import unittest

from processes import Processes, wait_for

BIN = sys.argv.pop(1)


class DrainTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Processes(BIN)
        self.enterContext(self.cluster)
        self.cluster.start_master()

    def worker(self, name):
        return json.loads(self.cluster.tandem("worker", "show", name, "-o", "json")[0])

    def test_a_drained_worker_finishes_what_runs_and_the_other_does_the_rest(self):
        for name in ("w0", "w1"):
            self.cluster.start_worker(name)
        self.cluster.wait_attached(2)
        expected = self.cluster.tandem("run", "monte_carlo_pi", "n=3000000000", "seed=5")[0]
        job = self.cluster.submit("monte_carlo_pi", "n=3000000000", "seed=5")
        wait_for("both to have some of it", lambda: all(self.worker(w)["leases"] > 0 for w in ("w0", "w1")))
        _, err = self.cluster.tandem("worker", "drain", "w0", "--wait")
        self.assertIn("w0 is drained", err)
        drained = self.worker("w0")
        self.assertEqual((drained["state"], drained["drain"], drained["leases"]), ("DRAINED", True, 0))
        self.cluster.tandem("job", "wait", str(job))
        self.assertEqual(self.cluster.tandem("job", "results", str(job))[0], expected)
        self.assertEqual(self.cluster.job(job)["retried_tasks"], 0)
        # It gets nothing of the next job either.
        before = self.worker("w0")["leaves_done"]
        self.cluster.tandem("run", "monte_carlo_pi", "n=100000000")
        self.assertEqual(self.worker("w0")["leaves_done"], before)
        self.assertIn("resume", self.cluster.tandem("worker", "show", "w0")[0])

    def test_a_drain_survives_restarts_and_its_job_says_why_it_waits(self):
        self.cluster.start_worker("w0")
        self.cluster.wait_attached(1)
        self.cluster.tandem("worker", "drain", "w0")
        self.cluster.tandem("worker", "drain", "w0")  # the same again
        self.cluster.kill_master()
        self.cluster.start_master()
        wait_for("the worker to come back", lambda: self.worker("w0")["state"] == "DRAINED")
        job = self.cluster.submit("noop", "n=10")
        wait_for("the reason", lambda: self.cluster.job(job)["wait_reason"] == "DRAINED")
        self.assertIn("DRAINED", self.cluster.tandem("job", "explain", str(job))[0])
        self.assertIn("tandem worker resume", self.cluster.tandem("worker", "explain", "w0")[0])
        # A worker that is stopped and started again is the same one.
        self.cluster.workers["w0"].terminate()
        self.cluster.workers["w0"].wait(timeout=60)
        self.cluster.start_worker("w0")
        wait_for("the worker to come back", lambda: "w0" in self.cluster.tandem("worker", "ls", "-o", "name")[0])
        wait_for("it to be drained", lambda: self.worker("w0")["state"] == "DRAINED")
        self.cluster.tandem("worker", "resume", "w0")
        self.cluster.tandem("job", "wait", str(job))

    def test_a_name_that_nobody_has_is_not_found(self):
        self.cluster.start_worker("w0")
        self.cluster.wait_attached(1)
        for command in ("drain", "resume", "explain", "show"):
            code, _, err = self.cluster.run("worker", command, "w9")
            self.assertEqual(code, 3, err)
            self.assertIn("(WORKER_NOT_FOUND)", err)
            self.assertIn("did you mean w0?", err)

    def test_waiting_for_a_drain_ends_in_time(self):
        self.cluster.start_worker("w0")
        self.cluster.wait_attached(1)
        job = self.cluster.submit("spin", "work=constant(4294967295)", "n=2", "--grain", "1")

        def too_long():
            """What had not started when the drain came goes back at once: then again."""
            code, _, err = self.cluster.run("worker", "drain", "w0", "--wait", "--timeout", "300ms")
            if code == 5:
                return err
            self.cluster.tandem("worker", "resume", "w0")
            wait_for("the job to be given out", lambda: self.worker("w0")["leases"] > 0)
            return None
        self.assertIn("stays drained", wait_for("a task to be running", too_long))
        self.assertEqual(self.worker("w0")["state"], "DRAINING")
        self.cluster.tandem("job", "cancel", str(job))


if __name__ == "__main__":
    unittest.main(verbosity=2)
