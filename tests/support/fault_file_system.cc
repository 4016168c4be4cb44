#include "tests/support/fault_file_system.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem {
namespace {

absl::Status NotThere(std::string_view path) {
  return Error(absl::StatusCode::kNotFound, reason::kPathUnreadable, StrCat(path, " is not there"));
}

absl::Status DiskFull(std::string_view path) {
  return Error(absl::StatusCode::kResourceExhausted, reason::kDiskFull,
               StrCat("no space left for ", path));
}

}  // namespace

class FaultFile final : public File {
 public:
  FaultFile(FaultFileSystem* fs, std::string path, FaultFileSystem::InodeHandle inode,
            uint64_t incarnation)
      : fs_(fs), path_(std::move(path)), inode_(std::move(inode)), incarnation_(incarnation) {}

  absl::StatusOr<size_t> ReadAt(uint64_t offset, char* buffer, size_t size) override {
    absl::MutexLock lock(&fs_->mu_);
    RETURN_IF_ERROR(Enter(FaultFileSystem::Op::kRead));
    if (offset >= inode_->bytes.size()) return size_t{0};
    const size_t got = std::min<size_t>(size, inode_->bytes.size() - offset);
    std::memcpy(buffer, inode_->bytes.data() + offset, got);
    return got;
  }

  absl::StatusOr<size_t> WriteAt(uint64_t offset,
                                 absl::Span<const std::string_view> slices) override {
    absl::MutexLock lock(&fs_->mu_);
    RETURN_IF_ERROR(Enter(FaultFileSystem::Op::kWrite));
    std::string all;
    for (const std::string_view slice : slices) all += slice;
    const uint64_t room = fs_->RoomFor(*inode_, offset + all.size());
    const uint64_t room_here = room > offset ? room - offset : 0;
    const size_t taken =
        std::min({static_cast<uint64_t>(all.size()), uint64_t{fs_->write_bytes_max_}, room_here});
    if (taken == 0 && !all.empty()) return DiskFull(path_);
    if (inode_->bytes.size() < offset + taken) inode_->bytes.resize(offset + taken, '\0');
    std::memcpy(inode_->bytes.data() + offset, all.data(), taken);
    return taken;
  }

  absl::Status Reserve(uint64_t size) override {
    absl::MutexLock lock(&fs_->mu_);
    RETURN_IF_ERROR(Enter(FaultFileSystem::Op::kReserve));
    if (fs_->RoomFor(*inode_, size) < size) return DiskFull(path_);
    inode_->reserved = std::max(inode_->reserved, size);
    return absl::OkStatus();
  }

  absl::Status Truncate(uint64_t size) override {
    absl::MutexLock lock(&fs_->mu_);
    if (incarnation_ != fs_->incarnation_) return absl::InternalError("crashed");
    inode_->bytes.resize(size, '\0');
    inode_->reserved = size;
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    absl::MutexLock lock(&fs_->mu_);
    RETURN_IF_ERROR(Enter(FaultFileSystem::Op::kSync));
    const auto let_go = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(fs_->mu_) {
      return inode_->bytes.size() < fs_->held_from_;
    };
    fs_->mu_.Await(absl::Condition(&let_go));
    if (!fs_->lying_) inode_->durable = inode_->bytes;
    return absl::OkStatus();
  }

  void StartWriteout(uint64_t, uint64_t) override {}

  absl::StatusOr<uint64_t> Size() override {
    absl::MutexLock lock(&fs_->mu_);
    return inode_->bytes.size();
  }

 private:
  absl::Status Enter(FaultFileSystem::Op op) ABSL_EXCLUSIVE_LOCKS_REQUIRED(fs_->mu_) {
    if (incarnation_ != fs_->incarnation_) return absl::InternalError("crashed");
    return fs_->Enter(op, path_);
  }

  FaultFileSystem* const fs_;
  const std::string path_;
  const FaultFileSystem::InodeHandle inode_;
  const uint64_t incarnation_;
};

void FaultFileSystem::set_capacity(uint64_t bytes) {
  absl::MutexLock lock(&mu_);
  capacity_ = bytes;
}
void FaultFileSystem::set_write_bytes_max(size_t bytes) {
  absl::MutexLock lock(&mu_);
  write_bytes_max_ = bytes;
}
void FaultFileSystem::set_lying(bool lying) {
  absl::MutexLock lock(&mu_);
  lying_ = lying;
}
void FaultFileSystem::HoldSyncs(uint64_t bytes) {
  absl::MutexLock lock(&mu_);
  held_from_ = bytes;
}
void FaultFileSystem::FailOnce(Op op, int skip) {
  absl::MutexLock lock(&mu_);
  failures_[op] = skip;
}

void FaultFileSystem::ClearFailures() {
  absl::MutexLock lock(&mu_);
  failures_.clear();
}

void FaultFileSystem::Crash() {
  absl::MutexLock lock(&mu_);
  ++incarnation_;
  live_ = durable_;
  for (const auto& [path, inode] : live_) {
    inode->bytes = inode->durable;
    inode->reserved = 0;
  }
}

void FaultFileSystem::Flip(std::string_view path, uint64_t offset) {
  absl::MutexLock lock(&mu_);
  const absl::StatusOr<InodeHandle> inode = Find(path);
  CHECK_OK(inode);
  CHECK_LT(offset, (*inode)->bytes.size());
  (*inode)->bytes[offset] = static_cast<char>((*inode)->bytes[offset] ^ 0x10);
  (*inode)->durable = (*inode)->bytes;
}

uint64_t FaultFileSystem::Count(Op op) const {
  absl::MutexLock lock(&mu_);
  const auto it = counts_.find(op);
  return it == counts_.end() ? 0 : it->second;
}

bool FaultFileSystem::Exists(std::string_view path) const {
  absl::MutexLock lock(&mu_);
  return live_.contains(path);
}

std::vector<std::string> FaultFileSystem::Files() const {
  absl::MutexLock lock(&mu_);
  std::vector<std::string> files;
  for (const auto& [path, inode] : live_) {
    if (!inode->directory) files.push_back(path);
  }
  return files;
}

absl::Status FaultFileSystem::Enter(Op op, std::string_view path) {
  ++counts_[op];
  const auto it = failures_.find(op);
  if (it == failures_.end()) return absl::OkStatus();
  if (it->second-- > 0) return absl::OkStatus();
  failures_.erase(it);
  return Error(absl::StatusCode::kInternal, reason::kStoreFailed,
               StrCat("input/output error at ", path));
}

absl::StatusOr<FaultFileSystem::InodeHandle> FaultFileSystem::Find(std::string_view path) const {
  const auto it = live_.find(path);
  if (it == live_.end()) return NotThere(path);
  return it->second;
}

uint64_t FaultFileSystem::Used() const {
  std::set<const Inode*> seen;
  uint64_t used = 0;
  for (const auto& [path, inode] : live_) {
    if (seen.insert(inode.get()).second) used += std::max(inode->bytes.size(), inode->reserved);
  }
  return used;
}

// How far the file may reach, at most `end`.
uint64_t FaultFileSystem::RoomFor(const Inode& inode, uint64_t end) const {
  const uint64_t has = std::max<uint64_t>(inode.bytes.size(), inode.reserved);
  const uint64_t used = Used();
  const uint64_t free = capacity_ > used ? capacity_ - used : 0;
  return end <= has ? end : std::min(end, free >= end - has ? end : has + free);
}

absl::StatusOr<std::unique_ptr<File>> FaultFileSystem::Open(std::string_view path, Mode mode) {
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(Enter(Op::kOpen, path));
  absl::StatusOr<InodeHandle> inode = Find(path);
  if (inode.ok() && mode == Mode::kCreate) return absl::AlreadyExistsError(std::string(path));
  if (!inode.ok()) {
    if (mode == Mode::kRead || mode == Mode::kReadWrite) return inode.status();
    RETURN_IF_ERROR(Find(ParentOf(path)).status());
    inode = live_[std::string(path)] = std::make_shared<Inode>();
  }
  return std::make_unique<FaultFile>(this, std::string(path), *inode, incarnation_);
}

absl::StatusOr<FileInfo> FaultFileSystem::Stat(std::string_view path) {
  absl::MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(const InodeHandle inode, Find(path));
  FileInfo info;
  info.size = inode->bytes.size();
  info.allocated = std::max<uint64_t>(inode->bytes.size(), inode->reserved);
  info.directory = inode->directory;
  for (const auto& [name, other] : live_) info.links += other == inode;
  return info;
}

absl::Status FaultFileSystem::Rename(std::string_view from, std::string_view to) {
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(Enter(Op::kRename, from));
  ASSIGN_OR_RETURN(const InodeHandle inode, Find(from));
  RETURN_IF_ERROR(Find(ParentOf(to)).status());
  live_.erase(live_.find(from));
  live_[std::string(to)] = inode;
  return absl::OkStatus();
}

absl::Status FaultFileSystem::Link(std::string_view existing, std::string_view added) {
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(Enter(Op::kLink, existing));
  ASSIGN_OR_RETURN(const InodeHandle inode, Find(existing));
  RETURN_IF_ERROR(Find(ParentOf(added)).status());
  if (!live_.emplace(added, inode).second) return absl::AlreadyExistsError(std::string(added));
  return absl::OkStatus();
}

absl::Status FaultFileSystem::Remove(std::string_view path) {
  absl::MutexLock lock(&mu_);
  const auto it = live_.find(path);
  if (it == live_.end()) return NotThere(path);
  live_.erase(it);
  return absl::OkStatus();
}

absl::Status FaultFileSystem::CreateDirectory(std::string_view path) {
  absl::MutexLock lock(&mu_);
  InodeHandle& inode = live_[std::string(path)];
  if (inode == nullptr) {
    inode = std::make_shared<Inode>();
    inode->directory = true;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> FaultFileSystem::List(std::string_view directory) {
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(Find(directory).status());
  std::vector<std::string> names;
  for (const auto& [path, inode] : live_) {
    if (path != directory && ParentOf(path) == directory) {
      names.push_back(path.substr(directory.size() + 1));
    }
  }
  return names;
}

absl::Status FaultFileSystem::SyncDirectory(std::string_view directory) {
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(Enter(Op::kSyncDirectory, directory));
  if (lying_) return absl::OkStatus();
  std::erase_if(durable_, [&](const auto& entry) {
    return ParentOf(entry.first) == directory && !live_.contains(entry.first);
  });
  for (const auto& [path, inode] : live_) {
    if (ParentOf(path) == directory) durable_[path] = inode;
  }
  return absl::OkStatus();
}

}  // namespace tandem
