#include "common/model/job_spec_check.h"

#include <algorithm>
#include <set>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/base/utf8.h"

namespace tandem {
namespace {

// 5000 → "0.5".
std::string Fraction(int64_t e4) {
  std::string text = StrCat(e4 / kWholeUnit);
  std::string digits = StrCat(kWholeUnit + e4 % kWholeUnit).substr(1);
  while (!digits.empty() && digits.back() == '0') digits.pop_back();
  return digits.empty() ? text : StrCat(text, ".", digits);
}

absl::Status NotYet(std::string_view field, std::string_view value) {
  return WithField(Error(absl::StatusCode::kUnimplemented, reason::kNotYetHonoured,
                         StrCat(field, " = ", value,
                                " is not honoured by this version: leave it out, because the job "
                                "would run as if it had not been asked for")),
                   field);
}

absl::Status Bad(std::string_view field, std::string_view reason, std::string_view message) {
  return WithField(InvalidError(reason, StrCat(field, " ", message)), field);
}

absl::Status CheckText(std::string_view field, std::string_view text, uint64_t bytes_max) {
  if (text.size() > bytes_max) {
    return Bad(field, reason::kLimitExceeded,
               StrCat("has ", text.size(), " bytes, more than ", bytes_max));
  }
  if (!IsUtf8(text)) return Bad(field, reason::kBadSpec, "is not UTF-8");
  const bool control = std::any_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  if (control) {
    return Bad(field, reason::kBadSpec,
               StrCat(Quoted(text), " has control characters; use printable ones"));
  }
  return absl::OkStatus();
}

absl::Status CheckResources(const JobSpec& spec, const Capabilities& can) {
  const Resources& r = spec.resources;
  if (r.cpus_e4 < 0) return Bad("resources.cpus", reason::kBadResources, "is negative");
  if (r.gpus_e4 < 0) return Bad("resources.gpus", reason::kBadResources, "is negative");
  if (r.cpus_e4 != 0 && !can.cpus) return NotYet("resources.cpus", Fraction(r.cpus_e4));
  if (r.gpus_e4 != 0 && !can.gpus) return NotYet("resources.gpus", Fraction(r.gpus_e4));
  if (r.memory_bytes != 0 && !can.memory) {
    return NotYet("resources.memory", HumanSize(r.memory_bytes));
  }
  if (r.gpu_memory_bytes != 0 && !can.gpu_memory) {
    return NotYet("resources.gpu_memory", HumanSize(r.gpu_memory_bytes));
  }
  if (spec.device == DeviceChoice::kCpu && r.gpus_e4 != 0) {
    return Bad("device", reason::kBadResources, "is cpu, but resources.gpus asks for a GPU");
  }
  if (spec.device == DeviceChoice::kCpu && r.gpu_memory_bytes != 0) {
    return Bad("device", reason::kBadResources,
               "is cpu, but resources.gpu_memory asks for a device's memory");
  }
  return absl::OkStatus();
}

absl::Status CheckRetries(const JobSpec& spec, const Capabilities& can, const JobLimits& limits) {
  if (spec.retries > limits.retries_max) {
    return Bad("retries", reason::kLimitExceeded,
               StrCat("is ", spec.retries, ", more than ", limits.retries_max));
  }
  if (spec.retries != 0 && !can.retries) return NotYet("retries", StrCat(spec.retries));
  if (spec.crash_limit == 0 || spec.crash_limit > limits.crash_limit_max) {
    return Bad("crash_limit", reason::kLimitExceeded,
               StrCat("is ", spec.crash_limit, ", not from 1 to ", limits.crash_limit_max));
  }
  if (spec.crash_limit != JobSpec().crash_limit && !can.crash_limit) {
    return NotYet("crash_limit", StrCat(spec.crash_limit));
  }
  return absl::OkStatus();
}

absl::Status CheckAfter(const JobSpec& spec, const Capabilities& can, const JobLimits& limits) {
  if (spec.after.empty()) return absl::OkStatus();
  if (!can.after) return NotYet("after", StrCat("jobs/", spec.after.front()));
  if (spec.after.size() > limits.after_max) {
    return Bad("after", reason::kLimitExceeded,
               StrCat("names ", spec.after.size(), " jobs, more than ", limits.after_max));
  }
  std::set<JobId> seen;
  for (const JobId job : spec.after) {
    if (!job.valid()) return Bad("after", reason::kBadSpec, "names job 0, which is none");
    if (!seen.insert(job).second) {
      return Bad("after", reason::kBadSpec, StrCat("names jobs/", job, " twice"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckLabels(const JobSpec& spec, const JobLimits& limits) {
  if (spec.labels.size() > limits.labels_max) {
    return Bad("labels", reason::kLimitExceeded,
               StrCat("has ", spec.labels.size(), " entries, more than ", limits.labels_max));
  }
  for (const auto& [key, value] : spec.labels) {
    if (key.empty()) return Bad("labels", reason::kBadSpec, "has an entry without a key");
    RETURN_IF_ERROR(CheckText("labels", key, limits.name_bytes_max));
    RETURN_IF_ERROR(CheckText(StrCat("labels.", key), value, limits.label_bytes_max));
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view DeviceChoiceName(DeviceChoice choice) {
  switch (choice) {
    case DeviceChoice::kAuto:
      return "auto";
    case DeviceChoice::kCpu:
      return "cpu";
    case DeviceChoice::kGpu:
      return "gpu";
  }
  return "auto";
}

absl::Status CheckJobTexts(const JobSpec& spec, const JobLimits& limits) {
  RETURN_IF_ERROR(CheckText("owner", spec.owner, limits.name_bytes_max));
  RETURN_IF_ERROR(CheckText("name", spec.name, limits.name_bytes_max));
  RETURN_IF_ERROR(CheckText("request_id", spec.request_id, limits.name_bytes_max));
  RETURN_IF_ERROR(CheckText("kernel", spec.kernel, limits.name_bytes_max));
  RETURN_IF_ERROR(CheckText("split_axis", spec.split_axis, limits.name_bytes_max));
  return CheckLabels(spec, limits);
}

absl::Status CheckJobPolicy(const JobSpec& spec, const Capabilities& can, const JobLimits& limits) {
  RETURN_IF_ERROR(CheckJobTexts(spec, limits));
  if (spec.command.has_value() && !can.commands) {
    return NotYet("command", spec.command->argv.empty() ? "" : Quoted(spec.command->argv[0]));
  }
  if (spec.command.has_value() == !spec.kernel.empty()) {
    return Bad("kernel", reason::kBadSpec,
               spec.command.has_value() ? "and command are both given: a job has one of them"
                                        : "is empty: name the kernel to run");
  }
  RETURN_IF_ERROR(CheckResources(spec, can));
  RETURN_IF_ERROR(CheckRetries(spec, can, limits));
  RETURN_IF_ERROR(CheckAfter(spec, can, limits));
  if (spec.priority != 0 && !can.priority) return NotYet("priority", StrCat(spec.priority));
  if (spec.reproducible && !can.reproducible) return NotYet("reproducible", "true");
  if (spec.time_limit <= absl::ZeroDuration()) {
    return Bad("time_limit", reason::kBadSpec,
               StrCat("is ", HumanDuration(spec.time_limit), ", which is not above zero"));
  }
  if (spec.time_limit != absl::InfiniteDuration() && !can.time_limit) {
    return NotYet("time_limit", HumanDuration(spec.time_limit));
  }
  return absl::OkStatus();
}

}  // namespace tandem
