"""What the checks look at: the tree's files, their lines, and C++ without its comments and strings."""

import os
import re
import subprocess
from dataclasses import dataclass, field

CXX = (".h", ".cc", ".cu", ".cuh")
# Inputs of fuzz targets: bytes, whatever they look like.
BYTES = "tests/fuzz/corpus/"
TEXT = CXX + (".py", ".sh", ".proto", ".cmake", ".txt", ".md", ".json")


@dataclass(frozen=True)
class Finding:
    path: str
    line: int
    rule: str
    message: str

    def __str__(self):
        return f"{self.path}:{self.line}: [{self.rule}] {self.message}"


@dataclass
class File:
    """One file. `code` has the same lines as `text`, with comments and literals blanked out."""

    path: str
    text: str
    lines: list = field(init=False)

    def __post_init__(self):
        self.lines = self.text.split("\n")
        self._code = None

    @property
    def code(self):
        if self._code is None:
            self._code = strip_cxx(self.text).split("\n")
        return self._code

    @property
    def is_cxx(self):
        return self.path.endswith(CXX)

    def includes(self):
        """(line number, included name) of each #include, in comments or not at line starts excluded."""
        for number, line in enumerate(self.lines, 1):
            match = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
            if match and self.code[number - 1].lstrip().startswith("#"):
                yield number, match.group(1)


def strip_cxx(text):
    """Blanks comments, string and character literals; every newline stays where it was."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"([^()\\ \n]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
        r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'",
        re.S,
    )

    def blank(match):
        word = match.group(0)
        kept = "".join("\n" if c == "\n" else " " for c in word)
        return kept if word.startswith("/") else '"' + kept[2:] + '"'

    return pattern.sub(blank, text)


def tree_paths(root):
    """Every file of the tree that is or could be committed, relative to root, sorted."""
    listed = subprocess.run(
        ["git", "-C", root, "-c", f"safe.directory={root}", "ls-files", "-co", "--exclude-standard"],
        capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        paths = [p for p in listed.stdout.splitlines() if os.path.isfile(os.path.join(root, p))]
    else:
        paths = []
        for folder, folders, names in os.walk(root):
            folders[:] = [f for f in folders if f not in (".git", "build", "__pycache__")
                          and not f.startswith("build-")]
            paths += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(set(paths))


def load(root, paths=None):
    """The text files among `paths` (default: the whole tree)."""
    files = []
    for path in tree_paths(root) if paths is None else paths:
        name = os.path.basename(path)
        if path.startswith(BYTES):
            continue
        if not (path.endswith(TEXT) or "." not in name or path in (".ci/run", ".clang-format")):
            continue
        with open(os.path.join(root, path), encoding="utf-8", errors="surrogateescape") as f:
            files.append(File(path, f.read()))
    return files
