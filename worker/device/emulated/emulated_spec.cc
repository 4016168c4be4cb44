#include "worker/device/emulated/emulated_spec.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::worker {
namespace {

constexpr std::string_view kPrefix = "emulated:";

absl::Status BadSetting(std::string_view setting, std::string_view wanted) {
  return InvalidError(reason::kBadArgument,
                      StrCat(Quoted(setting), " is no setting of an emulated device: ", wanted));
}

absl::Status Number(std::string_view setting, std::string_view text, double* number) {
  double parsed = 0;
  if (!absl::SimpleAtod(std::string(text), &parsed) || !(parsed > 0) || !std::isfinite(parsed)) {
    return BadSetting(setting, "it needs a number above 0");
  }
  *number = parsed;
  return absl::OkStatus();
}

absl::Status Whole(std::string_view setting, std::string_view text, uint64_t* number) {
  uint64_t parsed = 0;
  if (!absl::SimpleAtoi(std::string(text), &parsed) || parsed == 0) {
    return BadSetting(setting, "it needs a whole number from 1");
  }
  *number = parsed;
  return absl::OkStatus();
}

absl::Status Set(std::string_view setting, EmulatedOptions* options) {
  const size_t equals = setting.find('=');
  const std::string_view name = setting.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? "" : setting.substr(equals + 1);
  if (name == "memory") return Whole(setting, value, &options->memory_bytes);
  if (name == "seed") return Whole(setting, value, &options->seed);
  if (name == "cores") return Number(setting, value, &options->speed.cores);
  if (name == "launch") return Number(setting, value, &options->speed.launch_seconds);
  if (name == "copy") return Number(setting, value, &options->speed.copy_bytes_per_second);
  if (name == "faults") {
    ASSIGN_OR_RETURN(options->faults, FaultScript::Parse(value));
    return absl::OkStatus();
  }
  if (name == "clock" && (value == "paced" || value == "exact")) {
    options->clock = value == "paced" ? EmulatedClock::kPaced : EmulatedClock::kExact;
    return absl::OkStatus();
  }
  return BadSetting(setting,
                    "there are clock=paced|exact, memory, cores, launch, copy, seed and faults");
}

// Those settings of the environment that are this device's.
absl::Status SetFrom(std::string_view environment, EmulatedOptions* options) {
  for (const std::string_view entry : Split(environment, ' ')) {
    if (entry.empty()) continue;
    std::vector<std::string_view> settings = Split(entry, ';');
    if (settings.front().find('=') == std::string_view::npos) {
      if (settings.front() != options->uuid) continue;
      settings.erase(settings.begin());
    }
    for (const std::string_view setting : settings) RETURN_IF_ERROR(Set(setting, options));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsEmulated(std::string_view device) { return device.substr(0, kPrefix.size()) == kPrefix; }

absl::StatusOr<EmulatedOptions> ParseEmulated(std::string_view device,
                                              std::string_view environment) {
  EmulatedOptions options;
  options.clock = EmulatedClock::kPaced;
  const std::vector<std::string_view> settings = Split(device.substr(kPrefix.size()), ';');
  if (settings.empty() || settings.front().empty()) {
    return InvalidError(reason::kBadArgument,
                        StrCat(Quoted(device), " names no device; write emulated:EMULATED-0"));
  }
  options.uuid = std::string(settings.front());
  RETURN_IF_ERROR(SetFrom(environment, &options));
  for (size_t i = 1; i < settings.size(); ++i) RETURN_IF_ERROR(Set(settings[i], &options));
  return options;
}

}  // namespace tandem::worker
