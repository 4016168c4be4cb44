// The opening of a worker's control stream: Hello, Welcome and the descriptions of jobs, as plain
// data and as proto (tandem/worker/v1). Everything after it is in lease_messages.h.
//
// Decoding is as strict as there. Thread-safety: plain data and pure functions.
#ifndef TANDEM_COMMON_WIRE_SESSION_H_
#define TANDEM_COMMON_WIRE_SESSION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/model/ids.h"
#include "common/model/job_spec.h"
#include "common/model/kernel_info.h"
#include "common/model/lease_messages.h"
#include "tandem/worker/v1/worker.pb.h"

namespace tandem::wire {

// major * 1000 + minor: other majors do not talk to each other.
inline constexpr uint32_t kProtocol = 1000;
inline constexpr uint32_t ProtocolMajor(uint32_t protocol) { return protocol / 1000; }

struct WorkerHello {
  std::string name;
  uint64_t incarnation = 0;
  std::string version;
  uint32_t protocol = kProtocol;
  uint64_t max_epoch = 0;
  std::vector<DeviceInfo> devices;
  std::vector<KernelInfo> kernels;
  std::vector<HeldLeaves> held;
  std::string host_id;
  uint64_t max_leases = 0;
};

// What a worker must know of a job before its first grant. The spec has its defaults filled in, so
// that ValidateAndBind(spec, kernel) gives what the master has.
struct JobDescription {
  JobId job;
  JobSpec spec;
  KernelInfo kernel;
};

struct WorkerWelcome {
  WorkerId worker;
  Epoch epoch;
  absl::Duration lease_ttl;
  absl::Duration heartbeat;
  std::vector<Grant> adopted;
  std::vector<JobDescription> jobs;
  std::string cluster_id;
  std::string host_id;
};

void Encode(const WorkerHello& from, worker::v1::Hello* to);
absl::Status Decode(worker::v1::Hello* from, WorkerHello* to);

void Encode(const JobDescription& from, worker::v1::JobDescription* to);
absl::Status Decode(worker::v1::JobDescription* from, JobDescription* to);

void Encode(const WorkerWelcome& from, worker::v1::Welcome* to);
absl::Status Decode(worker::v1::Welcome* from, WorkerWelcome* to);

}  // namespace tandem::wire

#endif  // TANDEM_COMMON_WIRE_SESSION_H_
