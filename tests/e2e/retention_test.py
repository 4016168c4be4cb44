#!/usr/bin/env python3
"""Results that are kept for a while: they go when their time is over, when there are too many, or when their owner says
so, and so do their bytes, while the master runs; whoever asks for them afterwards is told."""
import json
import os
import sys
import unittest

from processes import Processes, read_npy, wait_for

BIN = sys.argv.pop(1)
LARGE = ("noop", "n=2000000")  # 16 MB of outputs


class RetentionTest(unittest.TestCase):
    def cluster(self, *flags):
        cluster = Processes(BIN)
        self.enterContext(cluster)
        cluster.start_master("--free-after", "200ms", *flags)
        cluster.start_worker("w")
        cluster.wait_attached(1)
        return cluster

    def run_job(self, cluster, *args):
        job = cluster.submit(*args)
        cluster.tandem("job", "wait", str(job))
        return job

    @staticmethod
    def segment_bytes(cluster):
        blocks = 0
        with os.scandir(cluster.path("master", "segments")) as folder:
            for file in folder:
                try:
                    blocks += file.stat().st_blocks
                except FileNotFoundError:  # It has just been deleted.
                    pass
        return blocks * 512

    def deleted(self, cluster, job):
        code, out, err = cluster.run("job", "results", str(job), "--force", "--out",
                                     "value=@" + cluster.path(f"{job}.npy"))
        return (code, out) == (3, "") and "(JOB_DELETED)" in err

    def test_results_go_after_the_retention_and_their_bytes_with_them(self):
        cluster = self.cluster("--retention", "4s")
        job = self.run_job(cluster, *LARGE)
        self.assertGreater(self.segment_bytes(cluster), 15_000_000)
        wait_for("the results to go", lambda: self.deleted(cluster, job))
        wait_for("their bytes to go", lambda: self.segment_bytes(cluster) < 1_000_000)
        code, out, err = cluster.run("job", "results", str(job))
        self.assertEqual((code, out), (3, ""), err)
        self.assertIn("(JOB_DELETED)", err)
        # Its history stays, and the cluster works.
        self.assertEqual(cluster.job(job)["state"], "SUCCEEDED")
        path = cluster.path("new.npy")
        cluster.tandem("run", *LARGE, "seed=5", "--out", f"value=@{path}")
        self.assertEqual(len(read_npy(path)[1]), 2_000_000)

    def test_the_oldest_go_when_there_are_too_many_and_the_others_stay(self):
        cluster = self.cluster("--keep-jobs", "2")
        jobs = [self.run_job(cluster, "noop", "n=1000", f"seed={seed}") for seed in range(4)]
        wait_for("the oldest to go", lambda: self.deleted(cluster, jobs[0]) and self.deleted(cluster, jobs[1]))
        for job in jobs[2:]:
            path = cluster.path(f"kept-{job}.npy")
            cluster.tandem("job", "results", str(job), "--out", f"value=@{path}")
            self.assertEqual(len(read_npy(path)[1]), 1000)
        # A restart knows no more than that.
        cluster.kill_master()
        cluster.start_master("--keep-jobs", "2")
        self.assertTrue(self.deleted(cluster, jobs[0]))
        cluster.tandem("job", "results", str(jobs[3]))

    def test_their_owner_deletes_them(self):
        cluster = self.cluster()
        job = self.run_job(cluster, *LARGE)
        kept = self.run_job(cluster, "noop", "n=10")  # inline: in no segment that it would keep
        running = cluster.submit("monte_carlo_pi", f"n={10 ** 14}")
        self.assertGreater(self.segment_bytes(cluster), 15_000_000)
        code, out, err = cluster.run("job", "rm", f"{job},{running}")
        self.assertEqual((code, out), (5, ""), err)
        self.assertIn(f"tandem job cancel {running}", err)
        self.assertIn("(RESULT_NOT_READY)", err)
        self.assertIn(f"job {job}: its results are deleted\n", err)
        self.assertTrue(self.deleted(cluster, job))
        wait_for("their bytes to go", lambda: self.segment_bytes(cluster) < 1_000_000)
        # Again: as before, and so it is after a crash of the master.
        shown = json.loads(cluster.tandem("job", "rm", str(job), "-o", "json")[0])
        self.assertEqual((shown["kind"], shown["id"], shown["state"]), ("job", job, "SUCCEEDED"))
        cluster.kill_master()
        cluster.start_master()
        self.assertTrue(self.deleted(cluster, job))
        shown = json.loads(cluster.tandem("job", "rm", f"{job}-{kept}", "-o", "json")[0])
        self.assertEqual((shown["kind"], [each["id"] for each in shown["items"]]), ("jobs", [job, kept]))
        self.assertTrue(self.deleted(cluster, kept))
        self.assertEqual(cluster.job(running)["state"], "RUNNING")
        self.assertEqual(cluster.run("job", "rm", "999")[0], 3)
        self.assertIn("  tandem job rm 7\n", cluster.tandem("job", "rm", "--help")[0])
        self.assertIn("rm\n", cluster.tandem("complete", "job", "r")[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
