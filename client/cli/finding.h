// One line of `tandem doctor`: what was looked at, what was found, and how to mend it.
//
// Thread-safety: value types.
#ifndef TANDEM_CLIENT_CLI_FINDING_H_
#define TANDEM_CLIENT_CLI_FINDING_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "common/base/error.h"

namespace tandem::cli {

struct Finding {
  enum class Verdict { kOk, kWarning, kFailure };

  std::string check;  // "cores"
  Verdict verdict = Verdict::kOk;
  std::string found;
  std::string mend;    // "" when all is well
  absl::Status error;  // of a failure: its reason and code
  nlohmann::ordered_json facts = nlohmann::ordered_json::object();  // numbers, for programs

  // The same finding, judged.
  Finding Warn(std::string how) && {
    verdict = Verdict::kWarning;
    mend = std::move(how);
    return std::move(*this);
  }
  Finding Fail(absl::StatusCode code, std::string_view reason, std::string how) && {
    verdict = Verdict::kFailure;
    error = Error(code, reason, check + ": " + found);
    mend = std::move(how);
    return std::move(*this);
  }
};

// "ok", "warning", "FAILURE"
std::string_view VerdictName(Finding::Verdict verdict);

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_FINDING_H_
