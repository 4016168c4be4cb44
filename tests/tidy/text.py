"""How every file looks: size, whitespace, leftovers, machine paths, guards, heads, the licence.

Tests do not sleep. A loop that looks again and again until something holds, with a bound, may pause
between looks: `poll: what for` on the line or the one above says so. `fault: what` marks the random
moment, or length, of a fault that a test injects.
"""

import re

from source import CXX, Finding

LINES_MAX = 600
# Put together from halves so that this file does not find itself.
LEFTOVERS = re.compile(r"\b(" + "TO" + "DO|FIX" + "ME|XX" + "X|HA" + r"CK)\b")
MACHINE_PATHS = re.compile(r"(?<![\w.])/(wo" + "rk|ro" + "ot|ho" + r"me/\w+)/")
SLEEPS = re.compile(r"\b(sleep_for|sleep_until|usleep|nanosleep|SleepFor)\s*\(|"
                    r"(?<![\w.:])sleep\s*\(|\btime\.sleep\s*\(")
SHELL_SLEEP = re.compile(r"(^|[;&|]|\bdo\b|\bthen\b)\s*sleep\s+[\d.$]")
WITH_TABS = ("Makefile",)


def check_file(file):
    yield from check_layout(file)
    yield from check_words(file)
    if file.path.endswith((".h", ".cuh")):
        yield from check_header(file)


def check_layout(file):
    if len(file.lines) > LINES_MAX + 1:
        yield Finding(file.path, LINES_MAX, "size",
                      f"{len(file.lines) - 1} lines; a file has at most {LINES_MAX}")
    if file.text and not file.text.endswith("\n"):
        yield Finding(file.path, len(file.lines), "space", "the last line has no newline")
    for number, line in enumerate(file.lines, 1):
        if line != line.rstrip():
            yield Finding(file.path, number, "space", "trailing space")
        if "\t" in line and not file.path.endswith(WITH_TABS):
            yield Finding(file.path, number, "space", "a tab")


def check_words(file):
    in_tests = file.path.startswith("tests/") and not file.path.startswith("tests/tidy/")
    for number, line in enumerate(file.lines, 1):
        if match := LEFTOVERS.search(line):
            yield Finding(file.path, number, "leftover",
                          f"{match.group(0)}: finish it, or file it where work is tracked")
        if match := MACHINE_PATHS.search(line):
            yield Finding(file.path, number, "path", f"a path of one machine: {match.group(0)}")
        if in_tests and file.path.endswith(CXX + (".py",)):
            code = file.code[number - 1] if file.is_cxx else line
            near = file.lines[max(0, number - 2):number]
            said = any("poll:" in text or "fault:" in text for text in near)
            if (match := SLEEPS.search(code)) and not said:
                yield Finding(file.path, number, "sleep",
                              f"a test waits for what it needs, not for time: {match.group(0)}")
        if in_tests and file.path.endswith(".sh") and SHELL_SLEEP.search(line):
            yield Finding(file.path, number, "sleep", "a test waits for what it needs, not for time")


def check_header(file):
    guards = guards_of(file.path)
    match = re.search(r"^#ifndef (\w+)\n#define (\w+)\n", file.text, re.M)
    if "#pragma once" in file.text or not match or match.group(1) != match.group(2):
        yield Finding(file.path, 1, "guard", f"needs the include guard {guards[0]}")
    elif match.group(1) not in guards:
        yield Finding(file.path, file.text[: match.start()].count("\n") + 1, "guard",
                      f"the guard is {match.group(1)}; it should be {guards[0]}")
    head = "\n".join(file.lines[:12])
    if not re.search(r"^\s*(//|/\*)", head, re.M):
        yield Finding(file.path, 1, "head", "a header begins with what it is, in a comment")


def guards_of(path):
    """The guards a header may have: of its path in the tree, or of the path it is included by."""
    names = [path]
    if "/include/" in path:
        names.append(path.split("/include/", 1)[1])
    guards = []
    for name in names:
        guard = re.sub(r"\W", "_", name.upper()) + "_"
        guards.append(guard if guard.startswith("TANDEM_") else "TANDEM_" + guard)
    return guards


def check_licence(files):
    texts = {f.path: f.text for f in files}
    if "Apache License" not in texts.get("LICENSE", "") or "Version 2.0" not in texts["LICENSE"]:
        yield Finding("LICENSE", 1, "licence", "the Apache License 2.0 is missing")
