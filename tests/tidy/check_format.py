#!/usr/bin/env python3
"""Holds the tree's C++ to .clang-format with clang-format 14, the version whose verdict counts.

  check_format.py [--fix]
"""

import argparse
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import source  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--fix", action="store_true", help="format instead of only checking")
    args = parser.parse_args()

    tool = shutil.which("clang-format-14")
    if tool is None:
        print("format: clang-format-14 is not installed; ./dev setup installs it")
        return 1
    paths = [p for p in source.tree_paths(ROOT) if p.endswith(source.CXX)]
    if not paths:
        return 0
    mode = ["-i"] if args.fix else ["--dry-run", "--Werror", "--ferror-limit=1"]
    done = subprocess.run([tool, *mode, *paths], cwd=ROOT, capture_output=True, text=True,
                          check=False)
    wrong = sorted({line.split(":", 1)[0] for line in done.stderr.splitlines() if ": error:" in line})
    for path in wrong:
        print(f"{path}: not as clang-format-14 has it")
    print(f"format: {len(paths)} files, {len(wrong)} to be formatted"
          + (" (./dev check --fix does it)" if wrong else ""))
    return 0 if done.returncode == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
