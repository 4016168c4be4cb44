// What `tandem doctor` finds about this machine: cores, NUMA, memory, limits, programs.
//
// Reads /proc and /sys under a root that a test may choose.
// Thread-safety: pure functions but for what they read.
#ifndef TANDEM_CLIENT_CLI_MACHINE_CHECKS_H_
#define TANDEM_CLIENT_CLI_MACHINE_CHECKS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/finding.h"

namespace tandem::cli {

// What a control group allows this process; nothing: no limit.
struct CgroupLimits {
  std::optional<double> cpus;
  std::optional<uint64_t> memory_bytes;
  friend bool operator==(const CgroupLimits&, const CgroupLimits&) = default;
};
// The least over the process's group and those above it; version 2, or 1.
CgroupLimits ReadCgroupLimits(const std::string& root);

struct Memory {
  uint64_t total_bytes = 0, available_bytes = 0;
};
Memory ReadMemory(const std::string& root);
// One entry a NUMA node: its CPUs as the kernel lists them ("0-3,8").
std::vector<std::string> ReadNumaNodes(const std::string& root);

Finding CheckPrograms(const std::string& directory);
Finding CheckCores(uint32_t allowed, uint32_t online, const CgroupLimits& limits);
Finding CheckNuma(const std::vector<std::string>& nodes);
Finding CheckMemory(const Memory& memory, const CgroupLimits& limits);
Finding CheckOpenFiles(uint64_t soft, uint64_t hard);
// Can memory be shared between processes, as a worker and its executors do?
Finding CheckSharedMemory();

// All of the above, of this machine.
std::vector<Finding> CheckMachine(const std::string& program_directory);

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_MACHINE_CHECKS_H_
