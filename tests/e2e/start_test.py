#!/usr/bin/env python3
"""Masters that cannot start say why, with a reason and an exit code, and leave everything as it was."""
import json
import os
import socket
import sqlite3
import subprocess
import sys
import unittest

from processes import Processes, free_port, wait_for

BIN = sys.argv.pop(1)


class StartTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Processes(BIN)
        self.enterContext(self.cluster)

    def start(self, *flags):
        """A master that shall not start: (exit code, what it said)."""
        done = subprocess.run([self.cluster.program("tandem-master"), *flags], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr

    def epoch(self):
        return json.loads(self.cluster.tandem("master", "status", "-o", "json")[0])["epoch"]

    def files(self):
        found = {}
        for folder, _, names in os.walk(self.cluster.path("master")):
            for name in names:
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    found[path] = file.read()
        return found

    def logged(self, what):
        with open(self.cluster.log_path) as file:
            return [line for line in file if what in line]

    def test_a_worker_without_a_master_says_so_once(self):
        self.cluster.address = f"127.0.0.1:{free_port()}"
        self.cluster.start_worker("w")
        wait_for("the worker to say it", lambda: self.logged("no_master_answers"))
        self.cluster.start_master()
        self.cluster.wait_attached(1)
        [line] = self.logged("no_master_answers")
        self.assertIn(self.cluster.address, line)
        # A second one of that name is refused, again and again, and says so once.
        twin = self.cluster._start(self.cluster.program("tandem-worker"), "--master", self.cluster.address, "--dir",
                                   self.cluster.path("twin"), "--name", "w")
        self.cluster.workers["twin"] = twin
        wait_for("the twin to say it", lambda: self.logged("WORKER_NAME_IN_USE"))
        self.cluster.stop_worker("w")
        wait_for("the twin to take over", lambda: self.cluster.attached() == ["w"])
        self.assertEqual(len(self.logged("attach_refused")), 1)

    def test_a_port_in_use_makes_no_store(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = "127.0.0.1:%d" % taken.getsockname()[1]
            code, says = self.start("--dir", self.cluster.path("fresh"), "--listen", address)
        self.assertEqual(code, 5)
        self.assertIn("(ADDRESS_IN_USE)", says)
        self.assertIn("--listen", says)
        self.assertFalse(os.path.exists(self.cluster.path("fresh")))

    def test_a_port_in_use_does_not_raise_the_epoch(self):
        self.cluster.start_master()
        epoch = self.epoch()
        self.cluster.master.terminate()
        self.cluster.master.wait()
        before = self.files()
        host, port = self.cluster.address.split(":")
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind((host, int(port)))
            taken.listen()
            for _ in range(3):
                self.assertEqual(self.start("--dir", self.cluster.path("master"), "--listen", self.cluster.address)[0], 5)
        self.assertEqual(self.files(), before)
        self.cluster.start_master()
        self.assertEqual(self.epoch(), epoch + 1)

    def test_a_directory_in_use_is_left_to_its_master(self):
        self.cluster.start_master()
        epoch = self.epoch()
        code, says = self.start("--dir", self.cluster.path("master"), "--listen", "127.0.0.1:0")
        self.assertEqual(code, 5)
        self.assertIn("(STORE_LOCKED)", says)
        self.assertIn(str(self.cluster.master.pid), says)
        self.assertEqual(self.epoch(), epoch)
        self.cluster.tandem("run", "noop", "n=0")

    def test_a_directory_that_cannot_be_written_is_named(self):
        path = self.cluster.path("file")
        with open(path, "w"):
            pass
        code, says = self.start("--dir", os.path.join(path, "master"), "--listen", "127.0.0.1:0")
        self.assertEqual(code, 4, says)
        self.assertIn(path, says)
        self.assertRegex(says, r"\(PATH_UNWRITABLE\)")
        if os.geteuid() == 0:
            return  # Root may write everywhere.
        folder = self.cluster.path("locked")
        os.mkdir(folder, 0o500)
        code, says = self.start("--dir", folder, "--listen", "127.0.0.1:0")
        self.assertEqual(code, 4, says)
        self.assertRegex(says, r"\(PATH_UNWRITABLE\)")
        self.assertEqual(os.listdir(folder), [])

    def test_a_damaged_store_is_left_as_it_is_and_the_refusal_says_what_to_do(self):
        self.cluster.start_master()
        self.cluster.submit("noop", "n=10")
        self.cluster.master.terminate()
        self.cluster.master.wait()
        [database] = [f for f in os.listdir(self.cluster.path("master")) if f.endswith(".db")]
        with sqlite3.connect(self.cluster.path("master", database)) as db:
            # Half of a record's bytes of the first commit, which then does not fit its checksum.
            [[rows]] = db.execute("SELECT count(*) FROM log").fetchall()
            self.assertGreater(rows, 0)
            db.execute("UPDATE log SET payload = substr(payload, 1, length(payload) / 2)"
                       " WHERE rowid = (SELECT min(rowid) FROM log)")
        db.close()
        lock = self.cluster.path("master", "LOCK")  # names who holds it, so each try writes it
        before = {path: bytes_ for path, bytes_ in self.files().items() if path != lock}
        code, says = self.start("--dir", self.cluster.path("master"), "--listen", "127.0.0.1:0")
        self.assertEqual(code, 5, says)
        self.assertRegex(says, r"backup .*docs/operating\.md.* \(STORE_CORRUPT\)\n")
        for path, bytes_ in before.items():
            with open(path, "rb") as file:
                self.assertTrue(file.read() == bytes_, path)

    def test_a_store_of_a_newer_version_is_refused_unchanged(self):
        self.cluster.start_master()
        self.cluster.master.terminate()
        self.cluster.master.wait()
        [database] = [f for f in os.listdir(self.cluster.path("master")) if f.endswith(".db")]
        with sqlite3.connect(self.cluster.path("master", database)) as db:
            [[version]] = db.execute("PRAGMA user_version").fetchall()
            [[epoch]] = db.execute("SELECT epoch FROM meta").fetchall()
            db.execute(f"PRAGMA user_version = {version + 1}")
        db.close()
        code, says = self.start("--dir", self.cluster.path("master"), "--listen", "127.0.0.1:0")
        self.assertEqual(code, 8, says)
        self.assertIn("(VERSION_SKEW)", says)
        self.assertIn(str(version + 1), says)
        with sqlite3.connect(self.cluster.path("master", database)) as db:
            self.assertEqual(db.execute("SELECT epoch FROM meta").fetchall(), [(epoch,)])
        db.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
