#!/usr/bin/env python3
"""Memory of devices and of the host: budgets as they are set, shown and held to; leaves that fit nowhere; what is copied."""
import json
import os
import random
import struct
import subprocess
import threading
import unittest

from cluster_case import BIN
from processes import PATIENCE, Processes, wait_for

MIB = 1 << 20
SAXPY = ("saxpy", "scale=2", "x=uniform(seed=1,lo=0,hi=1)", "y=uniform(seed=2,lo=0,hi=1)")


class MemoryTest(unittest.TestCase):
    """A master, and an emulated device of 64 MiB of which jobs may use 8."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Processes(BIN)
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.__exit__, None, None, None)
        cls.cluster.start_master()
        cls.cluster.environment["TANDEM_EMULATED"] = f"memory={64 * MIB}"
        cls.cluster.start_worker("small", "--emulated-gpus", "1", "--gpu-memory", "8MiB")
        cls.cluster.wait_attached(1)

    def devices(self, worker="small", cluster=None):
        shown = json.loads((cluster or self.cluster).tandem("worker", "show", worker, "-o", "json")[0])
        return shown["devices"]

    def run_job(self, *args):
        """(exit code, its JSON, what was said) of a job that is waited for."""
        code, out, err = self.cluster.run("run", *args, "-o", "json", "-q")
        return code, json.loads(out), err

    def test_budget_size_and_origin_are_shown(self):
        cpu, device = self.devices()
        self.assertEqual((device["memory_bytes"], device["budget_bytes"]), (64 * MIB, 8 * MIB))
        self.assertEqual(device["budget_rule"], "8MiB (--gpu-memory)")
        self.assertEqual(cpu["budget_bytes"], 0)
        self.assertIn("jobs may use 8MiB of 64MiB, 8MiB (--gpu-memory)", self.cluster.tandem("worker", "show", "small")[0])

    def test_environment_default_and_single_devices(self):
        with Processes(BIN) as cluster:
            cluster.start_master()
            cluster.environment["TANDEM_EMULATED"] = f"memory={64 * MIB} EMULATED-1;memory={16 * MIB}"
            cluster.start_worker("default", "--emulated-gpus", "2")
            cluster.environment["TANDEM_GPU_MEMORY"] = "50%,EMULATED-1=4MiB,GPU-away=1GiB"
            cluster.start_worker("told", "--emulated-gpus", "2")
            cluster.wait_attached(2)
            _, first, second = self.devices("default", cluster)
            self.assertEqual((first["budget_bytes"], second["budget_bytes"]), (64 * MIB * 9 // 10, 16 * MIB * 9 // 10))
            self.assertEqual(first["budget_rule"], "90% of what is free (default)")
            _, first, second = self.devices("told", cluster)
            self.assertEqual((first["budget_bytes"], second["budget_bytes"]), (32 * MIB, 4 * MIB))
            self.assertEqual(second["budget_rule"], "4MiB (TANDEM_GPU_MEMORY)")
            with open(cluster.log_path) as log:
                self.assertIn("gpu_memory_of_unknown_device device=GPU-away", log.read())

    def test_bad_values_are_refused_with_what_would_do(self):
        def refused(code, reason, says, *flags, **environment):
            done = subprocess.run([os.path.join(BIN, "tandem-worker"), "--master", self.cluster.address, "--dir",
                                   self.cluster.path("bad"), "--gpus", "none", "--emulated-gpus", "1", *flags],
                                  env={**os.environ, **self.cluster.environment, **environment}, capture_output=True,
                                  text=True, timeout=PATIENCE)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(f"({reason})", done.stderr)
            self.assertIn(says, done.stderr)
        for bad in ("0", "0%", "101%", "80%,90%"):
            refused(2, "BAD_ARGUMENT", "90%", "--gpu-memory", bad)
        for bad in ("-1", "lots", "-5%"):
            refused(2, "BAD_SIZE", "20GiB", f"--gpu-memory={bad}")
        refused(2, "AMBIGUOUS", "--gpu-memory", "--gpu-memory", "20G")
        refused(2, "BAD_SIZE", "TANDEM_GPU_MEMORY", TANDEM_GPU_MEMORY="some")
        refused(2, "BAD_ARGUMENT", "EMULATED-0 has, 64MiB", "--gpu-memory", "65MiB")
        refused(2, "BAD_ARGUMENT", "16MiB", "--pinned-memory", "1MiB")
        refused(2, "BAD_ARGUMENT", "of memory", "--pinned-memory", "1PiB")
        refused(2, "BAD_ARGUMENT", "16MiB", "--cache-size", "1MiB")
        refused(2, "BAD_SIZE", "--cache-size", "--cache-size", "big")

    def test_a_job_that_asks_for_more_than_any_budget_waits_and_says_which(self):
        job = self.cluster.submit("noop", "n=10", "--device", "gpu", "--gpu-memory", "16MiB")
        wait_for("the reason", lambda: self.cluster.job(job)["wait_reason"] == "RESOURCES")
        for text in (self.cluster.job(job)["reason"], self.cluster.tandem("job", "explain", str(job))[0]):
            self.assertIn("NO_GPU", text)
            self.assertIn("16MiB", text)
            self.assertIn("8MiB, of small", text)
        self.assertIn("its largest budget is 8MiB", self.cluster.tandem("worker", "explain", "small")[0])
        self.cluster.tandem("job", "cancel", str(job))
        code, job, _ = self.run_job("noop", "n=10", "--device", "gpu", "--gpu-memory", "8MiB")
        self.assertEqual((code, job["state"]), (0, "SUCCEEDED"))

    def test_a_job_that_is_not_to_wait_fails_at_once(self):
        code, job, err = self.run_job("noop", "n=10", "--device", "gpu", "--gpu-memory", "16MiB", "--fail-unsatisfiable")
        self.assertEqual((code, job["state"]), (1, "FAILED"))
        self.assertTrue(job["reason"].startswith("NO_GPU: "), job["reason"])
        self.assertIn("NO_GPU", err)
        with Processes(BIN) as cluster:
            cluster.start_master()
            cluster.start_worker("plain")
            cluster.wait_attached(1)
            code, out, _ = cluster.run("run", "noop", "n=10", "--device", "gpu", "--fail-unsatisfiable", "-o", "json")
            self.assertEqual(code, 1)
            self.assertTrue(json.loads(out)["reason"].startswith("NO_GPU: "), out)

    def test_what_is_asked_for_makes_sense(self):
        for flags, reason in ((("--gpu-memory", "0"), "BAD_RESOURCES"), (("--gpu-memory", "lots"), "BAD_SIZE"),
                              (("--gpu-memory", "1GiB", "--device", "cpu"), "BAD_RESOURCES")):
            code, _, err = self.cluster.run("run", "noop", "n=10", *flags)
            self.assertEqual(code, 2, err)
            self.assertIn(f"({reason})", err)

    def test_only_the_tasks_of_a_leaf_that_fits_nowhere_fail(self):
        big = (*SAXPY, "n=1200000", "--grain", "1000000", "--device", "gpu")  # 12 MB a leaf; the second is small
        code, job, err = self.run_job(*big)
        self.assertEqual((code, job["state"], job["tasks_done"]), (1, "FAILED", 1_200_000))
        self.assertEqual(job["tasks_failed"], 1_000_000)
        self.assertIn("GPU_OOM", err)
        failure = json.loads(self.cluster.tandem("job", "failures", str(job["id"]), "-o", "json")[0])["items"][0]
        self.assertEqual(failure["task"], 0)
        self.assertTrue(failure["reason"].startswith("GPU_OOM: "), failure)
        self.assertIn("budget of those that may run it is 8MiB", failure["reason"])
        code, job, _ = self.run_job(*big, "--allow-failed")
        self.assertEqual((code, job["state"], job["tasks_failed"]), (0, "SUCCEEDED", 1_000_000))
        # With the CPU nothing fails.
        code, job, _ = self.run_job(*big[:-1], "auto")
        self.assertEqual((code, job["tasks_failed"]), (0, 0))

    def test_a_larger_device_of_another_worker_has_its_chance(self):
        with Processes(BIN) as cluster:
            cluster.start_master()
            cluster.environment["TANDEM_EMULATED"] = f"memory={64 * MIB}"
            cluster.start_worker("small", "--emulated-gpus", "1", "--gpu-memory", "8MiB")
            cluster.start_worker("large", "--emulated-gpus", "1", "--gpu-memory", "16MiB")
            cluster.wait_attached(2)
            for _ in range(3):
                code, out, err = cluster.run("run", *SAXPY, "n=6200000", "--grain", "1000000", "--device", "gpu", "-o", "json")
                self.assertEqual(code, 0, err)
                self.assertEqual(json.loads(out)["tasks_failed"], 0)

    def test_memory_that_is_taken_for_a_moment_fails_no_task(self):
        with Processes(BIN) as cluster:
            cluster.start_master()
            # Each executor's second allocation is refused, though the budget has room.
            cluster.environment["TANDEM_EMULATED"] = f"memory={64 * MIB};faults=oom@2"
            cluster.start_worker("w", "--emulated-gpus", "1")
            cluster.wait_attached(1)
            for device in ("gpu", "auto"):
                code, out, err = cluster.run("run", *SAXPY, "n=3000000", "--device", device, "-o", "json")
                self.assertEqual(code, 0, err)
                self.assertEqual(json.loads(out)["tasks_failed"], 0)

    def test_copies_are_counted_by_job_and_device_and_nothing_that_stays_is_copied_twice(self):
        before = self.devices()[1]
        x, w = 200_000 * 16 * 4, 64 * 16 * 4  # x[n,k], w[m,k] and b[m], which every task needs
        result = 200_000 * 64 * 4
        code, job, err = self.run_job("linear", "x=uniform(seed=1,lo=0,hi=1)", "w=uniform(seed=2,lo=0,hi=1)",
                                      "b=uniform(seed=3,lo=0,hi=1)", "n=200000", "k=16", "m=64", "--device", "gpu",
                                      "--grain", "1000")
        self.assertEqual(code, 0, err)
        account = json.loads(self.cluster.tandem("job", "explain", str(job["id"]), "-o", "json")[0])["account"]
        used = [line for line in account["workers"] if line["device"] == "emulated"]
        up = sum(line["bytes_up"] for line in used)
        self.assertGreaterEqual(up, x + w)
        pieces = sum(line["pieces"] for line in used)
        self.assertGreater(pieces, 3)
        # Small broadcasts travel with each batch, beside the parts.
        self.assertLess(up, x + pieces * (w + 8192))
        self.assertGreaterEqual(sum(line["bytes_down"] for line in used), result)

        def grown(name):
            return self.devices()[1][name] - before[name]
        wait_for("the worker's counters", lambda: grown("bytes_up") >= up and grown("bytes_down") >= result)
        self.assertGreaterEqual(self.cluster.counters()["worker_bytes_up_total"], up)
        self.assertFalse(any("@" in name for name in self.cluster.counters()))

    def test_a_large_broadcast_goes_up_once(self):
        w = 512 * 1024 * 4  # 2 MiB, which stays
        code, job, err = self.run_job("linear", "x=uniform(seed=1,lo=0,hi=1)", "w=uniform(seed=2,lo=0,hi=1)",
                                      "b=uniform(seed=3,lo=0,hi=1)", "n=4000", "k=1024", "m=512", "--device", "gpu",
                                      "--grain", "10")
        self.assertEqual(code, 0, err)
        account = json.loads(self.cluster.tandem("job", "explain", str(job["id"]), "-o", "json")[0])["account"]
        used = [line for line in account["workers"] if line["device"] == "emulated"]
        self.assertGreater(sum(line["pieces"] for line in used), 10)
        up = sum(line["bytes_up"] for line in used)
        x = 4000 * 1024 * 4
        self.assertGreaterEqual(up, x + w)
        self.assertLess(up, x + 2 * w, "once, though many batches need it")


class StreamingTest(unittest.TestCase):
    def test_operands_of_many_times_all_budgets_stream_through(self):
        n = 16 << 20  # 64 MiB an operand, and as much comes out
        with Processes(BIN) as cluster:
            cluster.start_master()
            cluster.keep_nothing_freed()
            cluster.environment["TANDEM_EMULATED"] = f"memory={4 * MIB}"
            cluster.start_worker("w", "--emulated-gpus", "1", "--local-data", "never", "--cache-size", "16MiB",
                                 "--pinned-memory", "16MiB")
            cluster.wait_attached(1)
            block = struct.pack("<4096f", *(random.Random(5).uniform(-1, 1) for _ in range(4096)))
            path = cluster.path("x.npy")
            with open(path, "wb") as file:
                header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({n},), }}".ljust(117) + "\n"
                file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
                for _ in range(n // 4096):
                    file.write(block)
            job = cluster.submit("saxpy", "scale=3", f"x=@{path}", f"y=@{path}", "--device", "gpu")
            ended = threading.Event()
            waiter = threading.Thread(target=lambda: (cluster.run("job", "wait", str(job)), ended.set()))
            waiter.start()
            peak = 0
            while not ended.wait(0.02):  # poll: what the executor of the device holds
                peak = max([peak, *map(anonymous_bytes, cluster.executors())])
            waiter.join()
            self.assertEqual(cluster.job(job)["state"], "SUCCEEDED", cluster.job(job))
            self.assertGreater(peak, 0)
            self.assertLess(peak, 128 * MIB)
            out = cluster.path("z.npy")
            cluster.tandem("job", "results", str(job), "--out", f"z=@{out}")
            # 3 x + x in f32, as numpy would have it.
            values = struct.unpack("<4096f", block)
            expected = b"".join(struct.pack("<f", f32(f32(3 * value) + value)) for value in values)
            with open(out, "rb") as file:
                result = file.read()[-4 * n:]
            for at in range(0, 4 * n, len(expected)):
                if result[at:at + len(expected)] != expected:
                    self.fail(f"bytes from {at} differ")


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def anonymous_bytes(pid):
    try:
        with open(f"/proc/{pid}/status") as file:
            return next((int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon")), 0)
    except OSError:
        return 0


if __name__ == "__main__":
    unittest.main(verbosity=2)
