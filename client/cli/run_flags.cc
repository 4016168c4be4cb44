#include "client/cli/run_flags.h"

#include <limits>
#include <utility>

#include "client/cli/selectors.h"
#include "client/lib/arguments.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/cli/option_types.h"
#include "common/model/bound_job.h"
#include "common/model/job_spec_check.h"

namespace tandem::cli {
namespace {

constexpr double kDevicesMax = 1e6;

// "0.5" of them, to a fixed point.
absl::Status TakeShare(const std::string& text, std::string_view flag, std::string_view of,
                       int64_t* e4) {
  if (text.empty()) return absl::OkStatus();
  const auto share = Scalar::Parse(text, DType::kF64);
  if (!share.ok() || !(share->AsDouble() > 0) || share->AsDouble() > kDevicesMax) {
    return WithField(
        InvalidError(reason::kBadResources,
                     StrCat(flag, " ", Quoted(text), " is no number of ", of, "; give 0.5 or 2")),
        flag);
  }
  *e4 = static_cast<int64_t>(share->AsDouble() * kWholeUnit + 0.5);
  return absl::OkStatus();
}

absl::Status TakeResources(const RunFlags& flags, JobSpec* spec) {
  if (!flags.time_limit.empty()) {
    const auto limit = ParseDuration(flags.time_limit);
    if (!limit.ok()) return WithField(limit.status(), "--time-limit");
    if (*limit <= absl::ZeroDuration()) {
      return WithField(InvalidError(reason::kBadDuration,
                                    StrCat("--time-limit ", flags.time_limit,
                                           " lets no task run; leave it out for no limit")),
                       "--time-limit");
    }
    spec->time_limit = *limit;
  }
  if (!flags.memory.empty()) {
    const auto bytes = ParseSize(flags.memory);
    if (!bytes.ok()) return WithField(bytes.status(), "--mem");
    spec->resources.memory_bytes = *bytes;
  }
  if (!flags.gpu_memory.empty()) {
    const auto bytes = ParseSize(flags.gpu_memory);
    if (!bytes.ok()) return WithField(bytes.status(), "--gpu-memory");
    if (*bytes == 0) {
      return WithField(
          InvalidError(reason::kBadResources, "--gpu-memory 0 asks for nothing; leave it out"),
          "--gpu-memory");
    }
    spec->resources.gpu_memory_bytes = *bytes;
  }
  RETURN_IF_ERROR(TakeShare(flags.cpus, "--cpus", "cores", &spec->resources.cpus_e4));
  return TakeShare(flags.gpus, "--gpus", "GPUs", &spec->resources.gpus_e4);
}

absl::Status TakeAfter(const RunFlags& flags, JobSpec* spec) {
  const auto unknown = []() -> absl::StatusOr<std::vector<JobId>> {
    return Error(absl::StatusCode::kUnimplemented, reason::kNotYetHonoured,
                 "is not honoured by this version: wait with `tandem job wait`, then submit");
  };
  for (const std::string& text : flags.after) {
    absl::StatusOr<std::vector<JobId>> jobs = SelectJobs(text, unknown);
    if (!jobs.ok()) return WithField(WithContext(jobs.status(), "--after"), "--after");
    spec->after.insert(spec->after.end(), jobs->begin(), jobs->end());
  }
  return absl::OkStatus();
}

}  // namespace

void AddRunFlags(CLI::App* command, RunFlags* flags) {
  const JobLimits limits;
  command->add_option("kernel", flags->kernel, "The kernel's name")
      ->required()
      ->type_name("KERNEL");
  command
      ->add_option("arguments", flags->arguments,
                   "operand=@file|path:file|generator, scalar=3.5, axis=1000")
      ->type_name("NAME=VALUE");
  command->add_option("--split", flags->split, "The axis to split the job along")
      ->type_name("AXIS");
  command
      ->add_option("--grain", flags->grain, "Tasks a leaf: the least that is leased or committed")
      ->check(Count(1));
  command->add_option("--name", flags->name, "A name, for people");
  command->add_option("--label", flags->labels, "A label, KEY=VALUE; may be given again")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_option("--priority", flags->priority, "Larger goes first")
      ->check(Integer(std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()));
  command->add_option("--retries", flags->retries, "Runs again after a task's own failure")
      ->check(Count(0, limits.retries_max));
  command
      ->add_option("--crash-limit", flags->crash_limit,
                   "Strikes before a task that crashes its executor is given up")
      ->check(Count(1, limits.crash_limit_max));
  command
      ->add_option("--max-failures", flags->max_failures,
                   "End the job when more tasks than this have failed")
      ->check(Count(0));
  command
      ->add_option("--time-limit", flags->time_limit,
                   "A task that runs longer fails, and only that one: 90s, 1h30m, 2-00:30:00")
      ->type_name("DURATION");
  command->add_option("--device", flags->device, "Which devices may run it")
      ->check(OneOf({"auto", "cpu", "gpu"}));
  command
      ->add_option("--gpu-memory", flags->gpu_memory,
                   "What a batch is to have of a device's memory, 4GiB: devices that may use less "
                   "do not run the job")
      ->type_name("SIZE");
  command->add_flag("--fail-unsatisfiable", flags->fail_unsatisfiable,
                    "Fail at once, with the reason, where no attached worker may run it (no GPU "
                    "of the kind, say); else the job waits for one");
  command->add_option("--cpus", flags->cpus, "Cores a task needs (refused: not honoured yet)");
  command->add_option("--gpus", flags->gpus, "GPUs a task needs, 0.5 (refused: not honoured yet)");
  command
      ->add_option("--mem", flags->memory, "Memory a task needs, 2GiB (refused: not honoured yet)")
      ->type_name("SIZE");
  command
      ->add_option("--after", flags->after,
                   "Start when this job has succeeded (refused: not honoured yet)")
      ->type_name("JOB")
      ->allow_extra_args(false);
  command
      ->add_option("--max-lease", flags->max_lease_leaves,
                   "The most leaves one lease may hold (0: the policy's choice)")
      ->check(Count(0));
  command->add_option("--request-id", flags->request_id,
                      "Submitting again with the same id names the same job");
  command->add_flag("--allow-failed", flags->allow_failed, "Succeed even if tasks fail");
  command->add_flag("--reproducible", flags->reproducible,
                    "The same bytes every time from tolerant kernels too (CPUs alone, x86-64-v2)");
  command->add_flag("--dry-run", flags->dry_run, "Say what would be done; submit nothing");
  command->add_flag("-q,--quiet", flags->quiet, "No progress");
}

absl::StatusOr<std::map<std::string, std::string>> ParseLabels(
    const std::vector<std::string>& texts) {
  JobSpec spec;
  for (const std::string& text : texts) {
    absl::StatusOr<client::Argument> pair = client::ParseArgument(text);
    if (!pair.ok()) return WithField(WithContext(pair.status(), "--label"), "--label");
    if (!spec.labels.emplace(pair->name, std::move(pair->value)).second) {
      return WithField(
          InvalidError(reason::kBadArgument, StrCat("--label ", Quoted(pair->name),
                                                    " is given twice; a key has one value")),
          "--label");
    }
  }
  RETURN_IF_ERROR(NameFlag(CheckJobTexts(spec, JobLimits())));
  return spec.labels;
}

absl::Status NameFlag(const absl::Status& status) {
  static constexpr std::pair<std::string_view, std::string_view> kFlags[] = {
      {"name", "--name"},
      {"split_axis", "--split"},
      {"request_id", "--request-id"},
      {"labels", "--label"},
      {"grain", "--grain"},
      {"priority", "--priority"},
      {"retries", "--retries"},
      {"crash_limit", "--crash-limit"},
      {"max_task_failures", "--max-failures"},
      {"max_lease_leaves", "--max-lease"},
      {"time_limit", "--time-limit"},
      {"device", "--device"},
      {"resources.cpus", "--cpus"},
      {"resources.gpus", "--gpus"},
      {"after", "--after"},
      {"resources.memory", "--mem"},
      {"resources.gpu_memory", "--gpu-memory"}};
  const std::string_view message = ToStd(status.message());
  for (const auto& [field, flag] : kFlags) {
    if (!message.starts_with(field)) continue;
    std::string_view rest = message.substr(field.size());
    if (!rest.starts_with(' ') && !(field == "labels" && rest.starts_with('.'))) continue;
    if (rest.starts_with('.')) rest.remove_prefix(1);
    const bool of_key = rest.size() + field.size() < message.size();
    return WithField(Error(status.code(), ReasonOf(status), StrCat(flag, of_key ? " " : "", rest)),
                     FieldOf(status));
  }
  return status;
}

absl::StatusOr<JobSpec> SpecOf(const RunFlags& flags) {
  JobSpec spec;
  spec.name = flags.name;
  spec.split_axis = flags.split;
  spec.grain = flags.grain;
  spec.priority = flags.priority;
  spec.retries = flags.retries;
  spec.crash_limit = flags.crash_limit;
  spec.max_task_failures = flags.max_failures;
  spec.allow_failed = flags.allow_failed;
  spec.fail_unsatisfiable = flags.fail_unsatisfiable;
  spec.reproducible = flags.reproducible;
  spec.max_lease_leaves = flags.max_lease_leaves;
  if (flags.device == "cpu") spec.device = DeviceChoice::kCpu;
  if (flags.device == "gpu") spec.device = DeviceChoice::kGpu;
  RETURN_IF_ERROR(TakeResources(flags, &spec));
  RETURN_IF_ERROR(TakeAfter(flags, &spec));
  ASSIGN_OR_RETURN(spec.labels, ParseLabels(flags.labels));
  spec.request_id = flags.request_id;
  RETURN_IF_ERROR(NameFlag(CheckJobTexts(spec, JobLimits())));
  spec.request_id.clear();  // it belongs to the call
  return spec;
}

}  // namespace tandem::cli
