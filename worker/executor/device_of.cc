#include "worker/executor/device_of.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/device/emulated/emulated_spec.h"
#include "worker/device/gpu/gpu_device.h"

namespace tandem::worker {
namespace {

absl::Status TooFewSlots(uint32_t slots, uint32_t needed) {
  return InvalidError(reason::kBadArgument,
                      StrCat("the start page has ", slots, " slots; ", needed, " are needed"));
}

absl::StatusOr<std::unique_ptr<Device>> CpuOf(const ExecutorLaunch& launch, uint32_t slots,
                                              StartLog* log) {
  ASSIGN_OR_RETURN(const std::vector<CoreGroup> groups,
                   FindCoreGroups({.cores = 0, .groups = static_cast<int>(launch.groups)}));
  if (slots < CpuDevice::SlotsOf(groups)) return TooFewSlots(slots, CpuDevice::SlotsOf(groups));
  return std::make_unique<CpuDevice>(groups, ReadMachineInfo(), log);
}

absl::StatusOr<std::unique_ptr<Device>> EmulatedOf(const ExecutorLaunch& launch, uint32_t slots,
                                                   StartLog* log) {
  const char* const environment = std::getenv("TANDEM_EMULATED");
  ASSIGN_OR_RETURN(const EmulatedOptions emulated,
                   ParseEmulated(launch.device, environment == nullptr ? "" : environment));
  ASSIGN_OR_RETURN(const std::vector<CoreGroup> groups, FindCoreGroups({.cores = 0, .groups = 1}));
  GpuDeviceOptions options;
  options.kind = DeviceKind::kEmulated;
  options.cores = groups.front();
  // The grids have what the host's threads leave.
  const uint32_t host = Lane::SlotsOf(options.cores);
  if (slots <= host) return TooFewSlots(slots, host + 1);
  options.engine.slots = std::min(options.engine.slots, slots - host);
  return GpuDevice::Make(std::make_unique<EmulatedGpu>(emulated), options, log);
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
