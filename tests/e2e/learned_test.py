#!/usr/bin/env python3
"""What a worker has learned of how long work takes: shown by device, kept over its restarts, forgotten on demand."""
import json
import os
import sys
import unittest

from processes import Processes, wait_for

BIN = sys.argv.pop(1)
FIELDS = {"kernel", "extents", "device", "device_name", "tasks_per_second", "seconds_per_task", "fixed_seconds",
          "up_bytes_per_second", "down_bytes_per_second", "bound_by", "samples", "age_seconds"}


class LearnedTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Processes(BIN)
        self.enterContext(self.cluster)
        self.cluster.start_master()
        self.start()

    def start(self):
        self.cluster.start_worker("w0", "--emulated-gpus", "1")
        self.cluster.wait_attached(1)

    def restart(self):
        self.cluster.stop_worker("w0")
        wait_for("the worker to be gone", lambda: not self.cluster.attached())
        self.start()

    def rates(self):
        rates = json.loads(self.cluster.tandem("worker", "show", "w0", "-o", "json")[0])["rates"]
        return {(rate["kernel"].split("@")[0], rate["device_name"]): rate for rate in rates}

    def log(self):
        self.cluster.log.flush()
        with open(self.cluster.log_path) as file:
            return file.read()

    def learn(self):
        self.cluster.tandem("run", "monte_carlo_pi", "n=2000000000")
        self.cluster.tandem("run", "spin", "work=constant(1000)", "n=200000", "--device", "gpu", "--force", "--out",
                            f"value=@{self.cluster.path('v.npy')}")
        wait_for("rates of both devices", lambda: {("monte_carlo_pi", "cpu"), ("spin", "emulated:EMULATED-0")} <=
                 set(self.rates()))

    def test_rates_are_shown_by_device_and_outlive_the_worker(self):
        self.learn()
        before = self.rates()
        for rate in before.values():
            self.assertEqual(set(rate), FIELDS)
            self.assertGreater(rate["samples"], 0)
            self.assertGreater(rate["seconds_per_task"], 0)
        gpu, cpu = before["spin", "emulated:EMULATED-0"], before["monte_carlo_pi", "cpu"]
        self.assertEqual((gpu["device"], cpu["device"]), ("emulated", "cpu"))
        self.assertGreater(gpu["down_bytes_per_second"], 0)
        self.assertEqual(cpu["down_bytes_per_second"], 0)
        self.assertIn(" on emulated:EMULATED-0: ", self.cluster.tandem("worker", "show", "w0")[0])
        self.assertIn("emulated:EMULATED-0", self.cluster.tandem("worker", "explain", "w0")[0])
        self.restart()
        after = wait_for("what it knew", self.rates)
        self.assertEqual(set(after), set(before))
        for key, rate in after.items():
            self.assertGreaterEqual(rate["samples"], before[key]["samples"])
            self.assertGreaterEqual(rate["age_seconds"], 0)
        self.assertIn("rates_recalled", self.log())

    def test_it_forgets_one_kernel_or_all_and_not_only_until_it_is_restarted(self):
        self.learn()
        err = self.cluster.tandem("worker", "forget", "w0", "--kernel", "spin")[1]
        self.assertIn("has forgotten how long spin takes", err)
        self.assertEqual({kernel for kernel, _ in self.rates()}, {"monte_carlo_pi"})
        code, _, err = self.cluster.run("worker", "forget", "w0", "--kernel", "monte_carlo_p")
        self.assertEqual(code, 3, err)
        self.assertIn("did you mean monte_carlo_pi?", err)
        self.assertIn("(UNKNOWN_KERNEL)", err)
        self.assertEqual({kernel for kernel, _ in self.rates()}, {"monte_carlo_pi"})
        shown = json.loads(self.cluster.tandem("worker", "forget", "w0", "-o", "json")[0])
        self.assertEqual((shown["name"], shown["rates"]), ("w0", []))
        self.assertEqual(self.rates(), {})
        self.restart()
        self.assertEqual(self.rates(), {})
        self.learn()  # anew
        code, _, err = self.cluster.run("worker", "forget", "nobody")
        self.assertEqual(code, 3, err)
        self.assertIn("(WORKER_NOT_FOUND)", err)
        self.cluster.kill_worker("w0")
        wait_for("the worker to be gone", lambda: not self.cluster.attached())
        code, _, err = self.cluster.run("worker", "forget", "w0")
        self.assertEqual(code, 5, err)
        self.assertIn("(WORKER_LOST)", err)

    def test_a_file_that_is_spoilt_is_ignored_and_written_anew(self):
        self.learn()
        path = self.cluster.path("w0", "learned")
        self.cluster.stop_worker("w0")
        with open(path, "rb") as file:
            good = file.read()
        for spoilt, why in ((good[:len(good) // 2], "cut short"), (b"", "not of this kind"),
                            (os.urandom(5000), "not of this kind"),
                            (good.replace(b" 1\n", b" 9\n", 1), "another version")):
            with open(path, "wb") as file:
                file.write(spoilt)
            wait_for("the worker to be gone", lambda: not self.cluster.attached())
            self.start()
            self.assertEqual(self.rates(), {})
            ignored = [line for line in self.log().splitlines() if " rates_ignored " in line]
            self.assertIn(why, ignored[-1])
            self.learn()
            self.cluster.stop_worker("w0")
        self.assertEqual(len(ignored), 4)
        # Other hardware: an emulated device of another speed is another device.
        self.cluster.environment["TANDEM_EMULATED"] = "cores=3"
        wait_for("the worker to be gone", lambda: not self.cluster.attached())
        self.start()
        self.assertEqual({device for _, device in wait_for("what it knew", self.rates)}, {"cpu"})
        self.assertIn("of_devices_gone_or_replaced=emulated:EMULATED-0", self.log())


if __name__ == "__main__":
    unittest.main(verbosity=2)
