#include "worker/executor/blob_checks.h"

#include <sys/stat.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/data/blob_sums.h"
#include "common/data/sha256.h"
#include "common/data/xxh3.h"

namespace tandem::worker {
namespace {

// SHA-256 of so many bytes costs less than asking for sums.
constexpr uint64_t kCheckedByName = 256 << 10;

}  // namespace

FileStamp FileStamp::Of(int fd) {
  struct stat info;
  if (fstat(fd, &info) != 0) return {};
  return {static_cast<uint64_t>(info.st_dev), static_cast<uint64_t>(info.st_ino),
          int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
}

BlobCheck::BlobCheck(const BlobLocator& blob, BlobSumsPtr sums)
    : blob_(blob), sums_(std::move(sums)), passed_(static_cast<size_t>(BlobBlocks(blob.size))) {}

bool BlobCheck::NeedsSums(const BlobLocator& blob) { return blob.size > kCheckedByName; }

bool BlobCheck::Passed(uint64_t offset, uint64_t length) const {
  if (length == 0) return true;
  const auto first = static_cast<size_t>(offset / kBlobBlockBytes);
  const auto last = static_cast<size_t>((offset + length - 1) / kBlobBlockBytes);
  for (size_t block = first; block <= last; ++block) {
    if (!passed_[block].load(std::memory_order_acquire)) return false;
  }
  return true;
}

bool BlobCheck::Holds(uint64_t block, const char* bytes) const {
  const uint64_t from = block * kBlobBlockBytes;
  const std::string_view held(bytes,
                              static_cast<size_t>(std::min(kBlobBlockBytes, blob_.size - from)));
  if (!NeedsSums(blob_)) return Sha256Of(held) == blob_.id;
  return sums_->empty() || Xxh3(held) == (*sums_)[static_cast<size_t>(block)];
}

bool BlobCheck::Check(uint64_t block, const char* bytes) {
  if (!Holds(block, bytes)) return false;
  passed_[static_cast<size_t>(block)].store(true, std::memory_order_release);
  return true;
}

std::shared_ptr<BlobCheck> BlobChecks::Find(const BlobLocator& blob, const FileStamp& file) {
  absl::MutexLock lock(&mu_);
  const auto it = known_.find(blob.id);
  if (it == known_.end()) return nullptr;
  if (it->second.file != file) {
    it->second.check = std::make_shared<BlobCheck>(blob, it->second.check->sums());
    it->second.file = file;
  }
  return it->second.check;
}

std::shared_ptr<BlobCheck> BlobChecks::Add(const BlobLocator& blob, std::vector<uint64_t> sums,
                                           const FileStamp& file) {
  auto check = std::make_shared<BlobCheck>(
      blob, std::make_shared<const std::vector<uint64_t>>(std::move(sums)));
  absl::MutexLock lock(&mu_);
  const auto [it, fresh] =
      known_.try_emplace(blob.id, Known{file, check, 1 + BlobBlocks(blob.size)});
  if (!fresh) {
    it->second.file = file;
    it->second.check = check;
    return check;
  }
  weight_ += it->second.weight;
  if (weight_ > kRememberedMax) Forget();
  return check;
}

void BlobChecks::Restamp(const BlobLocator& blob, const std::shared_ptr<BlobCheck>& check,
                         const FileStamp& file) {
  absl::MutexLock lock(&mu_);
  const auto it = known_.find(blob.id);
  if (it != known_.end() && it->second.check == check) it->second.file = file;
}

void BlobChecks::Forget() {
  for (auto it = known_.begin(); it != known_.end() && weight_ > kRememberedMax / 2;) {
    if (it->second.check.use_count() > 1) {
      ++it;
      continue;
    }
    weight_ -= it->second.weight;
    it = known_.erase(it);
  }
}

}  // namespace tandem::worker
