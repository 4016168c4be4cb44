"""docs/protocol.md is complete: every RPC, every reason token, every finding of an explanation."""

import re

from source import Finding

PAGE = "docs/protocol.md"
REASONS = "common/base/reason.h"
EXPLAINERS = ("master/server/explain_job.cc", "master/server/explain_worker.cc",
              "master/server/jobs_service.cc")


def named(files):
    """(path, line, what, token) of everything that the page must name."""
    for file in files:
        for number, line in enumerate(file.lines, 1):
            if file.path.startswith("proto/tandem/") and (match := re.match(r"\s*rpc (\w+)", line)):
                yield file.path, number, "rpc", match.group(1)
            if file.path == REASONS and (match := re.match(r'\s*X\(\w+, "(\w+)"\)', line)):
                yield file.path, number, "reason", match.group(1)
            if file.path in EXPLAINERS:
                for match in re.finditer(r'(?:Add|Make|set_token)\(\s*"([A-Z_]+)"', line):
                    yield file.path, number, "finding", match.group(1)


def check_tree(files):
    page = next((file.text for file in files if file.path == PAGE), "")
    known = set(re.findall(r"`(\w+)`", page))
    for path, number, what, token in named(files):
        if token not in known:
            yield Finding(path, number, "protocol", f"{PAGE} does not say what {what} {token} is")
