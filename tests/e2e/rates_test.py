#!/usr/bin/env python3
"""Jobs of one kernel whose tasks cost what their data makes them cost: a dear one after a cheap one keeps nobody waiting."""
import json
import os
import sys
import unittest

from processes import Processes, wait_for

BIN = sys.argv.pop(1)

# Two minutes of work for this machine: whatever runs beside it ends while most of it is still to do.
TASKS = 500_000 * os.cpu_count()
SOON = TASKS / 8
DEAR = ("spin", "work=constant(200000)", f"n={TASKS}")


class RatesTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Processes(BIN)
        self.enterContext(self.cluster)
        self.cluster.start_master()
        self.cluster.start_worker("w0")
        self.cluster.wait_attached(1)
        # From now on the kernel is known to be cheap.
        self.cluster.tandem("run", "spin", "work=constant(1)", "n=2000000", "--out", f"value=@{self.cluster.path('v.npy')}")

    def worker(self, name):
        return json.loads(self.cluster.tandem("worker", "show", name, "-o", "json")[0])

    def test_an_urgent_job_ends_while_the_dear_one_runs(self):
        dear = self.cluster.submit(*DEAR)
        wait_for("it to run", lambda: self.cluster.job(dear)["state"] == "RUNNING")
        for _ in range(2):
            self.cluster.tandem("run", "noop", "n=1", "--priority", "5")
            self.assertLess(self.cluster.job(dear)["tasks_done"], SOON)
            wait_for("something of it to be done", lambda: self.cluster.job(dear)["tasks_done"] > 0)
        self.cluster.tandem("job", "cancel", str(dear))

    def test_a_worker_that_comes_late_takes_part(self):
        dear = self.cluster.submit(*DEAR)
        wait_for("something of it to be done", lambda: self.cluster.job(dear)["tasks_done"] > 0)
        self.cluster.start_worker("w1")
        self.cluster.wait_attached(2)
        wait_for("the new worker to have done some of it", lambda: self.worker("w1")["leaves_done"] > 0)
        self.assertLess(self.cluster.job(dear)["tasks_done"], SOON)
        self.cluster.tandem("job", "cancel", str(dear))


if __name__ == "__main__":
    unittest.main(verbosity=2)
