#!/usr/bin/env python3
"""The Debian packages that cpack makes: what is in them, what they depend on, and a cluster run from them.

usage: deb_test.py BIN (a build folder's bin)

With TANDEM_TEST_CHROOT=1, as a root that may mount, and with Debian's mirror in reach (deb.debian.org, or what DEBOOTSTRAP_MIRROR
names), they are also installed into a bare Debian 12, which takes about two minutes. .ci/run sets it where there is debootstrap.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from processes import PATIENCE, wait_for

BIN = sys.argv.pop(1)
BUILD = os.path.dirname(BIN)


def command(*argv, timeout=900, **more):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, **more)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(argv)}: exit {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def run_up(test, programs, prefix=()):
    """`tandem up` and a job, from a folder of programs; `prefix` goes before each command."""
    tandem = os.path.join(programs, "tandem")
    with tempfile.TemporaryFile("w+") as log:
        up = subprocess.Popen([*prefix, tandem, "up", "--workers", "2", "--port", "0"], stdin=subprocess.DEVNULL,
                              stdout=log, stderr=subprocess.STDOUT, text=True)
        try:
            def address():
                log.seek(0)
                text = log.read()
                if up.poll() is not None:
                    raise AssertionError(f"tandem up: exit {up.returncode}\n{text}")
                found = re.search(r"--address (\S+:\d+) run", text)
                return found and found.group(1)
            at = wait_for("tandem up", address)
            out = command(*prefix, tandem, "--address", at, "run", "monte_carlo_pi", "n=100000", "seed=7", timeout=PATIENCE)
            test.assertRegex(out, r"^hits = 7[0-9]{4}\n$")
            workers = json.loads(command(*prefix, tandem, "--address", at, "worker", "ls", "-o", "json"))["items"]
            test.assertEqual(sorted(w["name"] for w in workers), ["w1", "w2"])
        finally:
            up.terminate()
            up.wait(timeout=PATIENCE)


class DebTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for tool in ("cpack", "dpkg-deb", "dpkg-shlibdeps"):
            if shutil.which(tool) is None:
                raise unittest.SkipTest(f"there is no {tool}")
        cls.folder = tempfile.TemporaryDirectory(prefix="tandem-deb-")
        cls.addClassCleanup(cls.folder.cleanup)
        command("cpack", "-G", "DEB", "-B", cls.folder.name, cwd=BUILD)
        cls.packages = {command("dpkg-deb", "-f", deb, "Package").strip(): deb
                        for deb in glob.glob(os.path.join(cls.folder.name, "*.deb"))}

    def path(self, *names):
        return os.path.join(self.folder.name, *names)

    def field(self, package, name):
        return command("dpkg-deb", "-f", self.packages[package], name).strip()

    def contents(self, package):
        """{path: (mode, owner)}"""
        listed = {}
        for line in command("dpkg-deb", "-c", self.packages[package]).splitlines():
            mode, owner, _, _, _, path = line.split(None, 5)
            listed[path.lstrip(".")] = (mode, owner)
        return listed

    def test_there_are_two_packages_with_files_where_debian_has_them(self):
        self.assertEqual(sorted(self.packages), ["tandem", "tandem-dev"])
        for package, files in {
                "tandem": ["/usr/bin/tandem", "/usr/bin/tandem-master", "/usr/bin/tandem-worker",
                           "/usr/libexec/tandem/tandem-executor", "/usr/lib/systemd/system/tandem-master.service",
                           "/usr/lib/systemd/system/tandem-worker.service", "/etc/default/tandem-master",
                           "/etc/default/tandem-worker", "/usr/share/bash-completion/completions/tandem",
                           "/usr/share/zsh/vendor-completions/_tandem", "/usr/share/man/man1/tandem.1.gz",
                           "/usr/share/man/man8/tandem-worker.8.gz", "/usr/share/doc/tandem/copyright",
                           "/usr/share/doc/tandem/changelog.Debian.gz"],
                "tandem-dev": ["/usr/include/tandem/body.h", "/usr/include/tandem/client/client.h",
                               "/usr/lib/libtandem-client.a", "/usr/lib/cmake/tandem/tandemConfig.cmake",
                               "/usr/lib/pkgconfig/tandem-client.pc", "/usr/share/doc/tandem-dev/copyright"]}.items():
            contents = self.contents(package)
            for file in files:
                self.assertIn(file, contents)
            for path, (mode, owner) in contents.items():
                self.assertEqual(owner, "root/root", path)
                self.assertRegex(mode, "^drwxr-xr-x$" if path.endswith("/") else "^-rw[-x]r-[-x]r-[-x]$", path)
                self.assertRegex(path, "^/(usr|etc)?", path)
        self.assertFalse([path for path in self.contents("tandem") if path.startswith("/usr/etc")])
        self.assertFalse([path for path in self.contents("tandem-dev") if path.startswith(("/etc", "/usr/bin"))])

    def test_settings_are_conffiles_and_nothing_runs_at_installation(self):
        control = self.path("control")
        command("dpkg-deb", "-e", self.packages["tandem"], control)
        with open(os.path.join(control, "conffiles"), encoding="utf-8") as file:
            self.assertEqual(file.read().split(), ["/etc/default/tandem-master", "/etc/default/tandem-worker"])
        self.assertEqual(sorted(os.listdir(control)), ["conffiles", "control", "md5sums"])

    def test_every_library_that_a_program_needs_is_depended_on(self):
        root = self.path("needs")
        command("dpkg-deb", "-x", self.packages["tandem"], root)
        depends = set(re.findall(r"(?:^|, )([a-z0-9.+-]+)", self.field("tandem", "Depends")))
        for program in glob.glob(f"{root}/usr/bin/*") + glob.glob(f"{root}/usr/libexec/tandem/*"):
            needed = set(re.findall(r"NEEDED\s+(\S+)", command("objdump", "-p", program)))
            for line in command("ldd", program).splitlines():
                name, _, rest = line.strip().partition(" => ")
                if name not in needed:
                    continue
                library = os.path.realpath(rest.split(" ")[0])
                owners = subprocess.run(["dpkg", "-S", library, library.replace("/usr/lib/", "/lib/")], capture_output=True,
                                        text=True).stdout
                packages = {owner.partition(":")[0] for owner in owners.splitlines()}
                # One that stands for several builds of a library: libopenblas0 for libopenblas0-pthread.
                packages |= {owner.rpartition("-")[0] for owner in packages}
                self.assertTrue(packages & depends, f"{program} needs {name} of {packages}; it depends on {depends}")

    def test_the_dev_package_depends_on_what_its_library_needs(self):
        depends = self.field("tandem-dev", "Depends")
        for package in ("libgrpc++-dev", "libprotobuf-dev", "libabsl-dev", "libssl-dev", "libxxhash-dev"):
            self.assertIn(package, depends)

    def test_tandem_up_works_from_an_extracted_package(self):
        root = self.path("root")
        command("dpkg-deb", "-x", self.packages["tandem"], root)
        run_up(self, os.path.join(root, "usr/bin"))

    def test_lintian_finds_no_errors(self):
        if shutil.which("lintian") is None:
            self.skipTest("there is no lintian")
        # Who builds a package gives an address (TANDEM_MAINTAINER); no bug of Debian's asked for it.
        suppressed = "bogus-mail-host,bogus-mail-host-in-debian-changelog,initial-upload-closes-no-bugs"
        for deb in self.packages.values():
            done = subprocess.run(["lintian", "--fail-on", "error,warning", "--allow-root", "--suppress-tags", suppressed, deb],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    @unittest.skipUnless(os.environ.get("TANDEM_TEST_CHROOT") and os.geteuid() == 0,
                         "TANDEM_TEST_CHROOT is not set, or this is not root")
    def test_a_bare_debian_12_installs_it_and_runs_a_cluster(self):
        root, mirror = self.path("debian"), os.environ.get("DEBOOTSTRAP_MIRROR")
        os.makedirs(os.path.join(root, "proc"))
        if subprocess.run(["mount", "-t", "proc", "proc", os.path.join(root, "proc")], capture_output=True).returncode != 0:
            self.skipTest("this root may not mount")
        command("umount", os.path.join(root, "proc"))
        made = subprocess.run(["debootstrap", "--variant=minbase", "bookworm", root, *([mirror] if mirror else [])],
                              capture_output=True, text=True)
        if made.returncode != 0:
            self.skipTest("debootstrap makes no Debian 12 here: " + (made.stdout + made.stderr)[-300:])
        deb = os.path.basename(self.packages["tandem"])
        shutil.copy(self.packages["tandem"], os.path.join(root, "tmp"))
        command("mount", "-t", "proc", "proc", os.path.join(root, "proc"))
        try:
            enter = ("chroot", root, "env", "DEBIAN_FRONTEND=noninteractive", "HOME=/root", "USER=root")
            command(*enter, "apt-get", "-q", "-y", "--no-install-recommends", "install", f"/tmp/{deb}")
            run_up(self, "/usr/bin", enter)
            command(*enter, "dpkg", "--purge", "tandem")
            self.assertFalse(os.path.exists(os.path.join(root, "etc/default/tandem-worker")))
        finally:
            command("umount", os.path.join(root, "proc"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
