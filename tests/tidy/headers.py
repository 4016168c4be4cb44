"""Does every header compile alone? Each is given to the compiler by itself, several at a time.

A header that passed is not compiled again until it, or a header of the tree that it includes, changes:
the digests of what passed are kept in the build folder.
"""

import concurrent.futures
import hashlib
import json
import os
import re
import subprocess

from source import Finding

PURE = ("common/base/", "common/model/", "master/core/", "master/policy/", "worker/core/",
        "kernels/sdk/")


def flags_of(root, build):
    """Include paths of the whole build, as its compile commands name them."""
    folders = [root]
    commands = os.path.join(build, "compile_commands.json")
    if os.path.exists(commands):
        with open(commands, encoding="utf-8") as f:
            for entry in json.load(f):
                for flag, folder in re.findall(r"(-I|-isystem )\s*(\S+)", entry["command"]):
                    folder = os.path.normpath(os.path.join(entry["directory"], folder))
                    if folder not in folders and folder != "/usr/include":
                        folders.append(folder)
    return ["-std=c++20", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror",
            *(f"-I{folder}" for folder in folders)]


class Closure:
    """Digests of headers together with all they include from the tree or the build's own sources."""

    def __init__(self, folders):
        self.folders = folders
        self.direct = {}

    def digest(self, path):
        seen, todo = set(), [path]
        while todo:
            here = todo.pop()
            if here not in seen:
                seen.add(here)
                todo += self.of(here)[1]
        digest = hashlib.sha256()
        for name in sorted(seen):
            digest.update(self.of(name)[0])
        return digest.hexdigest()

    def of(self, path):
        """(the file's own digest, the files it includes that lie in `folders`)."""
        if path not in self.direct:
            with open(path, "rb") as f:
                text = f.read()
            found = []
            for name in re.findall(rb'^\s*#\s*include\s*[<"]([^>"]+)', text, re.M):
                for folder in [os.path.dirname(path), *self.folders]:
                    candidate = os.path.normpath(os.path.join(folder, name.decode()))
                    if os.path.isfile(candidate):
                        found.append(candidate)
                        break
            self.direct[path] = (hashlib.sha256(text).digest(), found)
        return self.direct[path]


class Passed:
    """What passed before, by digest, in one file of the build folder."""

    def __init__(self, path, salt):
        self.path = path
        self.salt = hashlib.sha256(salt.encode()).hexdigest()
        self.digests = {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                self.digests = json.load(f)

    def has(self, name, digest):
        return self.digests.get(name) == self.salt + digest

    def add(self, name, digest):
        self.digests[name] = self.salt + digest

    def save(self):
        if os.path.isdir(os.path.dirname(self.path)):
            with open(self.path, "w", encoding="utf-8") as f:
                json.dump(self.digests, f, indent=0, sort_keys=True)


def compile_alone(root, path, flags, compiler="g++"):
    """The compiler's first complaint about a header compiled by itself, or None."""
    source = f'#include "{os.path.join(root, path)}"\n'
    done = subprocess.run([compiler, *flags, "-fsyntax-only", "-x", "c++", "-"], input=source,
                          capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    lines = [line for line in done.stderr.splitlines() if "error:" in line] or ["the compiler failed"]
    return lines[0]


def check_tree(root, build, files, scope="pure", jobs=2):
    """`scope`: "pure" (the pure folders), "all", or "none"."""
    if scope == "none":
        return []
    paths = [f.path for f in files if f.path.endswith(".h")
             and (scope == "all" or f.path.startswith(PURE))]
    flags = flags_of(root, build)
    closure = Closure([f[2:] for f in flags if f.startswith("-I")])
    store = Passed(os.path.join(build, "tidy_headers.json"), " ".join(flags))
    digests = {p: closure.digest(os.path.join(root, p)) for p in paths}
    todo = [p for p in paths if not store.has(p, digests[p])]

    findings = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for path, error in zip(todo, pool.map(lambda p: compile_alone(root, p, flags), todo)):
            if error is None:
                store.add(path, digests[path])
            else:
                findings.append(Finding(path, 1, "alone", f"does not compile by itself: {error}"))
    store.save()
    return findings
