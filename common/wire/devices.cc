// Devices and rates, as lease_messages.h declares them.
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "common/base/status_macros.h"
#include "common/wire/decode_util.h"
#include "common/wire/lease_messages.h"

namespace tandem::wire {

absl::Status DecodeKind(v1::DeviceKind from, std::string_view field, DeviceKind* to) {
  switch (from) {
    case v1::DEVICE_CPU:
    case v1::DEVICE_GPU:
    case v1::DEVICE_EMULATED:
      *to = static_cast<DeviceKind>(from);
      return absl::OkStatus();
    default:
      return Malformed(field, StrCat("is ", static_cast<int>(from), ", no kind of device"));
  }
}

void Encode(const DeviceReading& from, v1::DeviceReading* to) {
  to->set_uuid(CleanText(from.uuid, WireLimits::kNameBytes));
  if (from.utilization) to->set_utilization(*from.utilization);
  if (from.memory_utilization) to->set_memory_utilization(*from.memory_utilization);
  if (from.temperature_celsius) to->set_temperature_celsius(*from.temperature_celsius);
  if (from.power_watts) to->set_power_watts(*from.power_watts);
  if (from.power_limit_watts) to->set_power_limit_watts(*from.power_limit_watts);
  if (from.memory_used_bytes) to->set_memory_used_bytes(*from.memory_used_bytes);
  if (from.ecc) to->set_ecc(*from.ecc);
  if (from.ecc_corrected) to->set_ecc_corrected(*from.ecc_corrected);
  if (from.ecc_uncorrected) to->set_ecc_uncorrected(*from.ecc_uncorrected);
}

absl::Status Decode(v1::DeviceReading* from, DeviceReading* to) {
  RETURN_IF_ERROR(CheckText(from->uuid(), WireLimits::kNameBytes, "uuid"));
  to->uuid = std::move(*from->mutable_uuid());
  bool finite = true;
  const auto take = [&finite](bool said, double value, std::optional<double>* field) {
    if (!said) return;
    finite = finite && std::isfinite(value);
    *field = value;
  };
  take(from->has_utilization(), from->utilization(), &to->utilization);
  take(from->has_memory_utilization(), from->memory_utilization(), &to->memory_utilization);
  take(from->has_temperature_celsius(), from->temperature_celsius(), &to->temperature_celsius);
  take(from->has_power_watts(), from->power_watts(), &to->power_watts);
  take(from->has_power_limit_watts(), from->power_limit_watts(), &to->power_limit_watts);
  if (!finite) return Malformed("power_watts", "or another figure is no number");
  if (from->has_memory_used_bytes()) to->memory_used_bytes = from->memory_used_bytes();
  if (from->has_ecc()) to->ecc = from->ecc();
  if (from->has_ecc_corrected()) to->ecc_corrected = from->ecc_corrected();
  if (from->has_ecc_uncorrected()) to->ecc_uncorrected = from->ecc_uncorrected();
  return absl::OkStatus();
}

void Encode(const DeviceInfo& from, v1::Device* to) {
  to->set_kind(static_cast<v1::DeviceKind>(from.kind));
  to->set_model(CleanText(from.model, WireLimits::kNameBytes));
  to->set_uuid(CleanText(from.uuid, WireLimits::kNameBytes));
  to->set_cores(from.cores);
  to->set_memory_bytes(from.memory_bytes);
  to->set_groups(from.groups);
  to->set_budget_bytes(from.budget_bytes);
  to->set_budget_rule(CleanText(from.budget_rule, WireLimits::kNameBytes));
  to->set_bytes_up(from.bytes_up);
  to->set_bytes_down(from.bytes_down);
  if (from.reading) Encode(*from.reading, to->mutable_reading());
}

absl::Status Decode(v1::Device* from, DeviceInfo* to) {
  RETURN_IF_ERROR(DecodeKind(from->kind(), "kind", &to->kind));
  RETURN_IF_ERROR(CheckText(from->model(), WireLimits::kNameBytes, "model"));
  RETURN_IF_ERROR(CheckText(from->uuid(), WireLimits::kNameBytes, "uuid"));
  to->model = std::move(*from->mutable_model());
  to->uuid = std::move(*from->mutable_uuid());
  to->cores = from->cores();
  to->memory_bytes = from->memory_bytes();
  to->groups = from->groups();
  RETURN_IF_ERROR(CheckText(from->budget_rule(), WireLimits::kNameBytes, "budget_rule"));
  to->budget_bytes = from->budget_bytes();
  to->budget_rule = std::move(*from->mutable_budget_rule());
  to->bytes_up = from->bytes_up();
  to->bytes_down = from->bytes_down();
  if (!from->has_reading()) return absl::OkStatus();
  return WithField(Decode(from->mutable_reading(), &to->reading.emplace()), "reading");
}

void Encode(const KernelRate& from, v1::KernelRate* to) {
  to->set_kernel(from.kernel);
  to->set_device(static_cast<v1::DeviceKind>(from.device));
  to->set_tasks_per_second(from.tasks_per_second);
  to->set_fixed_seconds(from.fixed_seconds);
  to->set_device_name(CleanText(from.device_name, WireLimits::kNameBytes));
  to->set_extents(CleanText(from.extents, WireLimits::kNameBytes));
  to->set_seconds_per_task(from.seconds_per_task);
  to->set_up_bytes_per_second(from.up_bytes_per_second);
  to->set_down_bytes_per_second(from.down_bytes_per_second);
  to->set_bound_by(CleanText(from.bound_by, WireLimits::kNameBytes));
  to->set_samples(from.samples);
  to->set_age_ns(absl::ToInt64Nanoseconds(from.age));
}

absl::Status Decode(v1::KernelRate* from, KernelRate* to) {
  if (from->kernel().empty()) return Malformed("kernel", "is missing");
  RETURN_IF_ERROR(CheckText(from->kernel(), WireLimits::kNameBytes, "kernel"));
  RETURN_IF_ERROR(DecodeKind(from->device(), "device", &to->device));
  RETURN_IF_ERROR(CheckRate(from->tasks_per_second(), "tasks_per_second"));
  RETURN_IF_ERROR(CheckRate(from->fixed_seconds(), "fixed_seconds"));
  RETURN_IF_ERROR(CheckText(from->device_name(), WireLimits::kNameBytes, "device_name"));
  RETURN_IF_ERROR(CheckText(from->extents(), WireLimits::kNameBytes, "extents"));
  RETURN_IF_ERROR(CheckRate(from->seconds_per_task(), "seconds_per_task"));
  RETURN_IF_ERROR(CheckRate(from->up_bytes_per_second(), "up_bytes_per_second"));
  RETURN_IF_ERROR(CheckRate(from->down_bytes_per_second(), "down_bytes_per_second"));
  RETURN_IF_ERROR(CheckText(from->bound_by(), WireLimits::kNameBytes, "bound_by"));
  if (from->age_ns() < 0) return Malformed("age_ns", "is negative");
  to->kernel = std::move(*from->mutable_kernel());
  to->tasks_per_second = from->tasks_per_second();
  to->fixed_seconds = from->fixed_seconds();
  to->device_name = std::move(*from->mutable_device_name());
  to->extents = std::move(*from->mutable_extents());
  to->seconds_per_task = from->seconds_per_task();
  to->up_bytes_per_second = from->up_bytes_per_second();
  to->down_bytes_per_second = from->down_bytes_per_second();
  to->bound_by = std::move(*from->mutable_bound_by());
  to->samples = from->samples();
  to->age = absl::Nanoseconds(from->age_ns());
  return absl::OkStatus();
}

}  // namespace tandem::wire
