// What a worker has learned of its devices: taken over from a former life, kept for the next one,
// forgotten on demand.
#include <algorithm>

#include "worker/core/worker_core.h"

namespace tandem::worker {
namespace {

constexpr uint32_t kLanesMax = 1024;  // that a device may have had

}  // namespace

// A device that is gone is passed over, as is what makes no sense.
void WorkerCore::On(LearnedBefore event, MonoTime now, Effects*) {
  for (const LearnedDevice& learned : event.devices) {
    const auto device =
        std::find_if(devices_.begin(), devices_.end(),
                     [&](const WorkerDevice& known) { return known.name == learned.device; });
    if (device == devices_.end() || !device->learned.Restore(learned.model, now)) continue;
    device->lanes = std::clamp(learned.lanes, 1u, kLanesMax);
    device->news = true;
  }
}

// What a job that runs has shown of itself stays with it.
void WorkerCore::On(ForgetSaid event, MonoTime, Effects*) {
  for (WorkerDevice& device : devices_) {
    device.learned.Forget(event.kernel);
    absl::erase_if(device.told,
                   [&](const auto& entry) { return !device.learned.Knows(entry.first); });
  }
  TellRatesAgain();
  forgot_ = event.number;
}

std::vector<LearnedDevice> WorkerCore::Learned(MonoTime now) const {
  std::vector<LearnedDevice> learned;
  for (const WorkerDevice& device : devices_) {
    if (device.learned.size() == 0) continue;
    learned.push_back({device.name, device.lanes, device.learned.State(now)});
  }
  return learned;
}

uint64_t WorkerCore::learned_version() const {
  uint64_t version = 0;
  for (const WorkerDevice& device : devices_) version += device.learned.version();
  return version;
}

}  // namespace tandem::worker
