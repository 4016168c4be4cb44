#!/usr/bin/env python3
"""Libraries of kernels that a worker loads: how they become known, and what one that misbehaves costs."""
import json
import os
import signal
import subprocess
import sys
import unittest

from processes import PATIENCE, Processes, read_npy, wait_for, write_npy

BIN = sys.argv.pop(1)
TROUBLE = os.path.join(os.path.dirname(BIN), "tests", "kernels", "trouble.so")
BAD = os.path.join(os.path.dirname(BIN), "tests", "bad_kernels")


def trouble_at(cluster, name, tasks, at):
    """An operand whose task `at` is trouble."""
    path = cluster.path(name + ".npy")
    write_npy(path, "<u4", (tasks,), [13 if i == at else 100 + i for i in range(tasks)])
    return "x=@" + path


class KernelPathTest(unittest.TestCase):
    def cluster(self, *worker_flags):
        cluster = Processes(BIN)
        self.enterContext(cluster)
        cluster.start_master()
        cluster.start_worker("w", *worker_flags)
        cluster.wait_attached(1)
        return cluster

    def test_a_kernel_is_known_once_a_worker_has_loaded_it_and_after_a_restart_of_the_master(self):
        cluster = Processes(BIN)
        self.enterContext(cluster)
        cluster.start_master()
        code, _, err = cluster.run("run", "crasher", "x=iota", "n=10")
        self.assertEqual(code, 3)
        self.assertIn("(UNKNOWN_KERNEL)", err)
        cluster.start_worker("w", "--kernel-path", TROUBLE)
        cluster.wait_attached(1)
        listed = cluster.tandem("kernel", "ls", "-o", "name")[0].split()
        self.assertIn("crasher", listed)
        self.assertIn("sleeper", listed)
        shown = json.loads(cluster.tandem("kernel", "show", "crasher", "-o", "json")[0])
        self.assertEqual(shown["signature"], "x[n]:u32 -> y[n]:u32")
        out = cluster.path("y.npy")
        cluster.tandem("run", "crasher", trouble_at(cluster, "fine", 100, -1), "--out", f"y=@{out}")
        self.assertEqual(read_npy(out)[1], tuple(2 * (100 + i) for i in range(100)))
        # What a worker announced is in the journal: a job may name it before any worker is back.
        cluster.workers["w"].send_signal(signal.SIGTERM)
        cluster.workers["w"].wait(timeout=PATIENCE)
        cluster.kill_master()
        cluster.start_master()
        again = json.loads(cluster.tandem("kernel", "show", "crasher", "-o", "json")[0])
        self.assertEqual(again, shown)

    def test_the_environment_names_libraries_too(self):
        os.environ["TANDEM_KERNEL_PATH"] = os.pathsep.join([os.path.join(BAD, "nothing.so"), os.path.dirname(TROUBLE)])
        self.addCleanup(os.environ.pop, "TANDEM_KERNEL_PATH")
        cluster = self.cluster()
        listed = cluster.tandem("kernel", "ls", "-o", "name")[0].split()
        for name in ("harmless", "crasher", "sleeper"):
            self.assertIn(name, listed)

    def test_a_library_that_is_named_must_load(self):
        cluster = Processes(BIN)
        self.enterContext(cluster)
        cluster.start_master()
        for library, says in (("abi", "ABI 7.0, this executor 1.0"), ("constructor_crashes", "ended the process"),
                              ("name_of_a_builtin", "named noop is there already")):
            path = os.path.join(BAD, library + ".so")
            worker = subprocess.run([cluster.program("tandem-worker"), "--master", cluster.address, "--dir",
                                     cluster.path("bad"), "--kernel-path", path], capture_output=True, text=True,
                                    stdin=subprocess.DEVNULL, timeout=PATIENCE)
            self.assertEqual(worker.returncode, 2, worker.stderr)
            self.assertIn(says, worker.stderr)
            self.assertIn(path, worker.stderr)

    def test_bad_libraries_in_a_folder_cost_nothing_but_themselves(self):
        cluster = self.cluster("--kernel-path", BAD, "--kernel-load-limit", "1s")
        listed = cluster.tandem("kernel", "ls", "-o", "name")[0].split()
        self.assertIn("harmless", listed)
        cluster.tandem("run", "noop", "n=1000")

    def test_a_kernel_that_crashes_costs_one_executor_at_a_time_and_its_neighbours_finish(self):
        cluster = self.cluster("--kernel-path", TROUBLE)
        worker = cluster.workers["w"].pid
        expected = cluster.tandem("run", "monte_carlo_pi", "n=100000000", "seed=3")[0]
        beside = cluster.submit("monte_carlo_pi", "n=100000000", "seed=3")
        code, _, err = cluster.run("run", "crasher", trouble_at(cluster, "x", 64, 40), "--grain", "8", "--crash-limit", "2",
                                   "--allow-failed", "--out", f"y=@{cluster.path('y.npy')}")
        self.assertEqual(code, 0, err)
        self.assertIn("task 40", err)
        self.assertIn("CRASH_LIMIT", err)
        values = read_npy(cluster.path("y.npy"))[1]
        self.assertEqual([v for i, v in enumerate(values) if i != 40], [2 * (100 + i) for i in range(64) if i != 40])
        cluster.tandem("job", "wait", str(beside))
        self.assertEqual(cluster.tandem("job", "results", str(beside))[0], expected)
        wait_for("the two lost executors to be told of",
                 lambda: cluster.counters().get("worker_executors_lost_total", 0) >= 2)
        self.assertIsNone(cluster.workers["w"].poll())
        self.assertEqual(cluster.workers["w"].pid, worker)
        self.assertEqual(cluster.attached(), ["w"])

    def test_a_body_that_throws_ends_its_executor_as_a_crash_does_and_its_neighbours_finish(self):
        cluster = self.cluster("--kernel-path", TROUBLE)
        worker = cluster.workers["w"].pid
        code, _, err = cluster.run("run", "thrower", trouble_at(cluster, "x", 64, 40), "--grain", "8", "--crash-limit", "2",
                                   "--allow-failed", "--out", f"y=@{cluster.path('y.npy')}")
        self.assertEqual(code, 0, err)
        self.assertIn("task 40: CRASH_LIMIT: ", err)
        self.assertIn("1 failed", err)
        values = read_npy(cluster.path("y.npy"))[1]
        self.assertEqual([v for i, v in enumerate(values) if i != 40], [2 * (100 + i) for i in range(64) if i != 40])
        with open(cluster.log_path) as log:
            self.assertIn("terminate called after throwing an instance of 'int'", log.read())
        self.assertEqual((cluster.workers["w"].pid, cluster.workers["w"].poll()), (worker, None))

    def test_a_host_stage_that_throws_fails_its_task_alone_and_costs_no_executor(self):
        cluster = self.cluster("--kernel-path", TROUBLE)
        os.mkdir(cluster.path("in"))
        for name, text in enumerate(("Measure", "good", "Prepare", "Finish", "Allocate", "fine")):
            with open(cluster.path("in", f"{name}.txt"), "w") as file:
                file.write(text)
        code, _, err = cluster.run("run", "stage_thrower", f"text=@{cluster.path('in')}", "--allow-failed",
                                   "--out", f"copy=@{cluster.path('out')}/")
        self.assertEqual(code, 0, err)
        for task in (0, 2, 3):
            self.assertRegex(err, rf"task {task} \(.*{task}\.txt\): INTERNAL: a host stage of the kernel ended in an exception")
        self.assertRegex(err, r"task 4 \(.*4\.txt\): OUT_OF_MEMORY: ")
        self.assertEqual(sorted(os.listdir(cluster.path("out"))), ["1.txt", "5.txt"])
        for name, text in ((1, "good"), (5, "fine")):
            with open(cluster.path("out", f"{name}.txt")) as file:
                self.assertEqual(file.read(), text)
        self.assertEqual(cluster.counters().get("worker_executors_lost_total", 0), 0)

    def test_one_guilty_task_of_many_in_flight_is_found_by_halves(self):
        cluster = self.cluster("--kernel-path", TROUBLE, "--emulated-gpus", "1")
        tasks = 200_000
        x = trouble_at(cluster, "x", tasks, 123_456)
        for device in ("gpu", "cpu"):
            before = cluster.counters().get("worker_executors_lost_total", 0)
            job = cluster.submit("crasher", x, "--grain", "1", "--device", device, "--allow-failed")
            cluster.tandem("job", "wait", str(job))
            state = cluster.job(job)
            self.assertEqual((state["state"], state["tasks_done"], state["tasks_failed"]), ("SUCCEEDED", tasks, 1), state)
            self.assertRegex(cluster.tandem("job", "failures", str(job))[0], "123456 .*CRASH_LIMIT")
            # log2 of the tasks until it is alone, and then the crash limit; leases of nodes, not one a task.
            lost = cluster.counters().get("worker_executors_lost_total", 0) - before
            self.assertLessEqual(lost, 18 + 3, device)
            self.assertLess(state["leases"], tasks / 20, device)

    def test_a_kernel_that_never_returns_ends_at_its_time_limit_and_its_neighbours_finish(self):
        cluster = self.cluster("--kernel-path", TROUBLE)
        worker = cluster.workers["w"].pid
        code, _, err = cluster.run("run", "sleeper", trouble_at(cluster, "x", 64, 40), "--grain", "8", "--time-limit", "500ms",
                                   "--allow-failed", "--out", f"y=@{cluster.path('y.npy')}")
        self.assertEqual(code, 0, err)
        self.assertIn("task 40", err)
        self.assertIn("TIME_LIMIT", err)
        self.assertIn("500", err)
        values = read_npy(cluster.path("y.npy"))[1]
        self.assertEqual([v for i, v in enumerate(values) if i != 40], [2 * (100 + i) for i in range(64) if i != 40])
        self.assertIsNone(cluster.workers["w"].poll())
        self.assertEqual(cluster.workers["w"].pid, worker)
        code, _, err = cluster.run("run", "sleeper", trouble_at(cluster, "again", 64, 0), "--time-limit", "500ms",
                                   "--out", f"y=@{cluster.path('z.npy')}")
        self.assertEqual(code, 1, err)
        self.assertIn("task 0: TIME_LIMIT: it ran longer than the job's time limit of 500ms", err)

    def test_up_loads_libraries_into_its_workers(self):
        with Processes(BIN) as cluster:
            ready = cluster.path("up.ready")
            up = subprocess.Popen([cluster.program("tandem"), "up", "--workers", "2", "--port", "0", "--kernel-path", TROUBLE,
                                   "--kernel-path", os.path.join(BAD, "nothing.so"), "--ready-file", ready],
                                  stdin=subprocess.DEVNULL, stdout=cluster.log, stderr=cluster.log)
            self.addCleanup(up.wait, PATIENCE)
            self.addCleanup(up.terminate)
            wait_for("the cluster", lambda: os.path.exists(ready))
            with open(ready) as file:
                cluster.address = json.load(file)["address"]
            listed = cluster.tandem("kernel", "ls", "-o", "name")[0].split()
            self.assertIn("crasher", listed)
            self.assertIn("harmless", listed)


if __name__ == "__main__":
    unittest.main(verbosity=2)
