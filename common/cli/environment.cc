#include "common/cli/environment.h"

#include <algorithm>

#include "common/base/strings.h"

namespace tandem::cli {
namespace {

const std::vector<std::string_view>& Known() {
  static const auto* const names = new std::vector<std::string_view>{
      "TANDEM_ADDRESS",       "TANDEM_EMULATED",   "TANDEM_FAILPOINTS", "TANDEM_FAILPOINTS_SEED",
      "TANDEM_GPU_MEMORY",    "TANDEM_HASH_CACHE", "TANDEM_ISA",        "TANDEM_KERNEL_PATH",
      "TANDEM_LOG",           "TANDEM_OUTPUT",     "TANDEM_PATIENCE",   "TANDEM_PROGRESS",
      "TANDEM_WATCH_PATIENCE"};
  return *names;
}

}  // namespace

std::vector<std::string> MistypedVariables(const char* const* environment) {
  constexpr std::string_view kPrefix = "TANDEM_";
  std::vector<std::string> said;
  for (; *environment != nullptr; ++environment) {
    std::string_view name = *environment;
    name = name.substr(0, name.find('='));
    if (!name.starts_with(kPrefix) || std::ranges::count(Known(), name) > 0) continue;
    if (name.starts_with("TANDEM_E2E_") || name.starts_with("TANDEM_TEST_")) continue;  // of tests
    // What stands behind the prefix must be near: that all begin alike says nothing.
    std::vector<std::string_view> rests;
    for (const std::string_view known : Known()) rests.push_back(known.substr(kPrefix.size()));
    const std::string_view near = Nearest(name.substr(kPrefix.size()), rests);
    if (near.empty()) continue;
    said.push_back(StrCat(name, " is read by no program; did you mean ", kPrefix, near, "?"));
  }
  return said;
}

void WarnOfMistypedVariables(std::string_view program, const char* const* environment,
                             std::ostream& out) {
  for (const std::string& line : MistypedVariables(environment)) {
    out << program << ": " << line << '\n';
  }
}

}  // namespace tandem::cli
