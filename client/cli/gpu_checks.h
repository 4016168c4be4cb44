// What `tandem doctor` finds about this machine's GPUs: driver against toolkit, what the
// environment hides or misleads, each device's state, and a grid that ran on it.
//
// ProbeGpus asks tandem-executor-cuda, a process of its own for each question, so that a driver
// that hangs costs a time limit; CheckGpus judges what came back. Thread-safety: pure functions but
// for ProbeGpus, which waits for its processes.
#ifndef TANDEM_CLIENT_CLI_GPU_CHECKS_H_
#define TANDEM_CLIENT_CLI_GPU_CHECKS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/finding.h"
#include "common/model/gpu_memory.h"
#include "common/probe/device_report.h"

namespace tandem::cli {

struct GpuProbe {
  std::string program;    // tandem-executor-cuda; "" where this Tandem was built without CUDA
  bool hardware = false;  // an NVIDIA GPU or its driver's files are here
  absl::StatusOr<DeviceReport> report;
  std::vector<absl::StatusOr<GridReport>> grids;  // of report's devices
  std::string library_path;                       // LD_LIBRARY_PATH
  bool nvidia_smi = false;                        // found by PATH
  GpuMemory memory;                               // what a worker that is started here may use …
  std::string memory_origin = "default";          // … and who said so
};

// `directory`: where Tandem's programs are. Each process has `limit`.
GpuProbe ProbeGpus(const std::string& directory, absl::Duration limit);

// Is there an NVIDIA GPU, or its driver, under this root?
bool HasNvidiaHardware(const std::string& root);

// "gpus", and where there are any, "gpu visible", "gpu paths" and a finding a device.
std::vector<Finding> CheckGpus(const GpuProbe& probe);

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_GPU_CHECKS_H_
