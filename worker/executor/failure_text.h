// How an error of an executor reads in a JobError or a TaskFailure: its token, then the words.
//
// Thread-safety: pure functions.
#ifndef TANDEM_WORKER_EXECUTOR_FAILURE_TEXT_H_
#define TANDEM_WORKER_EXECUTOR_FAILURE_TEXT_H_

#include <string>

#include "absl/status/status.h"
#include "common/base/error.h"
#include "common/base/strings.h"

namespace tandem::worker {

// "PATH_CHANGED: operand x: /data/x.npy was modified …". REQUIRES: !status.ok().
inline std::string FailureText(const absl::Status& status) {
  std::string token = ReasonOf(status);
  if (token.empty()) token = reason::kInternal;
  return StrCat(token, ": ", ToStd(status.message()));
}

// Would every worker fail in the same way? (Else only this one may lack something.)
inline bool FailsEverywhere(const absl::Status& status) {
  const std::string token = ReasonOf(status);
  return token == reason::kPathChanged || token == reason::kBadFile ||
         token == reason::kBlobNotFound || token == reason::kSegmentNotFound ||
         token == reason::kChecksumMismatch;
}

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_FAILURE_TEXT_H_
