"""A master and workers as single processes, for tests that kill and restart them."""
import json
import os
import re
import signal
import socket
import struct
import subprocess
import tempfile
import time

# Seconds; generous: sanitizers and loaded machines are slow.
PATIENCE = int(os.environ.get("TANDEM_E2E_PATIENCE", 60))


class Failed(AssertionError):
    pass


def free_port():
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(what, condition):
    """Until condition() is true; returns its value."""
    deadline = time.monotonic() + PATIENCE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise Failed("waited in vain for " + what)
        time.sleep(0.01)  # poll: for the condition, at most PATIENCE


class Processes:
    """Use as a context: everything it started is killed at the end, and its log shown after a failure."""

    def __init__(self, bin_dir):
        self.bin_dir = bin_dir
        self.folder = tempfile.TemporaryDirectory(prefix="tandem-e2e-")
        self.log_path = self.path("log")
        self.log = open(self.log_path, "w")
        self.master = None
        self.workers = {}
        self.address = None
        self.environment = {}  # more of it, for masters and workers that are started from now on
        self.gpus = "none"  # a test that wants the machine's says "auto"

    def keep_nothing_freed(self):
        """For what is started from now on and whose memory is measured: AddressSanitizer would keep 256 MiB of it."""
        if "ASAN_OPTIONS" in os.environ:
            self.environment["ASAN_OPTIONS"] = os.environ["ASAN_OPTIONS"] + ":quarantine_size_mb=1"

    def path(self, *names):
        return os.path.join(self.folder.name, *names)

    def program(self, name):
        return os.path.join(self.bin_dir, name)

    def _start(self, *argv):
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                env={**os.environ, **self.environment})

    def start_master(self, *flags):
        """Starts it, or starts it again on the same address and directory."""
        port_file = self.path("port")
        if os.path.exists(port_file):
            os.remove(port_file)
        listen = self.address or "127.0.0.1:0"
        self.master = self._start(self.program("tandem-master"), "--dir", self.path("master"), "--listen", listen,
                                  "--port-file", port_file, *flags)

        def port():
            if self.master.poll() is not None:
                raise Failed(f"tandem-master ended with {self.master.returncode}")
            if not os.path.exists(port_file):
                return None
            with open(port_file) as file:
                return file.read().strip() or None
        self.address = "127.0.0.1:" + wait_for("the master's port", port)

    def start_worker(self, name, *flags):
        self.workers[name] = self._start(self.program("tandem-worker"), "--master", self.address, "--dir",
                                         self.path(name), "--name", name, "--gpus", self.gpus, *flags)

    def attached(self):
        out = json.loads(self.tandem("worker", "ls", "-o", "json")[0])
        return [w["name"] for w in out["items"] if w["state"] == "ATTACHED"]

    def wait_attached(self, count):
        wait_for(f"{count} workers", lambda: len(self.attached()) >= count)

    def kill_master(self):
        self.master.kill()
        self.master.wait()

    def kill_worker(self, name):
        self.workers[name].kill()
        self.workers[name].wait()

    def stop_worker(self, name):
        """Ends it as a service manager does."""
        self.workers[name].terminate()
        self.workers[name].wait(timeout=PATIENCE)

    def run(self, *args, timeout=PATIENCE * 3):
        """The command: (exit code, stdout, stderr)."""
        done = subprocess.run([self.program("tandem"), "--address", self.address, *args],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)
        return done.returncode, done.stdout, done.stderr

    def tandem(self, *args):
        """The command, which must succeed: (stdout, stderr)."""
        code, out, err = self.run(*args)
        if code != 0:
            raise Failed(f"tandem {' '.join(args)}: exit {code}\n{out}{err}")
        return out, err

    def start_command(self, *args):
        return subprocess.Popen([self.program("tandem"), "--address", self.address, *args],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def submit(self, *args):
        return int(self.tandem("submit", *args)[0])

    def job(self, job_id):
        return json.loads(self.tandem("job", "show", str(job_id), "-o", "json")[0])

    def counters(self):
        return json.loads(self.tandem("master", "status", "-o", "json")[0])["counters"]

    def executors(self):
        """Pids of the executors of this cluster's workers."""
        parents = {process.pid for process in self.workers.values()}
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat") as file:
                    name, rest = re.match(r"\d+ \((.*)\) (.*)", file.read()).groups()
            except (OSError, AttributeError):
                continue
            if name.startswith("tandem-executor"[:15]) and int(rest.split()[1]) in parents:
                found.append(int(pid))
        return found

    def __enter__(self):
        return self

    def show_log(self):
        with open(self.log_path) as file:
            print("---- the cluster's log\n" + "".join(file.readlines()[-80:]))

    def __exit__(self, kind, *_):
        for process in [*self.workers.values(), self.master]:
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in [*self.workers.values(), self.master]:
            if process is None:
                continue
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.log.close()
        with open(self.log_path) as file:
            differs = any(" replay_differs " in line for line in file)
        if kind is not None or differs:
            self.show_log()
        self.folder.cleanup()
        if kind is None and differs:
            raise AssertionError("a master's log did not make the state again that the master had")


def read_npy(path):
    """A .npy file as (shape, flat tuple of values)."""
    with open(path, "rb") as file:
        bytes_ = file.read()
    length = int.from_bytes(bytes_[8:10], "little")
    header = eval(bytes_[10:10 + length].decode(), {"__builtins__": {}})  # a literal that we wrote
    data = bytes_[10 + length:]
    code = {"<f4": "f", "<f8": "d", "<u4": "I", "<u8": "Q", "|u1": "B", "<i4": "i", "<i8": "q"}[header["descr"]]
    return header["shape"], struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data)


def write_npy(path, descr, shape, values):
    code = {"<f4": "f", "<i4": "i", "<i8": "q", "<u4": "I", "|u1": "B"}[descr]
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple(shape)!r}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(struct.pack(f"<{len(values)}{code}", *values))
