"""Which folder may include what: the table of docs/ARCHITECTURE.md ("Borders"), as data; the two are compared.

A file belongs to the longest entry of BORDERS that its path starts with. `own` are the folders of the
tree that it may include, its own folder always among them; `libs` are the kinds of library headers
(LIBRARIES) besides `std`. Folders without an entry (tests, bench) are free.
"""

import re

from source import Finding

# First match wins; what matches nothing is the C++ standard library or the system's C headers.
LIBRARIES = [
    ("absl", ("absl/",)),
    ("grpc", ("grpc/", "grpcpp/", "grpc++/")),
    ("grpc", (".grpc.pb.h",)),
    ("proto", ("google/", ".pb.h")),
    ("tbb", ("tbb/", "oneapi/")),
    ("cuda", ("cuda", "cublas", "cudnn", "cub/", "thrust/", "curand", "nccl", "nvml", "nvrtc",
              "device_launch_parameters", "cooperative_groups")),
    ("sqlite", ("sqlite3",)),
    ("libpq", ("libpq",)),
    ("hwloc", ("hwloc",)),
    ("openssl", ("openssl/",)),
    ("zstd", ("zstd",)),
    ("xxhash", ("xxhash", "xxh")),
    ("image", ("png.h", "jpeglib.h", "jerror.h", "turbojpeg.h")),
    ("log", ("spdlog/", "fmt/")),
    ("json", ("nlohmann/",)),
    ("cli", ("CLI/",)),
    ("toml", ("toml.hpp", "toml/")),
    ("blas", ("cblas", "openblas")),
    ("highway", ("hwy/",)),
    ("gtest", ("gtest/", "gmock/")),
    ("benchmark", ("benchmark/",)),
]

PAGE = "docs/ARCHITECTURE.md"

TOP = ("common/", "master/", "worker/", "client/", "kernels/", "proto/", "tests/", "bench/",
       "examples/", "python/")

BORDERS = {
    "common/base/": dict(own=[], libs=["absl"]),
    "common/model/": dict(own=["common/base/"], libs=["absl"]),
    "common/cli/": dict(own=["common/base/"], libs=["absl", "cli"]),
    "common/probe/": dict(own=["common/base/"], libs=["absl", "json"]),
    "common/wire/": dict(own=["common/base/", "common/model/"], libs=["absl", "proto"]),
    "common/rpc/": dict(own=["common/base/", "common/model/", "common/wire/"],
                        libs=["absl", "proto", "grpc"]),
    "common/data/": dict(own=["common/base/", "common/model/", "common/wire/", "common/rpc/"],
                         libs=["absl", "proto", "grpc", "openssl", "xxhash"]),
    "master/core/": dict(own=["common/base/", "common/model/", "master/policy/"], libs=["absl"]),
    "master/policy/": dict(own=["common/base/", "common/model/"], libs=["absl"]),
    "master/store/": dict(own=["common/base/", "common/model/", "common/wire/"],
                          libs=["absl", "sqlite", "xxhash"]),
    "master/server/": dict(own=["common/", "master/core/", "master/store/", "kernels/catalog.h"],
                           libs=["absl", "proto", "grpc"]),
    "master/": dict(own=["common/", "master/server/"], libs=["absl", "cli"]),
    "worker/core/": dict(own=["common/base/", "common/model/"], libs=["absl"]),
    "worker/ring/": dict(own=["common/base/"], libs=["absl", "proto"]),
    "worker/device/": dict(own=["common/base/", "common/model/", "kernels/"], libs=["absl"]),
    "worker/device/cpu/": dict(own=["common/base/", "common/model/", "kernels/", "worker/device/"],
                               libs=["absl", "tbb", "hwloc"]),
    "worker/device/cuda/": dict(
        own=["common/base/", "common/model/", "common/probe/", "kernels/", "worker/device/"],
        libs=["absl", "cuda"]),
    "worker/executor/": dict(own=["common/", "kernels/", "worker/device/", "worker/ring/"],
                             libs=["absl", "proto"]),
    "worker/server/": dict(
        own=["common/", "worker/core/", "worker/ring/", "worker/device/emulated/emulated_spec.h",
             "worker/device/nvml/", "worker/executor/probe.h"],
        libs=["absl", "proto", "grpc", "cli"]),
    "worker/": dict(own=["common/", "worker/device/cuda/", "worker/executor/", "worker/server/"],
                    libs=["absl", "cli"]),
    "client/lib/": dict(own=["common/"], libs=["absl", "proto", "grpc"]),
    "client/cli/": dict(own=["common/", "client/lib/"], libs=["absl", "cli", "json", "toml"]),
    "kernels/": dict(own=[], libs=["blas", "highway", "image"]),
}

# A kernel's body, kernels/NAME/NAME.h, compiles freestanding: the SDK and these headers, no others.
BODY = re.compile(r"^kernels/(\w+)/\1\.h$")
FREESTANDING = ("stdint.h", "stddef.h")


def library_of(name):
    """The kind of library that an included header belongs to; "std" for all the rest."""
    for kind, marks in LIBRARIES:
        if any(name.startswith(m) if not m.startswith(".") else name.endswith(m) for m in marks):
            return kind
    return "std"


def entry_of(path):
    """The folder of BORDERS that governs `path`, or None."""
    folders = [f for f in BORDERS if path.startswith(f)]
    return max(folders, key=len) if folders else None


def rows(page):
    """{folder: (line, own, libs)} of the table on the page: every `name` in its three columns."""
    found, inside = {}, False
    for number, line in enumerate(page.lines, 1):
        inside = line == "## Borders" or (inside and not line.startswith("## "))
        cells = [re.findall(r"`([^`]+)`", cell) for cell in line.split("|")]
        if inside and len(cells) == 5:
            for folder in cells[1]:
                found[folder] = (number, set(cells[2]), set(cells[3]))
    return found


def check_tree(files):
    page = next((file for file in files if file.path == PAGE), None)
    if page is None:
        return  # Another tree than this one.
    table = rows(page)
    for folder in sorted(table.keys() | BORDERS.keys()):
        border = BORDERS.get(folder)
        line, own, libs = table.get(folder, (1, None, None))
        if border is None or own != set(border["own"]) or libs != set(border["libs"]):
            yield Finding(PAGE, line, "border", f"its row of {folder} and that of tests/tidy/borders.py differ")


def check_file(file):
    folder = entry_of(file.path)
    if folder is None or not file.is_cxx:
        return
    border = BORDERS[folder]
    for line, name in file.includes():
        if name.startswith(TOP) and not name.endswith(".pb.h"):
            if not name.startswith((folder, *border["own"])):
                yield Finding(file.path, line, "border",
                              f"{folder} may not include {name}; it may include "
                              f"{', '.join([folder, *border['own']])}")
            continue
        kind = library_of(name)
        if BODY.match(file.path) and kind == "std" and not name.startswith("tandem/") and \
                name not in FREESTANDING:
            yield Finding(file.path, line, "border",
                          f"a kernel's body is freestanding: it may not include {name}")
        if kind == "cuda" and file.path.endswith((".cu", ".cuh")):
            continue
        if kind != "std" and kind not in border["libs"]:
            yield Finding(file.path, line, "border",
                          f"{folder} may not include {name} ({kind}); its libraries are "
                          f"{', '.join(['std', *border['libs']])}")
