#!/usr/bin/env python3
"""Much at once: many submits from many clients, many workers, large results, two clusters side by side."""
import concurrent.futures
import json
import os
import subprocess
import tempfile
import unittest

import numpy

from cluster_case import BIN, ClusterCase, main
from processes import wait_for
from raw_client import RawClient, temporary_protos

SCALE = float(os.environ.get("TANDEM_LOAD_SCALE", 1))  # more where there is time


class ManySubmitsTest(ClusterCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        protos = temporary_protos(cls)
        cls.types, cls.jobs, cls.data, cls.cluster_pb = (protos[name] for name in ("types", "jobs", "data", "cluster"))

    def noop(self, n, seed):
        spec = self.jobs.JobSpec(kernel="noop", name="many")
        spec.axis_extents["n"] = n
        spec.scalars.add(name="seed", u=seed)
        return spec

    def test_two_thousand_submits_from_many_clients_are_each_one_job(self):
        clients, each = 20, int(100 * SCALE)

        def submit_all(number):
            client = RawClient(self.cluster.address, owner=f"user{number % 4}")
            ids = []
            for at in range(each):
                request = self.jobs.SubmitJobRequest(spec=self.noop(1 + at % 7, at), request_id=f"{number}-{at}")
                first = client.call("Jobs/SubmitJob", request, self.jobs.Job)
                if at % 10 == 0:  # said twice, it is one job
                    again = client.call("Jobs/SubmitJob", request, self.jobs.Job)
                    assert again.id == first.id, (again.id, first.id)
                ids.append((first.id, 1 + at % 7, at))
            client.close()
            return ids
        with concurrent.futures.ThreadPoolExecutor(clients) as pool:
            ids = [job for jobs in pool.map(submit_all, range(clients)) for job in jobs]
        self.assertEqual(len({job for job, _, _ in ids}), clients * each)
        reader = RawClient(self.cluster.address, owner="user0")

        def unfinished():
            request = self.jobs.ListJobsRequest(page_size=1000, all_owners=True, name_prefix="many",
                                                states=[self.jobs.PENDING, self.jobs.RUNNING, self.jobs.MERGING])
            return len(reader.call("Jobs/ListJobs", request, self.jobs.ListJobsResponse).jobs)
        wait_for("all jobs to end", lambda: unfinished() == 0)
        token, seen = "", 0
        while True:
            page = reader.call("Jobs/ListJobs", self.jobs.ListJobsRequest(
                page_size=700, page_token=token, all_owners=True, name_prefix="many"), self.jobs.ListJobsResponse)
            for job in page.jobs:
                self.assertEqual((job.state, job.tasks_done), (self.jobs.SUCCEEDED, job.task_count))
            seen += len(page.jobs)
            token = page.next_page_token
            if not token:
                break
        self.assertEqual(seen, clients * each)
        for job, tasks, _ in ids[::131]:
            owner = RawClient(self.cluster.address, owner=f"user{ids.index((job, tasks, _)) // each % 4}")
            chunks = owner.stream_down("Data/ReadOutput", self.data.ReadOutputRequest(job=job, output="value"))
            self.assertEqual(sum(len(self.data.Chunk.FromString(chunk).data) for chunk in chunks), 8 * tasks)
            owner.close()
        reader.close()

    def test_results_are_read_while_they_are_committed(self):
        """Every run of tasks that is listed as done reads as the same bytes as when the job has ended."""
        job = self.cluster.submit("spin", "work=constant(30000)", "n=40000", "seed=9", "--grain", "100", "--max-lease", "4")
        whole = {}
        client = RawClient(self.cluster.address, owner=json.loads(
            self.cluster.tandem("job", "show", str(job), "-o", "json")[0])["owner"])
        done = False
        while not done:
            done = self.cluster.job(job)["state"] == "SUCCEEDED"
            token, end = "", 0
            for _ in range(40):
                page = client.call("Data/ListOutput", self.data.ListOutputRequest(job=job, output="value", page_size=20,
                                                                                  page_token=token), self.data.ListOutputResponse)
                for run in page.runs:
                    self.assertGreaterEqual(run.first_task, end)
                    end = run.first_task + run.task_count
                if page.runs:
                    run = page.runs[-1]
                    chunks = client.stream_down("Data/ReadOutput", self.data.ReadOutputRequest(
                        job=job, output="value", first_task=run.first_task, task_count=run.task_count))
                    whole[run.first_task] = b"".join(self.data.Chunk.FromString(chunk).data for chunk in chunks)
                token = page.next_page_token
                if not token:
                    break
        out = self.path("whole.raw")
        self.ok("job", "results", str(job), "--out", f"value=@{out}")
        values = numpy.fromfile(out, "<u8")
        self.assertEqual(len(values), 40_000)
        self.assertGreater(len(whole), 3)
        for first, content in whole.items():
            numpy.testing.assert_array_equal(numpy.frombuffer(content, "<u8"), values[first:first + len(content) // 8])
        client.close()


class LargeResultTest(ClusterCase):
    def test_a_result_of_gigabytes_is_read_in_pieces(self):
        n = int((4 << 30) // 8 * min(1, SCALE / 32))  # 4 GiB at scale 32
        out = self.path("large.raw")
        self.ok("run", "noop", f"n={n}", "seed=3", "--out", f"value=@{out}", "-q")
        self.assertEqual(os.path.getsize(out), 8 * n)
        values = numpy.memmap(out, "<u8", "r")
        # A second job of a part has the same values at the same tasks: noop's value depends on both alone.
        part = numpy.frombuffer(self.ok("run", "noop", "n=100000", "seed=3", "--out", "value=-", "-q"), "<u8")
        numpy.testing.assert_array_equal(values[:100_000], part)
        for first in (0, n // 3, n - 1000):
            read = self.ok("job", "results", self.first_job(), "--tasks", f"{first}-{first + 999}", "--out", "value=-")
            numpy.testing.assert_array_equal(numpy.frombuffer(read, "<u8"), values[first:first + 1000])
        self.assertEqual(len(numpy.unique(values[:: max(1, n // 10_000_000)])), len(values[:: max(1, n // 10_000_000)]))

    def first_job(self):
        jobs = json.loads(self.cluster.tandem("job", "ls", "-o", "json")[0])["items"]
        return str(min(job["id"] for job in jobs))


class BehindTest(ClusterCase):
    def test_no_job_waits_behind_an_endless_one_while_another_worker_is_idle(self):
        self.cluster.start_worker("other")
        self.cluster.wait_attached(2)
        endless = self.cluster.submit("spin", "work=constant(4294967295)", "n=30", "--grain", "30")  # minutes
        wait_for("it to begin", lambda: self.cluster.job(endless)["state"] == "RUNNING")
        for value in range(12):
            out = self.ok("run", "saxpy", "scale=2", "x=[1]", f"y=[{value}]", "--grain", "1", "-q", "--out", "z=-")
            self.assertEqual(numpy.frombuffer(out, "<f4").tolist(), [2 + value])
        self.assertEqual(self.cluster.job(endless)["state"], "RUNNING", "so nobody waited for it")
        self.cluster.tandem("job", "cancel", str(endless))


class ManyWorkersTest(ClusterCase):
    def test_twelve_workers_share_jobs_and_may_leave(self):
        for number in range(1, 12):
            self.cluster.start_worker(f"w{number}")
        self.cluster.wait_attached(12)
        alone = self.ok("run", "gradient", "x=uniform(seed=1)", "label=constant(1)", "w=uniform(seed=2)", "n=20000", "d=16",
                        "--grain", "64", "--out", "grad=-", "-q")
        histogram = self.cluster.submit("histogram", "value=uniform(seed=4)", "n=60000000", "--grain", "65536")
        spin = self.cluster.submit("spin", "work=constant(20000)", "n=20000", "--grain", "16")
        for number in range(1, 9):
            (self.cluster.stop_worker if number % 2 else self.cluster.kill_worker)(f"w{number}")
        for job in (histogram, spin):
            self.ok("job", "wait", str(job), "-q")
        counts = numpy.frombuffer(self.ok("job", "results", str(histogram), "--out", "count=-"), "<u8")
        self.assertEqual(counts.sum(), 60_000_000)
        again = self.ok("run", "gradient", "x=uniform(seed=1)", "label=constant(1)", "w=uniform(seed=2)", "n=20000", "d=16",
                        "--grain", "64", "--out", "grad=-", "-q")
        self.assertEqual(alone, again)  # bitwise, whoever computed it


class SideBySideTest(unittest.TestCase):
    def test_two_clusters_on_one_machine_do_not_meet(self):
        with tempfile.TemporaryDirectory(prefix="tandem-side-") as folder:
            clusters = [self.start(folder, number) for number in range(2)]
            try:
                addresses = [info["address"] for _, info in clusters]
                self.assertEqual(len(set(addresses)), 2)
                self.assertEqual(len({info["directory"] for _, info in clusters}), 2)
                with concurrent.futures.ThreadPoolExecutor(8) as pool:
                    outs = list(pool.map(lambda at: self.run_job(addresses[at % 2], at // 2), range(40)))
                self.assertEqual(outs[0::2], outs[1::2])  # the same jobs, the same results
                for address in addresses:
                    jobs = json.loads(self.tandem(address, "job", "ls", "-o", "json"))["items"]
                    self.assertEqual(len(jobs), 20)
            finally:
                for up, _ in clusters:
                    up.terminate()
                for up, info in clusters:
                    up.communicate(timeout=60)
                    self.assertFalse(os.path.exists(info["directory"]))
                    for pid in [info["master_pid"]] + [worker["pid"] for worker in info["workers"]]:
                        self.assertFalse(os.path.exists(f"/proc/{pid}"))

    def start(self, folder, number):
        ready = os.path.join(folder, f"ready{number}")
        up = subprocess.Popen([os.path.join(BIN, "tandem"), "up", "--workers", "2", "--port", "0", "--ready-file", ready],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for("the cluster", lambda: os.path.exists(ready))
        with open(ready, encoding="utf-8") as file:
            return up, json.load(file)

    def tandem(self, address, *args):
        done = subprocess.run([os.path.join(BIN, "tandem"), "--address", address, *args], capture_output=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def run_job(self, address, at):
        kernel = (("noop", "n=50000", "value"), ("monte_carlo_pi", "n=20000000", "hits"))[at % 2]
        return self.tandem(address, "run", *kernel[:2], f"seed={at}", "--out", f"{kernel[2]}=-", "-q")


if __name__ == "__main__":
    main()
