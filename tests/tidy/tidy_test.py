#!/usr/bin/env python3
"""Plants each violation and expects it to be found, and its harmless neighbour not to be."""

import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import borders  # noqa: E402
import commands  # noqa: E402
import cores  # noqa: E402
import headers  # noqa: E402
import protocol  # noqa: E402
import protos  # noqa: E402
import source  # noqa: E402
import text  # noqa: E402

HEADER = """// A thing.
#ifndef TANDEM_MASTER_CORE_THING_H_
#define TANDEM_MASTER_CORE_THING_H_
%s
#endif  // TANDEM_MASTER_CORE_THING_H_
"""


def found(rules, path, content):
    return [f.message for f in rules.check_file(source.File(path, content))]


class Borders(unittest.TestCase):
    def refused(self, path, include):
        self.assertTrue(found(borders, path, f"#include {include}\n"), f"{path} {include}")

    def allowed(self, path, include):
        self.assertEqual(found(borders, path, f"#include {include}\n"), [], f"{path} {include}")

    def test_each_folder_keeps_to_its_row(self):
        self.refused("common/base/a.h", '"common/model/ranges.h"')
        self.allowed("common/model/a.h", '"common/base/check.h"')
        self.refused("common/model/a.cc", '"common/wire/jobs.h"')
        self.refused("common/wire/a.cc", "<grpcpp/grpcpp.h>")
        self.refused("common/data/a.cc", '"master/core/core.h"')
        self.refused("master/store/a.cc", "<grpcpp/grpcpp.h>")
        self.allowed("master/store/a.cc", "<sqlite3.h>")
        self.refused("master/server/a.cc", '"worker/server/session.h"')
        self.refused("worker/server/a.cc", '"master/server/server.h"')
        self.refused("client/lib/a.cc", '"master/core/core.h"')
        self.refused("worker/executor/a.cc", '"worker/core/core.h"')
        self.allowed("master/server/a.cc", '"kernels/catalog.h"')
        self.refused("master/server/a.cc", '"kernels/spin/spin.h"')
        self.allowed("worker/server/a.cc", '"worker/executor/probe.h"')
        self.refused("worker/server/a.cc", '"worker/executor/executor.h"')
        self.refused("client/cli/a.cc", "<grpcpp/grpcpp.h>")

    def test_the_cores_see_only_base_and_model(self):
        for core in ("master/core/", "master/policy/", "worker/core/"):
            self.allowed(core + "a.cc", '"common/model/ranges.h"')
            for include in ('"common/rpc/status.h"', '"proto/tandem/v1/jobs.pb.h"', "<tbb/tbb.h>",
                            "<grpcpp/grpcpp.h>", "<cuda_runtime.h>", "<sqlite3.h>"):
                self.refused(core + "a.cc", include)

    def test_devices_get_only_their_own_library(self):
        self.allowed("worker/device/cpu/a.cc", "<oneapi/tbb/task_arena.h>")
        self.refused("worker/device/emulated/a.cc", "<oneapi/tbb/task_arena.h>")
        self.allowed("worker/device/cuda/a.cc", "<cuda_runtime.h>")
        self.refused("worker/device/cpu/a.cc", "<cuda_runtime.h>")
        self.refused("worker/device/cpu/a.cc", "<google/protobuf/message.h>")

    def test_kernels_see_only_their_sdk(self):
        self.allowed("kernels/saxpy/saxpy.h", '"tandem/body.h"')
        self.allowed("kernels/saxpy/saxpy_cuda.cu", "<cuda_runtime.h>")
        self.refused("kernels/saxpy/saxpy.h", "<cuda_runtime.h>")
        self.refused("kernels/saxpy/saxpy_cuda.cu", '"absl/status/status.h"')
        self.refused("kernels/saxpy/saxpy.h", '"worker/device/device.h"')
        self.refused("kernels/saxpy/saxpy.h", "<vector>")
        self.allowed("kernels/saxpy/saxpy.h", "<stdint.h>")
        self.allowed("kernels/saxpy/saxpy_ref.h", "<vector>")

    def test_an_include_in_a_comment_is_none(self):
        self.allowed("master/core/a.cc", '"common/base/check.h"  // not <mutex>')
        self.assertEqual(found(borders, "master/core/a.cc", "/*\n#include <tbb/tbb.h>\n*/\n"), [])

    def test_the_page_has_the_same_table(self):
        row = lambda folder, border: "| `{}` | {} | {} |\n".format(  # noqa: E731
            folder, *(", ".join(f"`{name}`" for name in border[what]) for what in ("own", "libs")))
        table = [row(folder, border) for folder, border in borders.BORDERS.items()]
        for rows, folder in ((table, None), (table[1:], "common/base/"), (table + ["| `x/` | `absl` | – |\n"], "x/"),
                             ([*table[:-1], table[-1].replace("`blas`", "`blas`, `grpc`")], "kernels/"),
                             ([table[0], table[1].replace("`common/base/`", "–"), *table[2:]], "common/model/")):
            page = source.File(borders.PAGE, "## Borders\n\n" + "".join(rows) + "\n## Next\n| `y/` | – | – |\n")
            said = [f.message for f in borders.check_tree([page])]
            self.assertEqual(len(said), 1 if folder else 0, said)
            self.assertIn(folder or "", "".join(said))

    def test_every_folder_of_the_tree_with_code_has_a_row_or_is_free(self):
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        free = ("tests/", "bench/", "examples/", "python/", "cmake/pch/")
        for path in source.tree_paths(root):
            if path.endswith(source.CXX):
                self.assertTrue(path.startswith(free) or borders.entry_of(path), path)


class Cores(unittest.TestCase):
    def refused(self, line):
        self.assertTrue(found(cores, "master/core/a.cc", line + "\n"), line)

    def allowed(self, line):
        self.assertEqual(found(cores, "master/core/a.cc", line + "\n"), [], line)

    def test_banned_calls(self):
        for line in ("std::thread t(run);", "absl::MutexLock lock(&mu_);", "std::atomic<int> n;",
                     "auto t = absl::Now();", "auto t = std::chrono::steady_clock::now();",
                     "int64_t t = time(nullptr);", "std::ofstream out(path);", "printf(\"x\");",
                     "int s = socket(AF_INET, SOCK_STREAM, 0);", "int fd = ::open(p, 0);",
                     "return rand() % 6;", "std::random_device seed;", "absl::BitGen gen;",
                     "std::unordered_map<int, int> m;", "thread_local int n;", "#include <mutex>",
                     "#include <fstream>", "#include \"absl/time/clock.h\"", "::sleep(1);"):
            self.refused(line)

    def test_harmless_neighbours(self):
        for line in ("MonoTime time() const;", "lease.time(0);", "// std::thread in a comment",
                     "auto text = \"std::thread\";", "void Read(const Event& event);",
                     "queue.connect(1);", "#include <vector>", "absl::Duration ttl;"):
            self.allowed(line)

    def test_other_folders_are_free(self):
        self.assertEqual(found(cores, "master/server/a.cc", "std::thread t(run);\n"), [])

    def test_walking_a_hashed_container(self):
        member = "absl::flat_hash_map<JobId, std::vector<int>> jobs_;\n"
        self.refused(member + "for (const auto& [id, job] : jobs_) Emit(id);")
        self.refused(member + "for (auto it = jobs_.begin(); it != jobs_.end(); ++it) {}")
        self.refused("using Jobs = absl::flat_hash_set<JobId>;\nJobs jobs_;\nfor (JobId j : jobs_) {}")
        self.allowed(member + "// order-free: a sum\nfor (const auto& [id, job] : jobs_) n += job.n;")
        self.allowed(member + "if (jobs_.find(id) == jobs_.end()) return;")
        self.allowed("std::map<JobId, int> jobs_;\nfor (const auto& [id, job] : jobs_) Emit(id);")

    def test_a_container_that_the_header_declares_is_known_in_the_source(self):
        files = [source.File("master/core/a.h", "absl::node_hash_map<int, int> leases_;\n"),
                 source.File("master/core/a.cc", "for (auto& [id, l] : leases_) Emit(id);\n")]
        self.assertEqual([f.path for f in cores.check_tree(files)], ["master/core/a.cc"])


class Text(unittest.TestCase):
    def refused(self, path, content):
        self.assertTrue(found(text, path, content), content)

    def allowed(self, path, content):
        self.assertEqual(found(text, path, content), [], content)

    def test_layout(self):
        self.refused("a.cc", "int a; \n")
        self.refused("a.cc", "\tint a;\n")
        self.refused("a.cc", "int a;")
        self.refused("a.cc", "int a;\n" * 601)
        self.allowed("a.cc", "int a;\n" * 600)

    def test_leftovers_and_machine_paths(self):
        self.refused("a.cc", "// TO" "DO: later\n")
        self.refused("a.py", "# FIX" "ME\n")
        self.refused("docs/a.md", "see /wo" "rk/main\n")
        self.allowed("a.cc", "// a method, to do it\n")
        self.allowed("docs/a.md", "network/workers and framework/root/\n")

    def test_sleeps_in_tests(self):
        self.refused("tests/e2e/a_test.cc", "std::this_thread::sleep_for(1s);\n")
        self.refused("tests/e2e/a_test.cc", "absl::SleepFor(absl::Seconds(1));\n")
        self.refused("tests/e2e/a.py", "time.sleep(1)\n")
        self.refused("tests/e2e/a.sh", "  sleep 1\n")
        self.allowed("tests/e2e/a.py", "time.sleep(0.01)  # poll: the port file\n")
        self.allowed("tests/e2e/a.py", "time.sleep(r.random())  # fault: when\n")
        self.allowed("tests/e2e/a_test.cc", "// never sleep_for(1s)\n")
        self.allowed("worker/server/a.cc", "absl::SleepFor(backoff);\n")

    def test_guards(self):
        self.allowed("master/core/thing.h", HEADER % "")
        self.refused("master/core/thing.h", (HEADER % "").replace("_H_", "_H"))
        self.refused("master/policy/thing.h", HEADER % "")
        self.refused("master/core/thing.h", "// A thing.\n#pragma once\n")
        self.allowed("kernels/sdk/include/tandem/abi.h",
                     "// The ABI.\n#ifndef TANDEM_ABI_H_\n#define TANDEM_ABI_H_\n#endif\n")

    def test_a_header_has_a_head(self):
        self.refused("master/core/thing.h", (HEADER % "").replace("// A thing.\n", "").replace(
            "  // TANDEM_MASTER_CORE_THING_H_", ""))

    def test_the_licence_is_there(self):
        self.assertTrue(list(text.check_licence([])))
        self.assertTrue(list(text.check_licence([source.File("LICENSE", "all rights reserved\n")])))


class Protos(unittest.TestCase):
    HEAD = 'syntax = "proto3";\npackage tandem.v1;\n'

    def refused(self, content, path="proto/tandem/v1/a.proto"):
        self.assertTrue(found(protos, path, self.HEAD + content), content)

    def allowed(self, content):
        self.assertEqual(found(protos, "proto/tandem/v1/a.proto", self.HEAD + content), [], content)

    def test_each_rpc_lists_its_error_codes(self):
        self.refused("// NOT_FOUND is not an error of it.\nrpc GetJob(A) returns (B);\n")
        self.allowed("// Errors: none beyond the transport's.\nrpc GetJob(A) returns (B);\n")
        self.allowed("// Errors: as SubmitJob.\nrpc PlanJob(A) returns (B);\n")
        self.refused("// Gets a job.\nrpc GetJob(A) returns (B);\n")
        self.allowed("// Gets a job.\n// Errors: NOT_FOUND.\nrpc GetJob(A) returns (B);\n")

    def test_the_zero_of_an_enum_has_no_meaning(self):
        self.refused("enum State {\n  RUNNING = 0;\n}\n")
        self.allowed("enum State {\n  STATE_UNSPECIFIED = 0;\n  RUNNING = 1;\n}\n")

    def test_the_package_is_the_folder(self):
        self.refused("", path="proto/tandem/v2/a.proto")


class Headers(unittest.TestCase):
    def check(self, body):
        with tempfile.TemporaryDirectory() as root:
            path = "common/base/a.h"
            os.makedirs(os.path.join(root, "common/base"))
            with open(os.path.join(root, path), "w", encoding="utf-8") as f:
                f.write(body)
            files = source.load(root, [path])
            return headers.check_tree(root, root, files), headers.check_tree(root, root, files)

    def test_a_header_that_leans_on_others_is_found_each_time(self):
        for findings in self.check("std::string Name();\n"):
            self.assertEqual([f.rule for f in findings], ["alone"])

    def test_a_header_that_stands_alone_passes(self):
        self.assertEqual(self.check("#include <string>\nstd::string Name();\n"), ([], []))

    def test_a_change_in_what_a_header_includes_is_seen(self):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "common/base"))
            inner = os.path.join(root, "common/base/inner.h")
            with open(os.path.join(root, "common/base/a.h"), "w", encoding="utf-8") as f:
                f.write('#include "common/base/inner.h"\nThing Make();\n')
            for content, expected in (("struct Thing {};\n", 0), ("struct Other {};\n", 1)):
                with open(inner, "w", encoding="utf-8") as f:
                    f.write(content)
                files = source.load(root, ["common/base/a.h"])
                self.assertEqual(len(headers.check_tree(root, root, files)), expected)


class Command(unittest.TestCase):
    def test_a_planted_violation_fails_the_command(self):
        tidy = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tidy.py")
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "master/core"))
            licence = os.path.join(root, "LICENSE")
            with open(licence, "w", encoding="utf-8") as f:
                f.write("Apache License\nVersion 2.0\n")
            run = [sys.executable, tidy, "--root", root, "--build", root]
            self.assertEqual(subprocess.run(run, capture_output=True, check=False).returncode, 0)
            with open(os.path.join(root, "master/core/a.cc"), "w", encoding="utf-8") as f:
                f.write("#include <thread>\n")
            done = subprocess.run(run, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn("master/core/a.cc:1: [core]", done.stdout)


class Commands(unittest.TestCase):
    def refused(self, content):
        self.assertTrue(found(commands, "docs/a.md", content), content)

    def allowed(self, content, path="docs/a.md"):
        self.assertEqual(found(commands, path, content), [], content)

    def test_a_command_that_no_test_runs_is_found_however_it_stands_there(self):
        self.refused("Do\n\n    ./dev frobnicate     # it\n")
        self.refused("```\n./dev frobnicate\n```\n")
        self.refused("```sh\n./dev test\n./dev frobnicate\n```\n")
        self.refused("```cpp\nint a;\n```\n\n    ./dev frobnicate")

    def test_what_a_test_runs_and_what_is_no_command_is_left_alone(self):
        self.allowed("Do\n\n    ./dev test     # it\n    # only this\n\n")
        self.allowed("```console\n$ ./dev frobnicate\n```\n")
        self.allowed("```text\n./dev frobnicate\n```\n```toml\na = 1\n```\n")
        self.allowed("```sh\n./dev frobnicate\n```\n", path="docs/kernels.md")
        self.allowed("    ./dev frobnicate\n", path="notes.md")

    def test_the_test_that_is_named_must_run_it(self):
        tree = [source.File(commands.THIS, ""), source.File(commands.CI, "nothing\n")]
        rule = [f.message for f in commands.check_tree(tree)]
        self.assertTrue([message for message in rule if "./dev demo" in message])


class Protocol(unittest.TestCase):
    def missing(self, page, path, content, name="docs/protocol.md"):
        files = [source.File(name, page), source.File(path, content)]
        return [f.message for f in protocol.check_tree(files) if f.message.startswith(name)]

    def test_each_rpc_reason_and_finding_stands_on_the_page(self):
        for path, content, token in (
                ("proto/tandem/v1/jobs.proto", "  rpc GetJob(A) returns (B);\n", "GetJob"),
                ("common/base/reason.h", '  X(JobFailed, "JOB_FAILED") \\\n', "JOB_FAILED"),
                ("master/server/explain_job.cc", '  Add("IDLE", 1, "x", "");\n', "IDLE"),
                ("master/server/explain_devices.cc", '  it.set_token("DEVICES");\n', "DEVICES"),
                ("worker/server/supervisor_devices.cc", '  notes_.Set("n", {"NVML", "x", ""});\n', "NVML")):
            self.assertTrue(self.missing("nothing", path, content), path)
            self.assertEqual(self.missing(f"| `{token}` | x |", path, content), [], path)
            self.assertTrue(self.missing(f"`{token}X`", path, content), path)

    def test_each_wait_reason_stands_on_both_pages(self):
        enums = "enum JobState {\n  RUNNING = 2;\n}\nenum WaitReason {\n  NONE = 0;\n  QUOTA = 5;\n}\nenum E {\n  X = 1;\n}\n"
        for page in ("docs/protocol.md", "docs/operating.md"):
            self.assertEqual(len(self.missing("nothing", "proto/tandem/v1/jobs.proto", enums, page)), 1)
            self.assertEqual(self.missing("`QUOTA`", "proto/tandem/v1/jobs.proto", enums, page), [])


if __name__ == "__main__":
    unittest.main()
