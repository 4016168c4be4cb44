// tandem-executor-cuda: the program of Tandem that links CUDA: drives one GPU or MIG slice for one
// owner (worker/executor/executor_program.h). The worker and `tandem doctor` also start it to learn
// what GPUs there are, and whether they work; whatever CUDA does in it harms nobody else.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "worker/device/cuda/cuda_runtime.h"
#include "worker/device/cuda/probe.h"
#include "worker/executor/executor_program.h"
#include "worker/executor/gpu_device_of.h"

namespace tandem::worker {
namespace {

constexpr char kHelp[] =
    "tandem-executor-cuda drives a GPU for one owner. tandem-worker starts it; there is nothing to "
    "start by hand. By hand it says, as a line of JSON, what it finds of NVIDIA GPUs.\n\n"
    "  --probe         the devices that CUDA sees through CUDA_VISIBLE_DEVICES, and all versions\n"
    "  --check=UUID    runs a grid on that device and compares its results with the CPU's\n"
    "  --start=DEVICE  starts as for a worker and says how long each part took; DEVICE: cuda:UUID\n"
    "  --nvml=PATH     NVIDIA's management library (default: libnvidia-ml.so.1)\n\n"
    "`tandem doctor` says the same in words.\n";

std::optional<int> Answer(const std::vector<std::string>& arguments) {
  return AnswerProbe(arguments) ? std::optional<int>(0) : std::nullopt;
}

absl::StatusOr<std::unique_ptr<Device>> CudaDeviceOf(const ExecutorLaunch& launch, uint32_t slots,
                                                     StartLog* log) {
  if (!launch.device.starts_with(kCudaDevice)) {
    return InvalidError(reason::kBadArgument,
                        StrCat("tandem-executor-cuda cannot drive the device ",
                               Quoted(launch.device), "; it drives \"cuda:UUID\""));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<GpuRuntime> gpu,
                   CudaRuntime::Open(launch.device.substr(kCudaDevice.size())));
  return GpuDeviceOf(std::move(gpu), DeviceKind::kGpu, launch, slots, log);
}

absl::Status AddBuiltin(KernelTable* table) { return table->Add(tandem_builtin_cuda_kernels()); }

}  // namespace
}  // namespace tandem::worker

int main(int argc, char** argv) {
  using namespace tandem::worker;
  return RunExecutorProgram({.name = "tandem-executor-cuda",
                             .help = kHelp,
                             .answer = &Answer,
                             .device_of = &CudaDeviceOf,
                             .form = KernelForm::kCuda,
                             .add_builtin = &AddBuiltin},
                            argc, argv);
}
