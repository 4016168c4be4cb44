#!/usr/bin/env python3
"""Wrong command lines: the exit code, the reason, and what would have been right. Needs no cluster."""
import json
import os
import re
import subprocess
import sys
import unittest

BIN = sys.argv.pop(1)
AWAY = {"TANDEM_ADDRESS": "127.0.0.1:1", "TANDEM_PATIENCE": "50ms", "XDG_CONFIG_HOME": "/none"}


def tandem(*args, stdout=subprocess.PIPE, **env):
    done = subprocess.run([os.path.join(BIN, "tandem"), *args], stdin=subprocess.DEVNULL, stdout=stdout,
                          stderr=subprocess.PIPE, text=True, timeout=60, env={**os.environ, **AWAY, **env})
    return done.returncode, done.stdout, done.stderr


class UsageTest(unittest.TestCase):
    def refused(self, reason, says, *args, code=2):
        found, out, err = tandem(*args)
        self.assertEqual(found, code, err)
        self.assertEqual(out, "")
        self.assertTrue(err.startswith("tandem: ") and err.endswith(f"({reason})\n"), err)
        self.assertEqual(err.count("\n"), 1, err)
        self.assertIn(says, err)
        # The same error for programs.
        if args[-1] == "--name" or args[-1].startswith("--output"):
            return
        found, out, _ = tandem(*args, "-o", "json")
        self.assertEqual(found, code)
        error = json.loads(out)
        self.assertEqual((error["api_version"], error["kind"]), ("tandem.v1", "error"))
        self.assertEqual(sorted(error["error"]), ["code", "field", "message", "reason"])

    def test_words(self):
        self.refused("UNKNOWN_COMMAND", "did you mean job?", "jbo")
        self.refused("UNKNOWN_COMMAND", "did you mean show?", "kernel", "shw")
        self.refused("MISSING_ARGUMENT", "tandem job needs a subcommand", "job")
        self.refused("MISSING_ARGUMENT", "tandem run needs KERNEL", "run")
        self.refused("MISSING_ARGUMENT", "--name needs a value", "run", "noop", "--name")
        self.refused("UNEXPECTED_ARGUMENT", '"2"', "job", "show", "1", "2")

    def test_options(self):
        self.refused("UNKNOWN_OPTION", "did you mean --state?", "job", "ls", "--stat=RUNNING")
        self.refused("UNKNOWN_OPTION", "did you mean --workers?", "up", "--worker=2")
        self.refused("BAD_ARGUMENT", "given more than once", "run", "noop", "--name=a", "--name=b")
        for option in ("--grain=-1", "--grain=0", "--crash-limit=0", "--crash-limit=1001", "--retries=-1",
                       "--retries=1001", "--max-failures=-1", "--max-lease=1.5", "--priority=high",
                       "--priority=2147483648", "--grain=18446744073709551616"):
            self.refused("BAD_ARGUMENT", "is no whole number", "run", "noop", "n=1", option)
        self.refused("BAD_ARGUMENT", "did you mean gpu?", "run", "noop", "--device=gpuu")
        self.refused("BAD_ARGUMENT", "did you mean json?", "job", "ls", "--output=jsno")

    def test_values_read_before_a_master_is_asked(self):
        run = ("run", "noop", "n=1")
        self.refused("AMBIGUOUS", "90s (seconds) or 90m (minutes)", *run, "--time-limit=90")
        self.refused("AMBIGUOUS", "1h30m or 1m30s", *run, "--time-limit=1:30")
        self.refused("BAD_DURATION", "unknown unit", *run, "--time-limit=1fortnight")
        self.refused("AMBIGUOUS", "4GB (powers of 10) or 4GiB (powers of 2)", *run, "--mem=4G")
        self.refused("BAD_SIZE", "unknown unit", *run, "--mem=4XB")
        self.refused("BAD_RESOURCES", "no number of cores", *run, "--cpus=0")
        self.refused("BAD_ARGUMENT", "name=value", *run, "--label=team")
        self.refused("BAD_ARGUMENT", "given twice", *run, "--label=team=a", "--label=team=b")
        self.refused("BAD_ARGUMENT", "names no jobs", "job", "show", "seven")
        self.refused("BAD_ARGUMENT", "address", "job", "ls", "--address=nowhere")

    def test_no_master(self):
        self.refused("MASTER_UNAVAILABLE", "tandem up", "job", "ls", code=5)

    def test_a_full_disk_behind_stdout_is_no_success(self):
        with open("/dev/full", "w") as full:
            for words in (("--help",), ("version", "--client"), ("config", "show"), ("completion", "bash")):
                code, _, err = tandem(*words, stdout=full)
                self.assertEqual(code, 6, words)
                self.assertIn("(DISK_FULL)", err)

    def test_companions_say_what_they_are(self):
        for name in ("tandem-master", "tandem-worker", "tandem-executor"):
            done = subprocess.run([os.path.join(BIN, name), "--help"], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, name)
            self.assertIn(name, done.stdout)

    def test_companions_give_reasons(self):
        for words, code, reason in ((("tandem-master", "--dir", "/none", "--lease-ttl", "soon"), 2, "BAD_DURATION"),
                                    (("tandem-master", "--dir", "/none", "--lease-ttl", "90"), 2, "AMBIGUOUS"),
                                    (("tandem-worker", "--dir", "/none", "--master", "nowhere"), 2, "BAD_ARGUMENT")):
            done = subprocess.run([os.path.join(BIN, words[0]), *words[1:]], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(f"({reason})", done.stderr)

    def test_the_documents_name_only_reasons_that_there_are(self):
        root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
        with open(os.path.join(root, "common/base/reason.h")) as file:
            reasons = set(re.findall(r'"([A-Z_]+)"\)', file.read()))
        with open(os.path.join(root, "docs/command_line.md")) as file:
            document = file.read()
        named = set(re.findall(r"`([A-Z]+_[A-Z_]+)`", document)) - set(re.findall(r"`(TANDEM_\w+|NO_COLOR)`", document))
        self.assertGreater(len(named), 15)
        self.assertLessEqual(named, reasons)

    def test_help_and_version_are_no_errors(self):
        for words in (("--help",), ("job", "--help"), ("job", "ls", "-h"), ("--version",)):
            code, out, err = tandem(*words)
            self.assertEqual((code, err), (0, ""), words)
            self.assertIn("tandem", out)


if __name__ == "__main__":
    unittest.main(verbosity=2)
