"""Writes the manual pages from what the programs say of themselves (--help), under heads written by hand.

usage: make_man.py --bin DIR --version 1.2.3 --out DIR

One page a program (tandem.1, tandem-master.8, tandem-worker.8) and one for each subcommand of tandem
(tandem-run.1, tandem-job.1, tandem-worker.1 …) with its own subcommands as sections.
"""

import argparse
import os
import re
import subprocess
import sys

PROGRAMS = {
    "tandem": ("1", "run batches of work over the CPUs and GPUs of many servers"),
    "tandem-master": ("8", "the master of a Tandem cluster"),
    "tandem-worker": ("8", "runs the work of one server for a Tandem master"),
}
ENVIRONMENT = {
    "TANDEM_ADDRESS": "The master's address, HOST:PORT.",
    "TANDEM_OUTPUT": "How the command prints: table, wide, json, jsonl or name.",
    "TANDEM_PATIENCE": "How long a master that does not answer is tried again; 3s.",
    "TANDEM_PROGRESS": "Progress on stderr: auto, bar, lines or none.",
    "TANDEM_WATCH_PATIENCE": "How long a wait for a job outlives its master; 1m.",
    "TANDEM_HASH_CACHE": "Where the hashes of uploaded files are remembered; ~/.cache/tandem/blob-ids.",
    "TANDEM_LOG": "debug, info, warning, error or off: what masters, workers and executors log.",
    "TANDEM_KERNEL_PATH": "Libraries of kernels, or folders of them, separated by colons; for workers.",
    "TANDEM_GPU_MEMORY": "What jobs may use of each device's memory: 90%, 20GiB, DEVICE=SIZE; of workers started here.",
    "TANDEM_EMULATED": "Speed, memory and faults of workers' emulated devices, as docs/hybrid.md has them.",
    "TANDEM_ISA": "v2, v3 or v4: the build of the kernels to use, for tests.",
    "NO_COLOR": "When it is set and not empty, nothing is coloured.",
}
EXIT_CODES = [("0", "success"), ("1", "the job failed"), ("2", "usage"), ("3", "not found"), ("4", "not allowed"),
              ("5", "unavailable or timed out"), ("6", "a limit or quota"), ("7", "cancelled"), ("8", "version skew"),
              ("130", "interrupted")]
FILES = {
    "tandem-master": ("/etc/default/tandem-master", "/var/lib/tandem-master"),
    "tandem-worker": ("/etc/default/tandem-worker", "/var/lib/tandem-worker"),
}
HEADING = re.compile(r"^([A-Z][A-Za-z ]*):\s*$")
ENTRY = re.compile(r"^ {2,4}(\S(?:.*?\S)?)(?: {2,}(\S.*))?$")


def roff(text):
    """Text as roff reads it: backslashes, hyphens and leading dots and quotes mean themselves."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text)


def help_of(program, words=()):
    done = subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=False,
                          env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TANDEM_ADDRESS": ""})
    if done.returncode != 0 or not done.stdout.strip():
        sys.exit(f"make_man: {os.path.basename(program)} {' '.join(words)} --help: exit {done.returncode}\n{done.stderr}")
    return done.stdout.rstrip("\n").split("\n")


def blocks(lines):
    """[(heading or "", lines)] of a help text."""
    found = [("", [])]
    for line in lines:
        match = HEADING.match(line)
        if match:
            found.append((match.group(1), []))
        elif not line.startswith("Usage:"):
            found[-1][1].append(line.rstrip())
    return [(heading, body) for heading, body in found if heading or any(body)]


def verbatim(lines):
    while lines and not lines[0]:
        lines = lines[1:]
    while lines and not lines[-1]:
        lines = lines[:-1]
    strip = min((len(line) - len(line.lstrip()) for line in lines if line), default=0)
    return [".EX"] + [roff(line[strip:]) if line else "\\&" for line in lines] + [".EE"]


def entries(lines):
    """An option a paragraph: `  -o,--output FORMAT   what it does` and indented lines that go on."""
    out = []
    for line in lines:
        if not line:
            continue
        match = ENTRY.match(line)
        if match:
            out += [".TP", ".B " + roff(match.group(1)).replace('"', '\\(dq')]
            if match.group(2):
                out.append(roff(match.group(2)))
        else:
            out.append(roff(line.strip()))
    return out


def paragraphs(lines):
    out = []
    for line in lines:
        out.append(roff(line.strip()) if line.strip() else ".PP")
    while out and out[-1] == ".PP":
        out.pop()
    return [line for i, line in enumerate(out) if line != ".PP" or (i > 0 and out[i - 1] != ".PP")]


def body(lines, section):
    """A help text as sections (".SH") or parts of one (".SS")."""
    out = []
    for heading, text in blocks(lines):
        if heading == "":
            if any(text):
                out += ([".SH DESCRIPTION"] if section == ".SH" else []) + paragraphs(text)
        elif heading.lower().startswith("example"):
            out += [f"{section} {heading.upper() if section == '.SH' else heading}"] + verbatim(text)
        else:
            out += [f"{section} {heading.upper() if section == '.SH' else heading}"] + entries(text)
    return out


def subcommands(lines):
    names = []
    for heading, text in blocks(lines):
        if heading.lower() in ("subcommands", "commands"):
            names += [m.group(1).split()[0] for m in map(re.compile(r"^  (\S[^ ]*)(?: |$)").match, text) if m]
    return names


def usage(lines, name):
    for line in lines:
        if line.startswith("Usage:"):
            return line[len("Usage:"):].strip()
    return name + " [OPTIONS]"


def summary(lines):
    for line in lines:
        if line.strip() and not line.startswith("Usage:"):
            return line.strip()[0].lower() + line.strip()[1:].rstrip(".")
    return ""


def tail(page_name, names):
    name, section = page_name
    out = [".SH ENVIRONMENT"]
    for variable, text in ENVIRONMENT.items():
        out += [".TP", ".B " + variable, roff(text)]
    if name == "tandem":
        out += [".SH EXIT STATUS"]
        for code, text in EXIT_CODES:
            out += [".TP", ".B " + code, roff(text)]
    if name in FILES and section == "8":
        out += [".SH FILES", ".TP", ".I " + roff(FILES[name][0]), "Settings of the systemd unit.", ".TP",
                ".I " + roff(FILES[name][1]), "Where the systemd unit keeps its data."]
    others = [f".BR {roff(other)} ({section})" for other, section in names if (other, section) != name]
    return out + [".SH SEE ALSO"] + [line + ("," if i + 1 < len(others) else "") for i, line in enumerate(others)]


def page(name, section, short, version, lines):
    return [f'.TH {roff(name.upper())} {section} "" "tandem {version}" "Tandem"', ".SH NAME",
            f"{roff(name)} \\- {roff(short)}", ".SH SYNOPSIS", ".B " + roff(usage(lines, name)), *body(lines, ".SH")]


def nested(program, words):
    """Sections for the subcommands of a subcommand."""
    lines = help_of(program, words)
    out = []
    for name in subcommands(lines):
        more = help_of(program, [*words, name])
        if not usage(more, "tandem").startswith("tandem "):
            continue  # another program's: it has a page of its own
        title = " ".join(["tandem", *words, name]).upper()
        out += [f'.SH "{roff(title)}"', ".B " + roff(usage(more, " ".join(["tandem", *words, name]))), ".PP",
                *body(more, ".SS")]
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    tandem = os.path.join(options.bin, "tandem")
    commands = subcommands(help_of(tandem))
    if not commands:
        sys.exit("make_man: tandem --help names no subcommands")
    names = [(name, section) for name, (section, _) in PROGRAMS.items()]
    names += [(f"tandem-{command}", "1") for command in commands]
    pages = {}
    for name, (section, short) in PROGRAMS.items():
        lines = help_of(os.path.join(options.bin, name))
        pages[f"{name}.{section}"] = page(name, section, short, options.version, lines) + tail((name, section), names)
    for command in commands:
        name = f"tandem-{command}"
        lines = help_of(tandem, [command])
        pages[f"{name}.1"] = (page(name, "1", summary(lines), options.version, lines) + nested(tandem, [command]) +
                              tail((name, "1"), names))
    os.makedirs(options.out, exist_ok=True)
    for old in os.listdir(options.out):
        os.remove(os.path.join(options.out, old))
    for file, lines in pages.items():
        with open(os.path.join(options.out, file), "w", encoding="utf-8") as out:
            out.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
