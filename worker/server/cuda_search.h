// CudaSearch: asks tandem-executor-cuda, a process of its own, which devices CUDA sees, while the
// worker goes on starting.
//
//   CudaSearch search(CudaExecutorOf(options.executor), absl::Seconds(30));
//   while (!search.Done(absl::Milliseconds(20))) …
//   for (const ReportedDevice& device : *search.devices()) …
//
// The worker links no CUDA: where that program is missing, or the driver is missing, too old or
// hangs, it is an error to log and nothing else.
//
// Thread-safety: one thread. Ownership: the search ends by itself within its limit; one that is
// destroyed before is left to it.
#ifndef TANDEM_WORKER_SERVER_CUDA_SEARCH_H_
#define TANDEM_WORKER_SERVER_CUDA_SEARCH_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/probe/device_report.h"

namespace tandem::worker {

class CudaSearch {
 public:
  using Devices = absl::StatusOr<std::vector<ReportedDevice>>;

  CudaSearch(std::string program, absl::Duration limit);

  // Waits so long for its end.
  bool Done(absl::Duration patience) const;
  // Never empty: no device is NOT_FOUND or UNAVAILABLE (UNSATISFIABLE). Else those of RunProbe and
  // of starting CUDA; NOT_FOUND (PATH_UNREADABLE) where this Tandem was built without CUDA.
  // REQUIRES: Done.
  const Devices& devices() const;

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

// The program that drives CUDA devices, beside the one that drives CPUs.
std::string CudaExecutorOf(const std::string& executor);

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_SERVER_CUDA_SEARCH_H_
