#!/usr/bin/env python3
"""Disks that are full or broken: nothing is lost, whoever waits is told why, and work goes on by itself when there is
room. The faults come from a library that is preloaded (tests/support/fault_shim.cc)."""
import json
import os
import sys
import time
import unittest

from processes import Processes, read_npy, wait_for

BIN = sys.argv.pop(1)
SHIM = os.path.abspath(os.path.join(BIN, "..", "tests", "fault_shim.so"))


class DiskTest(unittest.TestCase):
    def cluster(self):
        cluster = Processes(BIN)
        self.enterContext(cluster)
        self.cluster_ = cluster
        return cluster

    def faulty(self, directory):
        """What is started from now on has a disk that fail() rules, as far as `directory` goes."""
        self.cluster_.environment = {"LD_PRELOAD": SHIM, "TANDEM_FAULT_DIR": directory,
                                     "TANDEM_FAULT_FILE": self.cluster_.path("fault")}

    def fail(self, how):
        with open(self.cluster_.path("fault.new"), "w") as file:
            file.write(how)
        os.rename(self.cluster_.path("fault.new"), self.cluster_.path("fault"))

    def test_a_master_whose_disk_is_full_refuses_what_is_new_and_goes_on_by_itself(self):
        cluster = self.cluster()
        self.faulty(cluster.path("master"))
        cluster.start_master()
        cluster.environment = {}
        cluster.start_worker("w")
        cluster.wait_attached(1)
        work = ("spin", "work=uniform(seed=3,lo=1000,hi=20000)", "n=400000", "--grain", "64", "--max-lease", "1")
        first = cluster.submit(*work)
        cluster.tandem("job", "wait", str(first))
        job = cluster.submit(*work)
        wait_for("the job to begin", lambda: cluster.job(job)["leases"] > 0)
        self.fail("ENOSPC")
        wait_for("the disk to be found full",
                 lambda: cluster.counters().get("journal_full_retries_total", 0) > 0)
        code, out, err = cluster.run("submit", "noop", "n=1")
        self.assertEqual((code, out), (6, ""), err)
        self.assertIn("(JOURNAL_FULL)", err)
        self.assertEqual(cluster.run("job", "cancel", str(job))[0], 6)
        # Reading goes on, and who waits is told why.
        state = cluster.job(job)
        self.assertIn("JOURNAL_FULL", state["reason"], state)
        self.assertEqual(cluster.job(first)["state"], "SUCCEEDED")
        done = state["tasks_done"]
        self.assertEqual(cluster.attached(), ["w"], "leases live on")
        self.fail("")
        cluster.tandem("job", "wait", str(job))
        self.assertGreaterEqual(cluster.job(job)["tasks_done"], done)
        self.assertEqual(cluster.counters()["lost_workers_total"], 0)
        values = []
        for number in (first, job):
            path = cluster.path(f"{number}.npy")
            cluster.tandem("job", "results", str(number), "--out", f"value=@{path}")
            values.append(read_npy(path))
        self.assertEqual(values[0], values[1])
        cluster.tandem("run", "noop", "n=10")

    def test_a_master_whose_disk_fails_stops_with_74_and_its_successor_has_what_was_promised(self):
        cluster = self.cluster()
        self.faulty(cluster.path("master"))
        cluster.start_master()
        done = cluster.submit("noop", "n=0")
        cluster.tandem("job", "wait", str(done))
        self.fail("EIO")
        code, out, err = cluster.run("submit", "noop", "n=5")
        self.assertNotEqual(code, 0, out + err)
        self.assertEqual(cluster.master.wait(timeout=60), 74)
        self.fail("")
        cluster.start_master()
        self.assertEqual(cluster.job(done)["state"], "SUCCEEDED")
        listed = cluster.tandem("job", "ls", "-o", "name")[0].split()
        self.assertEqual(len(listed), 1, "no job without its OK")

    def test_less_room_than_the_reserve_is_no_room_for_jobs(self):
        cluster = self.cluster()
        cluster.start_master("--disk-reserve", "1000TiB")
        code, _, err = cluster.run("submit", "noop", "n=1")
        self.assertEqual(code, 6, err)
        self.assertIn("(JOURNAL_FULL)", err)

    def test_results_that_do_not_fit_are_refused_before_they_fill_the_disk(self):
        cluster = self.cluster()
        cluster.start_master()
        large = ("saxpy", "scale=2", "x=constant(3)", "y=constant(3)", f"n={10 ** 15}")
        for words in (("run", *large), ("submit", *large), ("run", *large, "--dry-run"),
                      ("submit", *large, "--request-id", "mine")):
            code, out, err = cluster.run(*words)
            self.assertEqual((code, out), (6, ""), err)
            self.assertRegex(err, r"would take 3\.55PiB, and the master's disk has room for \S+: .*tandem data du.*"
                                  r"\(DISK_FULL\)\n$")
        self.assertEqual(cluster.tandem("job", "ls", "-o", "name")[0], "")
        # A reduction takes no room, however many tasks it is of.
        cluster.submit("monte_carlo_pi", f"n={10 ** 15}")

    def test_a_worker_whose_folder_is_full_takes_the_job_when_there_is_room(self):
        cluster = self.cluster()
        cluster.start_master("--local-data", "never")
        self.faulty(cluster.path("w", "owners"))
        cluster.start_worker("w", "--local-data", "never")
        cluster.wait_attached(1)
        path = cluster.path("values.raw")
        with open(path, "wb") as file:
            file.write(os.urandom(4 << 20))
        self.fail("ENOSPC")
        job = cluster.submit("histogram", f"value=@{path}")
        wait_for("the job to say why it waits", lambda: "DISK_FULL" in cluster.job(job)["reason"])
        self.assertEqual(cluster.job(job)["wait_reason"], "UNSATISFIABLE")
        self.fail("")
        cluster.tandem("job", "wait", str(job))


if __name__ == "__main__":
    unittest.main(verbosity=2)
