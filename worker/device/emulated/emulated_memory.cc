#include "worker/device/emulated/emulated_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <iterator>
#include <utility>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/strings.h"
#include "common/base/unique_fd.h"

namespace tandem::worker {
namespace {

constexpr uint64_t kPage = 4096;
// Around each allocation: addresses cost nothing, and an index may be wrong by much.
constexpr uint64_t kGuard = uint64_t{1} << 30;
constexpr uint8_t kFresh = 0xcd;  // what is read before it was written
constexpr uint8_t kSlack = 0xa5;  // behind an allocation's end

absl::Status OutOfMemory(uint64_t bytes, uint64_t free, uint64_t budget) {
  return Error(absl::StatusCode::kResourceExhausted, reason::kOutOfMemory,
               StrCat("the emulated device has no room for ", bytes, " bytes: ", free, " of ",
                      budget, " are free; choose smaller pieces or give it more memory"));
}

absl::Status NotThere(uint64_t address, uint64_t bytes) {
  return InvalidError(reason::kBadArgument,
                      StrCat(bytes, " bytes at ", address,
                             " do not lie in one allocation of the emulated device; was it freed, "
                             "or is it the host's?"));
}

}  // namespace

EmulatedMemory::~EmulatedMemory() {
  absl::MutexLock lock(&mu_);
  for (const auto& [address, allocation] : allocations_) Unmap(address, allocation);
}

absl::StatusOr<DeviceAddress> EmulatedMemory::Allocate(uint64_t bytes) {
  absl::MutexLock lock(&mu_);
  if (bytes == 0 || bytes > budget_ - used_) return OutOfMemory(bytes, budget_ - used_, budget_);
  Allocation allocation;
  allocation.bytes = bytes;
  allocation.mapped = (bytes + kPage - 1) / kPage * kPage;
  const UniqueFd pages(memfd_create("tandem-emulated", MFD_CLOEXEC));
  if (pages.get() < 0 || ftruncate(pages.get(), static_cast<off_t>(allocation.mapped)) != 0) {
    return OutOfMemory(bytes, budget_ - used_, budget_);
  }
  void* const reserved = mmap(nullptr, allocation.mapped + 2 * kGuard, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  void* const alias =
      mmap(nullptr, allocation.mapped, PROT_READ | PROT_WRITE, MAP_SHARED, pages.get(), 0);
  if (reserved == MAP_FAILED || alias == MAP_FAILED) {
    if (reserved != MAP_FAILED) munmap(reserved, allocation.mapped + 2 * kGuard);
    if (alias != MAP_FAILED) munmap(alias, allocation.mapped);
    return OutOfMemory(bytes, budget_ - used_, budget_);
  }
  uint8_t* const place = static_cast<uint8_t*>(reserved) + kGuard;
  const int protection = access_ == Access::kOpen ? PROT_READ | PROT_WRITE : PROT_NONE;
  CHECK(mmap(place, allocation.mapped, protection, MAP_SHARED | MAP_FIXED, pages.get(), 0) ==
        place);
  allocation.alias = static_cast<uint8_t*>(alias);
  std::memset(allocation.alias, kFresh, bytes);
  std::memset(allocation.alias + bytes, kSlack, allocation.mapped - bytes);
  used_ += bytes;
  const auto address = reinterpret_cast<uint64_t>(place);
  allocations_.emplace(address, allocation);
  return DeviceAddress{address};
}

absl::Status EmulatedMemory::Free(DeviceAddress address) {
  absl::MutexLock lock(&mu_);
  const auto found = allocations_.find(address.value);
  if (found == allocations_.end()) return NotThere(address.value, 1);
  Unmap(found->first, found->second);
  used_ -= found->second.bytes;
  allocations_.erase(found);
  return absl::OkStatus();
}

void EmulatedMemory::Unmap(uint64_t address, const Allocation& allocation) {
  munmap(reinterpret_cast<void*>(address - kGuard), allocation.mapped + 2 * kGuard);
  munmap(allocation.alias, allocation.mapped);
}

uint64_t EmulatedMemory::FreeBytes() const {
  absl::MutexLock lock(&mu_);
  return budget_ - used_;
}

const EmulatedMemory::Allocation* EmulatedMemory::Find(uint64_t address, uint64_t* begin) const {
  auto next = allocations_.upper_bound(address);
  if (next == allocations_.begin()) return nullptr;
  --next;
  *begin = next->first;
  return address - next->first <= next->second.bytes ? &next->second : nullptr;
}

bool EmulatedMemory::Owns(uint64_t address) const {
  absl::MutexLock lock(&mu_);
  uint64_t begin = 0;
  return Find(address, &begin) != nullptr;
}

absl::StatusOr<uint8_t*> EmulatedMemory::ForCopy(DeviceAddress address, uint64_t bytes) const {
  absl::MutexLock lock(&mu_);
  uint64_t begin = 0;
  const Allocation* allocation = Find(address.value, &begin);
  const uint64_t offset = address.value - begin;
  if (allocation == nullptr || bytes > allocation->bytes - offset) {
    return NotThere(address.value, bytes);
  }
  return allocation->alias + offset;
}

void EmulatedMemory::Protect(bool open) {
  if (access_ == Access::kOpen) return;
  absl::MutexLock lock(&mu_);
  const int protection = open ? PROT_READ | PROT_WRITE : PROT_NONE;
  for (const auto& [address, allocation] : allocations_) {
    CHECK_EQ(mprotect(reinterpret_cast<void*>(address), allocation.mapped, protection), 0);
  }
}

absl::Status EmulatedMemory::CheckSlack() const {
  absl::MutexLock lock(&mu_);
  for (const auto& [address, allocation] : allocations_) {
    for (uint64_t i = allocation.bytes; i < allocation.mapped; ++i) {
      if (allocation.alias[i] == kSlack) continue;
      return Error(absl::StatusCode::kInternal, reason::kDeviceFault,
                   StrCat("a grid wrote ", i - allocation.bytes + 1,
                          " bytes behind the end of an allocation of ", allocation.bytes,
                          " bytes of the emulated device"));
    }
  }
  return absl::OkStatus();
}

}  // namespace tandem::worker
