"""Runs the commands of the documents and compares what they print.

    docs_test.py BIN_DIR [FILE...]

A document's ```console blocks are one session of bash, from its first block to its last, in a folder of its own
that holds the repository's examples/. Lines that begin with "$ " are commands (a line that ends with a backslash
goes on); the lines after them are what must come. "…" stands for any text in a line, a line of "…" alone for any
lines. A command must end with 0 unless its last line is "(exit N)". The port 7460 of the documents is another
one here, so that a cluster that runs on this machine is not in the way.
"""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN_DIR = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
PATIENCE = 120  # seconds a command


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def sessions_of(path):
    """[(line, command, expected lines)] of a document's console blocks."""
    steps, inside = [], False
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\n")
            if line.startswith("```"):
                inside = line == "```console"
            elif inside and line.startswith("$ "):
                steps.append((number, [line[2:]], []))
            elif inside and steps and steps[-1][1][-1].endswith("\\"):
                steps[-1][1].append(line)
            elif inside and steps:
                steps[-1][2].append(line)
    return [(number, "\n".join(command), expected) for number, command, expected in steps]


def matches(expected, lines):
    if not expected:
        return not lines
    if expected[0].strip() == "…":
        return any(matches(expected[1:], lines[i:]) for i in range(len(lines) + 1))
    if not lines:
        return False
    pattern = ".*".join(re.escape(part.strip()) for part in expected[0].split("…"))
    text = lines[0].strip()
    return re.fullmatch(pattern.replace(r"\ ", r"\s+"), text) is not None and matches(expected[1:], lines[1:])


class Shell:
    """A bash that runs one command after the other and says how each ended."""

    def __init__(self, folder):
        environment = dict(os.environ, PATH=f"{BIN_DIR}:/usr/bin:{os.environ['PATH']}", NO_COLOR="1", HOME=folder)
        for name in list(environment):
            if name.startswith("TANDEM_"):
                del environment[name]
        self.port = free_port()
        environment["TANDEM_ADDRESS"] = f"127.0.0.1:{self.port}"
        self.process = subprocess.Popen(["bash"], cwd=folder, env=environment, text=True, start_new_session=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, command):
        command = command.replace("7460", str(self.port)).replace("tandem up", f"tandem up --port {self.port}")
        self.process.stdin.write(f"{command}\necho \"<<ended $?>>\"\n")
        self.process.stdin.flush()
        watchdog = threading.Timer(PATIENCE, self.kill)
        watchdog.start()
        lines = []
        for line in self.process.stdout:
            ended = re.fullmatch(r"(.*)<<ended (\d+)>>\n", line)
            if ended:
                watchdog.cancel()
                return lines + ([ended[1]] if ended[1] else []), int(ended[2])
            if re.match(r"job \d+ +[\d.]+% ", line):
                continue  # Progress, which a fast machine has no time for.
            lines.append(line.rstrip("\n").replace(str(self.port), "7460").replace(" --address 127.0.0.1:7460", ""))
        watchdog.cancel()
        raise AssertionError(f"bash ended, or `{command}` took {PATIENCE} s; it had printed {lines}")

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)

    def close(self):
        self.process.stdin.close()
        try:  # What runs in the background ends as on a Ctrl-C.
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait(20)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            self.kill()
        self.process.stdout.close()


class DocsTest(unittest.TestCase):
    def check(self, path):
        steps = sessions_of(path)
        if not steps:
            return
        folder = tempfile.mkdtemp(prefix="tandem_docs_")
        os.symlink(os.path.join(ROOT, "examples"), os.path.join(folder, "examples"))
        data = os.path.join(ROOT, "build", "data")  # What one page fetches is there for the next.
        os.makedirs(data, exist_ok=True)
        os.symlink(data, os.path.join(folder, "data"))
        shell = Shell(folder)
        try:
            for number, command, expected in steps:
                lines, code = shell.run(command)
                wanted = 0
                if expected and (ends := re.fullmatch(r"\(exit (\d+)\)", expected[-1])):
                    wanted, expected = int(ends[1]), expected[:-1]
                where = f"{os.path.relpath(path, ROOT)}:{number}: $ {command}\n"
                self.assertEqual(code, wanted, where + "\n".join(lines))
                background = command.rstrip().endswith("&")
                if not background:
                    self.assertTrue(matches(expected, lines),
                                    where + "printed\n" + "\n".join(lines) + "\nnot\n" + "\n".join(expected))
        finally:
            shell.close()
            shutil.rmtree(folder, ignore_errors=True)

    def test_lines_are_compared_with_gaps(self):
        self.assertTrue(matches(["a … c", "…", "z"], ["a  b c", "x", "y", "z"]))
        self.assertFalse(matches(["a … c"], ["a b d"]))
        self.assertFalse(matches(["a"], ["a", "b"]))


def add(path):
    name = "test_" + re.sub(r"\W", "_", os.path.relpath(path, ROOT))
    setattr(DocsTest, name, lambda self: self.check(path))


if __name__ == "__main__":
    documents = sys.argv[1:] or [os.path.join(ROOT, "README.md")] + [
        os.path.join(ROOT, "docs", name) for name in sorted(os.listdir(os.path.join(ROOT, "docs")))
        if name.endswith(".md")]
    for document in documents:
        add(os.path.abspath(document))
    unittest.main(argv=sys.argv[:1], verbosity=2)
