#!/usr/bin/env python3
"""Runs clang's thread-safety analysis over our sources that see an annotated lock.

  thread_safety.py [--build build/release] [-j N]

A source counts when it, or a header of the tree that it includes, names a lock or an annotation; the
rest cannot have anything to say. Nothing is compiled, only analysed. What passed is remembered by its
digest in the build folder.
"""

import argparse
import concurrent.futures
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import headers  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OURS = ("common/", "master/", "worker/", "client/", "kernels/", "tests/", "bench/")
LOCKS = re.compile(r"absl::Mutex|ABSL_GUARDED_BY|ABSL_EXCLUSIVE_LOCKS_REQUIRED|ABSL_LOCKS_EXCLUDED")


def analysis_command(entry, clang):
    """The entry's compile command as a clang analysis: its -I, -D and -isystem, and nothing else."""
    words = shlex.split(entry["command"])
    kept, i = [], 0
    while i < len(words):
        if words[i] in ("-isystem", "-I", "-D"):
            kept += words[i:i + 2]
            i += 1
        elif words[i].startswith(("-I", "-D", "-isystem")):
            kept.append(words[i])
        i += 1
    return [clang, "-std=c++20", "-fsyntax-only", "-w", "-Wthread-safety", "-Werror=thread-safety",
            *kept, entry["file"]]


def sees_a_lock(path, closure):
    """Whether `path` or a file of the tree that it includes names a lock."""
    seen, todo = set(), [path]
    while todo:
        here = todo.pop()
        if here in seen:
            continue
        seen.add(here)
        with open(here, encoding="utf-8", errors="replace") as f:
            if LOCKS.search(f.read()):
                return True
        todo += closure.of(here)[1]
    return False


def analyse(entry, clang):
    done = subprocess.run(analysis_command(entry, clang), cwd=entry["directory"],
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()

    clang = shutil.which("clang++-14") or shutil.which("clang++")
    if clang is None:
        print("thread safety: clang++ is not installed; ./dev setup installs it")
        return 1
    with open(os.path.join(args.build, "compile_commands.json"), encoding="utf-8") as f:
        entries = {e["file"]: e for e in json.load(f)}
    flags = headers.flags_of(ROOT, args.build)
    closure = headers.Closure([f[2:] for f in flags if f.startswith("-I")])
    ours = [e for path, e in sorted(entries.items())
            if path.endswith(".cc") and os.path.relpath(path, ROOT).startswith(OURS)]
    todo = [e for e in ours if sees_a_lock(e["file"], closure)]

    store = headers.Passed(os.path.join(args.build, "tidy_thread_safety.json"), clang)
    digests = {e["file"]: closure.digest(e["file"]) for e in todo}
    fresh = [e for e in todo if not store.has(e["file"], digests[e["file"]])]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for entry, (code, errors) in zip(fresh, pool.map(lambda e: analyse(e, clang), fresh)):
            if code == 0:
                store.add(entry["file"], digests[entry["file"]])
            else:
                failed += 1
                print(errors, end="")
    store.save()
    print(f"thread safety: {len(todo)} of {len(ours)} sources see a lock, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
