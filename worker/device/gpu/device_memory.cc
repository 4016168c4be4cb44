#include "worker/device/gpu/device_memory.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace tandem::worker {

absl::StatusOr<DeviceAddress> DeviceMemory::Take(uint64_t bytes) {
  while (true) {
    const absl::StatusOr<uint64_t> address = arena_.Take(bytes);
    if (address.ok()) return DeviceAddress{*address};
    // What can never fit is no reason to lose what is there.
    if (!absl::IsResourceExhausted(address.status()) || bytes > arena_.budget() || !EvictOne()) {
      return address.status();
    }
  }
}

absl::Status DeviceMemory::Reserve(uint64_t bytes) {
  while (true) {
    absl::Status status = arena_.Reserve(bytes);
    if (status.ok() || bytes > arena_.budget() || !EvictOne()) return status;
  }
}

bool DeviceMemory::EvictOne() {
  if (idle_.empty()) return false;
  Resident* const oldest = idle_.begin()->second;
  idle_.erase(idle_.begin());
  arena_.Free(oldest->address.value);
  spare_events_.push_back(oldest->uploaded);
  residents_.erase({oldest->content, oldest->bytes});
  ++evictions_;
  return true;
}

Resident* DeviceMemory::Use(uint64_t content, uint64_t bytes) {
  const auto found = residents_.find({content, bytes});
  if (found == residents_.end()) return nullptr;
  Resident* const resident = found->second.get();
  if (resident->users++ == 0) idle_.erase(resident->last_use);
  return resident;
}

absl::StatusOr<Resident*> DeviceMemory::Keep(uint64_t content, uint64_t bytes, EventId uploaded) {
  ASSIGN_OR_RETURN(const DeviceAddress address, Take(bytes));
  auto resident = std::make_unique<Resident>();
  *resident = {content, bytes, address, uploaded, /*users=*/1, /*last_use=*/0};
  Resident* const kept = resident.get();
  CHECK(residents_.emplace(Key{content, bytes}, std::move(resident)).second);
  return kept;
}

void DeviceMemory::Leave(Resident* resident) {
  CHECK(resident->users > 0);
  if (--resident->users > 0) return;
  resident->last_use = ++clock_;
  idle_.emplace(resident->last_use, resident);
}

void DeviceMemory::Drop(Resident* resident) {
  CHECK_EQ(resident->users, 1u);
  arena_.Free(resident->address.value);
  residents_.erase({resident->content, resident->bytes});
}

}  // namespace tandem::worker
