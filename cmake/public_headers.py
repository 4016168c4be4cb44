"""The client library's public headers, as they are installed: tandem/client/, tandem/model/, tandem/base/.

usage: public_headers.py --root TREE --out FOLDER HEADER…

Takes the headers named and all of the tree's that they include, and rewrites their #include lines from the tree's
paths to the installed ones. Fails when one of them would show a type of gRPC or Protobuf.
"""

import argparse
import os
import re
import sys

# Folder of the tree -> folder below the include path. A header from elsewhere is not public.
FOLDERS = {"client/lib/": "tandem/client/", "common/model/": "tandem/model/", "common/base/": "tandem/base/"}
FORBIDDEN = re.compile(r'#include\s*[<"](grpc|google/|absl/log/|.*\.pb\.h)|\bgrpc::|\bgoogle::protobuf')
INCLUDE = re.compile(r'^(#include ")([^"]+)(")', re.M)


def installed_name(header):
    for folder, to in FOLDERS.items():
        if header.startswith(folder):
            return to + header[len(folder):]
    return None


def closure(root, headers):
    """The headers and what they include, sorted; a library's headers are left alone."""
    texts, left = {}, list(headers)
    while left:
        header = left.pop()
        if header in texts:
            continue
        if installed_name(header) is None:
            sys.exit(f"public_headers: {header} is no public header, and a public one includes it")
        with open(os.path.join(root, header), encoding="utf-8") as file:
            texts[header] = file.read()
        found = FORBIDDEN.search(texts[header])
        if found:
            sys.exit(f"public_headers: {header} shows gRPC or Protobuf: {found.group(0)}")
        left += [name for _, name, _ in INCLUDE.findall(texts[header])
                 if os.path.exists(os.path.join(root, name))]
    return dict(sorted(texts.items()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("headers", nargs="+")
    options = parser.parse_args()
    for header, text in closure(options.root, options.headers).items():
        path = os.path.join(options.out, installed_name(header))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(INCLUDE.sub(lambda m: m[1] + (installed_name(m[2]) or m[2]) + m[3], text))


if __name__ == "__main__":
    main()
