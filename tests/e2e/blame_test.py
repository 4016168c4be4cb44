#!/usr/bin/env python3
"""Kernels that crash or never return, executors and workers killed in the midst: every task ends, with its reason,
and no other is blamed. Workers load a library of kernels made for that (tests/support/fake_kernels.h)."""
import json
import os
import random
import signal
import sys
import time
import unittest

from processes import Processes, wait_for

BIN = sys.argv.pop(1)
TESTS = os.path.join(BIN, "..", "tests")
FAKE = ("--kernel-path", os.path.join(TESTS, "fake_kernels"))
OTHER = ("--kernel-path", os.path.join(TESTS, "other_fake_kernels"))
ENDS = ("SUCCEEDED", "FAILED", "CANCELLED")


class Cluster(unittest.TestCase):
    def cluster(self, *workers):
        cluster = Processes(BIN)
        self.enterContext(cluster)
        cluster.start_master()
        for i, flags in enumerate(workers):
            cluster.start_worker(f"w{i}", *flags)
        cluster.wait_attached(len(workers))
        return cluster

    def ended(self, cluster, job, doing=lambda: None):
        def end():
            doing()
            state = cluster.job(job)
            return state if state["state"] in ENDS else None
        return wait_for(f"job {job} to end", end)

    def kill_executors(self, cluster):
        for pid in cluster.executors():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


class BlameTest(Cluster):
    def test_a_job_whose_executors_are_killed_again_and_again_ends(self):
        cluster = self.cluster(FAKE, FAKE)
        job = cluster.submit("spin", "work=constant(200000)", "n=100000", "--grain", "16")
        wait_for("the job to begin", lambda: cluster.job(job)["leases"] > 0)
        rng = random.Random(7)
        until = time.monotonic() + 12

        def strike():
            if time.monotonic() < until:
                self.kill_executors(cluster)
                time.sleep(0.25 * rng.random())  # fault: when
        state = self.ended(cluster, job, strike)
        # Whatever ran when it was killed may be given up; nothing else is.
        self.assertIn(state["state"], ("SUCCEEDED", "FAILED"), state)
        if state["state"] == "FAILED":
            self.assertRegex(state["reason"], "CRASH_LIMIT|TASK_FAILED")
        cluster.tandem("run", "noop", "n=10")

    def test_a_kernel_that_crashes_in_every_task_fails_its_job_and_harms_no_other(self):
        cluster = self.cluster(FAKE)
        crashing = cluster.submit("die_at", "n=1000000", "at=-1", "--grain", "1", "--crash-limit", "2")
        for _ in range(3):
            cluster.tandem("run", "noop", "n=1000")
        state = self.ended(cluster, crashing)
        self.assertEqual(state["state"], "FAILED")
        self.assertIn("CRASH_LIMIT", state["reason"])

    def test_one_poison_task_fails_alone(self):
        cluster = self.cluster(FAKE)
        job = cluster.submit("die_at", "n=5000", "at=1234", "--grain", "64")
        state = self.ended(cluster, job)
        self.assertEqual((state["state"], state["tasks_done"], state["tasks_failed"]), ("FAILED", 5000, 1), state)
        self.assertRegex(cluster.tandem("job", "failures", str(job))[0], "1234 .*CRASH_LIMIT")

    def test_a_task_that_never_returns_ends_at_its_time_limit(self):
        cluster = self.cluster(FAKE)
        job = cluster.submit("hang_at", "n=2000", "at=77", "--grain", "16", "--time-limit", "300ms")
        state = self.ended(cluster, job)
        self.assertEqual((state["state"], state["tasks_done"], state["tasks_failed"]), ("FAILED", 2000, 1), state)
        self.assertRegex(cluster.tandem("job", "failures", str(job))[0], "77 .*TIME_LIMIT")
        # A limit that is kept changes nothing.
        cluster.tandem("run", "noop", "n=10000", "--time-limit", "10s")

    def test_what_ran_on_a_killed_worker_gets_a_strike(self):
        cluster = self.cluster(FAKE)
        job = cluster.submit("hang_at", "n=1", "at=0", "--crash-limit", "2")
        for _ in range(2):
            wait_for("the task to run", lambda: cluster.executors() and cluster.job(job)["state"] == "RUNNING" and
                     self.running(cluster))
            cluster.kill_worker("w0")
            cluster.start_worker("w0", *FAKE)
        state = self.ended(cluster, job)
        self.assertEqual((state["state"], state["tasks_failed"]), ("FAILED", 1), state)
        self.assertRegex(cluster.tandem("job", "failures", str(job))[0], "0 .*CRASH_LIMIT")

    def running(self, cluster):
        """True when some executor has used a good part of a second: the task that hangs runs."""
        for pid in cluster.executors():
            try:
                with open(f"/proc/{pid}/stat") as file:
                    ticks = file.read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(ticks[11]) + int(ticks[12]) > 30:
                return True
        return False


class BuildsTest(Cluster):
    """Workers with other builds of one kernel, or without it."""

    def waits(self, cluster, job, reason):
        wait_for(reason, lambda: cluster.job(job)["wait_reason"] == reason)

    def test_a_job_keeps_to_the_build_that_it_was_accepted_for(self):
        cluster = self.cluster(FAKE)
        job = cluster.submit("die_at", "n=1000000", "at=-2", "--grain", "1")
        cluster.kill_worker("w0")
        cluster.start_worker("other", *OTHER)
        wait_for("the other worker", lambda: "other" in cluster.attached())
        if cluster.job(job)["state"] not in ENDS:
            self.waits(cluster, job, "NO_KERNEL")
        cluster.start_worker("w0", *FAKE)
        self.assertEqual(self.ended(cluster, job)["state"], "SUCCEEDED")

    def builds(self, cluster):
        """(What stands in the table, all listed) of die_at."""
        listed = json.loads(cluster.tandem("kernel", "ls", "-o", "json")[0])["items"]
        table = [line.split()[0] for line in cluster.tandem("kernel", "ls")[0].splitlines()]
        return ([name for name in table if name.split("@")[0] == "die_at"],
                [kernel for kernel in listed if kernel["name"] == "die_at"])

    def test_a_bare_name_means_the_build_that_workers_have(self):
        cluster = self.cluster(FAKE)
        identities, waiting = [], None
        for round, flags in enumerate((FAKE, OTHER, FAKE, OTHER)):
            if round > 0:  # as docs/kernels.md says: stop the worker, start it with the other library
                waiting = cluster.submit("die_at", "n=1000000", "at=-2", "--grain", "1")
                cluster.kill_worker("w0")
                wait_for("the worker to be missed", lambda: not cluster.attached())
                cluster.start_worker("w0", *flags)
                wait_for("the worker", lambda: cluster.attached() == ["w0"])
            cluster.tandem("run", "die_at", "n=10", "at=-2", "--out", "y=-")
            name, listed = self.builds(cluster)
            current = [kernel for kernel in listed if kernel["current"]]
            self.assertEqual([kernel["workers"] for kernel in current], [1], listed)
            self.assertEqual(len(set(name)), len(listed), name)
            self.assertEqual(name.count("die_at"), 1, name)
            identities.append(current[0]["identity"])
            shown = json.loads(cluster.tandem("kernel", "show", "die_at", "-o", "json")[0])
            self.assertIn(identities[-1], json.dumps(shown))
            if waiting is not None and cluster.job(waiting)["state"] not in ENDS:
                self.waits(cluster, waiting, "NO_KERNEL")
                # Why it waits, and what there is instead.
                self.assertIn(identities[-1], cluster.tandem("job", "show", str(waiting))[0])
                self.assertIn(identities[-1], cluster.tandem("job", "explain", str(waiting))[0])
                cluster.tandem("job", "cancel", str(waiting))
        self.assertEqual(identities[:2], identities[2:])
        self.assertNotEqual(identities[0], identities[1])
        # The other one is still to be had, by its identity, where a worker has it.
        cluster.start_worker("w1", *FAKE)
        wait_for("both", lambda: len(cluster.attached()) == 2)
        for identity in identities[:2]:
            cluster.tandem("run", identity, "n=10", "at=-2", "--out", "y=-")

    def test_without_a_worker_that_has_the_kernel_a_job_waits_and_says_so(self):
        cluster = self.cluster(FAKE)
        cluster.kill_worker("w0")
        wait_for("the worker to be missed", lambda: not cluster.attached())
        job = cluster.submit("die_at", "n=10", "at=-2")
        self.waits(cluster, job, "NO_WORKER")
        cluster.start_worker("plain")
        self.waits(cluster, job, "NO_KERNEL")
        cluster.start_worker("w0", *FAKE)
        self.assertEqual(self.ended(cluster, job)["state"], "SUCCEEDED")


if __name__ == "__main__":
    unittest.main(verbosity=2)
