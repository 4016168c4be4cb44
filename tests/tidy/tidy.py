#!/usr/bin/env python3
"""The house rules that a machine can hold: prints `file:line: [rule] what`, exits 1 if there is any.

  tidy.py [--build build/release] [--headers pure|all|none] [-j N]
"""

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import borders  # noqa: E402
import commands  # noqa: E402
import cores  # noqa: E402
import headers  # noqa: E402
import protocol  # noqa: E402
import protos  # noqa: E402
import source  # noqa: E402
import text  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def check(files):
    """Every rule that needs no compiler."""
    for file in files:
        for rules in (borders, text, protos):
            yield from rules.check_file(file)
    yield from borders.check_tree(files)
    yield from cores.check_tree(files)
    yield from text.check_licence(files)
    yield from protocol.check_tree(files)
    yield from commands.check_tree(files)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--root", default=ROOT)
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--headers", choices=("pure", "all", "none"), default="pure")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()

    files = source.load(args.root)
    findings = list(check(files))
    findings += headers.check_tree(args.root, os.path.abspath(args.build), files, args.headers,
                                   args.jobs)
    for finding in sorted(findings, key=lambda f: (f.path, f.line)):
        print(finding)
    print(f"tidy: {len(files)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
