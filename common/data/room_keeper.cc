#include "common/data/room_keeper.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem {

uint64_t FreeBytesAt(const std::string& directory) {
  struct statvfs info = {};
  if (statvfs(directory.c_str(), &info) != 0) return std::numeric_limits<uint64_t>::max();
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

class RoomKeeper::KeptFile final : public File {
 public:
  KeptFile(const RoomKeeper* keeper, std::string path, std::unique_ptr<File> below)
      : keeper_(keeper), path_(std::move(path)), below_(std::move(below)) {}

  absl::StatusOr<size_t> ReadAt(uint64_t offset, char* buffer, size_t size) override {
    return below_->ReadAt(offset, buffer, size);
  }
  absl::StatusOr<size_t> WriteAt(uint64_t offset,
                                 absl::Span<const std::string_view> slices) override {
    uint64_t end = offset;
    for (const std::string_view slice : slices) end += slice.size();
    RETURN_IF_ERROR(CheckGrowth(end));
    return below_->WriteAt(offset, slices);
  }
  absl::Status Reserve(uint64_t size) override {
    RETURN_IF_ERROR(CheckGrowth(size));
    RETURN_IF_ERROR(below_->Reserve(size));
    reserved_ = std::max(reserved_, size);
    return absl::OkStatus();
  }
  absl::Status Truncate(uint64_t size) override {
    reserved_ = std::min(reserved_, size);
    return below_->Truncate(size);
  }
  absl::Status Sync() override { return below_->Sync(); }
  void StartWriteout(uint64_t offset, uint64_t size) override {
    below_->StartWriteout(offset, size);
  }
  absl::StatusOr<uint64_t> Size() override { return below_->Size(); }

 private:
  absl::Status CheckGrowth(uint64_t end) {
    if (end <= reserved_) return absl::OkStatus();
    ASSIGN_OR_RETURN(const uint64_t size, below_->Size());
    const uint64_t have = std::max(size, reserved_);
    return end <= have ? absl::OkStatus() : keeper_->CheckRoom(path_, end - have);
  }

  const RoomKeeper* const keeper_;
  const std::string path_;
  const std::unique_ptr<File> below_;
  uint64_t reserved_ = 0;  // Of the one thread that writes.
};

absl::StatusOr<std::unique_ptr<File>> RoomKeeper::Open(std::string_view path, Mode mode) {
  ASSIGN_OR_RETURN(std::unique_ptr<File> file, below_->Open(path, mode));
  return std::make_unique<KeptFile>(this, std::string(path), std::move(file));
}

absl::Status RoomKeeper::CheckRoom(const std::string& path, uint64_t bytes) const {
  const uint64_t free = free_bytes_();
  if (free > kept_bytes_ && bytes <= free - kept_bytes_) return absl::OkStatus();
  return Error(
      absl::StatusCode::kResourceExhausted, reason::kDiskFull,
      StrCat("no room to write ", path, ": ", HumanSize(free), " are free, of which ",
             HumanSize(kept_bytes_), " are kept for the journal; make room on that file system"));
}

}  // namespace tandem
