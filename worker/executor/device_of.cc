#include "worker/executor/device_of.h"

#include <cstdlib>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/device/emulated/emulated_gpu.h"
#include "worker/device/emulated/emulated_spec.h"
#include "worker/executor/gpu_device_of.h"

namespace tandem::worker {
namespace {

// Where GPUs share the cores, what prepares and finishes for them comes first: a GPU that waits
// loses more than a core does. The operating system holds that order between the processes, so as
// many cores feed as there is something to feed. 10: a tenth of a core's time when both want it.
constexpr int kBehindHostStages = 10;

absl::StatusOr<std::unique_ptr<Device>> CpuOf(const ExecutorLaunch& launch, uint32_t slots,
                                              StartLog* log) {
  ASSIGN_OR_RETURN(const std::vector<CoreGroup> groups,
                   FindCoreGroups({.cores = 0, .groups = static_cast<int>(launch.groups)}));
  RETURN_IF_ERROR(CheckSlots(slots, CpuDevice::SlotsOf(groups)));
  const int nice = launch.beside_devices ? kBehindHostStages : 0;
  return std::make_unique<CpuDevice>(groups, ReadMachineInfo(), log, nice);
}

absl::StatusOr<std::unique_ptr<Device>> EmulatedOf(const ExecutorLaunch& launch, uint32_t slots,
                                                   StartLog* log) {
  const char* const environment = std::getenv(kEmulatedVariable);
  ASSIGN_OR_RETURN(const EmulatedOptions emulated,
                   ParseEmulated(launch.device, environment == nullptr ? "" : environment));
  return GpuDeviceOf(std::make_unique<EmulatedGpu>(emulated), DeviceKind::kEmulated, launch, slots,
                     log);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> DeviceOf(const ExecutorLaunch& launch, uint32_t slots,
                                                 StartLog* log) {
  if (launch.device == "cpu") return CpuOf(launch, slots, log);
  if (IsEmulated(launch.device)) return EmulatedOf(launch, slots, log);
  return InvalidError(reason::kBadArgument,
                      StrCat("tandem-executor cannot drive the device ", Quoted(launch.device),
                             "; it drives \"cpu\" and \"emulated:NAME\""));
}

}  // namespace tandem::worker
