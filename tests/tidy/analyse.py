#!/usr/bin/env python3
"""Does every source and every header compile by itself, and does clang's thread-safety analysis agree?

  analyse.py [--build build/release] [-j N]

Each source is given to clang with its include folders and macros but without precompiled headers, so
that a forgotten #include shows. A header is compiled alone unless a source includes it before anything
else, which proves as much. Sources of tests and benchmarks are analysed as the build joins them, and only
those that hold locks. Nothing is built, only analysed. What passed is remembered by its digest in the build
folder.
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
import source  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FIRST = re.compile(rb'^\s*#\s*include\s*[<"]([^>"]+)', re.M)
# Precompiled in whole and included by name nowhere.
NOT_ALONE = ("cmake/pch/",)
JOINED = ("tests/", "bench/")
LOCKS = re.compile(rb"\bMutex|\bABSL_GUARDED_BY")


def macros_and_folders(entry):
    """The -I, -D and -isystem of a compile command, and nothing else."""
    words = shlex.split(entry["command"])
    kept, i = [], 0
    while i < len(words):
        if words[i] in ("-isystem", "-I", "-D"):
            kept += words[i:i + 2]
            i += 1
        elif words[i].startswith(("-I", "-D", "-isystem")):
            kept.append(words[i])
        i += 1
    return kept


def contents(path):
    with open(path, "rb") as f:
        return f.read()


def first_include(path):
    match = FIRST.search(contents(path))
    return match.group(1).decode() if match else ""


def sources_of(path):
    """The sources that are compiled as this one: several where the build joins them."""
    if "/Unity/" not in path:
        return [path]
    return [included.decode() for included in FIRST.findall(contents(path))]


def units_of(path):
    """What is analysed by itself of what the build compiles as this source."""
    sources = sources_of(path)
    if not all(os.path.relpath(name, ROOT).startswith(JOINED) for name in sources):
        return sources
    return [path] if any(LOCKS.search(contents(name)) for name in sources) else []


def analyse(command, folder, text):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, input=text, check=False)
    return done.returncode, done.stderr


def work(build, clang):
    """(what, path, command, folder, input) of each thing to be analysed."""
    flags = [clang, "-std=c++20", "-fsyntax-only", "-w", "-Wthread-safety", "-Werror=thread-safety"]
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
        entries = {path: e for e in json.load(f) for path in units_of(e["file"])}
    proven = set()
    for path, entry in sorted(entries.items()):
        name = os.path.relpath(path, ROOT)
        if "/Unity/" not in path:
            if not path.endswith(".cc") or name.startswith(("..", os.path.relpath(build, ROOT))):
                continue
            proven.add(first_include(path))
        yield path, [*flags, *macros_and_folders(entry), path], entry["directory"], None
    everything = [f for f in headers.flags_of(ROOT, build) if f.startswith("-I")]
    for name in source.tree_paths(ROOT):
        if not name.endswith(".h") or name in proven or name.startswith(NOT_ALONE):
            continue
        path = os.path.join(ROOT, name)
        yield (path, [*flags, *everything, "-x", "c++", "-"], ROOT, f'#include "{path}"\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()

    clang = shutil.which("clang++-14") or shutil.which("clang++")
    if clang is None:
        print("analysis: clang++ is not installed; ./dev setup installs it")
        return 1
    units = list(work(os.path.abspath(args.build), clang))
    closure = headers.Closure([f[2:] for f in headers.flags_of(ROOT, args.build) if f.startswith("-I")])
    store = headers.Passed(os.path.join(args.build, "tidy_analysis.json"), clang)
    digests = {path: closure.digest(path) for path, *_ in units}
    fresh = [item for item in units if not store.has(item[0], digests[item[0]])]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for (path, *_), (code, errors) in zip(fresh, pool.map(lambda i: analyse(*i[1:]), fresh)):
            if code == 0:
                store.add(path, digests[path])
            else:
                failed += 1
                print(f"{os.path.relpath(path, ROOT)} by itself:\n{errors}", end="")
    store.save()
    print(f"analysis: {len(units)} sources and headers, {len(fresh)} anew, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
