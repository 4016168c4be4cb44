#!/usr/bin/env python3
"""Blobs: uploaded once, gone on with, listed, fetched, deleted only when nothing needs them, swept."""
import glob
import hashlib
import json
import os
import re
import signal
import sys
import unittest
import unittest.mock

from processes import Processes, wait_for

BIN = sys.argv.pop(1)


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class DataTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Processes(BIN)
        self.enterContext(self.cluster)
        os.environ["TANDEM_HASH_CACHE"] = self.cluster.path("hashes")

    def file(self, name, megabytes, byte=b"q"):
        path = self.cluster.path(name)
        with open(path, "wb") as file:
            for _ in range(megabytes):
                file.write(byte * (1 << 20))
        return path

    def blobs(self):
        return json.loads(self.cluster.tandem("data", "ls", "-o", "json")[0])["items"]

    def refused(self, reason, *args):
        code, out, err = self.cluster.run(*args)
        self.assertNotEqual(code, 0, out + err)
        self.assertIn(f"({reason})", err)
        return code

    def histogram(self, values):
        """(Exit code, stderr, the counts' bytes) of a run over a file."""
        counts = self.cluster.path("counts.raw")
        code, out, err = self.cluster.run("run", "histogram", f"value=@{values}", "--out", f"count=@{counts}", "--force")
        if code != 0:
            return code, out + err, b""
        with open(counts, "rb") as file:
            return code, out + err, file.read()

    def test_a_damaged_blob_is_no_operand(self):
        self.cluster.start_master()
        for flags in ((), ("--local-data", "never")):  # the master's file mapped, its bytes fetched
            way = flags[-1] if flags else "auto"
            self.cluster.start_worker(f"first-{way}", *flags)
            self.cluster.wait_attached(1)
            values = self.file(f"values-{way}", 4, way[:1].encode())
            sha = sha256(values)
            code, err, want = self.histogram(values)
            self.assertEqual(code, 0, err)
            blob, = glob.glob(self.cluster.path("master") + f"/**/blobs/*/{sha}", recursive=True)
            with open(blob, "r+b") as file:
                file.seek(3 << 20)
                file.write(b"xy")
            # A worker without the good bytes in its cache must not be fooled.
            self.cluster.kill_worker(f"first-{way}")
            self.cluster.start_worker(f"second-{way}", *flags)
            wait_for("the second worker", lambda: self.cluster.attached() == [f"second-{way}"])
            code, err, _ = self.histogram(values)
            self.assertEqual(code, 1, err)
            self.assertIn("CHECKSUM_MISMATCH", err)
            self.assertIn(f"tandem data rm {sha}", err)
            # What the error says to do.
            self.cluster.tandem("data", "rm", sha)
            self.assertEqual(self.histogram(values), (0, unittest.mock.ANY, want))
            self.cluster.kill_worker(f"second-{way}")
            wait_for("no worker", lambda: not self.cluster.attached())

    def test_equal_files_of_one_command_are_sent_once(self):
        self.cluster.start_master()
        one, same = self.file("one", 3), self.file("same", 3)
        _, err = self.cluster.tandem("data", "put", one, same)
        self.assertIn("3MiB of 6MiB sent", err)
        floats = self.file("floats", 2, b"\0")
        out, _ = self.cluster.tandem("run", "linear", f"x=@{floats}", f"w=@{floats}", "b=constant(0)", "k=1024", "--dry-run")
        self.assertRegex(out, r"to upload +2MiB\n")

    def test_a_file_is_sent_once_and_comes_back_byte_for_byte(self):
        self.cluster.start_master()
        path = self.file("five", 5)
        out, err = self.cluster.tandem("data", "put", path)
        self.assertIn(sha256(path), out)
        self.assertIn("5MiB of 5MiB sent", err)
        _, err = self.cluster.tandem("data", "put", path)
        self.assertIn("0B of 5MiB sent", err)
        self.assertEqual([(b["bytes"], b["in_use"]) for b in self.blobs()], [(5 << 20, False)])
        back = self.cluster.path("back")
        self.cluster.tandem("data", "get", sha256(path)[:12], "--out", back)
        self.assertEqual(sha256(back), sha256(path))
        self.refused("PATH_EXISTS", "data", "get", sha256(path), "--out", back)
        self.assertEqual(self.refused("BLOB_NOT_FOUND", "data", "get", "0123456789", "--out", self.cluster.path("no")), 3)
        self.assertFalse(os.path.exists(self.cluster.path("no")))
        self.assertEqual(self.refused("BAD_ARGUMENT", "data", "rm", "xyz"), 2)

    def test_unused_ones_are_deleted_or_those_that_are_named(self):
        self.cluster.start_master()
        kept, named = self.file("kept", 1, b"k"), self.file("named", 1, b"n")
        self.cluster.tandem("data", "put", kept, named)
        self.assertEqual(self.refused("BAD_ARGUMENT", "data", "rm", "--unused", sha256(named)), 2)
        self.assertEqual(self.refused("BAD_ARGUMENT", "data", "rm"), 2)
        self.assertEqual({blob["id"] for blob in self.blobs()}, {sha256(kept), sha256(named)})
        self.assertEqual(len(self.cluster.tandem("data", "rm", "--unused", "-o", "name")[0].split()), 2)

    def test_ctrl_c_while_a_file_is_read_ends_the_command_as_is_promised(self):
        self.cluster.start_master()
        large = self.cluster.path("sparse")
        with open(large, "wb") as file:
            file.truncate(1 << 40)  # and no bytes: to read it all takes far longer than this test
        for words in (("data", "put", large), ("submit", "histogram", f"value=@{large}"),
                      ("run", "histogram", f"value=path:{large}")):
            command = self.cluster.start_command(*words)

            def reads():
                if command.poll() is not None:
                    raise AssertionError(command.communicate()[1])
                with open(f"/proc/{command.pid}/io") as file:
                    return int(re.search(r"rchar: (\d+)", file.read()).group(1)) > 16 << 20
            wait_for("the reading", reads)
            command.send_signal(signal.SIGINT)
            out, err = command.communicate(timeout=60)
            self.assertEqual((command.returncode, out), (130, ""), err)
            self.assertTrue(err.endswith(" (INTERRUPTED)\n"), err)
        self.assertEqual(self.cluster.tandem("job", "ls", "-o", "name")[0], "")

    def test_a_blob_that_a_live_job_uses_stays(self):
        self.cluster.start_master()  # and no worker: the job waits
        path = self.file("value", 2)
        job = self.cluster.submit("histogram", f"value=@{path}:[2097152]")
        blob = self.blobs()[0]
        self.assertEqual((blob["in_use"], blob["jobs"]), (True, [job]))
        self.refused("BLOB_IN_USE", "data", "rm", blob["id"])
        self.cluster.kill_master()
        self.cluster.start_master()
        self.refused("BLOB_IN_USE", "data", "rm", blob["id"])
        self.assertEqual(self.cluster.tandem("data", "rm", "--unused", "-o", "name")[0], "")
        self.cluster.tandem("job", "cancel", str(job))
        self.assertEqual(self.cluster.tandem("data", "rm", blob["id"], "-o", "name")[0].split(), [blob["id"]])
        self.assertEqual(self.blobs(), [])
        usage = json.loads(self.cluster.tandem("data", "du", "-o", "json")[0])["items"]
        self.assertEqual({u["name"]: u["bytes"] for u in usage}["blobs"], 0)

    def came(self, put):
        """Bytes of the one upload under way."""
        if put.poll() is not None:
            raise AssertionError("the upload was over before it could be cut off")
        for path in glob.glob(self.cluster.path("master", "uploads", "*", "*")):
            try:
                return os.path.getsize(path)
            except FileNotFoundError:
                pass
        return 0

    def unfinished(self):
        """Starts an upload and kills it on its way; returns its file and how far it came."""
        path = self.file("large", 400)
        put = self.cluster.start_command("data", "put", path)

        wait_for("some of the upload", lambda: self.came(put) >= 8 << 20)
        put.send_signal(signal.SIGKILL)
        put.communicate()

        def settled():
            listed = [b["bytes"] for b in self.blobs() if b["unfinished"]]
            return listed and listed[0]
        return path, wait_for("what has come", settled)

    def test_an_upload_that_is_cut_off_goes_on_where_it_ended(self):
        self.cluster.start_master()
        path, came = self.unfinished()
        self.assertLess(came, 400 << 20)
        self.cluster.kill_master()
        self.cluster.start_master()
        _, err = self.cluster.tandem("data", "put", path)
        self.assertNotIn("400MiB of 400MiB sent", err)
        self.assertEqual([(b["id"], b["unfinished"]) for b in self.blobs()], [(sha256(path), False)])

    def test_ctrl_c_leaves_an_upload_that_goes_on_when_it_is_asked_for_again(self):
        self.cluster.start_master()
        path = self.file("large", 400)
        for words in (("data", "put", path), ("run", "histogram", f"value=@{path}")):
            put = self.cluster.start_command(*words)
            before = self.came(put)
            wait_for("some of the upload", lambda: self.came(put) >= before + (8 << 20))
            put.send_signal(signal.SIGINT)
            out, err = put.communicate(timeout=60)
            self.assertEqual((put.returncode, out), (130, ""), err)
            said = [line for line in err.splitlines() if line.startswith("tandem: ")]
            self.assertEqual(len(said), 1, err)
            self.assertIn("goes on where this one ended", said[0])
            self.assertTrue(said[0].endswith("(INTERRUPTED)"), err)
        self.assertEqual(self.cluster.tandem("job", "ls", "-o", "name")[0], "")
        _, err = self.cluster.tandem("data", "put", path)
        self.assertNotIn("400MiB of 400MiB sent", err)
        self.assertEqual([(b["id"], b["unfinished"]) for b in self.blobs()], [(sha256(path), False)])

    def test_an_upload_that_nobody_goes_on_with_is_swept(self):
        self.cluster.start_master("--keep-uploads", "1s")
        self.unfinished()
        wait_for("the sweep", lambda: not self.blobs())
        self.assertEqual(glob.glob(self.cluster.path("master", "uploads", "*", "*")), [])

    def test_an_upload_goes_on_with_a_master_that_was_killed_under_it(self):
        self.cluster.start_master()
        path = self.file("large", 400)
        with unittest.mock.patch.dict(os.environ, TANDEM_PATIENCE="60s"):  # A sanitized master is slow to start.
            put = self.cluster.start_command("data", "put", path)
        wait_for("some of the upload", lambda: self.came(put) >= 8 << 20)
        self.cluster.kill_master()
        self.cluster.start_master()
        out, err = put.communicate(timeout=120)
        self.assertEqual(put.returncode, 0, err)
        self.assertIn(sha256(path), out)
        self.assertEqual([(b["id"], b["unfinished"]) for b in self.blobs()], [(sha256(path), False)])


if __name__ == "__main__":
    unittest.main(verbosity=2)
