#include "worker/executor/blob_source.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/data/blob_sums.h"
#include "worker/executor/usage.h"

namespace tandem::worker {

BlobSource::BlobSource(const BlobLocator& blob, BlobAccess access)
    : blob_(blob), access_(std::move(access)), settled_(blob.size == 0) {}

// The cache's file has grown by what was fetched, which has passed.
BlobSource::~BlobSource() {
  if (cached_ != nullptr) access_.cache->checks().Restamp(blob_, check_, cached_->stamp());
}

bool BlobSource::Resident(uint64_t offset, uint64_t length) const {
  if (!settled_.load(std::memory_order_acquire)) return false;
  return length == 0 || ((cached_ == nullptr || cached_->Resident(offset, length)) &&
                         check_->Passed(offset, length));
}

absl::StatusOr<std::shared_ptr<BlobCheck>> BlobSource::CheckOf(const FileStamp& file) {
  BlobChecks& checks = access_.cache->checks();
  if (std::shared_ptr<BlobCheck> check = checks.Find(blob_, file)) return check;
  std::vector<uint64_t> sums;
  if (BlobCheck::NeedsSums(blob_)) {
    RETURN_IF_ERROR(RetryUnavailable(access_.abandoned, [&]() -> absl::Status {
      ASSIGN_OR_RETURN(sums, access_.remote->BlobSums(blob_));
      return absl::OkStatus();
    }));
  }
  return checks.Add(blob_, std::move(sums), file);
}

// Maps the master's file if it is on this host; anything amiss with that only costs the short cut.
absl::StatusOr<bool> BlobSource::MapLocal() {
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
  ASSIGN_OR_RETURN(check_, CheckOf(FileStamp::Of(fd.get())));
  local_ = *std::move(mapped);
  access_.usage->mapped_bytes.fetch_add(blob_.size, std::memory_order_relaxed);
  return true;
}

absl::Status BlobSource::Settle() {
  absl::MutexLock lock(&mu_);
  if (settled_.load(std::memory_order_relaxed)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const bool local, MapLocal());
  if (!local) {
    ASSIGN_OR_RETURN(std::shared_ptr<CachedBlob> cached, access_.cache->Open(blob_));
    ASSIGN_OR_RETURN(check_, CheckOf(cached->stamp()));
    cached_ = std::move(cached);
  }
  settled_.store(true, std::memory_order_release);
  return absl::OkStatus();
}

absl::Status BlobSource::Damaged(uint64_t block) const {
  const uint64_t from = block * kBlobBlockBytes;
  return Error(absl::StatusCode::kDataLoss, reason::kChecksumMismatch,
               StrCat("the master's bytes [", from, ", ",
                      std::min(blob_.size, from + kBlobBlockBytes), ") of blob ", blob_.id,
                      " are not those that were uploaded: its disk has damaged them; remove the "
                      "blob with `tandem data rm ",
                      blob_.id, "`, upload it again and submit the job again"));
}

absl::Status BlobSource::FetchCached(uint64_t offset, uint64_t length) {
  // Whole blocks come.
  const auto read = [&](uint64_t from, uint64_t bytes, char* to) -> absl::Status {
    RETURN_IF_ERROR(RetryUnavailable(
        access_.abandoned, [&] { return access_.remote->ReadBlob(blob_, from, bytes, to); }));
    for (uint64_t at = 0; at < bytes; at += kBlobBlockBytes) {
      const uint64_t block = (from + at) / kBlobBlockBytes;
      if (!check_->Check(block, to + at)) return Damaged(block);
    }
    return absl::OkStatus();
  };
  ASSIGN_OR_RETURN(const uint64_t fetched, cached_->Fetch(offset, length, read));
  access_.bytes_fetched->fetch_add(fetched, std::memory_order_relaxed);
  access_.usage->fetched_bytes.fetch_add(fetched, std::memory_order_relaxed);
  return absl::OkStatus();
}

// What is there and has not been looked at by this process.
absl::Status BlobSource::CheckBlocks(uint64_t offset, uint64_t length) {
  const uint64_t end = (offset + length - 1) / kBlobBlockBytes + 1;
  for (uint64_t block = offset / kBlobBlockBytes; block < end; ++block) {
    const uint64_t from = block * kBlobBlockBytes;
    if (check_->Passed(from, 1) || check_->Check(block, Mapped(from))) continue;
    if (cached_ == nullptr) return Damaged(block);
    cached_->Drop(block);
    RETURN_IF_ERROR(FetchCached(from, 1));
    if (!check_->Check(block, Mapped(from))) return Damaged(block);
  }
  return absl::OkStatus();
}

absl::Status BlobSource::Fetch(uint64_t offset, uint64_t length) {
  RETURN_IF_ERROR(Settle());
  if (length == 0) return absl::OkStatus();
  if (cached_ != nullptr) RETURN_IF_ERROR(FetchCached(offset, length));
  return CheckBlocks(offset, length);
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
