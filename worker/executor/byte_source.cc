#include "worker/executor/byte_source.h"

#include <algorithm>
#include <cstring>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"

namespace tandem::worker {
namespace {

constexpr absl::Duration kPauseMin = absl::Milliseconds(20);
constexpr absl::Duration kPauseMax = absl::Seconds(1);

}  // namespace

absl::Status RetryUnavailable(const Abandoned& abandoned,
                              const std::function<absl::Status()>& attempt) {
  absl::Duration pause = kPauseMin;
  while (true) {
    absl::Status status = attempt();
    if (!absl::IsUnavailable(status)) return status;
    if (abandoned && abandoned()) {
      return absl::CancelledError("given up while its bytes were not to be had");
    }
    absl::SleepFor(pause);
    pause = std::min(2 * pause, kPauseMax);
  }
}

InlineSource::InlineSource(std::string bytes) : size_(bytes.size()) {
  if (uint8_t* to = bytes_.Ensure(bytes.size()); to != nullptr && !bytes.empty()) {
    std::memcpy(to, bytes.data(), bytes.size());
  }
}

absl::Status InlineSource::Read(uint64_t offset, uint64_t length, char* to) {
  if (length > 0) std::memcpy(to, Mapped(offset), length);
  return absl::OkStatus();
}

absl::Status GeneratedSource::Read(uint64_t offset, uint64_t length, char* to) {
  const uint64_t size = DTypeSize(dtype_);
  Generate(generator_, dtype_, offset / size, length / size, to);
  return absl::OkStatus();
}

absl::Status RegionSource::Fetch(uint64_t, uint64_t) {
  absl::MutexLock lock(&mu_);
  if (loaded_.load(std::memory_order_relaxed)) return absl::OkStatus();
  uint8_t* to = bytes_.Ensure(std::max<uint64_t>(region_.length, 1));
  if (to == nullptr) {
    return Error(absl::StatusCode::kResourceExhausted, reason::kOutOfMemory,
                 "no memory for an operand");
  }
  RETURN_IF_ERROR(RetryUnavailable(
      abandoned_, [&] { return remote_->ReadRegion(region_, reinterpret_cast<char*>(to)); }));
  loaded_.store(true, std::memory_order_release);
  return absl::OkStatus();
}

absl::Status RegionSource::Read(uint64_t offset, uint64_t length, char* to) {
  RETURN_IF_ERROR(Fetch(offset, length));
  if (length > 0) std::memcpy(to, Mapped(offset), length);
  return absl::OkStatus();
}

}  // namespace tandem::worker
