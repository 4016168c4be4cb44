#!/usr/bin/env python3
"""Large outputs of a worker on the master's host are handed over, of any other sent: the bytes are the same."""
import hashlib
import json
import os
import sys
import unittest

from processes import Processes, wait_for

BIN = sys.argv.pop(1)

TASKS = 2_000_000  # 8 bytes each
MASK = (1 << 64) - 1


def mixed(i, seed):
    """noop's value[i], written down once more: SplitMix64's finaliser over the i-th state."""
    z = (seed + (i + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


class HandoverTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Processes(BIN)
        self.enterContext(self.cluster)

    def counters(self):
        return json.loads(self.cluster.tandem("master", "status", "-o", "json")[0])["counters"]

    def value(self, name):
        """The result of a job, as a file's bytes."""
        path = self.cluster.path(name + ".raw")
        self.cluster.tandem("run", "noop", "--split", "n", f"n={TASKS}", "seed=5", "--out", f"value=@{path}")
        with open(path, "rb") as file:
            return file.read()

    def told(self, handed_over):
        """Waits until the worker has told of a whole result, pushed in the one way or the other."""
        def told():
            counters = self.counters()
            pushed = counters.get("worker_bytes_pushed_total", 0)
            handed = counters.get("worker_bytes_handed_over_total", 0)
            if not handed_over:
                self.assertEqual(handed, 0)
            return pushed >= TASKS * 8 * 0.99 and (not handed_over or handed >= pushed * 0.9)
        wait_for("the worker's counters", told)

    def check(self, name):
        got = self.value(name)
        self.assertEqual(len(got), TASKS * 8)
        for i in (0, 1, 65535, 1_234_567, TASKS - 1):
            self.assertEqual(int.from_bytes(got[8 * i:8 * i + 8], "little"), mixed(i, 5), i)
        return hashlib.sha256(got).hexdigest()

    def desk(self):
        return os.path.exists(self.cluster.path("master", "handover"))

    def test_both_ways_give_the_same_bytes(self):
        digests = set()
        for way, master, worker in (("over", (), ()), ("sent", (), ("--local-data", "never")),
                                    ("refused", ("--local-data", "never"), ())):
            self.cluster.start_master(*master)
            self.assertEqual(self.desk(), not master)
            self.cluster.start_worker(way, *worker)
            wait_for("the worker", lambda: self.cluster.attached() == [way])
            digests.add(self.check(way))
            self.told(way == "over")
            self.cluster.stop_worker(way)
            self.cluster.master.terminate()
            self.cluster.master.wait()
            self.assertFalse(self.desk())
        self.assertEqual(len(digests), 1)

    def test_a_master_that_comes_back_is_handed_over_to_again(self):
        self.cluster.start_master()
        self.cluster.start_worker("w")
        self.cluster.wait_attached(1)
        before = self.check("before")
        self.cluster.kill_master()
        self.cluster.start_master()
        self.cluster.wait_attached(1)
        self.assertEqual(self.check("after"), before)
        self.told(True)

    def test_a_worker_that_cannot_reach_the_desk_sends(self):
        self.cluster.start_master()
        os.remove(self.cluster.path("master", "handover"))
        self.cluster.start_worker("w")
        self.cluster.wait_attached(1)
        self.check("sent")
        self.told(False)


if __name__ == "__main__":
    unittest.main()
