// How a job was shared out among a cluster's kinds of devices, in words and numbers:
//
//   tasks [0,4096): gpu 3,240 in 1.9 s, cpu 856 in 1.9 s; gpu is bound by copy up (98 MiB)
//
// Thread-safety: pure functions.
#ifndef TANDEM_MASTER_SERVER_EXPLAIN_DEVICES_H_
#define TANDEM_MASTER_SERVER_EXPLAIN_DEVICES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "master/server/explain_job.h"
#include "tandem/v1/cluster.pb.h"
#include "tandem/v1/jobs.pb.h"

namespace tandem::master {

// "gpu", "emulated", "cpu".
std::string_view KindName(v1::DeviceKind kind);
// 3,240
std::string Grouped(uint64_t number);

// The finding DEVICES; nothing while only CPUs had work of it, which the other rules speak of.
std::optional<v1::Finding> ExplainDevices(const JobFacts& job, const ExplainLimits& limits);

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_EXPLAIN_DEVICES_H_
