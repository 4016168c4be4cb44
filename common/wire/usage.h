// Sums of what running a job costs (proto/tandem/v1/usage.proto).
//
//   UsageSums sums;
//   sums.Add(usage);              // growth, from an executor or a worker
//   for (v1::JobUsage& usage : sums.Take()) …
//
// Thread-safety: as a container.
#ifndef TANDEM_COMMON_WIRE_USAGE_H_
#define TANDEM_COMMON_WIRE_USAGE_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "tandem/v1/usage.pb.h"

namespace tandem::wire {

// Adds every number of `from` to `to`.
void AddUsage(const v1::Usage& from, v1::Usage* to);
// The time of core groups in it: body, host stages and merges.
inline uint64_t BusyNanos(const v1::Usage& usage) {
  return usage.body_ns() + usage.host_ns() + usage.merge_ns();
}

// Growth that waits to be told, a sum a job and device.
class UsageSums {
 public:
  v1::Usage* Of(uint64_t job, v1::DeviceKind device);
  void Add(const v1::JobUsage& usage) { AddUsage(usage.usage(), Of(usage.job(), usage.device())); }
  bool empty() const { return sums_.empty(); }
  // At most `count` of them; they are gone from here.
  std::vector<v1::JobUsage> Take(size_t count);

 private:
  std::map<std::pair<uint64_t, v1::DeviceKind>, v1::Usage> sums_;
};

}  // namespace tandem::wire

#endif  // TANDEM_COMMON_WIRE_USAGE_H_
