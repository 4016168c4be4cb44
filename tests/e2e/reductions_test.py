#!/usr/bin/env python3
"""What depends on an order or an implementation: a kernel's own merge, and reproducible jobs of class tolerant."""
import os
import random
import sys
import unittest

from processes import Processes, read_npy, write_npy

BIN = sys.argv.pop(1)
LOOSE = os.path.join(os.path.dirname(BIN), "tests", "kernels", "loose.so")
PROBES = os.path.join(os.path.dirname(BIN), "tests", "kernels", "tandem_sdk_probes.so")


class OwnMergeTest(unittest.TestCase):
    """`insertion_sort` of the SDK's probes: sorted runs that its own Merge joins."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Processes(BIN)
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.__exit__, None, None, None)
        cls.cluster.start_master()
        for name in ("v", "w"):
            cls.cluster.start_worker(name, "--kernel-path", PROBES)
        cls.cluster.wait_attached(2)

    def keys(self, tasks, seed):
        drawn = random.Random(seed)
        return [drawn.randrange(-2**31, 2**31) for _ in range(tasks)]

    def sorted_by_tandem(self, keys, *flags):
        given, out = self.cluster.path("key.npy"), self.cluster.path("sorted.npy")
        write_npy(given, "<i4", (len(keys),), keys)
        self.cluster.tandem("run", "insertion_sort", f"key=@{given}", "--force", "--out", f"sorted=@{out}", *flags)
        shape, values = read_npy(out)
        self.assertEqual(shape, (len(keys),))
        return list(values)

    def test_every_cut_over_two_workers_gives_the_sorted_keys(self):
        keys = self.keys(20_000, 1)
        for grain, leaves in ((1, 16), (7, 1), (64, 3), (64, 1000), (4096, 1), (20_000, 1)):
            with self.subTest(grain=grain, leaves=leaves):
                values = self.sorted_by_tandem(keys, "--grain", str(grain), "--max-lease", str(leaves))
                self.assertEqual(values, sorted(keys))

    def test_a_partial_that_is_larger_than_a_report_is_merged_across_workers(self):
        keys = self.keys(300_000, 2)
        self.assertEqual(self.sorted_by_tandem(keys, "--grain", "512", "--max-lease", "8"), sorted(keys))

    def test_a_job_of_no_task_and_of_one(self):
        self.assertEqual(self.sorted_by_tandem([]), [])
        self.assertEqual(self.sorted_by_tandem([-5]), [-5])

    def test_the_result_is_read_later_and_whole(self):
        keys = self.keys(1000, 3)
        given, out = self.cluster.path("key.npy"), self.cluster.path("later.npy")
        write_npy(given, "<i4", (len(keys),), keys)
        job = str(self.cluster.submit("insertion_sort", f"key=@{given}", "--grain", "10"))
        self.cluster.tandem("job", "wait", job)
        self.cluster.tandem("job", "results", job, "--out", f"sorted=@{out}")
        self.assertEqual(list(read_npy(out)[1]), sorted(keys))
        code, _, err = self.cluster.run("job", "results", job, "--tasks", "0-9", "--force", "--out", f"sorted=@{out}")
        self.assertEqual(code, 2, err)
        self.assertIn("is one value of all tasks", err)

    def test_what_no_executor_could_hold_is_refused_at_once(self):
        code, _, err = self.cluster.run("run", "insertion_sort", "key=iota", "n=2000000000")
        self.assertEqual(code, 2, err)
        self.assertIn("(TOO_LARGE)", err)
        self.assertIn("more than 4GiB that a partial may have", err)


class ReproducibleTest(unittest.TestCase):
    def outputs(self, cluster, *flags):
        y, total = cluster.path("y.npy"), cluster.path("total.npy")
        cluster.tandem("run", "loose", "x=uniform(seed=1,lo=-10,hi=30)", "n=100003", "scale=1.1", "shift=-0.3", "--grain", "500", "--force",
                       "--out", f"y=@{y}", "--out", f"total=@{total}", *flags)
        with open(y, "rb") as values, open(total, "rb") as sums:
            return values.read(), sums.read()

    def start(self, cluster, isa):
        cluster.environment["TANDEM_ISA"] = isa
        cluster.start_worker(isa, "--kernel-path", LOOSE)

    def test_tolerant_outputs_are_the_same_bytes_whoever_runs_them_and_however_they_are_cut(self):
        with open("/proc/cpuinfo") as file:
            flags = set(file.read().split())
        if "fma" not in flags:
            self.skipTest("needs a machine with x86-64-v3")
        best = "v4" if {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= flags else "v3"
        with Processes(BIN) as cluster:
            cluster.start_master()
            self.start(cluster, "v2")
            cluster.wait_attached(1)
            expected = self.outputs(cluster)
            self.start(cluster, best)
            cluster.wait_attached(2)
            for leaves in ("1", "7", "1000"):
                self.assertEqual(self.outputs(cluster, "--reproducible", "--max-lease", leaves), expected)
            cluster.workers["v2"].kill()
            cluster.workers["v2"].wait()
            self.assertEqual(self.outputs(cluster, "--reproducible"), expected)
            loose = self.outputs(cluster)
            self.assertNotEqual(loose[0], expected[0], "contraction shows, or this test shows nothing")
            self.assertNotEqual(loose[1], expected[1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
