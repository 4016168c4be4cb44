#include "common/cli/exit_code.h"

#include "common/base/error.h"
#include "common/base/strings.h"

namespace tandem::cli {
namespace {

std::string_view UsualReason(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return reason::kBadArgument;
    case absl::StatusCode::kUnimplemented:
      return reason::kVersionSkew;
    case absl::StatusCode::kResourceExhausted:
      return reason::kLimitExceeded;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return reason::kMasterUnavailable;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return reason::kNotOwner;
    default:
      return reason::kInternal;
  }
}

std::string_view UsualMessage(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnimplemented:
      return "the master does not know this call: it is of another version; compare with `tandem "
             "version`";
    case absl::StatusCode::kDeadlineExceeded:
      return "the master did not answer in time; try again, or look at it with `tandem master "
             "status`";
    default:
      return status.message().empty() ? "the master refused without a word; its log says more"
                                      : ToStd(status.message());
  }
}

}  // namespace

absl::Status WithReason(const absl::Status& status) {
  if (status.ok() || !ReasonOf(status).empty()) return status;
  return Error(status.code(), UsualReason(status.code()), UsualMessage(status));
}

ExitCode ExitCodeOf(const absl::Status& error) {
  const absl::Status status = WithReason(error);
  const std::string token = ReasonOf(status);
  if (token == reason::kVersionSkew) return kExitVersionSkew;
  if (token == reason::kInterrupted) return kExitInterrupted;
  if (token == reason::kPathUnwritable) return kExitNotAllowed;
  if (token == reason::kStoreLocked || token == reason::kExecutorLost) return kExitUnavailable;
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kAlreadyExists:
      return kExitUsage;
    case absl::StatusCode::kNotFound:
      return kExitNotFound;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return kExitNotAllowed;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return kExitUnavailable;
    case absl::StatusCode::kResourceExhausted:
      return kExitLimit;
    case absl::StatusCode::kCancelled:
      return kExitCancelled;
    case absl::StatusCode::kFailedPrecondition:
      if (token == reason::kResultNotReady) return kExitUnavailable;
      if (token == reason::kJobCancelled) return kExitCancelled;
      return token == reason::kJobFailed ? kExitJobFailed : kExitUsage;
    default:
      return kExitJobFailed;
  }
}

std::string ErrorLine(const absl::Status& error, std::string_view program) {
  const absl::Status status = WithReason(error);
  return StrCat(program, ": ", ToStd(status.message()), " (", ReasonOf(status), ")");
}

}  // namespace tandem::cli
