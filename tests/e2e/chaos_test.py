#!/usr/bin/env python3
"""Random kills of master, workers and executors while jobs of every kind run; every result is exact.

The seed is printed; TANDEM_CHAOS_SEED and TANDEM_CHAOS_KILLS set it and how long it goes on."""
import os
import random
import signal
import sys
import time
import unittest

from processes import Processes, read_npy, wait_for

BIN = sys.argv.pop(1)
SEED = int(os.environ.get("TANDEM_CHAOS_SEED", 1))
KILLS = int(os.environ.get("TANDEM_CHAOS_KILLS", 12))

# A map with large outputs, one with one-task leases, exact sums small and large, float sums in order.
JOBS = (
    ("noop", "value", ("n=3000000", "seed={seed}")),
    ("noop", "value", ("n=60000", "seed={seed}", "--grain", "1", "--max-lease", "1")),
    ("spin", "value", ("work=uniform(seed={seed},lo=1000,hi=20000)", "n=30000", "--grain", "64")),
    ("monte_carlo_pi", "hits", ("n=1500000000", "seed={seed}")),
    ("histogram", "count", ("value=uniform(seed={seed})", "n=50000000")),
    ("gradient", "grad", ("x=uniform(seed={seed})", "label=constant(1)", "w=uniform(seed=2)", "n=200000", "d=16",
                          "--grain", "512")),
)


class ChaosTest(unittest.TestCase):
    def setUp(self):
        self.random = random.Random(SEED)
        print("seed", SEED, flush=True)

    def result(self, cluster, job, output):
        path = cluster.path(f"{job}.npy")
        cluster.tandem("job", "results", str(job), "--out", f"{output}=@{path}", "--force")
        shape, values = read_npy(path)
        return shape, hash(values)

    def strike(self, cluster):
        """Kills something; returns how to bring it back."""
        kind = self.random.choice(("master", "worker", "executor"))
        if kind == "master":
            cluster.kill_master()
            time.sleep(self.random.random())  # fault: how long it is away
            cluster.start_master()
        elif kind == "worker":
            name = self.random.choice(sorted(cluster.workers))
            cluster.kill_worker(name)
            time.sleep(self.random.random())  # fault: how long it is away
            cluster.start_worker(name)
        else:
            for pid in cluster.executors()[:1]:
                os.kill(pid, signal.SIGKILL)
        return kind

    def test_results_are_exact_whatever_dies(self):
        with Processes(BIN) as cluster:
            cluster.start_master()
            for name in ("a", "b"):
                cluster.start_worker(name)
            cluster.wait_attached(2)
            expected = {}
            for seed in (1, 2):
                for number, (kernel, output, args) in enumerate(JOBS):
                    job = cluster.submit(kernel, *(a.format(seed=seed) for a in args))
                    cluster.tandem("job", "wait", str(job))
                    expected[seed, number] = self.result(cluster, job, output)
            kills = 0
            while kills < KILLS:
                running = []
                for number, (kernel, output, args) in enumerate(JOBS):
                    seed = self.random.choice((1, 2))
                    job = cluster.submit(kernel, *(a.format(seed=seed) for a in args), "--crash-limit", "100")
                    running.append((job, seed, number, output))
                for _ in range(3):
                    time.sleep(self.random.random() * 0.7)  # fault: when
                    print(kills, self.strike(cluster), flush=True)
                    kills += 1
                for job, seed, number, output in running:
                    try:
                        state = wait_for(f"job {job}", lambda: self.ended(cluster, job))
                    except AssertionError:
                        for words in (("job", "ls", "-o", "wide"), ("worker", "ls"), ("master", "status"),
                                      ("job", "show", str(job))):
                            print(cluster.tandem(*words)[0], flush=True)
                        raise
                    self.assertEqual((state["state"], state["tasks_done"]), ("SUCCEEDED", state["tasks"]), state)
                    self.assertEqual(self.result(cluster, job, output), expected[seed, number], (job, JOBS[number]))

    @staticmethod
    def ended(cluster, job):
        state = cluster.job(job)
        return state if state["state"] in ("SUCCEEDED", "FAILED", "CANCELLED") else None


if __name__ == "__main__":
    unittest.main(verbosity=2)
