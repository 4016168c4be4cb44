#include "common/wire/job_spec.h"

#include <limits>
#include <map>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/model/kernel_info.h"
#include "common/wire/decode_util.h"
#include "common/wire/lease_messages.h"

namespace tandem::wire {
namespace {

// A bound on what decoding will allocate; JobLimits' are tighter.
constexpr int kListMax = 4096;
constexpr size_t kTextBytesMax = 64 << 10;

absl::Status BadSpec(std::string_view field, std::string_view what) {
  return WithField(InvalidError(reason::kBadSpec, StrCat(field, " ", what)), field);
}

absl::Status CheckCount(int count, std::string_view field) {
  if (count <= kListMax) return absl::OkStatus();
  return BadSpec(field, StrCat("has ", count, " entries; at most ", kListMax));
}

// What a text may hold is for CheckJobTexts() to say.
absl::Status CheckSize(std::string_view text, std::string_view field) {
  if (text.size() <= kTextBytesMax) return absl::OkStatus();
  return WithField(
      InvalidError(reason::kLimitExceeded,
                   StrCat(field, " has ", text.size(), " bytes, more than ", kTextBytesMax)),
      field);
}

absl::Status TakeText(std::string* from, std::string_view field, std::string* to) {
  RETURN_IF_ERROR(CheckSize(*from, field));
  *to = std::move(*from);
  return absl::OkStatus();
}

absl::Status TakeMap(google::protobuf::Map<std::string, std::string>* from, std::string_view field,
                     std::map<std::string, std::string>* to) {
  RETURN_IF_ERROR(CheckCount(static_cast<int>(from->size()), field));
  for (auto& [key, value] : *from) {
    RETURN_IF_ERROR(CheckSize(key, field));
    RETURN_IF_ERROR(CheckSize(value, field));
    to->emplace(key, std::move(value));
  }
  return absl::OkStatus();
}

absl::Status DecodeOperands(v1::JobSpec* from, JobSpec* to) {
  RETURN_IF_ERROR(CheckCount(from->operands_size(), "operands"));
  for (int i = 0; i < from->operands_size(); ++i) {
    v1::Operand* operand = from->mutable_operands(i);
    if (operand->name().empty()) return BadSpec(Indexed("operands", i), "has no name");
    RETURN_IF_ERROR(CheckText(operand->name(), WireLimits::kNameBytes, Indexed("operands", i)));
    const std::string field = StrCat("operands.", operand->name());
    const auto [it, added] = to->operands.try_emplace(operand->name());
    if (!added) return BadSpec(field, "is given twice");
    RETURN_IF_ERROR(WithField(Decode(operand, &it->second), field));
  }
  return absl::OkStatus();
}

absl::Status DecodeScalars(const v1::JobSpec& from, JobSpec* to) {
  RETURN_IF_ERROR(CheckCount(from.scalars_size(), "scalars"));
  for (int i = 0; i < from.scalars_size(); ++i) {
    const v1::Scalar& scalar = from.scalars(i);
    if (scalar.name().empty()) return BadSpec(Indexed("scalars", i), "has no name");
    RETURN_IF_ERROR(CheckText(scalar.name(), WireLimits::kNameBytes, Indexed("scalars", i)));
    const std::string field = StrCat("scalars.", scalar.name());
    absl::StatusOr<Scalar> value = DecodeScalar(scalar);
    if (!value.ok()) return WithField(std::move(value).status(), field);
    if (!to->scalars.emplace(scalar.name(), *value).second) {
      return BadSpec(field, "is given twice");
    }
  }
  return absl::OkStatus();
}

absl::Status DecodeKernel(v1::JobSpec* from, JobSpec* to) {
  RETURN_IF_ERROR(TakeText(from->mutable_kernel(), "kernel", &to->kernel));
  if (from->kernel_hash() != 0) {
    const uint64_t hash = from->kernel_hash();
    ASSIGN_OR_RETURN(const KernelRef ref, ParseKernelRef(to->kernel));
    if (ref.content_hash != 0 && ref.content_hash != hash) {
      return BadSpec("kernel_hash", StrCat("is not the one in the kernel's name, ", to->kernel));
    }
    KernelInfo pinned;
    pinned.name = ref.name;
    pinned.content_hash = hash;
    to->kernel = pinned.identity();
  }
  if (!from->has_command()) return absl::OkStatus();
  v1::Command* command = from->mutable_command();
  RETURN_IF_ERROR(CheckCount(command->argv_size(), "command.argv"));
  CommandSpec& spec = to->command.emplace();
  for (int i = 0; i < command->argv_size(); ++i) {
    spec.argv.push_back(std::move(*command->mutable_argv(i)));
  }
  RETURN_IF_ERROR(
      TakeMap(command->mutable_environment(), "command.environment", &spec.environment));
  return TakeText(command->mutable_working_directory(), "command.working_directory",
                  &spec.working_directory);
}

absl::Status DecodeTimeLimit(const google::protobuf::Duration& from, JobSpec* to) {
  constexpr int64_t kSecondsMax = 315'576'000'000;  // As duration.proto says.
  if (from.seconds() < 0 || from.seconds() > kSecondsMax || from.nanos() < 0 ||
      from.nanos() > 999'999'999) {
    return BadSpec("time_limit", "is negative or not a duration");
  }
  to->time_limit = absl::Seconds(from.seconds()) + absl::Nanoseconds(from.nanos());
  if (to->time_limit > absl::ZeroDuration()) return absl::OkStatus();
  return BadSpec("time_limit", "is 0: leave it out for no limit");
}

absl::Status DecodePolicy(v1::JobSpec* from, JobSpec* to) {
  RETURN_IF_ERROR(WithField(Decode(from->resources(), &to->resources), "resources"));
  RETURN_IF_ERROR(TakeMap(from->mutable_labels(), "labels", &to->labels));
  to->priority = from->priority();
  if (from->has_time_limit()) RETURN_IF_ERROR(DecodeTimeLimit(from->time_limit(), to));
  to->retries = from->retries();
  if (from->crash_limit() != 0) to->crash_limit = from->crash_limit();
  if (from->has_max_task_failures()) to->max_task_failures = from->max_task_failures();
  to->allow_failed = from->allow_failed();
  to->reproducible = from->reproducible();
  switch (from->device()) {
    case v1::DEVICE_CHOICE_UNSPECIFIED:
    case v1::AUTO:
      to->device = DeviceChoice::kAuto;
      break;
    case v1::CPU:
      to->device = DeviceChoice::kCpu;
      break;
    case v1::GPU:
      to->device = DeviceChoice::kGpu;
      break;
    default:
      return BadSpec("device", StrCat("is ", static_cast<int>(from->device()),
                                      "; it must be AUTO, CPU or GPU"));
  }
  RETURN_IF_ERROR(CheckCount(from->after_size(), "after"));
  for (const uint64_t job : from->after()) {
    if (job == 0) return BadSpec("after", "names job 0; jobs are numbered from 1");
    to->after.emplace_back(job);
  }
  to->max_lease_leaves = from->max_lease_leaves();
  to->fail_unsatisfiable = from->fail_unsatisfiable();
  return absl::OkStatus();
}

}  // namespace

void Encode(const Resources& from, v1::Resources* to) {
  to->set_cpus_e4(static_cast<uint32_t>(from.cpus_e4));
  to->set_gpus_e4(static_cast<uint32_t>(from.gpus_e4));
  to->set_memory_bytes(from.memory_bytes);
  to->set_gpu_memory_bytes(from.gpu_memory_bytes);
}

absl::Status Decode(const v1::Resources& from, Resources* to) {
  to->cpus_e4 = from.cpus_e4();
  to->gpus_e4 = from.gpus_e4();
  to->memory_bytes = from.memory_bytes();
  to->gpu_memory_bytes = from.gpu_memory_bytes();
  return absl::OkStatus();
}

static void EncodePolicy(const JobSpec& from, v1::JobSpec* to) {
  if (from.resources != Resources()) Encode(from.resources, to->mutable_resources());
  to->mutable_labels()->insert(from.labels.begin(), from.labels.end());
  to->set_priority(from.priority);
  if (from.time_limit != absl::InfiniteDuration()) {
    absl::Duration rest;
    to->mutable_time_limit()->set_seconds(
        absl::IDivDuration(from.time_limit, absl::Seconds(1), &rest));
    to->mutable_time_limit()->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  }
  to->set_retries(from.retries);
  to->set_crash_limit(from.crash_limit);
  if (from.max_task_failures) to->set_max_task_failures(*from.max_task_failures);
  to->set_allow_failed(from.allow_failed);
  to->set_reproducible(from.reproducible);
  to->set_device(static_cast<v1::DeviceChoice>(static_cast<int>(from.device) + v1::AUTO));
  for (const JobId job : from.after) to->add_after(job.value());
  to->set_max_lease_leaves(from.max_lease_leaves);
  to->set_fail_unsatisfiable(from.fail_unsatisfiable);
}

void Encode(const JobSpec& from, v1::JobSpec* to) {
  static_assert(static_cast<int>(DeviceChoice::kGpu) + v1::AUTO == v1::GPU);
  to->set_owner(from.owner);
  to->set_name(from.name);
  const absl::StatusOr<KernelRef> ref = ParseKernelRef(from.kernel);
  to->set_kernel(ref.ok() ? ref->name : from.kernel);
  to->set_kernel_hash(ref.ok() ? ref->content_hash : 0);
  if (from.command) {
    v1::Command* command = to->mutable_command();
    for (const std::string& word : from.command->argv) command->add_argv(word);
    command->mutable_environment()->insert(from.command->environment.begin(),
                                           from.command->environment.end());
    command->set_working_directory(from.command->working_directory);
  }
  for (const auto& [name, operand] : from.operands) {
    EncodeOperand(name, operand, to->add_operands());
  }
  for (const auto& [name, scalar] : from.scalars) EncodeScalar(name, scalar, to->add_scalars());
  to->set_split_axis(from.split_axis);
  for (const auto& [axis, extent] : from.axis_extents) {
    (*to->mutable_axis_extents())[axis] = static_cast<uint64_t>(extent);
  }
  to->set_grain(from.grain);
  EncodePolicy(from, to);
}

absl::Status Decode(v1::JobSpec* from, JobSpec* to) {
  *to = JobSpec();
  RETURN_IF_ERROR(TakeText(from->mutable_owner(), "owner", &to->owner));
  RETURN_IF_ERROR(TakeText(from->mutable_name(), "name", &to->name));
  RETURN_IF_ERROR(DecodeKernel(from, to));
  RETURN_IF_ERROR(DecodeOperands(from, to));
  RETURN_IF_ERROR(DecodeScalars(*from, to));
  RETURN_IF_ERROR(TakeText(from->mutable_split_axis(), "split_axis", &to->split_axis));
  RETURN_IF_ERROR(CheckCount(static_cast<int>(from->axis_extents().size()), "axis_extents"));
  for (const auto& [axis, extent] : from->axis_extents()) {
    RETURN_IF_ERROR(CheckText(axis, WireLimits::kNameBytes, "axis_extents"));
    if (extent > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return BadSpec(StrCat("axis_extents.", axis), "is beyond 2^63 - 1");
    }
    to->axis_extents.emplace(axis, static_cast<int64_t>(extent));
  }
  to->grain = from->grain();
  return DecodePolicy(from, to);
}

}  // namespace tandem::wire
