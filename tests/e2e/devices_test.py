#!/usr/bin/env python3
"""A CPU and emulated devices on one job: who may run it, the same bytes from each, and what is said of it."""
import glob
import json
import re
import unittest

from cluster_case import BIN, ClusterCase
from processes import Processes, read_npy, wait_for

OPTIONS = ("black_scholes", "spot=uniform(seed=1,lo=50,hi=150)", "strike=uniform(seed=2,lo=50,hi=150)",
           "years=uniform(seed=3,lo=0,hi=2)", "rate=0.02", "volatility=0.3", "n=400000")


# Of the threads that run bodies, or host stages of grids: see nice(2).
def nice_by_device(cluster):
    found = {}
    for pid in cluster.executors():
        with open(f"/proc/{pid}/cmdline") as file:
            device = re.search(r"--device=(\w+)", file.read()).group(1)
        for stat in glob.glob(f"/proc/{pid}/task/*/stat"):
            with open(stat) as file:
                name, rest = re.match(r"\d+ \((.*)\) (.*)", file.read()).groups()
            if name == "tandem-core":
                found.setdefault(device, set()).add(int(rest.split()[16]))
    return found


class DevicesTest(ClusterCase):
    WORKER_FLAGS = ("--emulated-gpus", "2")

    def run_on(self, device, *args):
        job = self.cluster.submit(*args, "--device", device)
        self.cluster.tandem("job", "wait", str(job))
        return job

    def results(self, job, output):
        path = self.path(f"{job}-{output}.npy")
        self.cluster.tandem("job", "results", str(job), "--out", f"{output}=@{path}")
        with open(path, "rb") as file:
            return file.read()

    # Tasks by kind of device, as explain says them.
    def shares(self, job, cluster=None):
        text = (cluster or self.cluster).tandem("job", "explain", str(job))[0]
        found = re.search(r"tasks \[0,\d+\): ([^;\n]*)", text)
        shares = re.findall(r"(\w+) ([\d,]+) in ", found.group(1)) if found else []
        return {kind: int(tasks.replace(",", "")) for kind, tasks in shares}, text

    def test_emulated_devices_are_shown_and_never_called_a_gpu(self):
        worker = json.loads(self.cluster.tandem("worker", "show", "w", "-o", "json")[0])
        self.assertEqual([device["kind"] for device in worker["devices"]], ["cpu", "emulated", "emulated"])
        self.assertEqual([device["uuid"] for device in worker["devices"][1:]], ["EMULATED-0", "EMULATED-1"])
        self.assertNotIn("gpu", self.cluster.tandem("worker", "show", "w")[0].lower())

    def test_all_devices_give_the_same_bytes(self):
        jobs = [self.run_on(device, *OPTIONS) for device in ("cpu", "gpu", "auto")]
        for output in ("call", "put"):
            cpu, gpu, auto = [self.results(job, output) for job in jobs]
            self.assertEqual(cpu, gpu)
            self.assertEqual(cpu, auto)

    def test_a_job_runs_where_it_was_asked_to_and_explain_says_where(self):
        shares, text = self.shares(self.run_on("gpu", *OPTIONS))
        self.assertEqual(shares, {"emulated": 400_000})
        self.assertRegex(text, "emulated (is bound by|had nothing to run for)")
        self.assertNotIn("gpu", text.lower())
        shares, _ = self.shares(self.run_on("cpu", *OPTIONS))
        self.assertEqual(shares, {})

    def test_both_kinds_share_a_long_job_and_every_task_is_counted_once(self):
        pi = ("monte_carlo_pi", "n=2000000000", "seed=7")
        shares, text = self.shares(self.run_on("auto", *pi))
        self.assertEqual(set(shares), {"emulated", "cpu"}, text)
        self.assertEqual(sum(shares.values()), 2_000_000_000)

    def test_bodies_on_cores_give_way_to_what_devices_wait_for_and_only_where_there_are_devices(self):
        self.run_on("cpu", *OPTIONS)
        self.run_on("gpu", *OPTIONS)
        self.assertEqual(nice_by_device(self.cluster), {"cpu": {10}, "emulated": {0}})
        with Processes(BIN) as cluster:
            cluster.start_master()
            cluster.start_worker("plain")
            cluster.wait_attached(1)
            cluster.tandem("run", *OPTIONS)
            self.assertEqual(nice_by_device(cluster), {"cpu": {0}})

    LEASE = {"worker", "name", "lease", "leases", "granted", "kept", "tasks", "ended_seconds", "devices"}
    SHARE = {"device", "name", "tasks", "pieces", "begin_seconds", "end_seconds", "host_seconds", "up_seconds",
             "grid_seconds", "down_seconds", "bound_by"}

    # What explain knows of a job's leases; each task of them is in one place.
    def leases(self, job):
        leases = json.loads(self.cluster.tandem("job", "explain", str(job), "-o", "json")[0])["leases"]
        seen = set()
        for lease in leases:
            self.assertLessEqual(self.LEASE, set(lease))
            self.assertEqual(lease["name"], "w")
            self.assertEqual(sum(end - begin for begin, end in lease["kept"]), lease["tasks"], lease)
            self.assertEqual(sum(share["tasks"] for share in lease["devices"]), lease["tasks"], lease)
            for begin, end in lease["kept"]:
                self.assertLessEqual(lease["granted"][0], begin, lease)
                self.assertLessEqual(end, lease["granted"][1], lease)
                self.assertFalse(any(begin < b_end and b_begin < end for b_begin, b_end in seen), (lease, seen))
                seen.add((begin, end))
            for share in lease["devices"]:
                self.assertLessEqual(self.SHARE, set(share))
                self.assertLess(share["begin_seconds"], share["end_seconds"])
                stages = {"cpu"} if share["device"] == "cpu" else {"copy up", "grid", "copy down", "host stages"}
                self.assertIn(share["bound_by"], stages, share)
        return leases

    def test_explain_says_how_leases_were_shared_out(self):
        job = self.run_on("auto", "monte_carlo_pi", "n=2000000000", "seed=8")
        leases = self.leases(job)
        both = [lease for lease in leases if {share["device"] for share in lease["devices"]} == {"cpu", "emulated"}]
        self.assertTrue(both, leases)
        names = {share["name"] for lease in leases for share in lease["devices"]}
        self.assertLessEqual(names, {"cpu", "emulated:EMULATED-0", "emulated:EMULATED-1"})
        text = self.cluster.tandem("job", "explain", str(job))[0]
        self.assertRegex(text, r"LEASE  tasks \[.* at w: emulated .* in .*, cpu [\d,]+ in .*; emulated is bound by")
        self.assertNotIn("gpu", text.lower())
        job = self.run_on("gpu", *OPTIONS)
        self.assertEqual({share["device"] for lease in self.leases(job) for share in lease["devices"]}, {"emulated"})
        self.assertIn(" alone, ", self.cluster.tandem("job", "explain", str(job))[0])

    def test_a_job_for_a_gpu_waits_where_there_is_none_and_says_why(self):
        with Processes(BIN) as cluster:
            cluster.start_master()
            cluster.start_worker("plain")
            cluster.wait_attached(1)
            job = cluster.submit("noop", "n=100", "--device", "gpu")
            wait_for("the reason", lambda: cluster.job(job)["wait_reason"] == "RESOURCES")
            self.assertIn("--device auto", cluster.tandem("job", "explain", str(job))[0])
            # It runs as soon as somebody can.
            cluster.start_worker("able", "--emulated-gpus", "1")
            cluster.tandem("job", "wait", str(job))
            self.assertEqual(cluster.job(job)["state"], "SUCCEEDED")

    def test_one_slow_device_and_one_that_dies_half_way_share_a_job_with_the_cpu_and_nothing_is_lost(self):
        n, most = 40_000, 50_000
        with Processes(BIN) as cluster:
            cluster.start_master()
            cluster.environment["TANDEM_EMULATED"] = "EMULATED-0;faults=slow@3:40 EMULATED-1;faults=lost@4"
            cluster.start_worker("w", "--emulated-gpus", "2")
            cluster.wait_attached(1)
            words = ("spin", f"work=uniform(seed=4,lo=0,hi={most})", f"n={n}", "seed=9", "--grain", "16")
            values, jobs = [], []
            for device in ("cpu", "auto"):
                jobs.append(cluster.submit(*words, "--device", device, "--crash-limit", "1"))
                cluster.tandem("job", "wait", str(jobs[-1]))
                path = cluster.path(f"{device}.npy")
                cluster.tandem("job", "results", str(jobs[-1]), "--out", f"value=@{path}")
                values.append(read_npy(path)[1])
            self.assertEqual(len(set(values[0])), n)
            self.assertEqual(values[0], values[1])
            job = cluster.job(jobs[-1])
            self.assertEqual((job["state"], job["tasks_failed"]), ("SUCCEEDED", 0))
            shares, text = self.shares(jobs[-1], cluster)
            self.assertEqual(set(shares), {"emulated", "cpu"}, text)
            self.assertEqual(sum(shares.values()), n, text)
            self.assertIn("EMULATED-1 gets no work: it is gone", cluster.tandem("worker", "explain", "w")[0])

    def test_a_device_that_is_lost_is_out_of_service_and_no_task_is_blamed(self):
        with Processes(BIN) as cluster:
            cluster.start_master()
            cluster.environment["TANDEM_EMULATED"] = "EMULATED-0;faults=lost@3"
            cluster.start_worker("w", "--emulated-gpus", "2")
            cluster.wait_attached(1)
            for device in ("auto", "gpu"):
                job = cluster.submit("spin", "work=constant(1000)", "n=400000", "--device", device, "--crash-limit", "1")
                cluster.tandem("job", "wait", str(job))
                self.assertEqual(cluster.job(job)["state"], "SUCCEEDED")
            self.assertEqual(cluster.job(job)["tasks_failed"], 0)
        with Processes(BIN) as cluster:
            cluster.start_master()
            cluster.environment["TANDEM_EMULATED"] = "faults=lost@1"
            cluster.start_worker("w", "--emulated-gpus", "1")
            cluster.wait_attached(1)
            job = cluster.submit("noop", "n=1000", "--device", "gpu", "--crash-limit", "1")
            wait_for("the reason", lambda: cluster.job(job)["wait_reason"] in ("RESOURCES", "UNSATISFIABLE"))
            self.assertIn("is gone", cluster.tandem("worker", "explain", "w")[0])
            self.assertEqual(cluster.job(job)["tasks_failed"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
