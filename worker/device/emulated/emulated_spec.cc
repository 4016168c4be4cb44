#include "worker/device/emulated/emulated_spec.h"

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::worker {
namespace {

constexpr std::string_view kPrefix = "emulated:";
constexpr std::string_view kName = "EMULATED-";
// More than any device has.
constexpr uint64_t kMemoryMax = uint64_t{1} << 46;
constexpr double kCoresMax = 1e6;
constexpr double kLaunchMax = 60;  // seconds
constexpr double kCopyMax = 1e14;  // bytes a second

absl::Status BadSetting(std::string_view setting, std::string_view wanted) {
  return InvalidError(reason::kBadArgument,
                      StrCat(Quoted(setting), " is no setting of an emulated device: ", wanted));
}

absl::Status Number(std::string_view setting, std::string_view text, double max, double* number) {
  double parsed = 0;
  if (!absl::SimpleAtod(std::string(text), &parsed) || !(parsed > 0) || !(parsed <= max)) {
    return BadSetting(setting, StrCat("it needs a number above 0, and at most ", max));
  }
  *number = parsed;
  return absl::OkStatus();
}

absl::Status Whole(std::string_view setting, std::string_view text, uint64_t max,
                   uint64_t* number) {
  uint64_t parsed = 0;
  if (!absl::SimpleAtoi(std::string(text), &parsed) || parsed == 0 || parsed > max) {
    return BadSetting(setting, StrCat("it needs a whole number from 1 to ", max));
  }
  *number = parsed;
  return absl::OkStatus();
}

absl::Status Set(std::string_view setting, EmulatedOptions* options) {
  const size_t equals = setting.find('=');
  const std::string_view name = setting.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? "" : setting.substr(equals + 1);
  EmulatedSpeed& speed = options->speed;
  if (name == "memory") return Whole(setting, value, kMemoryMax, &options->memory_bytes);
  if (name == "seed") return Whole(setting, value, ~uint64_t{0}, &options->seed);
  if (name == "cores") return Number(setting, value, kCoresMax, &speed.cores);
  if (name == "launch") return Number(setting, value, kLaunchMax, &speed.launch_seconds);
  if (name == "copy") return Number(setting, value, kCopyMax, &speed.copy_bytes_per_second);
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

// Settings, of the device of that name or, where there is none, of all.
struct Entry {
  std::string_view name;
  std::vector<std::string_view> settings;
};
std::vector<Entry> EntriesOf(std::string_view environment) {
  std::vector<Entry> entries;
  for (const std::string_view text : Split(environment, ' ')) {
    if (text.empty()) continue;
    Entry& entry = entries.emplace_back();
    entry.settings = Split(text, ';');
    if (entry.settings.front().find('=') != std::string_view::npos) continue;
    entry.name = entry.settings.front();
    entry.settings.erase(entry.settings.begin());
  }
  return entries;
}

// Those settings of the environment that are this device's.
absl::Status SetFrom(std::string_view environment, EmulatedOptions* options) {
  for (const Entry& entry : EntriesOf(environment)) {
    if (!entry.name.empty() && entry.name != options->uuid) continue;
    for (const std::string_view setting : entry.settings) RETURN_IF_ERROR(Set(setting, options));
  }
  return absl::OkStatus();
}

absl::Status CheckEntry(const Entry& entry, uint32_t count) {
  bool known = entry.name.empty();
  for (uint32_t i = 0; i < count; ++i) known |= entry.name == EmulatedName(i);
  if (!known) {
    return InvalidError(reason::kBadArgument,
                        StrCat(Quoted(entry.name), " is neither a setting nor one of the devices (",
                               EmulatedName(0), " to ", EmulatedName(count - 1), ")"));
  }
  EmulatedOptions ignored;
  for (const std::string_view setting : entry.settings) RETURN_IF_ERROR(Set(setting, &ignored));
  return absl::OkStatus();
}

}  // namespace

std::string EmulatedName(uint32_t index) { return StrCat(kName, index); }

absl::Status CheckEmulated(std::string_view environment, uint32_t count) {
  for (const Entry& entry : EntriesOf(environment)) {
    const absl::Status checked = CheckEntry(entry, count);
    if (checked.ok()) continue;
    return InvalidError(reason::kBadArgument,
                        StrCat(kEmulatedVariable, ": ", ToStd(checked.message())));
  }
  return absl::OkStatus();
}

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
