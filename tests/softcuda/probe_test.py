#!/usr/bin/env python3
"""`tandem-executor-cuda --probe`, `--check` and `--start`, and `tandem doctor`, on softcuda's devices and faults.

  probe_test.py BIN        (tests/softcuda/run sets LD_LIBRARY_PATH)
"""
import json
import os
import subprocess
import sys
import time
import unittest

BIN = sys.argv.pop(1)
FIRST = "GPU-00000000-0000-0000-0000-00000000000a"
SECOND = "GPU-00000000-0000-0000-0000-00000000000b"
SLICE = "MIG-00000000-0000-0000-0000-00000000000c"
TWO = {"SOFTCUDA_DEVICES": "2", "SOFTCUDA_UUID_0": FIRST, "SOFTCUDA_UUID_1": SECOND,
       "SOFTCUDA_MEMORY_1": "64MiB", "SOFTCUDA_NAME_1": "the second", "SOFTCUDA_MULTIPROCESSORS_1": "7"}


def run(program, *args, **settings):
    env = {name: value for name, value in os.environ.items() if name not in ("CUDA_VISIBLE_DEVICES", "TANDEM_ADDRESS")}
    env.update(XDG_CONFIG_HOME="/none", TANDEM_PATIENCE="50ms", **settings)
    return subprocess.run([os.path.join(BIN, program), *args], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=120, env=env)


def answer(*args, **settings):
    done = run("tandem-executor-cuda", *args, **settings)
    assert done.returncode == 0, done
    return json.loads(done.stdout)


class ProbeTest(unittest.TestCase):
    def test_devices_and_versions(self):
        report = answer("--probe", **TWO)
        self.assertNotIn("error", report)
        self.assertEqual([device["uuid"] for device in report["devices"]], [FIRST, SECOND])
        second = report["devices"][1]
        self.assertEqual((second["model"], second["memory_bytes"], second["multiprocessors"]), ("the second", 64 << 20, 7))
        self.assertEqual((second["pci"], second["ecc"], second["mig"], second["slice"]), ("0000:02:00.0", True, False, False))
        self.assertEqual(report["installed"], 2)
        self.assertRegex(report["driver"], r"^\d+\.")
        for version in ("driver_cuda", "runtime", "toolkit"):
            self.assertRegex(report[version], r"^1\d\.\d$")

    def test_what_the_mask_leaves(self):
        for mask, seen in {"0": [FIRST], "1": [SECOND], "1,0": [SECOND, FIRST], FIRST: [FIRST], "GPU-" + SECOND[4:]: [SECOND],
                           "": [], "NoDevFiles": [], "junk": [], "-1": [], "7": []}.items():
            report = answer("--probe", **TWO, CUDA_VISIBLE_DEVICES=mask)
            self.assertEqual([device["uuid"] for device in report["devices"]], seen, mask)
            self.assertEqual((report["visible"], report["installed"]), (mask, 2))
            self.assertEqual("error" in report, not seen)
            if not seen:
                self.assertEqual(report["error"]["reason"], "UNSATISFIABLE")
                self.assertIn("CUDA_VISIBLE_DEVICES", report["error"]["message"])

    def test_a_slice_has_its_own_name(self):
        device = answer("--probe", SOFTCUDA_UUID_0=SLICE, SOFTCUDA_NAME_0="H200 MIG 1g.18gb",
                        CUDA_VISIBLE_DEVICES=SLICE)["devices"][0]
        self.assertEqual((device["uuid"], device["slice"]), (SLICE, True))
        self.assertNotIn("error", answer(f"--check={SLICE}", SOFTCUDA_UUID_0=SLICE, SOFTCUDA_NAME_0="H200 MIG 1g.18gb"))

    def test_what_a_start_takes_in_its_parts(self):
        begin = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        report = answer(f"--start=cuda:{FIRST}", f"--since={begin}", **TWO)
        whole = (time.clock_gettime_ns(time.CLOCK_MONOTONIC) - begin) * 1e-9
        self.assertNotIn("error", report)
        self.assertEqual(report["device"], f"cuda:{FIRST}")
        self.assertEqual(list(report["parts"]), ["spawn", "driver", "context", "device", "kernels", "slab", "first_launch"])
        for part, seconds in report["parts"].items():
            self.assertGreater(seconds, 0, part)
        self.assertAlmostEqual(sum(report["parts"].values()), report["seconds"], delta=1e-6)
        self.assertLess(report["seconds"], whole)
        # What is slow is in its part.
        slow = answer(f"--start=cuda:{FIRST}", **TWO, SOFTCUDA_DELAY_US="200000")["parts"]
        self.assertGreater(slow["first_launch"], 0.4, "a grid and its copy down")
        self.assertLess(slow["driver"] + slow["kernels"], 0.4)

    def test_a_start_that_fails_says_why(self):
        report = answer(f"--start=cuda:{FIRST}", **TWO, SOFTCUDA_FAULTS="launch:1=illegal_address")
        self.assertIn("illegal", report["error"]["message"])
        self.assertIn("no device's UUID", answer("--start=cuda:0", **TWO)["error"]["message"])

    def test_why_cuda_does_not_start(self):
        for fault, reason, words in (("no_driver", "UNSATISFIABLE", "driver is not there"),
                                     ("insufficient_driver", "VERSION_SKEW", "too old")):
            error = answer("--probe", SOFTCUDA_FAULTS=f"init={fault}")["error"]
            self.assertEqual(error["reason"], reason)
            self.assertIn(words, error["message"])

    def test_without_nvml_there_is_what_cuda_says(self):
        for settings, args in (({}, ["--nvml=/none/nvml.so"]), ({"SOFTCUDA_NVML_INIT": "999"}, [])):
            report = answer("--probe", *args, **TWO, **settings)
            self.assertEqual(len(report["devices"]), 2)
            self.assertNotEqual(report["nvml"], "")
            self.assertNotIn("installed", report)
            self.assertNotIn("ecc", report["devices"][0])

    def test_a_grid_is_compared(self):
        well = answer(f"--check={SECOND}", **TWO)
        self.assertNotIn("error", well)
        self.assertGreater(well["grid_seconds"], 0)
        for fault, reason in (("launch=illegal_address", "DEVICE_FAULT"), ("launch=lost", "DEVICE_FAULT"),
                              ("malloc=oom", "OUT_OF_MEMORY")):
            ill = answer(f"--check={SECOND}", **TWO, SOFTCUDA_FAULTS=f"device:1@{fault}")
            self.assertEqual(ill["error"]["reason"], reason, ill)
            self.assertNotIn("error", answer(f"--check={FIRST}", **TWO, SOFTCUDA_FAULTS=f"device:1@{fault}"))
        self.assertEqual(answer("--check=GPU-ffff", **TWO)["error"]["reason"], "UNSATISFIABLE")
        self.assertEqual(answer("--check=0", **TWO)["error"]["reason"], "BAD_ARGUMENT")

    def test_what_it_is_not_asked(self):
        self.assertEqual(run("tandem-executor-cuda").returncode, 2)
        self.assertIn("--probe", run("tandem-executor-cuda", "--help").stdout)


class DoctorTest(unittest.TestCase):
    def findings(self, *args, **settings):
        """Whether anything of the GPUs failed, and what was found of them."""
        done = run("tandem", "doctor", "-o", "json", *args, **settings)
        items = {item["check"]: item for item in json.loads(done.stdout)["items"] if item["check"].startswith("gpu")}
        for item in items.values():
            self.assertEqual(item["mend"] == "", item["verdict"] == "ok", item)
        failed = any(item["verdict"] == "FAILURE" for item in items.values())
        if failed:
            self.assertNotEqual(done.returncode, 0)
        return failed, items

    def test_two_devices(self):
        failed, found = self.findings(**TWO)
        self.assertFalse(failed)
        self.assertEqual(sorted(found), ["gpu " + FIRST, "gpu " + SECOND, "gpu paths", "gpu visible", "gpus"])
        self.assertEqual(found["gpu " + SECOND]["verdict"], "ok", found)
        self.assertIn("agrees with the CPU", found["gpu " + SECOND]["found"])
        self.assertEqual(found["gpu " + SECOND]["facts"]["memory_bytes"], 64 << 20)

    def test_one_that_is_ill(self):
        failed, found = self.findings(**TWO, SOFTCUDA_FAULTS="device:1@launch=illegal_address")
        self.assertTrue(failed)
        self.assertEqual(found["gpu " + FIRST]["verdict"], "ok")
        self.assertEqual(found["gpu " + SECOND]["reason"], "DEVICE_FAULT")
        _, found = self.findings(**TWO, SOFTCUDA_NVML_ECC_UNCORRECTED_0="4")
        self.assertIn(f"--gpu-reset -i {FIRST}", found["gpu " + FIRST]["mend"])

    def test_masks(self):
        for mask, verdict in (("0", "ok"), (SECOND, "ok"), ("0-3", "warning"), ("", "warning"), ("NoDevFiles", "warning"),
                              ("junk", "warning")):
            failed, found = self.findings(**TWO, CUDA_VISIBLE_DEVICES=mask)
            self.assertEqual((failed, found["gpu visible"]["verdict"]), (False, verdict), found)

    def test_a_driver_that_is_too_old_or_hangs(self):
        failed, found = self.findings(SOFTCUDA_FAULTS="init=insufficient_driver")
        self.assertEqual((failed, found["gpus"]["reason"]), (True, "VERSION_SKEW"))
        self.assertIn("newer driver", found["gpus"]["mend"])
        failed, found = self.findings("--gpu-time-limit", "1s", SOFTCUDA_FAULTS="init=hang")
        self.assertEqual((failed, found["gpus"]["reason"]), (True, "TIME_LIMIT"))
        self.assertEqual(list(found), ["gpus"])

    def test_stubs_in_the_way(self):
        _, found = self.findings(LD_LIBRARY_PATH=os.environ["LD_LIBRARY_PATH"] + ":/usr/local/cuda/lib64/stubs")
        self.assertEqual(found["gpu paths"]["verdict"], "FAILURE")


if __name__ == "__main__":
    unittest.main(verbosity=2)
