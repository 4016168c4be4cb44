#!/usr/bin/env python3
"""`tandem up`: twice side by side, ports in use, and nothing left behind."""
import contextlib
import glob
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import unittest

from processes import wait_for

BIN = sys.argv.pop(1)


def running_under(folder):
    """Pids of processes whose command line names the folder."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if int(pid) != os.getpid() and any(word.startswith(folder.encode()) for word in words):
            found.append(int(pid))
    return found


class UpTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tandem-uptest-")
        self.addCleanup(self.folder.cleanup)
        self.env = {**os.environ, "TMPDIR": self.folder.name, "XDG_CONFIG_HOME": "/none"}
        self.env.pop("TANDEM_ADDRESS", None)
        self.ups = []
        self.addCleanup(self.kill_all)

    def kill_all(self):
        for up in self.ups:
            if up.poll() is None:
                up.kill()
            up.communicate()

    def up(self, *args):
        return self.announced(self.start(*args))

    def start(self, *args):
        up = subprocess.Popen([os.path.join(BIN, "tandem"), "up", *args], env=self.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="surrogateescape")
        self.ups.append(up)
        return up

    def announced(self, up):
        said = {}
        for line in up.stdout:
            if line.startswith("Ctrl-C"):
                break
            key, value = line.split(None, 1)
            said[key] = value.strip()
        self.assertEqual(sorted(said), ["data", "master", "try", "workers"])
        return up, said

    def stop(self, up, number=signal.SIGTERM):
        up.send_signal(number)
        self.assertEqual(up.wait(timeout=60), 0)

    def nothing_is_left(self):
        self.assertEqual(os.listdir(self.folder.name), [])
        wait_for("its processes to end", lambda: not running_under(self.folder.name))

    def test_two_side_by_side_and_the_command_that_each_says_to_try(self):
        first, one = self.up()
        second, two = self.up("--workers", "2")
        self.assertNotEqual(one["master"], two["master"])
        self.assertNotEqual(one["data"], two["data"])
        for said in (one, two):
            words = said["try"].replace("n=1000000000", "n=1000").split()
            self.assertEqual(words[0], "tandem")
            env = {k: v for k, v in self.env.items() if k != "TANDEM_ADDRESS"}
            done = subprocess.run([os.path.join(BIN, "tandem"), *words[1:]], capture_output=True, text=True, env=env)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"^hits = \d+\n$")
        self.stop(first, signal.SIGINT)
        self.stop(second, signal.SIGHUP)
        self.nothing_is_left()

    def test_a_folder_whose_name_is_not_utf_8(self):
        up, said = self.up("--dir", os.path.join(self.folder.name, os.fsdecode(b"d\xff"), "y"), "--port", "0")
        values, out = os.path.join(self.folder.name, "values.raw"), os.path.join(self.folder.name, "value.npy")
        with open(values, "wb") as file:
            file.write(bytes(range(256)) * 8192)
        for words in (("run", "noop", "n=1000000", "--out", f"value=@{out}"), ("run", "histogram", f"value=@{values}")):
            done = subprocess.run([os.path.join(BIN, "tandem"), "--address", said["master"], *words], env=self.env,
                                  capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(os.path.getsize(out), 8_000_128)
        self.stop(up)

    def refused(self, *args):
        done = subprocess.run([os.path.join(BIN, "tandem"), "up", *args], env=self.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr.splitlines()[-1]

    def test_two_at_the_same_moment(self):
        ups = [self.start("--workers", "0") for _ in range(3)]
        said = [self.announced(up)[1] for up in ups]
        self.assertEqual(len({one["master"] for one in said}), 3)
        for up in ups:
            self.stop(up)
        self.nothing_is_left()

    def test_why_a_child_did_not_start_is_why_it_did_not(self):
        data = os.path.join(self.folder.name, "data")
        up, _ = self.up("--dir", data, "--port", "0")
        code, says = self.refused("--dir", data, "--port", "0")
        self.assertEqual(code, 5)
        self.assertRegex(says, r"^tandem: the master did not start: .* in use by process \d+.*\(STORE_LOCKED\)$")
        self.stop(up)
        shutil.rmtree(os.path.join(data, "w1"))
        with open(os.path.join(data, "w1"), "w"):
            pass
        code, says = self.refused("--dir", data, "--port", "0")
        self.assertEqual(code, 4)
        self.assertRegex(says, r"^tandem: worker w1 did not start: cannot write .*data/w1.*\(PATH_UNWRITABLE\)$")
        [database] = glob.glob(os.path.join(data, "master", "*.db"))
        with contextlib.closing(sqlite3.connect(database)) as db, db:
            db.execute("PRAGMA user_version = 999")
        code, says = self.refused("--dir", data, "--port", "0")
        self.assertEqual(code, 8)
        self.assertRegex(says, r"^tandem: the master did not start: .*999.*\(VERSION_SKEW\)$")

    def test_ctrl_c_before_it_is_up_says_so(self):
        data = os.path.join(self.folder.name, "data")
        up = subprocess.Popen([os.path.join(BIN, "tandem"), "up", "--dir", data, "--port", "0"], env=self.env,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.ups.append(up)
        wait_for("the master", lambda: os.path.exists(os.path.join(data, "master")))
        up.send_signal(signal.SIGINT)
        _, err = up.communicate(timeout=60)
        self.assertEqual(up.returncode, 130, err)
        self.assertRegex(err.splitlines()[-1], r"^tandem: stopped by a signal (before|when) .*\(INTERRUPTED\)$")
        wait_for("its processes to end", lambda: not running_under(self.folder.name))

    def test_a_port_in_use_is_refused_not_shared(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            done = subprocess.run([os.path.join(BIN, "tandem"), "up", "--port", port], env=self.env,
                                  capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 5)
            self.assertIn("(ADDRESS_IN_USE)", done.stderr)
            self.assertIn(port, done.stderr)
        self.nothing_is_left()

    def test_what_a_killed_one_left_goes_with_the_next(self):
        up, said = self.up()
        folder = re.sub(r" \(.*", "", said["data"])
        up.kill()
        up.wait()
        self.assertTrue(os.path.isdir(folder))
        wait_for("its processes to end", lambda: not running_under(folder))
        again, _ = self.up()
        self.assertFalse(os.path.exists(folder))
        self.stop(again)
        self.nothing_is_left()

    def test_a_kept_directory_is_kept_and_used_again(self):
        data = os.path.join(self.folder.name, "data")
        for expected in ("1", "2"):
            up, said = self.up("--dir", data, "--port", "0")
            self.assertEqual(said["data"], data)
            done = subprocess.run([os.path.join(BIN, "tandem"), "--address", said["master"], "submit", "noop", "n=1"],
                                  env=self.env, capture_output=True, text=True)
            self.assertEqual(done.stdout, expected + "\n", done.stderr)
            self.stop(up)
        self.assertEqual(glob.glob(os.path.join(self.folder.name, "tandem-up-*")), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
