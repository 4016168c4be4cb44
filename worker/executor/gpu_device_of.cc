#include "worker/executor/gpu_device_of.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/model/gpu_memory.h"
#include "worker/device/cpu/lane.h"
#include "worker/device/cpu/topology.h"
#include "worker/device/gpu/gpu_device.h"

namespace tandem::worker {

absl::Status CheckSlots(uint32_t slots, uint32_t needed) {
  if (slots >= needed) return absl::OkStatus();
  return InvalidError(reason::kBadArgument,
                      StrCat("the start page has ", slots, " slots; ", needed, " are needed"));
}

absl::StatusOr<std::unique_ptr<Device>> GpuDeviceOf(std::unique_ptr<GpuRuntime> runtime,
                                                    DeviceKind kind, const ExecutorLaunch& launch,
                                                    uint32_t slots, StartLog* log) {
  ASSIGN_OR_RETURN(const std::vector<CoreGroup> groups, FindCoreGroups({.cores = 0, .groups = 1}));
  GpuDeviceOptions options;
  options.kind = kind;
  options.cores = groups.front();
  ASSIGN_OR_RETURN(const MemoryShare memory, MemoryShare::Parse(launch.memory));
  options.engine.memory_bytes = memory.Of(runtime->FreeBytes());
  if (launch.pinned_bytes_max > 0) options.engine.pinned_bytes = launch.pinned_bytes_max;
  const uint32_t host = Lane::SlotsOf(options.cores);
  RETURN_IF_ERROR(CheckSlots(slots, host + 1));
  options.engine.slots = std::min(options.engine.slots, slots - host);
  options.engine.mapped_bytes_max = launch.mapped_bytes_max;
  return GpuDevice::Make(std::move(runtime), options, log);
}

}  // namespace tandem::worker
