#!/usr/bin/env python3
"""`tandem doctor`, `tandem version`, `tandem completion`: a machine, its master, and a shell."""
import json
import os
import socket
import subprocess
import sys
import unittest

from processes import Processes

BIN = sys.argv.pop(1)


class DoctorTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Processes(BIN)
        cls.cluster.__enter__()
        cls.cluster.start_master()
        cls.cluster.start_worker("w")
        cls.cluster.wait_attached(1)
        cls.env = {**os.environ, "XDG_CONFIG_HOME": "/none"}
        cls.env.pop("TANDEM_ADDRESS", None)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    def tandem(self, *args, **env):
        done = subprocess.run([self.cluster.program("tandem"), *args], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=60, env={**self.env, **env})
        return done.returncode, done.stdout, done.stderr

    def findings(self, code, *args):
        found, out, err = self.tandem("doctor", "-o", "json", *args)
        self.assertEqual(found, code, out + err)
        shown = json.loads(out)
        self.assertEqual((shown["api_version"], shown["kind"]), ("tandem.v1", "findings"))
        for item in shown["items"]:
            self.assertEqual(sorted(item), ["check", "facts", "found", "mend", "reason", "verdict"])
            self.assertEqual(item["mend"] == "", item["verdict"] == "ok", item)
        return {item["check"]: item for item in shown["items"]}

    @unittest.skipIf(os.path.exists("/dev/nvidiactl"), "skipped: there is a GPU")
    def test_without_a_gpu_it_says_so(self):
        gpus = self.findings(0, "--address", self.cluster.address)["gpus"]
        self.assertEqual(gpus["verdict"], "ok")
        self.assertRegex(gpus["found"], "no NVIDIA GPU")

    def test_a_cluster_that_is_well(self):
        found = self.findings(0, "--address", self.cluster.address)
        self.assertEqual(sorted(name for name in found if not name.startswith("gpu ")),
                         ["clock", "cores", "disk", "gpus", "master", "memory", "numa", "open files", "programs",
                          "shared memory", "versions"])
        self.assertEqual(found["master"]["verdict"], "ok")
        self.assertLess(abs(found["clock"]["facts"]["offset_seconds"]), 5)
        self.assertGreater(found["disk"]["facts"]["sync_seconds"], 0)
        self.assertEqual(found["cores"]["facts"]["allowed"], len(os.sched_getaffinity(0)))

    def test_one_line_each(self):
        code, out, _ = self.tandem("doctor", "--address", self.cluster.address)
        checks = len(self.findings(0, "--address", self.cluster.address))
        self.assertEqual((code, len(out.splitlines())), (0, checks + 1))
        names = self.tandem("doctor", "--address", self.cluster.address, "-o", "name")[1].splitlines()
        self.assertEqual(len(names), checks)

    def test_a_master_that_is_not_there(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        found = self.findings(5, "--address", address)
        self.assertEqual((found["master"]["verdict"], found["master"]["reason"]), ("FAILURE", "MASTER_UNAVAILABLE"))
        self.assertEqual(found["port"]["verdict"], "ok")

    def test_a_port_that_something_else_has(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            found = self.findings(5, "--address", f"127.0.0.1:{taken.getsockname()[1]}")
            self.assertEqual(found["port"]["reason"], "ADDRESS_IN_USE")

    def test_a_folder_that_cannot_be_used(self):
        found = self.findings(4, "--address", self.cluster.address, "--dir", "/none")
        self.assertEqual(found["disk"]["reason"], "PATH_UNWRITABLE")

    def test_few_open_files(self):
        done = subprocess.run(["bash", "-c", "ulimit -n 200; exec \"$@\"", "_", self.cluster.program("tandem"), "doctor",
                               "--address", self.cluster.address, "-o", "json"], capture_output=True, text=True,
                              env=self.env)
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertIn("ulimit -n", done.stdout)

    def test_versions_of_all_parts(self):
        code, out, err = self.tandem("version", "--address", self.cluster.address, "-o", "json")
        self.assertEqual(code, 0, err)
        parts = [(item["part"], item["name"]) for item in json.loads(out)["items"]]
        self.assertEqual(parts, [("client", "tandem"), ("master", self.cluster.address), ("worker", "w")])
        self.assertEqual(len({item["version"] for item in json.loads(out)["items"]}), 1)
        code, out, err = self.tandem("version", "--address", "127.0.0.1:1", TANDEM_PATIENCE="50ms")
        self.assertEqual(code, 5)
        self.assertIn("client", out)

    def test_master_status(self):
        status = json.loads(self.tandem("master", "status", "--address", self.cluster.address, "-o", "json")[1])
        self.assertEqual(sorted(status), ["address", "api_version", "cluster_id", "counters", "epoch", "jobs_running",
                                          "kind", "version", "workers"])
        self.assertEqual((status["kind"], status["workers"]), ("master", 1))
        self.assertEqual(self.tandem("master", "status", "--address", self.cluster.address, "-o", "name")[1],
                         self.cluster.address + "\n")

    def complete(self, line):
        """What bash offers for the last word of a line."""
        script = ('source <("$1/tandem" completion bash); PATH=$1:$PATH; COMP_LINE=$2; COMP_POINT=${#2}; '
                  'eval "COMP_WORDS=($3)"; COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _tandem 2>/dev/null; '
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        words = []  # as bash splits them
        for word in line.split(" "):
            piece = ""
            pieces = []
            for char in word:
                if char in "=:@":
                    pieces += [piece, char] if piece else [char]
                    piece = ""
                else:
                    piece += char
            words += pieces + ([piece] if piece or not pieces else [])
        quoted = " ".join(f"'{word}'" for word in words)
        done = subprocess.run(["bash", "-c", script, "_", BIN, line, quoted], capture_output=True, text=True,
                              cwd=self.cluster.folder.name, env={**self.env, "TANDEM_ADDRESS": self.cluster.address})
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_bash_completes(self):
        self.assertEqual(self.complete("tandem kern"), ["kernel"])
        self.assertEqual(self.complete("tandem kernel "), ["ls", "show"])
        self.assertEqual(self.complete("tandem kernel show black"), ["black_scholes"])
        self.assertEqual(self.complete("tandem run noop --gr"), ["--grain"])
        self.assertEqual(self.complete("tandem run noop --device "), ["auto", "cpu", "gpu"])
        self.assertEqual(self.complete("tandem run noop --device=g"), ["gpu"])
        self.assertEqual(sorted(self.complete("tandem run saxpy ")), ["n=", "scale=", "x=", "y="])
        self.assertEqual(self.complete("tandem worker show "), ["w"])
        with open(self.cluster.path("spot.npy"), "w"):
            pass
        self.assertEqual(self.complete("tandem run saxpy x=@spo"), ["spot.npy"])
        self.assertEqual(self.complete("tandem run saxpy x=path:spo"), ["spot.npy"])

    def test_other_shells_have_scripts_too(self):
        for shell in ("bash", "zsh", "fish"):
            code, out, _ = self.tandem("completion", shell)
            self.assertEqual(code, 0)
            self.assertIn(" complete ", out)
        self.assertEqual(self.tandem("completion", "tcsh")[0], 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
