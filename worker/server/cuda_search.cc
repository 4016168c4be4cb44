#include "worker/server/cuda_search.h"

#include <unistd.h>

#include <thread>
#include <utility>

#include "absl/synchronization/notification.h"
#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/probe/probe_process.h"

namespace tandem::worker {
namespace {

CudaSearch::Devices Search(const std::string& program, absl::Duration limit) {
  if (::access(program.c_str(), X_OK) != 0) {
    return Error(absl::StatusCode::kNotFound, reason::kPathUnreadable,
                 StrCat(program, " is not there: this Tandem was built without CUDA"));
  }
  ASSIGN_OR_RETURN(const std::string text, RunProbe({program, "--probe"}, limit));
  if (text.empty()) {
    return Error(absl::StatusCode::kFailedPrecondition, reason::kVersionSkew,
                 StrCat(program, " does not start: are CUDA's libraries installed? ldd ", program,
                        " says which it lacks"));
  }
  ASSIGN_OR_RETURN(DeviceReport report, ParseDeviceReport(text));
  RETURN_IF_ERROR(report.error);
  if (report.devices.empty()) {
    return Error(absl::StatusCode::kNotFound, reason::kUnsatisfiable, "CUDA sees no device");
  }
  return std::move(report.devices);
}

}  // namespace

struct CudaSearch::State {
  absl::Notification done;
  Devices devices = absl::UnknownError("not searched yet");
};

CudaSearch::CudaSearch(std::string program, absl::Duration limit)
    : state_(std::make_shared<State>()) {
  std::thread([state = state_, program = std::move(program), limit] {
    state->devices = Search(program, limit);
    state->done.Notify();
  }).detach();
}

bool CudaSearch::Done(absl::Duration patience) const {
  return state_->done.WaitForNotificationWithTimeout(patience);
}

const CudaSearch::Devices& CudaSearch::devices() const { return state_->devices; }

std::string CudaExecutorOf(const std::string& executor) { return StrCat(executor, "-cuda"); }

}  // namespace tandem::worker
