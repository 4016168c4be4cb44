// What this machine's GPUs are and whether they work, for `tandem-executor-cuda --probe` and
// `--check`: run in a process that may hang or crash without harm (common/probe/probe_process.h).
//
// Thread-safety: one thread, once a process: both start CUDA.
#ifndef TANDEM_WORKER_DEVICE_CUDA_PROBE_H_
#define TANDEM_WORKER_DEVICE_CUDA_PROBE_H_

#include <string>
#include <vector>

#include "common/probe/device_report.h"

namespace tandem::worker {

// The devices that CUDA sees through CUDA_VISIBLE_DEVICES as it is set, with what NVML (the library
// at `nvml_path`) adds.
DeviceReport ProbeDevices(const std::string& nvml_path);

// Opens a device as an executor does and runs a grid of a built-in kernel on it; its bytes are to
// be the CPU's.
GridReport CheckGrid(const std::string& uuid);

// Answers `--probe [--nvml=PATH]` or `--check=UUID` on stdout, as JSON; true if that was asked.
bool AnswerProbe(const std::vector<std::string>& arguments);

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_CUDA_PROBE_H_
