// What tandem-worker is told on its command line.
//
//   ASSIGN_OR_RETURN(WorkerOptions options, ParseFlags(argc, argv));
//
// Thread-safety: plain data; ParseFlags is called once, from main.
#ifndef TANDEM_WORKER_SERVER_OPTIONS_H_
#define TANDEM_WORKER_SERVER_OPTIONS_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/model/gpu_memory.h"

namespace tandem::worker {

inline constexpr char kProgram[] = "tandem-worker";
inline constexpr uint32_t kEmulatedGpusMax = 16;

struct WorkerOptions {
  std::string name;       // "": what the folder remembers, or a new one
  std::string directory;  // of this worker alone
  std::string master = "127.0.0.1:7460";
  std::vector<uint32_t> cores;  // never empty once parsed
  uint32_t cpu_groups = 0;      // 0: one a NUMA node or last-level cache
  uint64_t max_leases = 2048;
  bool local_data = true;               // the master's files may be mapped, on its host
  bool finish_when_master_lost = true;  // false: drop everything one lease TTL later
  uint32_t emulated_gpus = 0;           // devices that behave like GPUs, without one
  bool gpus = true;                     // those that CUDA sees
  absl::Duration gpu_time_limit = absl::Seconds(30);  // for finding them
  GpuMemory gpu_memory;                               // of devices, that jobs may use …
  std::string gpu_memory_origin = "default";          // … and who said so
  std::string nvml;                                   // NVIDIA's management library
  absl::Duration late_after = absl::Seconds(10);      // what runs so long may be late
  std::string executor;                               // the program; never empty once parsed
  std::vector<std::string> kernel_paths;              // folders and files
  absl::Duration kernel_load_limit = absl::Seconds(10);
  uint64_t cache_bytes_max = 0;   // of an owner's operands; 0: the executor's default
  uint64_t pinned_bytes_max = 0;  // of the host's memory, for copies, a device and owner; as above
  uint64_t gpu_mapped_max = 64 << 10;
  std::string error_file;  // where it is written why it could not start; may be empty
};

// The options, or the exit code of a program that has said what there was to say (help, an error).
std::variant<WorkerOptions, int> ParseFlags(int argc, char** argv);

// The CPUs that this process may use (affinity mask, so also a cpuset), cut to `wanted` when that
// is not empty and to the first `cores_max` when that is not 0.
// Errors: INVALID_ARGUMENT (BAD_RESOURCES) when none is left, or `wanted` names one that is not
// allowed.
absl::StatusOr<std::vector<uint32_t>> ChooseCores(const std::vector<uint32_t>& allowed,
                                                  const std::vector<uint32_t>& wanted,
                                                  uint32_t cores_max);
std::vector<uint32_t> AllowedCores();

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_SERVER_OPTIONS_H_
