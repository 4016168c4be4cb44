// Which cores this process may use, and how they fall into core groups.
//
// A core group is a NUMA node or a last-level cache: threads of one group share data cheaply. What
// the process is allowed (affinity mask, so also a cpuset) and how much of it (a cgroup's CPU
// quota) bounds the groups; `--cores` and `--cpu-groups` bound them further.
//
//   ASSIGN_OR_RETURN(std::vector<CoreGroup> groups, FindCoreGroups({.cores = 8}));
//
// Thread-safety: pure functions; FindCoreGroups reads the machine.
#ifndef TANDEM_WORKER_DEVICE_CPU_TOPOLOGY_H_
#define TANDEM_WORKER_DEVICE_CPU_TOPOLOGY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tandem::worker {

struct CoreGroup {
  std::vector<int> cpus;  // the operating system's numbers; threads are bound to this set
  int threads = 0;        // how many run: fewer than cpus where a quota or --cores says so
  friend bool operator==(const CoreGroup&, const CoreGroup&) = default;
};

struct CpuOptions {
  int cores = 0;   // at most so many threads; 0: all that are allowed
  int groups = 0;  // so many groups; 0: a group a last-level cache
};

// CPUs of one last-level cache, of those that are allowed.
using CacheDomain = std::vector<int>;

// Divides domains into groups. More groups than domains split the largest; fewer join neighbours.
// `quota_cores` is the cgroup's limit, 0 for none. Errors: INVALID_ARGUMENT for more groups than
// cores, or for negative numbers.
absl::StatusOr<std::vector<CoreGroup>> DivideCores(const std::vector<CacheDomain>& domains,
                                                   const CpuOptions& options, int quota_cores);

// The domains of this machine that the process's affinity mask allows; one domain where hwloc finds
// no shared cache.
absl::StatusOr<std::vector<CacheDomain>> ReadCacheDomains();

// Whole cores that a CPU quota amounts to, rounded up; 0: no quota. `root` is where cgroups are
// mounted ("/sys/fs/cgroup"), `self` the text of /proc/self/cgroup.
int CgroupQuotaCores(const std::string& root, const std::string& self);
// The least memory limit on the way up, 0 for none.
uint64_t CgroupMemoryLimit(const std::string& root, const std::string& self);

// What a device of this process says of itself.
struct MachineInfo {
  std::string cpu_model;
  uint64_t memory_bytes = 0;  // within the cgroup's limit
};
MachineInfo ReadMachineInfo();

absl::StatusOr<std::vector<CoreGroup>> FindCoreGroups(const CpuOptions& options);

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_CPU_TOPOLOGY_H_
