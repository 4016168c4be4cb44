"""A cluster on this machine, as `tandem up` runs it, and the `tandem` command on it."""
import json
import os
import signal
import subprocess
import tempfile
import time


class Failed(Exception):
    """A command that ended otherwise than expected."""


class Cluster:
    """`tandem up` with its own directories; ends with the `with` block."""

    def __init__(self, bin_dir, workers, *flags):
        self.bin_dir = bin_dir
        self.folder = tempfile.TemporaryDirectory(prefix="tandem-demo-")
        ready = os.path.join(self.folder.name, "ready")
        self.log_path = os.path.join(self.folder.name, "log")
        self.log = open(self.log_path, "w")
        self.up = subprocess.Popen(
            [os.path.join(bin_dir, "tandem"), "up", "--workers", str(workers), "--port", "0", "--dir",
             os.path.join(self.folder.name, "data"), "--ready-file", ready, *flags],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + 30
        while not os.path.exists(ready):
            if self.up.poll() is not None or time.monotonic() > deadline:
                self.up.kill()
                raise Failed("the cluster did not start:\n" + open(self.log_path).read())
            time.sleep(0.01)
        with open(ready) as file:
            self.info = json.load(file)
        self.address = self.info["address"]

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.up.send_signal(signal.SIGINT)
        try:
            self.up.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.up.kill()
            self.up.wait()
        self.log.close()
        if exception[0] is not None:
            print("---- the cluster's log\n" + "".join(open(self.log_path).readlines()[-60:]))
        self.folder.cleanup()

    def start(self, *args):
        """The command, started and not waited for."""
        return subprocess.Popen(
            [os.path.join(self.bin_dir, "tandem"), "--address", self.address, *args],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def tandem(self, *args, code=0):
        """Runs the command; returns (stdout, stderr). Raises unless it exits with `code`."""
        process = self.start(*args)
        out, err = process.communicate(timeout=300)
        if process.returncode != code:
            raise Failed(f"tandem {' '.join(args)}: exit {process.returncode}, expected {code}\n{out}{err}")
        return out, err

    def job(self, job_id):
        return json.loads(self.tandem("job", "show", str(job_id), "-o", "json")[0])

    def worker(self, index):
        name = self.info["workers"][index]["name"]
        return json.loads(self.tandem("worker", "show", name, "-o", "json")[0])

    def kill_worker(self, index):
        os.kill(self.info["workers"][index]["pid"], signal.SIGKILL)
