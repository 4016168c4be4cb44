// The flags that `tandem run` and `tandem submit` share, and the job that they describe.
//
// Thread-safety: pure functions.
#ifndef TANDEM_CLIENT_CLI_RUN_FLAGS_H_
#define TANDEM_CLIENT_CLI_RUN_FLAGS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model/job_spec.h"

namespace tandem::cli {

struct RunFlags {
  std::string kernel;
  std::vector<std::string> arguments, outs, labels, after;
  std::string split, name, request_id, device = "auto", time_limit, cpus, gpus, memory, gpu_memory;
  std::string on_ctrl_c = "detach";
  uint64_t grain = 0, max_lease_leaves = 0;
  uint32_t retries = 0, crash_limit = 3;
  std::optional<uint64_t> max_failures;
  int32_t priority = 0;
  bool allow_failed = false, reproducible = false, dry_run = false, force = false, quiet = false;
  bool fail_unsatisfiable = false;
  bool follow = false;
};

// Ownership: the flags outlive the command.
void AddRunFlags(CLI::App* command, RunFlags* flags);

// All of the job but kernel and operands.
// Errors: INVALID_ARGUMENT that names the flag, before any master is asked.
absl::StatusOr<JobSpec> SpecOf(const RunFlags& flags);

// What a check of the job's fields says, of the flags that people type: "--crash-limit is 0, …" for
// "crash_limit is 0, …". The field stays what it is; other errors and OK stay as they are.
absl::Status NameFlag(const absl::Status& status);

// "KEY=VALUE" each. Errors: INVALID_ARGUMENT for another form, a key twice, or what is no text.
absl::StatusOr<std::map<std::string, std::string>> ParseLabels(
    const std::vector<std::string>& texts);

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_RUN_FLAGS_H_
