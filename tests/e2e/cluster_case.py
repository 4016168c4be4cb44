"""A test case with one master and one worker of its own, for tests of what people type."""
import os
import subprocess
import sys
import unittest

from processes import PATIENCE, Processes

BIN = sys.argv.pop(1)


class ClusterCase(unittest.TestCase):
    MASTER_FLAGS = ()
    WORKER_FLAGS = ()
    GPUS = "none"

    @classmethod
    def setUpClass(cls):
        cls.cluster = Processes(BIN)
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.__exit__, None, None, None)
        cls.cluster.gpus = cls.GPUS
        cls.cluster.start_master(*cls.MASTER_FLAGS)
        cls.cluster.start_worker("w", *cls.WORKER_FLAGS)
        cls.cluster.wait_attached(1)

    def path(self, name):
        return self.cluster.path(name)

    def write(self, name, content):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return path

    def command(self, *args, **options):
        """The command with subprocess's options: (exit code, stdout as bytes, stderr)."""
        done = subprocess.run([self.cluster.program("tandem"), "--address", self.cluster.address, *args],
                              stdin=options.pop("stdin", subprocess.DEVNULL) if "input" not in options else None,
                              capture_output=True, timeout=PATIENCE * 3, **options)
        return done.returncode, done.stdout, done.stderr.decode(errors="replace")

    def ok(self, *args, **options):
        """The command, which must succeed: its stdout as bytes."""
        code, out, err = self.command(*args, **options)
        self.assertEqual(code, 0, err)
        return out

    def refused(self, code, reason, says, *args, **options):
        """The command, which must be refused, at once and with nothing submitted."""
        before = self.cluster.tandem("job", "ls", "-o", "name", "--limit", "1")[0]
        found, out, err = self.command(*args, **options)
        self.assertEqual(found, code, err)
        self.assertIn(f"({reason})", err)
        for words in [says] if isinstance(says, str) else says:
            self.assertIn(words, err)
        self.assertEqual(out, b"")
        self.assertEqual(self.cluster.tandem("job", "ls", "-o", "name", "--limit", "1")[0], before)
        return err


def main():
    unittest.main(verbosity=2)
