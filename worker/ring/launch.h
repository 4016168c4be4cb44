// ExecutorLaunch: everything a supervisor tells a new executor, as its command line.
//
//   tandem-executor --channel=3,4,5 --staging=6 --start-page=/var/…/start-7 --owner=ada …
//
// Both sides use this one description, so that they cannot drift apart.
//
// Thread-safety: plain data.
#ifndef TANDEM_WORKER_RING_LAUNCH_H_
#define TANDEM_WORKER_RING_LAUNCH_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace tandem::worker {

// Begins the name of a CUDA device: "cuda:GPU-1f0e…".
inline constexpr std::string_view kCudaDevice = "cuda:";

// How an executor ends whose device is gone: no task is to blame, and another process would find
// the same.
inline constexpr int kDeviceGoneExit = 69;

struct ExecutorLaunch {
  std::string channel;                        // ChannelFds::ToText()
  int staging_fd = -1;                        // StagingFile::fd()
  std::string start_page;                     // a path; at least StartSlots(cores) slots
  std::string owner;                          // whose work it runs
  std::string device = "cpu";                 // "cpu", "emulated:…" or kCudaDevice and a UUID
  std::string directory;                      // an own folder of this owner: its cache lies here
  std::vector<uint32_t> cores;                // the CPUs it may use; never empty
  uint32_t groups = 0;                        // core groups; 0: one a NUMA node or last-level cache
  bool beside_devices = false;                // its bodies give way to what devices' executors do
  std::vector<std::string> kernel_libraries;  // files, each found good by a probe
  bool local_data = true;                     // the master's own files may be mapped (same host)
  uint64_t cache_bytes_max = 0;               // 0: the executor's default
  std::string memory = "90%";                 // of a device with its own, as MemoryShare has it
  uint64_t pinned_bytes_max = 0;              // 0: the executor's default
  uint64_t mapped_bytes_max = 64 << 10;       // a GPU reads smaller operands where they are
  int64_t parent_pid = 0;                     // it ends when this process is no longer its parent
  friend bool operator==(const ExecutorLaunch&, const ExecutorLaunch&) = default;
};

// Slots of a start page that suffice for so many cores, in groups or not: two a core, since an
// arena of one thread may use two, and the executor's loop.
constexpr uint32_t StartSlots(size_t cores) { return 2 * static_cast<uint32_t>(cores) + 1; }
// And so many more for the grids of a device that is no CPU: one a part that runs.
inline constexpr uint32_t kGridSlots = 8192;

// Arguments behind the program's name.
std::vector<std::string> ToArguments(const ExecutorLaunch& launch);
// Errors: INVALID_ARGUMENT, naming the argument.
absl::StatusOr<ExecutorLaunch> ParseLaunch(const std::vector<std::string>& arguments);

// "0-3,8": a list of CPUs as taskset and cgroups write it. Errors: INVALID_ARGUMENT.
absl::StatusOr<std::vector<uint32_t>> ParseCpuList(std::string_view text);
std::string FormatCpuList(const std::vector<uint32_t>& cpus);

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_RING_LAUNCH_H_
