#!/usr/bin/env python3
"""Wrong command lines: the exit code, the reason, and what would have been right. Needs no cluster."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

BIN = sys.argv.pop(1)
AWAY = {"TANDEM_ADDRESS": "127.0.0.1:1", "TANDEM_PATIENCE": "50ms", "XDG_CONFIG_HOME": "/none"}


def tandem(*args, stdout=subprocess.PIPE, **env):
    done = subprocess.run([os.path.join(BIN, "tandem"), *args], stdin=subprocess.DEVNULL, stdout=stdout,
                          stderr=subprocess.PIPE, text=True, timeout=60, env={**os.environ, **AWAY, **env})
    return done.returncode, done.stdout, done.stderr


def open_text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


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

    def test_words_in_another_case_are_suggested(self):
        self.refused("BAD_ARGUMENT", "did you mean RUNNING?", "job", "ls", "--state=running")
        self.refused("BAD_ARGUMENT", "did you mean json?", "job", "ls", "--output=JSON")

    def test_a_setting_is_refused_in_one_sentence(self):
        code, _, err = tandem("config", "set", "output", "xml")
        self.assertEqual((code, err.count("output:")), (2, 1), err)
        self.assertIn('"xml" is none of table, wide, json, jsonl, name', err)

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

    def companion(self, *words):
        done = subprocess.run([os.path.join(BIN, words[0]), *words[1:]], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def test_companions_refuse_as_the_command_does(self):
        for start in (("tandem-master",), ("tandem", "master", "start"), ("tandem-worker",), ("tandem", "worker", "start")):
            program = f"tandem-{start[1]}" if start[1:] else start[0]
            port = "--listen" if program == "tandem-master" else "--master"
            for reason, says, words in (
                    ("UNKNOWN_OPTION", f'{program} has no option "--dri"; did you mean --dir?', ("--dri", "/x")),
                    ("UNEXPECTED_ARGUMENT", f'{program} takes no further argument, but "now"', ("--dir", "/x", "now")),
                    ("MISSING_ARGUMENT", f"{port} needs a value", ("--dir", "/x", port)),
                    ("BAD_ARGUMENT", "did you mean never?", ("--dir", "/x", "--local-data", "nevr"))):
                code, out, err = self.companion(*start, *words)
                self.assertEqual((code, out), (2, ""), err)
                self.assertIn(says, err)
                self.assertRegex(err, rf"^{program}: .*See {program} --help \({reason}\)\n$|"
                                      rf"^{program}: .*; see {program} --help \({reason}\)\n$")
        code, _, err = self.companion("tandem-worker")
        self.assertEqual(code, 2)
        self.assertIn("tandem-worker needs --dir DIR: ", err)

    def test_every_help_begins_with_examples(self):
        for words in (("tandem",), ("tandem-master",), ("tandem-worker",), ("tandem", "master", "start"),
                      ("tandem", "worker", "start"), ("tandem", "worker"), ("tandem", "run")):
            code, out, err = self.companion(*words, "--help")
            self.assertEqual((code, err), (0, ""), words)
            self.assertRegex(out, r"(?s)^.{1,200}\n\nExamples:\n  tandem.*\nUsage: ", words)

    def test_companions_give_reasons(self):
        for words, code, reason in ((("tandem-master", "--dir", "/none", "--lease-ttl", "soon"), 2, "BAD_DURATION"),
                                    (("tandem-master", "--dir", "/none", "--lease-ttl", "90"), 2, "AMBIGUOUS"),
                                    (("tandem-master", "--dir", "/none", "--retention", "x"), 2, "BAD_DURATION"),
                                    (("tandem-worker", "--dir", "/none", "--master", "nowhere"), 2, "BAD_ARGUMENT"),
                                    # Root too can make nothing there.
                                    (("tandem-master", "--dir", "/proc/none", "--listen", "127.0.0.1:0"), 4,
                                     "PATH_UNWRITABLE"),
                                    (("tandem-master", "--dir", "/dev/null", "--listen", "127.0.0.1:0"), 4,
                                     "PATH_UNWRITABLE"),
                                    (("tandem-worker", "--dir", "/proc/none"), 4, "PATH_UNWRITABLE"),
                                    (("tandem-worker", "--dir", "/dev/null"), 4, "PATH_UNWRITABLE"),
                                    (("tandem", "up", "--dir", "/proc/none"), 4, "PATH_UNWRITABLE"),
                                    (("tandem", "up", "--dir", "/dev/null"), 4, "PATH_UNWRITABLE"),
                                    (("tandem", "up", "--ready-file", "/none/ready"), 4, "PATH_UNWRITABLE")):
            found, _, err = self.companion(*words)
            self.assertEqual(found, code, err)
            self.assertTrue(err.startswith(words[0] + ": ") and err.endswith(f" ({reason})\n"), err)

    def test_up_names_the_folder_for_temporary_files(self):
        code, _, err = tandem("up", TMPDIR="/none/of/these")
        self.assertEqual(code, 4, err)
        self.assertIn('TMPDIR is "/none/of/these"', err)
        self.assertIn("(PATH_UNWRITABLE)", err)

    def test_the_documents_name_only_reasons_that_there_are(self):
        root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
        with open(os.path.join(root, "common/base/reason.h")) as file:
            reasons = set(re.findall(r'"([A-Z_]+)"\)', file.read()))
        with open(os.path.join(root, "docs/command_line.md")) as file:
            document = file.read()
        named = set(re.findall(r"`([A-Z]+_[A-Z_]+)`", document)) - set(re.findall(r"`(TANDEM_\w+|XDG_\w+|NO_COLOR)`", document))
        self.assertGreater(len(named), 15)
        self.assertLessEqual(named, reasons)

    def test_manual_pages_tell_of_every_command_and_variable(self):
        root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
        variables, known = set(), set()
        for folder in ("client", "common", "worker", "master", "kernels/sdk"):
            for path, _, names in os.walk(os.path.join(root, folder)):
                for name in names:
                    if name.endswith((".cc", ".h")):
                        with open(os.path.join(path, name)) as file:
                            found = set(re.findall(r'"(TANDEM_[A-Z_]+)"', file.read()))
                        if name == "environment.cc":
                            known = {variable for variable in found if not variable.endswith("_")}
                        else:
                            variables |= found
        self.assertEqual(known, variables, "those that common/cli/environment.cc takes for mistyped, or not")
        variables = {name for name in variables if "FAILPOINTS" not in name}  # of tests
        self.assertLessEqual({"TANDEM_ADDRESS", "TANDEM_HASH_CACHE", "TANDEM_OUTPUT"}, variables)
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, os.path.join(root, "deploy/man/make_man.py"), "--bin", BIN, "--version", "1",
                            "--out", folder], check=True, timeout=300)
            pages = {name: open_text(os.path.join(folder, name)) for name in os.listdir(folder)}
        for name, text in pages.items():
            listed = set(re.findall(r"^\.B (TANDEM_\w+)$", text.replace("\\-", "-"), re.M))
            self.assertEqual(listed, variables, name)
        self.assertLessEqual({"tandem.1", "tandem-master.8", "tandem-worker.8", "tandem-run.1"}, set(pages))
        for page, commands in (("tandem-worker.1", ("LS", "SHOW", "DRAIN", "RESUME", "EXPLAIN", "TOP")),
                               ("tandem-master.1", ("STATUS",)), ("tandem-job.1", ("LS", "WAIT", "RESULTS"))):
            group = page.split(".")[0].replace("-", " ").upper()
            for command in commands:
                self.assertIn(f'.SH "{group} {command}"', pages[page])
            self.assertIn(".SH SYNOPSIS", pages[page])

    def test_a_mistyped_variable_is_said_and_changes_nothing(self):
        for program, *words in (("tandem", "config", "path"), ("tandem-master", "--version"), ("tandem-worker", "--help")):
            environment = {**os.environ, "TANDEM_ADRESS": "nowhere", "TANDEM_SOFTCUDA": "/x"}
            done = subprocess.run([os.path.join(BIN, program), *words], capture_output=True, text=True, env=environment, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stderr, f"{program}: TANDEM_ADRESS is read by no program; did you mean TANDEM_ADDRESS?\n")
        done = subprocess.run([os.path.join(BIN, "tandem"), "complete", "job", "r"], capture_output=True, text=True, env=environment,
                              timeout=60)
        self.assertEqual((done.stdout, done.stderr), ("results\nrm\n", ""))

    def test_help_and_version_are_no_errors(self):
        for words in (("--help",), ("job", "--help"), ("job", "ls", "-h"), ("--version",)):
            code, out, err = tandem(*words)
            self.assertEqual((code, err), (0, ""), words)
            self.assertIn("tandem", out)


if __name__ == "__main__":
    unittest.main(verbosity=2)
