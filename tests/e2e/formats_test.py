#!/usr/bin/env python3
"""Every command that prints takes every format, with a version and the same fields in each."""
import json
import os
import sys
import unittest

from processes import Processes

BIN = sys.argv.pop(1)

# What JSON holds, besides api_version and kind. Fields are added here, never taken away.
FIELDS = {
    "job": {"id", "name", "kernel", "owner", "state", "wait_reason", "reason", "tasks", "tasks_done", "tasks_failed",
            "leaves", "grain", "split_axis", "leases", "retried_tasks", "busy_seconds", "priority", "labels",
            "submitted", "started", "ended", "outputs"},
    "worker": {"id", "name", "state", "address", "version", "leases", "leaves_done", "devices", "rates"},
    "kernel": {"name", "identity", "signature", "class", "tolerance", "summary", "split_axes", "cost_ns", "cost_units",
               "failures"},
    "master": {"address", "version", "cluster_id", "epoch", "workers", "jobs_running", "counters"},
    "failure": {"task", "attempt", "reason", "job", "item"},
    "upload": {"id", "bytes", "file"},
    "deletion": {"id", "bytes"},
    "version": {"part", "name", "version"},
    "setting": {"key", "value", "origin", "where"},
    "finding": {"check", "verdict", "found", "mend", "reason", "facts"},
    "results": {"job", "outputs"},
    "path": {"path", "exists"},
    "blob": {"id", "bytes", "created", "jobs", "job_count", "in_use", "unfinished"},
    "usage": {"name", "bytes", "files", "owner_bytes", "owner_files", "disk_bytes", "disk_free_bytes"},
    "job_explanation": {"job", "state", "findings", "account", "leases"},
    "worker_explanation": {"worker", "findings", "jobs"},
}
LISTS = [["job", "ls"], ["worker", "ls"], ["kernel", "ls"], ["version"], ["config", "show"], ["doctor"],
         ["data", "ls"], ["data", "du"]]
THINGS = [["job", "show", "last"], ["job", "progress", "last"], ["job", "results", "last"], ["job", "cancel", "last"],
          ["job", "wait", "last"], ["worker", "show", "w"], ["kernel", "show", "noop"], ["master", "status"],
          ["config", "get", "output"], ["config", "path"], ["job", "explain", "last"], ["worker", "explain", "w"]]


class FormatsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.environ["XDG_CONFIG_HOME"] = "/none"
        cls.cluster = Processes(BIN)
        cls.cluster.__enter__()
        cls.cluster.start_master()
        cls.cluster.start_worker("w")
        cls.cluster.wait_attached(1)
        cls.cluster.tandem("run", "noop", "n=3")

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    def check(self, thing, words):
        kind = thing.pop("kind")
        self.assertEqual(thing.pop("api_version"), "tandem.v1", words)
        self.assertLessEqual(FIELDS[kind], set(thing), words)
        return kind

    def test_lists(self):
        for words in LISTS:
            shown = json.loads(self.cluster.tandem(*words, "-o", "json")[0])
            self.assertEqual(sorted(shown), ["api_version", "items", "kind"], words)
            lines = [json.loads(line) for line in self.cluster.tandem(*words, "-o", "jsonl")[0].splitlines()]
            self.assertEqual(len(lines), len(shown["items"]), words)
            for line in lines:
                self.assertEqual(self.check(line, words) + "s", shown["kind"])
            names = self.cluster.tandem(*words, "-o", "name")[0].splitlines()
            table = self.cluster.tandem(*words)[0].splitlines()
            wide = self.cluster.tandem(*words, "-o", "wide")[0].splitlines()
            self.assertEqual([line.split("  ")[0] for line in table[1:]], names, words)
            self.assertEqual(len(table), len(wide), words)
            self.assertGreaterEqual(len(wide[0]), len(table[0]), words)

    def test_things(self):
        for words in THINGS:
            self.check(json.loads(self.cluster.tandem(*words, "-o", "json")[0]), words)
            if words[1] not in ("cancel", "wait"):
                self.assertTrue(self.cluster.tandem(*words)[0], words)
        for words in (["job", "show", "last"], ["worker", "show", "w"], ["kernel", "show", "noop"], ["master", "status"]):
            line = self.cluster.tandem(*words, "-o", "jsonl")[0]
            self.assertEqual(line.count("\n"), 1)
            self.check(json.loads(line), words)
            self.assertEqual(len(self.cluster.tandem(*words, "-o", "name")[0].split()), 1)

    def test_a_kernel_shows_its_class_and_tolerance(self):
        for name, output_class, tolerance in (("noop", "exact", 0), ("saxpy", "bitwise", 0), ("gemm", "tolerant", 1e-5)):
            shown = json.loads(self.cluster.tandem("kernel", "show", name, "-o", "json")[0])
            self.assertEqual((shown["class"], shown["tolerance"]), (output_class, tolerance))
            lines = self.cluster.tandem("kernel", "show", name)[0].splitlines()
            self.assertIn(["class", output_class], [line.split() for line in lines])
            said = [line.split(None, 1)[1] for line in lines if line.startswith("tolerance")]
            self.assertEqual(said, ["1e-05, relative"] if tolerance else [])

    def test_several_things_are_one_document(self):
        last = int(self.cluster.tandem("job", "ls", "-o", "name", "--limit", "1")[0])
        self.cluster.tandem("run", "noop", "n=3")
        both = f"{last}-{last + 1}"
        for words, kind, one in ((["show"], "jobs", "job"), (["progress"], "jobs", "job"), (["wait"], "jobs", "job"),
                                 (["cancel"], "jobs", "job"), (["results"], "job_results", "results"),
                                 (["explain"], "job_explanations", "job_explanation")):
            shown = json.loads(self.cluster.tandem("job", *words, both, "-o", "json")[0])
            self.assertEqual(list(shown), ["api_version", "kind", "items"], words)
            self.assertEqual((shown["api_version"], shown["kind"], len(shown["items"])), ("tandem.v1", kind, 2), words)
            for item in shown["items"]:
                self.assertLessEqual(FIELDS[one], set(item), words)
            lines = self.cluster.tandem("job", *words, both, "-o", "jsonl")[0].splitlines()
            self.assertEqual([self.check(json.loads(line), words) for line in lines], [one, one])
            # One that is named as a list is a list as well.
            shown = json.loads(self.cluster.tandem("job", *words, f"{last}-{last}", "-o", "json")[0])
            self.assertEqual((shown["kind"], len(shown["items"])), (kind, 1))
        self.assertEqual(json.loads(self.cluster.tandem("job", "failures", both, "-o", "json")[0])["kind"], "failures")

    def test_one_that_is_not_there_is_an_error_in_the_document(self):
        last = int(self.cluster.tandem("job", "ls", "-o", "name", "--limit", "1")[0])
        code, out, err = self.cluster.run("job", "show", f"{last},999", "-o", "json")
        shown = json.loads(out)
        self.assertEqual(code, 3, err)
        self.assertEqual((shown["kind"], [item["id"] for item in shown["items"]]), ("jobs", [last]))
        self.assertEqual([sorted(error) for error in shown["errors"]], [["code", "field", "message", "reason"]])
        self.assertEqual(shown["errors"][0]["reason"], "JOB_NOT_FOUND")

    def test_the_format_may_stand_before_the_command(self):
        for words in (["-o", "json", "job", "ls"], ["job", "-o", "json", "ls"], ["--output=json", "job", "ls"]):
            self.assertEqual(json.loads(self.cluster.tandem(*words)[0])["kind"], "jobs", words)

    def test_what_was_uploaded_and_what_was_deleted(self):
        path = self.cluster.path("bytes")
        with open(path, "wb") as file:
            file.write(b"some bytes")
        for kind, words in (("uploads", ["put", path]), ("deletions", ["rm", "--unused"])):
            shown = json.loads(self.cluster.tandem("data", *words, "-o", "json")[0])
            self.assertEqual((sorted(shown), shown["kind"]), (["api_version", "items", "kind"], kind))
            self.assertEqual(set(shown["items"][0]), FIELDS[kind[:-1]])
        code, out, _ = self.cluster.run("data", "rm", "ab" * 32, "-o", "json")
        self.assertEqual((code, json.loads(out)["errors"][0]["reason"]), (3, "BLOB_NOT_FOUND"))

    def test_times_are_written_alike(self):
        path = self.cluster.path("timed")
        with open(path, "wb") as file:
            file.write(b"other bytes")
        self.cluster.tandem("data", "put", path, "-q")
        blob = json.loads(self.cluster.tandem("data", "ls", "-o", "json")[0])["items"][0]
        job = json.loads(self.cluster.tandem("job", "show", "last", "-o", "json")[0])
        for time in (blob["created"], job["submitted"]):
            self.assertRegex(time, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")

    def test_wide_says_where_a_worker_calls_from(self):
        [worker] = json.loads(self.cluster.tandem("worker", "ls", "-o", "json")[0])["items"]
        self.assertRegex(worker["address"], r"^127\.0\.0\.1$")
        self.assertIn(worker["address"], self.cluster.tandem("worker", "ls", "-o", "wide")[0])

    def test_no_failures_are_an_empty_list(self):
        shown = json.loads(self.cluster.tandem("job", "failures", "last", "-o", "json")[0])
        self.assertEqual((shown["kind"], shown["items"]), ("failures", []))
        self.assertEqual(self.cluster.tandem("job", "failures", "last", "-o", "name")[0], "")


if __name__ == "__main__":
    unittest.main(verbosity=2)
