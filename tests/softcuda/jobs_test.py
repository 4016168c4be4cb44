#!/usr/bin/env python3
"""Jobs on a CUDA device as a user runs them: the CPU's bytes, faults, and where there is no device. On softcuda's devices all
of it; on a real one (labelled gpu) what needs no script.

  jobs_test.py BIN PROBES        (tests/softcuda/run sets LD_LIBRARY_PATH; PROBES: the folder of the SDK's probes)
"""
import collections
import json
import os
import random
import re
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from cluster_case import BIN, ClusterCase  # noqa: E402
from kernel_cases import kernel_cases, png  # noqa: E402
from processes import Processes, wait_for, write_npy  # noqa: E402

PROBES = sys.argv.pop(1)
FIRST = "GPU-00000000-0000-0000-0000-00000000000a"
SECOND = "GPU-00000000-0000-0000-0000-00000000000b"
OPTIONS = ("black_scholes", "spot=uniform(seed=1,lo=50,hi=150)", "strike=uniform(seed=2,lo=50,hi=150)",
           "years=uniform(seed=3,lo=0,hi=2)", "rate=0.02", "volatility=0.3", "n=20000")

SLICE = "MIG-00000000-0000-0000-0000-00000000000c"
ON_SOFTCUDA = "TANDEM_TEST_SOFTCUDA" in os.environ

# Before any process starts: all of them inherit it.
if ON_SOFTCUDA:
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    os.environ.update(SOFTCUDA_UUID_0=FIRST, SOFTCUDA_UUID_1=SECOND)


def first_device():
    """Its UUID and model, as the program says that links CUDA; exits with 77 where there is none."""
    program = os.path.join(BIN, "tandem-executor-cuda")
    if not os.path.exists(program):
        print("skipped: no CUDA device: built without CUDA")
        sys.exit(77)
    done = subprocess.run([program, "--probe"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    devices = json.loads(done.stdout)["devices"] if done.returncode == 0 and done.stdout else []
    if not devices:
        print("skipped: no CUDA device")
        sys.exit(77)
    return devices[0]["uuid"], devices[0]["model"]


DEVICE, MODEL = first_device()


def devices_of(cluster, worker="w"):
    return json.loads(cluster.tandem("worker", "show", worker, "-o", "json")[0])["devices"]


# Tasks by kind of device, as explain says them; {} where one kind had all.
def shares_of(cluster, job):
    text = cluster.tandem("job", "explain", str(job))[0]
    found = re.search(r"tasks \[0,\d+\): ([^;\n]*)", text)
    return {kind: int(tasks.replace(",", "")) for kind, tasks in re.findall(r"(\w+) ([\d,]+) in ", found.group(1) if found else "")}


def place_of(cluster, job, output, ragged):
    return cluster.path(f"{job}-{output}") + ("/" if ragged else ".npy")


def result(cluster, words, output, device):
    """What a job gives on a device: the bytes of each file, and the job."""
    job = cluster.submit(*words, "--device", device)
    cluster.tandem("job", "wait", str(job))
    ragged = words[0].startswith("image")
    place = place_of(cluster, job, output, ragged)
    cluster.tandem("job", "results", str(job), "--out", f"{output}=@{place}")
    names = sorted(os.listdir(place)) if ragged else [place]
    contents = {}
    for name in names:
        with open(os.path.join(place, name), "rb") as file:
            contents[name if ragged else output] = file.read()
    return contents, job


class JobsTest(ClusterCase):
    GPUS = "auto"

    def expect_the_same(self, words, output, tasks):
        cpu, _ = result(self.cluster, words, output, "cpu")
        gpu, job = result(self.cluster, words, output, "gpu")
        self.assertTrue(cpu and all(cpu.values()))
        self.assertEqual(cpu, gpu)
        self.assertEqual(shares_of(self.cluster, job), {"gpu": tasks})

    def test_a_device_is_shown_by_its_name(self):
        devices = devices_of(self.cluster)
        self.assertEqual((devices[1]["kind"], devices[1]["uuid"]), ("gpu", DEVICE))
        self.assertEqual(devices[1]["model"], MODEL)
        self.assertIn(MODEL, self.cluster.tandem("worker", "show", "w")[0])

    def test_every_built_in_kernel_by_its_reference_and_the_bytes_of_the_cpu(self):
        os.mkdir(self.path("cases"))
        cases = kernel_cases(self.path("cases"))
        kernels = json.loads(self.cluster.tandem("kernel", "ls", "-o", "json")[0])["items"]
        classes = {kernel["name"]: kernel["class"] for kernel in kernels if kernel["builtin"]}
        self.assertEqual(sorted(cases), sorted(classes))
        for name, case in cases.items():
            with self.subTest(name):
                gpu, job = result(self.cluster, (name, *case.args), case.output, "gpu")
                self.assertEqual(shares_of(self.cluster, job), {"gpu": case.tasks})
                case.check(self, place_of(self.cluster, job, case.output, case.ragged))
                if classes[name] != "tolerant":
                    self.assertEqual(gpu, result(self.cluster, (name, *case.args), case.output, "cpu")[0])

    def test_options(self):
        self.expect_the_same(OPTIONS, "call", 20_000)

    def test_a_reduction(self):
        self.expect_the_same(("histogram", "value=uniform(seed=4)", "n=50000"), "count", 50_000)

    def test_a_merge_up_the_tree(self):
        self.expect_the_same(("sort", "key=uniform(seed=5)", "n=3000", "--grain", "500"), "sorted", 3_000)

    def test_images_of_many_sizes(self):
        os.mkdir(self.path("in"))
        rng = random.Random(5)
        for i in range(7):
            width, height = rng.randint(1, 30), rng.randint(1, 20)
            self.write(f"in/p{i}.png", png(width, height, bytes(rng.choices(range(256), k=3 * width * height))))
        self.expect_the_same(("image_sobel", f"image=@{self.path('in')}"), "edges", 7)

    def test_both_kinds_may_share_a_job(self):
        cpu, _ = result(self.cluster, OPTIONS, "put", "cpu")
        both, _ = result(self.cluster, OPTIONS, "put", "auto")
        self.assertEqual(cpu, both)


class Case(unittest.TestCase):
    def cluster(self, environment, *flags, gpus="auto"):
        cluster = Processes(BIN)
        cluster.__enter__()
        self.addCleanup(cluster.__exit__, None, None, None)
        cluster.environment = environment
        cluster.gpus = gpus
        cluster.start_master()
        cluster.start_worker("w", *flags)
        cluster.wait_attached(1)
        return cluster

    def log_of(self, cluster):
        with open(cluster.log_path) as file:
            return file.read()

    def findings(self, cluster, *words):
        return {f["token"]: f["what"] for f in json.loads(cluster.tandem(*words, "-o", "json")[0])["findings"]}


class HangTest(Case):
    """A grid of hours, in effect; a real device gets over its end too."""

    def test_a_grid_that_does_not_end_is_named_and_its_time_limit_ends_it_and_nothing_else(self):
        cluster = self.cluster({}, "--late-after", "1s")
        worker = cluster.workers["w"].pid
        job = cluster.submit("spin", "work=constant(4000000000)", "n=1", "--device", "gpu", "--time-limit", "6s",
                             "--crash-limit", "1", "--allow-failed")
        late = wait_for("the late grid", lambda: self.findings(cluster, "job", "explain", str(job)).get("LATE"))
        self.assertRegex(late, rf"^tasks \[0,1\) have run on cuda:{DEVICE} of worker w for ")
        cluster.run("job", "wait", str(job))
        self.assertEqual(cluster.job(job)["tasks_failed"], 1)
        self.assertIn("TIME_LIMIT", cluster.tandem("job", "failures", str(job))[0])
        self.assertEqual((cluster.workers["w"].pid, cluster.workers["w"].poll()), (worker, None))
        cpu, _ = result(cluster, OPTIONS, "call", "cpu")
        gpu, _ = result(cluster, OPTIONS, "call", "gpu")
        self.assertEqual(cpu, gpu)


@unittest.skipUnless(ON_SOFTCUDA, "skipped: it reads softcuda's trace")
class TraceTest(Case):
    def traced(self, environment, *flags):
        folder = Processes(BIN)
        folder.__enter__()
        self.addCleanup(folder.__exit__, None, None, None)
        self.trace = folder.path("trace")
        return self.cluster({"SOFTCUDA_TRACE": self.trace, **environment}, *flags)

    def calls(self, name):
        """How often, by device; and the bytes in all."""
        count, size = collections.Counter(), 0
        with open(self.trace) as file:
            for line in file:
                found = re.match(r"(\w+) dev=(\d+) stream=\S+ bytes=(\d+) .*result=0 ", line)
                if found and found.group(1) == name:
                    count[int(found.group(2))] += 1
                    size += int(found.group(3))
        return count, size

    def run_jobs_of_a_task(self, count, environment):
        """As many jobs, queued before there is work again; what each gave, and its words."""
        cluster = self.traced(environment)
        cluster.tandem("worker", "drain", "w")
        words = [("black_scholes", f"spot=constant({80 + i})", "strike=constant(100)", "years=constant(1)",
                  f"rate=0.0{1 + i % 9}", "volatility=0.3", "n=1") for i in range(count)]
        jobs = [cluster.submit(*each, "--device", "gpu") for each in words]
        cluster.tandem("worker", "resume", "w")
        found = []
        for job in jobs:
            cluster.tandem("job", "wait", str(job))
            place = cluster.path(f"of-{job}.npy")
            cluster.tandem("job", "results", str(job), "--out", f"call=@{place}")
            with open(place, "rb") as file:
                found.append({"call": file.read()})
        return cluster, words, found

    def test_jobs_of_a_task_each_that_wait_together_are_told_apart(self):
        cluster, words, found = self.run_jobs_of_a_task(40, {})
        self.assertEqual(len({each["call"] for each in found}), len(words))
        for i in (0, 7, 33):  # by the CPU, each alone
            self.assertEqual(found[i], result(cluster, words[i], "call", "cpu")[0])
        launches = sum(self.calls("cudaLaunchKernel")[0].values())
        self.assertLessEqual(sum(self.calls("cudaMemcpyAsync")[0].values()), 2 * launches)

    def test_jobs_of_a_task_each_that_wait_together_are_a_few_grids(self):
        # Also where a grid takes its time, and all the others come meanwhile.
        for environment in ({}, {"SOFTCUDA_DELAY_US": "5000"}):
            self.run_jobs_of_a_task(60, environment)
            launches = sum(self.calls("cudaLaunchKernel")[0].values())
            self.assertLessEqual(launches, 15, environment)  # 3 to 6, and those that began before others had come

    def test_what_is_small_is_not_copied_and_what_is_not_goes_up_once(self):
        cluster = self.traced({})
        _, job = result(cluster, ("saxpy", "scale=2", "x=iota", "y=iota", "n=1000"), "z", "gpu")
        self.assertEqual(self.calls("cudaMemcpyAsync")[0], {})
        self.assertGreater(sum(self.calls("cudaLaunchKernel")[0].values()), 0)
        # 1.2 MB of three arrays, and little else, whatever they were cut into.
        _, job = result(cluster, ("saxpy", "scale=2", "x=iota", "y=iota", "n=100000"), "z", "gpu")
        moved = self.calls("cudaMemcpyAsync")[1]
        self.assertGreaterEqual(moved, 1_100_000)  # less what went in small pieces
        self.assertLess(moved, 1_400_000)
        self.assertEqual(shares_of(cluster, job), {"gpu": 100_000})

    def test_copies_can_be_asked_for(self):
        cluster = self.traced({}, "--gpu-mapped-max", "0")
        result(cluster, ("saxpy", "scale=2", "x=iota", "y=iota", "n=1000"), "z", "gpu")
        launches = sum(self.calls("cudaLaunchKernel")[0].values())
        self.assertEqual(sum(self.calls("cudaMemcpyAsync")[0].values()), 2 * launches)

    def test_two_devices_share_a_job(self):
        cluster = self.traced({"SOFTCUDA_DEVICES": "2"})
        words = ("monte_carlo_pi", "n=400000", "seed=7", "--grain", "2000")
        cpu = cluster.tandem("run", *words, "--device", "cpu")[0]
        self.assertEqual(cluster.tandem("run", *words, "--device", "gpu")[0], cpu)
        launches = self.calls("cudaLaunchKernel")[0]
        self.assertEqual(set(launches), {0, 1}, launches)

    def test_a_wait_that_is_missing_would_show(self):
        """Each operation of a stream late by a while: what did not wait for it would see what was there before."""
        cluster = self.traced({"SOFTCUDA_DELAY_US": "400"})
        stays = cluster.path("w.npy")  # on the device, for all streams: 80 kB that all tasks share
        write_npy(stays, "<f4", (20_000,), [0.001 * (i % 13) for i in range(20_000)])
        for words, output in ((OPTIONS, "call"), (("histogram", "value=uniform(seed=4)", "n=50000", "--grain", "1000"), "count"),
                              (("gradient", "x=uniform(seed=2)", "label=constant(1)", f"w=@{stays}", "n=48", "d=20000",
                                "--grain", "4"), "grad")):
            cpu, _ = result(cluster, words, output, "cpu")
            gpu, _ = result(cluster, words, output, "gpu")
            self.assertTrue(all(cpu.values()))
            self.assertEqual(cpu, gpu, words[0])


@unittest.skipUnless(ON_SOFTCUDA, "skipped: it needs faults by script, which softcuda has")
class FaultsTest(Case):
    def test_a_sticky_error_costs_the_executor_alone(self):
        with Processes(BIN) as cluster:
            # The first executor that has work is given the fault; the one before was only asked what it can.
            os.mkdir(cluster.path("bin"))
            lives = cluster.path("lives")
            os.symlink(cluster.program("tandem-executor"), cluster.path("bin", "tandem-executor"))
            wrapper = cluster.path("bin", "tandem-executor-cuda")
            with open(wrapper, "w") as file:
                file.write(f"""#!/bin/sh
case "$*" in *--channel=*)
  echo $$ >>{lives}
  if [ "$(wc -l <{lives})" -eq 2 ]; then export SOFTCUDA_FAULTS=launch:1=illegal_address; fi ;;
esac
exec {cluster.program("tandem-executor-cuda")} "$@"
""")
            os.chmod(wrapper, 0o755)
            cluster.gpus = "auto"
            cluster.start_master()
            cluster.start_worker("w", "--executor", cluster.path("bin", "tandem-executor"))
            cluster.wait_attached(1)
            worker = cluster.workers["w"].pid
            cpu, _ = result(cluster, OPTIONS, "call", "cpu")
            gpu, job = result(cluster, OPTIONS, "call", "gpu")
            self.assertEqual(cpu, gpu)
            self.assertEqual(cluster.job(job)["state"], "SUCCEEDED")
            self.assertEqual(shares_of(cluster, job), {"gpu": 20_000})
            with open(lives) as file:
                self.assertGreaterEqual(len(file.readlines()), 3)
            self.assertIn("illegal", self.log_of(cluster))
            self.assertEqual((cluster.workers["w"].pid, cluster.workers["w"].poll()), (worker, None))

    def test_without_a_device_or_a_driver_there_are_the_cpus(self):
        for environment, says in (({"SOFTCUDA_DEVICES": "0"}, "no_gpus"), ({"SOFTCUDA_FAULTS": "init=no_driver"}, "no_gpus"),
                                  ({"SOFTCUDA_FAULTS": "init=insufficient_driver"}, "gpus_left_out")):
            cluster = self.cluster(environment)
            self.assertEqual([device["kind"] for device in devices_of(cluster)], ["cpu"])
            self.assertIn(says, self.log_of(cluster))
            self.assertTrue(result(cluster, OPTIONS, "call", "auto")[0])

    def test_a_driver_that_hangs_is_not_waited_for(self):
        cluster = self.cluster({"SOFTCUDA_FAULTS": "init=hang"}, "--gpu-time-limit", "1s")
        self.assertEqual([device["kind"] for device in devices_of(cluster)], ["cpu"])
        self.assertIn("did not answer within 1s", self.log_of(cluster))

    def test_those_that_the_mask_leaves_and_none_if_so_told(self):
        two = {"SOFTCUDA_DEVICES": "2"}
        a_slice = {"SOFTCUDA_DEVICES": "2", "SOFTCUDA_UUID_1": SLICE, "SOFTCUDA_NAME_1": "H200 MIG 1g.18gb"}
        for environment, mask, gpus, seen in (
                (two, None, "auto", [FIRST, SECOND]), (two, SECOND, "auto", [SECOND]), (two, "1", "auto", [SECOND]),
                (a_slice, SLICE, "auto", [SLICE]), (two, "", "auto", []), (two, "NoDevFiles", "auto", []),
                (two, "0-3", "auto", [FIRST]), (two, "junk", "auto", []), (two, None, "none", [])):
            cluster = self.cluster({**environment, **({} if mask is None else {"CUDA_VISIBLE_DEVICES": mask})}, gpus=gpus)
            self.assertEqual([device["uuid"] for device in devices_of(cluster)[1:]], seen, mask)
            if not seen or mask == "0-3":
                if mask is not None:
                    self.assertIn("CUDA_VISIBLE_DEVICES", self.log_of(cluster), mask)
                continue
            cpu, _ = result(cluster, OPTIONS, "call", "cpu")
            gpu, _ = result(cluster, OPTIONS, "call", "gpu")
            self.assertEqual(cpu, gpu)

    def test_a_library_has_the_kernels_of_its_cuda_half(self):
        with Processes(BIN) as folder:
            os.symlink(os.path.join(PROBES, "tandem_sdk_probes.so"), folder.path("mine.so"))
            os.symlink(os.path.join(PROBES, "tandem_sdk_probes_cuda.cuda.so"), folder.path("mine.cuda.so"))
            cluster = self.cluster({}, "--kernel-path", folder.path("mine.so"))
            words = ("row_sum", "x=uniform(seed=6)", "n=500", "d=33")
            cpu, _ = result(cluster, words, "y", "cpu")
            gpu, job = result(cluster, words, "y", "gpu")
            self.assertEqual(cpu, gpu)
            self.assertEqual(shares_of(cluster, job), {"gpu": 500})
            # What has no such half cannot run there, and the worker says so.
            job = cluster.submit("narrow", "x=uniform(seed=6)", "n=500", "--device", "gpu")
            wait_for("the reason", lambda: cluster.job(job)["wait_reason"] == "UNSATISFIABLE")
            self.assertIn("no form of narrow", cluster.tandem("worker", "explain", "w")[0])

    def test_an_xid_takes_the_device_out_of_service_unless_a_program_was_at_fault(self):
        with Processes(BIN) as folder:
            def report(xid, before=""):  # softcuda tells what has been added to the list
                with open(folder.path("next"), "w") as file:
                    file.write(f"SOFTCUDA_NVML_XID_0={before}{xid}\n")
                os.rename(folder.path("next"), folder.path("settings"))
                wait_for(f"Xid {xid}", lambda: f"Xid {xid}:" in self.log_of(cluster))
            open(folder.path("settings"), "w").close()
            cluster = self.cluster({"SOFTCUDA_CONFIG": folder.path("settings")})
            cpu, _ = result(cluster, OPTIONS, "call", "cpu")
            report(31)
            self.assertEqual(cpu, result(cluster, OPTIONS, "call", "gpu")[0])
            told = time.monotonic()
            report(79, "31,")
            wait_for("the device to be out of service", lambda: "gpu_out_of_service" in self.log_of(cluster))
            self.assertLessEqual(time.monotonic() - told, 1)
            note = wait_for("the note", lambda: self.findings(cluster, "worker", "explain", "w").get("OUT_OF_SERVICE"))
            self.assertIn("Xid 79: the GPU has fallen off the bus; reboot", note)
            self.assertIn(note, cluster.tandem("worker", "show", "w")[0])
            job = cluster.submit(*OPTIONS, "--device", "gpu")
            wait_for("the reason", lambda: cluster.job(job)["wait_reason"] == "UNSATISFIABLE")
            self.assertIn("Xid 79", cluster.tandem("worker", "explain", "w")[0])
            self.assertEqual(cpu, result(cluster, OPTIONS, "call", "auto")[0])

    def test_what_jobs_may_use_of_a_device_is_shown_and_held_to(self):
        cluster = self.cluster({"SOFTCUDA_MEMORY": "64MiB"}, "--gpu-memory", "8MiB")
        device = devices_of(cluster)[1]
        self.assertEqual((device["memory_bytes"], device["budget_bytes"]), (64 << 20, 8 << 20))
        self.assertEqual(device["budget_rule"], "8MiB (--gpu-memory)")
        # A leaf of 12 MB and a small one.
        job = cluster.submit("saxpy", "scale=2", "x=uniform(seed=1)", "y=uniform(seed=2)", "n=1001000", "--grain", "1000000",
                             "--device", "gpu")
        cluster.run("job", "wait", str(job))
        self.assertEqual(cluster.job(job)["tasks_failed"], 1_000_000)
        self.assertEqual(shares_of(cluster, job), {"gpu": 1_000})
        self.assertIn("GPU_OOM: ", cluster.tandem("job", "failures", str(job), "--limit", "1")[0])

    def test_work_on_a_device_that_an_xid_ends_runs_elsewhere_without_blame(self):
        with Processes(BIN) as folder:
            settings = folder.path("settings")
            open(settings, "w").close()
            cluster = self.cluster({"SOFTCUDA_CONFIG": settings, "SOFTCUDA_DEVICES": "2",
                                    "SOFTCUDA_FAULTS": "device:0@launch=hang"})
            job = cluster.submit(*OPTIONS, "--device", "gpu", "--crash-limit", "1")
            wait_for("the job to run", lambda: cluster.job(job)["leases"] > 0)
            with open(folder.path("next"), "w") as file:
                file.write("SOFTCUDA_NVML_XID_0=79\n")
            os.rename(folder.path("next"), settings)
            cluster.tandem("job", "wait", str(job))
            self.assertEqual((cluster.job(job)["state"], cluster.job(job)["tasks_failed"]), ("SUCCEEDED", 0))
            self.assertEqual(shares_of(cluster, job), {"gpu": 20_000})

    def test_a_device_that_is_lost_is_out_of_service_and_the_other_goes_on(self):
        cluster = self.cluster({"SOFTCUDA_DEVICES": "2", "SOFTCUDA_FAULTS": "device:1@launch=lost"})
        cpu, _ = result(cluster, OPTIONS, "call", "cpu")
        for _ in range(2):
            gpu, job = result(cluster, (*OPTIONS, "--crash-limit", "1", "--grain", "500"), "call", "gpu")
            self.assertEqual(cpu, gpu)
        note = wait_for("the note", lambda: self.findings(cluster, "worker", "explain", "w").get("OUT_OF_SERVICE"))
        self.assertIn(f"cuda:{SECOND} gets no work: it is gone", note)

    def test_a_device_whose_executor_does_not_start_is_noted_with_the_reason(self):
        cluster = self.cluster({"SOFTCUDA_DEVICES": "2", "SOFTCUDA_FAULTS": "device:1@stream=unavailable"})
        self.assertEqual([device["uuid"] for device in devices_of(cluster)[1:]], [FIRST])
        note = wait_for("the note", lambda: self.findings(cluster, "worker", "explain", "w").get("GPU_LEFT_OUT"))
        self.assertIn(SECOND, note)
        self.assertIn("cudaStreamCreateWithFlags", note)

    def test_what_the_driver_says_of_a_gpu_is_shown(self):
        settings = {"TEMPERATURE": 61, "POWER_MW": 123500, "UTILIZATION": 37, "MEMORY_UTILIZATION": 12,
                    "ECC_CORRECTED": 5}
        cluster = self.cluster({f"SOFTCUDA_NVML_{name}": str(value) for name, value in settings.items()})
        reading = wait_for("a reading", lambda: devices_of(cluster)[1]["reading"])
        self.assertIsNone(devices_of(cluster)[0]["reading"])
        self.assertEqual(set(reading), {"utilization", "memory_utilization", "memory_used_bytes", "temperature_celsius",
                                        "power_watts", "power_limit_watts", "ecc", "ecc_corrected", "ecc_uncorrected"})
        self.assertEqual((reading["temperature_celsius"], reading["power_watts"], reading["utilization"],
                          reading["memory_utilization"]), (61, 123.5, 0.37, 0.12))
        self.assertIn("busy 37%, its memory 12%, ", cluster.tandem("worker", "show", "w")[0])

    def test_without_nvml_the_gpus_are_used_and_that_is_said_once(self):
        for environment, flags in (({"SOFTCUDA_NVML_INIT": "999"}, ()), ({}, ("--nvml", "/none/nvml.so"))):
            cluster = self.cluster(environment, *flags)
            cpu, _ = result(cluster, OPTIONS, "call", "cpu")
            self.assertEqual(cpu, result(cluster, OPTIONS, "call", "gpu")[0])
            note = wait_for("the note", lambda: self.findings(cluster, "worker", "explain", "w").get("NVML"))
            self.assertIn("GPUs are used without news of their health", note)
            self.assertEqual(self.log_of(cluster).count("nvml_unavailable"), 1)

    def test_a_device_that_runs_out_of_memory_gives_work_back(self):
        cluster = self.cluster({"SOFTCUDA_MEMORY": "64MiB", "SOFTCUDA_FAULTS": "malloc:1=oom"})
        self.assertEqual([device["kind"] for device in devices_of(cluster)], ["cpu", "gpu"])
        cpu, _ = result(cluster, OPTIONS, "call", "cpu")
        both, _ = result(cluster, OPTIONS, "call", "auto")
        self.assertEqual(cpu, both)


if __name__ == "__main__":
    unittest.main(verbosity=2)
