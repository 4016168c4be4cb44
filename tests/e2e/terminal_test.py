#!/usr/bin/env python3
"""On a terminal there is a bar; with NO_COLOR, TERM=dumb or no terminal there are plain lines."""
import os
import pty
import signal
import subprocess
import sys
import unittest

from processes import Processes

BIN = sys.argv.pop(1)


class TerminalTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Processes(BIN)
        cls.cluster.__enter__()
        cls.cluster.start_master()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    def said(self, until, **env):
        """What a waiting `run` writes to its terminal until `until` is there, and after Ctrl-C."""
        ours, theirs = pty.openpty()
        run = subprocess.Popen([self.cluster.program("tandem"), "--address", self.cluster.address, "run", "noop",
                                "n=9"], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
                               env={**os.environ, "TERM": "xterm", "XDG_CONFIG_HOME": "/none", **env})
        os.close(theirs)
        said, sent = b"", False
        while True:
            try:
                said += os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            if until in said and not sent:
                run.send_signal(signal.SIGINT)
                sent = True
        os.close(ours)
        self.assertEqual(run.wait(timeout=60), 130, said)
        self.cluster.tandem("job", "cancel", "last")
        return said

    def test_a_bar_on_a_terminal(self):
        said = self.said(b"NO_WORKER")
        self.assertIn(b"\r\x1b[Kjob", said)
        self.assertIn(b"0.0%", said)

    def test_plain_lines_where_that_is_asked_for(self):
        for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TANDEM_PROGRESS": "lines"}, {"TANDEM_PROGRESS": "none"}):
            self.assertNotIn(b"\x1b", self.said(b"submitted", **env), env)

    def test_colour_is_not_forced_elsewhere(self):
        out, err = self.cluster.tandem("job", "ls")
        self.assertNotIn("\x1b", out + err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
