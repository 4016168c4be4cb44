// Small tools of measuring: a stopwatch, medians, the price of a sync, a scratch folder, and Must,
// which ends the benchmark with an error's words where there is no value.
//
// Thread-safety: each object is for one thread.
#ifndef TANDEM_BENCH_SUPPORT_MEASURE_H_
#define TANDEM_BENCH_SUPPORT_MEASURE_H_

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"

namespace tandem::bench {

class Stopwatch {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// The value that `share` of all are not above (0.5: the median). REQUIRES: not empty.
double Quantile(std::vector<double> values, double share);
inline double Median(std::vector<double> values) { return Quantile(std::move(values), 0.5); }

// A folder below `parent` that goes with the object.
class ScratchFolder {
 public:
  explicit ScratchFolder(const std::string& parent);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// What it takes to append 4 KiB to a file of `folder` and to sync it.
class SyncProbe {
 public:
  explicit SyncProbe(const std::string& folder);
  double Seconds();
  double MedianSeconds(int times);

 private:
  UniqueFd fd_;
};

// Says what went wrong and ends the program (exit 1).
[[noreturn]] void Die(const std::string& why);
void Must(const absl::Status& status, const char* doing);
template <class T>
T Must(absl::StatusOr<T> value, const char* doing) {
  Must(value.status(), doing);
  return *std::move(value);
}

}  // namespace tandem::bench

#endif  // TANDEM_BENCH_SUPPORT_MEASURE_H_
