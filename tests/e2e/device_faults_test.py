#!/usr/bin/env python3
"""Devices that hang: the grid is named, a time limit ends it, and one whose process does not die is out of service. The
last by a library that is preloaded (tests/support/kill_shim.cc)."""
import json
import os
import re
import sys
import time
import unittest

from processes import Processes, wait_for

BIN = sys.argv.pop(1)
SHIM = os.path.abspath(os.path.join(BIN, "..", "tests", "kill_shim.so"))
# A grid of the first device never ends; the second is well.
HANGS = "EMULATED-0;faults=hang@1"


class DeviceFaultsTest(unittest.TestCase):
    def cluster(self, emulated, *flags, devices=1, environment=()):
        cluster = Processes(BIN)
        self.enterContext(cluster)
        cluster.environment = {"TANDEM_EMULATED": emulated, **dict(environment)}
        cluster.start_master()
        cluster.start_worker("w", "--emulated-gpus", str(devices), *flags)
        cluster.wait_attached(1)
        return cluster

    def findings(self, cluster, *words):
        out = json.loads(cluster.tandem(*words, "-o", "json")[0])
        return {finding["token"]: finding["what"] for finding in out["findings"]}

    def log_of(self, cluster):
        with open(cluster.log_path) as file:
            return file.read()

    def test_a_hung_grid_without_a_limit_is_named(self):
        cluster = self.cluster(HANGS, "--late-after", "500ms")
        job = cluster.submit("noop", "n=1000", "--device", "gpu")
        late = wait_for("the late grid", lambda: self.findings(cluster, "job", "explain", str(job)).get("LATE"))
        self.assertRegex(late, r"^tasks \[0,\d+\) have run on emulated:EMULATED-0 of worker w for [\d.]+m?s,")
        self.assertIn("LATE", self.findings(cluster, "worker", "explain", "w"))
        # It is not late by itself: it is told for how long, as that grows.
        wait_for("it to grow", lambda: self.findings(cluster, "job", "explain", str(job)).get("LATE", late) != late)
        cluster.tandem("job", "cancel", str(job))
        wait_for("nothing to be late", lambda: "LATE" not in self.findings(cluster, "worker", "explain", "w"))

    def test_a_time_limit_ends_a_hung_grid_and_only_that_fails(self):
        cluster = self.cluster(HANGS)
        job = cluster.submit("noop", "n=2", "--device", "gpu", "--time-limit", "300ms", "--crash-limit", "1",
                             "--allow-failed")
        other = cluster.submit("noop", "n=1000", "--device", "cpu")
        cluster.tandem("job", "wait", str(other))
        cluster.run("job", "wait", str(job))
        self.assertGreater(cluster.job(job)["tasks_failed"], 0)
        out = cluster.tandem("job", "failures", str(job))[0]
        self.assertIn("TIME_LIMIT", out)

    def test_junk_settings_of_emulated_devices_are_refused_where_they_are_typed(self):
        for junk, says in (("junk", "'junk' is neither"), ("EMULATED-3;cores=2", "EMULATED-0 to EMULATED-1"),
                           ("cores=1e99", "at most"), ("faults=melts@3", "melts@3")):
            with self.subTest(junk), Processes(BIN) as cluster:
                cluster.environment = {"TANDEM_EMULATED": junk}
                cluster.address = "127.0.0.1:1"
                cluster.start_worker("w", "--emulated-gpus", "2")
                self.assertEqual(cluster.workers["w"].wait(), 2)
                text = self.log_of(cluster).replace('"', "'")
                self.assertIn("TANDEM_EMULATED", text)
                self.assertIn(says, text)

    def test_an_executor_that_does_not_die_takes_its_device_out_of_service_and_no_other(self):
        cluster = Processes(BIN)
        self.enterContext(cluster)
        undying = cluster.path("undying")
        cluster.environment = {"TANDEM_EMULATED": HANGS, "LD_PRELOAD": SHIM, "TANDEM_UNDYING_FILE": undying}
        cluster.start_master()
        cluster.start_worker("w", "--emulated-gpus", "2")
        cluster.wait_attached(1)
        with open(undying, "w") as file:
            file.write("emulated:EMULATED-0")
        # Enough for both, and what hung goes to the other one.
        job = cluster.submit("spin", "work=constant(200000)", "n=200000", "--device", "gpu", "--time-limit", "1s")
        began = time.monotonic()
        cluster.tandem("job", "wait", str(job))
        self.assertEqual(cluster.job(job)["tasks_failed"], 0)
        self.assertGreater(time.monotonic() - began, 10)
        worker = json.loads(cluster.tandem("worker", "show", "w", "-o", "json")[0])
        self.assertEqual([note["token"] for note in worker["notes"]], ["OUT_OF_SERVICE"])
        text = cluster.tandem("worker", "show", "w")[0]
        self.assertRegex(text, r"emulated:EMULATED-0 gets no work: its executor \(process \d+\) was killed and does not end")
        self.assertIn("OUT_OF_SERVICE", self.findings(cluster, "worker", "explain", "w"))
        pid = int(re.search(r"process (\d+)", text).group(1))
        os.kill(pid, 0)  # it lives
        again = cluster.submit("noop", "n=1000", "--device", "gpu")
        cluster.tandem("job", "wait", str(again))
        cluster.stop_worker("w")  # nor does the worker's own end wait for it
        self.assertEqual(cluster.workers["w"].returncode, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
