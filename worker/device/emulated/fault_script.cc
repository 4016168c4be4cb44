#include "worker/device/emulated/fault_script.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::worker {
namespace {

absl::Status NoFault(std::string_view text) {
  return InvalidError(reason::kBadArgument,
                      StrCat("\"", text,
                             "\" is no fault of an emulated device; write oom@N, sticky@N, hang@N, "
                             "lost@N or slow@N:FACTOR, with N from 1, separated by commas"));
}

absl::Status Add(const std::string& text, FaultScript* script) {
  const std::vector<std::string> sides = absl::StrSplit(text, '@');
  if (sides.size() != 2) return NoFault(text);
  const std::vector<std::string> numbers = absl::StrSplit(sides[1], ':');
  const std::string& what = sides[0];
  uint64_t at = 0;
  if (!absl::SimpleAtoi(numbers[0], &at) || at == 0) return NoFault(text);
  if (what == "slow") {
    double factor = 0;
    if (numbers.size() != 2 || !absl::SimpleAtod(numbers[1], &factor) || !(factor > 0) ||
        !std::isfinite(factor)) {
      return NoFault(text);
    }
    script->slowdowns.emplace_back(at, factor);
    return absl::OkStatus();
  }
  if (numbers.size() != 1) return NoFault(text);
  if (what == "oom") {
    script->failing_allocations.insert(at);
  } else if (what == "sticky") {
    script->launches.emplace_back(at, LaunchFault::kSticky);
  } else if (what == "hang") {
    script->launches.emplace_back(at, LaunchFault::kHang);
  } else if (what == "lost") {
    script->launches.emplace_back(at, LaunchFault::kLost);
  } else {
    return NoFault(text);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FaultScript> FaultScript::Parse(std::string_view text) {
  FaultScript script;
  if (text.empty()) return script;
  const std::vector<std::string> faults = absl::StrSplit(std::string(text), ',');
  for (const std::string& fault : faults) RETURN_IF_ERROR(Add(fault, &script));
  std::stable_sort(script.slowdowns.begin(), script.slowdowns.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return script;
}

LaunchFault FaultScript::OfLaunch(uint64_t number) const {
  for (const auto& [at, fault] : launches) {
    if (at == number) return fault;
  }
  return LaunchFault::kNone;
}

double FaultScript::SlowdownAt(uint64_t launches_made) const {
  double factor = 1;
  for (const auto& [from, by] : slowdowns) {
    if (from <= launches_made) factor = by;
  }
  return factor;
}

}  // namespace tandem::worker
