"""What the .proto files promise: each RPC lists its error codes, zero means nothing, folders match."""

import re

from source import Finding

CODES = ("CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
         "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
         "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
         "UNAUTHENTICATED")
ERRORS = re.compile(r"\bErrors: (none\b|as \w+|(" + "|".join(CODES) + r")\b)")


def comment_above(lines, index):
    """The // lines directly above lines[index], joined."""
    first = index
    while first > 0 and lines[first - 1].lstrip().startswith("//"):
        first -= 1
    return "\n".join(lines[first:index])


def check_file(file):
    if not file.path.endswith(".proto"):
        return
    for index, line in enumerate(file.lines):
        if match := re.match(r"\s*rpc (\w+)", line):
            comment = comment_above(file.lines, index)
            if not ERRORS.search(comment):
                yield Finding(file.path, index + 1, "rpc",
                              f"the comment of {match.group(1)} lists no error code")
        if match := re.match(r"\s*enum (\w+)", line):
            yield from check_enum(file, index, match.group(1))
    package = re.search(r"^package ([\w.]+);", file.text, re.M)
    folder = "/".join(file.path.split("/")[1:-1])
    if not package or package.group(1).replace(".", "/") != folder:
        yield Finding(file.path, 1, "package", f"the package should be {folder.replace('/', '.')}")


def check_enum(file, index, name):
    """The zero of an enum has no meaning: NAME_UNSPECIFIED."""
    body = "\n".join(file.lines[index:]).split("}", 1)[0]
    zero = re.search(r"^\s*(\w+)\s*=\s*0\b", body, re.M)
    if not zero or not zero.group(1).endswith("_UNSPECIFIED"):
        yield Finding(file.path, index + 1, "enum", f"the zero of {name} should be …_UNSPECIFIED")
