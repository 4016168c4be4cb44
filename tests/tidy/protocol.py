"""Pages that must be complete: docs/protocol.md with every RPC, reason token and finding of an explanation,
docs/operating.md with every reason for which a job waits."""

import re

from source import Finding

PAGE = "docs/protocol.md"
OPERATING = "docs/operating.md"
REASONS = "common/base/reason.h"
JOBS = "proto/tandem/v1/jobs.proto"
# Whoever makes a finding: of a job, of a worker, or the worker of itself.
FINDERS = re.compile(r"master/server/(explain_\w+|jobs_service)\.cc|worker/server/supervisor_devices\.cc")
TOKEN = re.compile(r'(?<!getenv\()"([A-Z][A-Z_]{3,})"')


def named(files):
    """(path, line, page, what, token) of everything that a page must name."""
    for file in files:
        waits = False
        for number, line in enumerate(file.lines, 1):
            if file.path.startswith("proto/tandem/") and (match := re.match(r"\s*rpc (\w+)", line)):
                yield file.path, number, PAGE, "rpc", match.group(1)
            if file.path == REASONS and (match := re.match(r'\s*X\(\w+, "(\w+)"\)', line)):
                yield file.path, number, PAGE, "reason", match.group(1)
            if FINDERS.fullmatch(file.path):
                for match in TOKEN.finditer(line):
                    yield file.path, number, PAGE, "finding", match.group(1)
            if file.path == JOBS:
                waits = (waits or line.startswith("enum WaitReason")) and not line.startswith("}")
                if waits and (match := re.match(r"\s*([A-Z_]+) = [1-9]", line)):
                    for page in (PAGE, OPERATING):
                        yield file.path, number, page, "wait reason", match.group(1)


def check_tree(files):
    texts = {file.path: file.text for file in files}
    known = {page: set(re.findall(r"`(\w+)`", texts.get(page, ""))) for page in (PAGE, OPERATING)}
    for path, number, page, what, token in named(files):
        if token not in known[page]:
            yield Finding(path, number, "protocol", f"{page} does not say what {what} {token} is")
