// JobSpec: what an owner submits: a kernel (or command), operands and policy.
//
// Everything a job will ever say is here already, so that neither journal nor API changes when a
// field comes to life; what is not honoured yet is refused by name (Capabilities in bound_job.h),
// never ignored. Default values mean "not asked for". Thread-safety: a value type.
#ifndef TANDEM_COMMON_MODEL_JOB_SPEC_H_
#define TANDEM_COMMON_MODEL_JOB_SPEC_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "common/model/ids.h"
#include "common/model/locator.h"
#include "common/model/scalar.h"

namespace tandem {

// Fixed-point fractions of a CPU or GPU: 10,000 is one.
inline constexpr int64_t kWholeUnit = 10'000;

// What a task needs while it runs. 0: not asked for.
struct Resources {
  int64_t cpus_e4 = 0;  // In 1/10,000.
  int64_t gpus_e4 = 0;  // In 1/10,000.
  uint64_t memory_bytes = 0;
  // What a batch of the job is to have of a device's memory: a device whose budget is smaller does
  // not run the job, and each batch of it is admitted as if it needed at least so much.
  uint64_t gpu_memory_bytes = 0;
  friend bool operator==(const Resources&, const Resources&) = default;
};

enum class DeviceChoice : uint8_t { kAuto = 0, kCpu, kGpu };
// "auto", "cpu", "gpu".
std::string_view DeviceChoiceName(DeviceChoice choice);

// An argv run as a process, once a task.
struct CommandSpec {
  std::vector<std::string> argv;
  std::map<std::string, std::string> environment;
  std::string working_directory;
  friend bool operator==(const CommandSpec&, const CommandSpec&) = default;
};

struct JobSpec {
  std::string owner;
  std::string name;        // For people; "" takes the kernel's.
  std::string request_id;  // Makes submitting idempotent; "" for none.

  std::string kernel;                  // "name", or "name@hash" to insist on one content.
  std::optional<CommandSpec> command;  // Instead of a kernel.
  std::map<std::string, OperandSpec> operands;
  std::map<std::string, Scalar> scalars;
  std::string split_axis;                       // "" takes the kernel's first task axis.
  std::map<std::string, int64_t> axis_extents;  // Of axes that no operand binds.
  uint64_t grain = 0;                           // 0 takes the kernel's.

  Resources resources;
  DeviceChoice device = DeviceChoice::kAuto;
  bool reproducible = false;  // Tolerant outputs too are the same bytes: Pinned(), job_order.h.
  std::map<std::string, std::string> labels;
  int32_t priority = 0;  // Larger first.
  absl::Duration time_limit = absl::InfiniteDuration();
  uint32_t retries = 0;      // Runs again after a task's own failure.
  uint32_t crash_limit = 3;  // Strikes before a leaf is failed.
  // More failed tasks than this end the job; nothing: no limit.
  std::optional<uint64_t> max_task_failures;
  bool allow_failed = false;      // A reduction with failed tasks may still succeed.
  uint64_t max_lease_leaves = 0;  // The most leaves one lease may hold; 0: the policy's choice.
  std::vector<JobId> after;       // Starts when all of these have succeeded.
  // Fails as soon as no worker that is attached may run it; else it waits for one.
  bool fail_unsatisfiable = false;

  friend bool operator==(const JobSpec&, const JobSpec&) = default;
};

}  // namespace tandem

#endif  // TANDEM_COMMON_MODEL_JOB_SPEC_H_
