#include "worker/executor/blob_source.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstring>
#include <utility>

#include "common/base/status_macros.h"
#include "worker/executor/usage.h"

namespace tandem::worker {

BlobSource::BlobSource(const BlobLocator& blob, BlobAccess access)
    : blob_(blob), access_(std::move(access)), settled_(blob.size == 0) {}

bool BlobSource::Resident(uint64_t offset, uint64_t length) const {
  if (!settled_.load(std::memory_order_acquire)) return false;
  return cached_ == nullptr || cached_->Resident(offset, length);
}

// Maps the master's file if it is on this host; anything amiss with that only costs the short cut.
bool BlobSource::MapLocal() {
  if (!access_.local) return false;
  std::string path;
  const absl::Status located = RetryUnavailable(access_.abandoned, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(path, access_.remote->LocateBlob(blob_));
    return absl::OkStatus();
  });
  if (!located.ok() || path.empty()) return false;
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info;
  if (!fd.ok() || fstat(fd.get(), &info) != 0 ||
      static_cast<uint64_t>(info.st_size) != blob_.size) {
    return false;
  }
  absl::StatusOr<MappedFile> mapped = MappedFile::Make(fd.get(), blob_.size, false);
  if (!mapped.ok()) return false;
  local_ = *std::move(mapped);
  access_.usage->mapped_bytes.fetch_add(blob_.size, std::memory_order_relaxed);
  return true;
}

absl::Status BlobSource::Settle() {
  absl::MutexLock lock(&mu_);
  if (settled_.load(std::memory_order_relaxed)) return absl::OkStatus();
  if (!MapLocal()) {
    ASSIGN_OR_RETURN(cached_, access_.cache->Open(blob_));
  }
  settled_.store(true, std::memory_order_release);
  return absl::OkStatus();
}

absl::Status BlobSource::Fetch(uint64_t offset, uint64_t length) {
  RETURN_IF_ERROR(Settle());
  if (cached_ == nullptr) return absl::OkStatus();
  const auto read = [&](uint64_t from, uint64_t bytes, char* to) {
    return RetryUnavailable(access_.abandoned,
                            [&] { return access_.remote->ReadBlob(blob_, from, bytes, to); });
  };
  ASSIGN_OR_RETURN(const uint64_t fetched, cached_->Fetch(offset, length, read));
  access_.bytes_fetched->fetch_add(fetched, std::memory_order_relaxed);
  access_.usage->fetched_bytes.fetch_add(fetched, std::memory_order_relaxed);
  return absl::OkStatus();
}

const char* BlobSource::Mapped(uint64_t offset) const {
  const char* base = cached_ == nullptr ? local_.data() : cached_->data();
  return base == nullptr ? "" : base + offset;
}

absl::Status BlobSource::Read(uint64_t offset, uint64_t length, char* to) {
  RETURN_IF_ERROR(Fetch(offset, length));
  if (length > 0) std::memcpy(to, Mapped(offset), length);
  return absl::OkStatus();
}

}  // namespace tandem::worker
