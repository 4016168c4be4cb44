// What the programs of executors share: everything between main and the loop. A program adds which
// devices it drives and which kernels it is linked with.
//
//   int main(int argc, char** argv) {
//     return RunExecutorProgram({"tandem-executor", kHelp, &ProbeIfAsked, &DeviceOf, …}, argc,
//     argv);
//   }
//
// Started by tandem-worker, never by hand; what they are told stands in worker/ring/launch.h.
//
// Exit codes: 0 told to stop · 2 it was started wrongly · 70 it could not go on (the reason is on
// stderr); its worker takes back what it held.
//
// Thread-safety: called once, from main.
#ifndef TANDEM_WORKER_EXECUTOR_EXECUTOR_PROGRAM_H_
#define TANDEM_WORKER_EXECUTOR_EXECUTOR_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/device/device.h"
#include "worker/executor/kernel_table.h"
#include "worker/ring/launch.h"

namespace tandem::worker {

struct ExecutorProgram {
  const char* name;
  const char* help;
  // The exit code of a program that was asked something else than to run jobs.
  std::optional<int> (*answer)(const std::vector<std::string>& arguments);
  // `slots`: of the start log, which outlives the device. Errors: INVALID_ARGUMENT (BAD_ARGUMENT)
  // for a device that this program cannot drive, or too few slots; those of the device.
  absl::StatusOr<std::unique_ptr<Device>> (*device_of)(const ExecutorLaunch& launch, uint32_t slots,
                                                       StartLog* log);
  KernelForm form;
  absl::Status (*add_builtin)(KernelTable* table);
};

int RunExecutorProgram(const ExecutorProgram& program, int argc, char** argv);

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_EXECUTOR_PROGRAM_H_
