// RoomKeeper: a file system that leaves a part of the disk free: for the journal, which lies on the
// same disk as blobs and segments and must go on when they may not.
//
//   RoomKeeper room(RealFileSystem(), 64 << 20, [dir] { return FreeBytesAt(dir); });
//   SegmentStore::Open(&room, dir, limits);
//   if (room.Low()) …take nothing new
//
// What would grow a file into the part that is kept fails with RESOURCE_EXHAUSTED (DISK_FULL), as
// on a disk that is full; all else passes through. Whoever asks at the same time may together take
// a little more.
//
// Thread-safety: as the file system below. Ownership: that one outlives it.
#ifndef TANDEM_COMMON_DATA_ROOM_KEEPER_H_
#define TANDEM_COMMON_DATA_ROOM_KEEPER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/data/file_system.h"

namespace tandem {

// What an unprivileged process may still write where `directory` lies; all there can be, where the
// system does not say.
uint64_t FreeBytesAt(const std::string& directory);

class RoomKeeper final : public FileSystem {
 public:
  RoomKeeper(FileSystem* below, uint64_t kept_bytes, std::function<uint64_t()> free_bytes)
      : below_(below), kept_bytes_(kept_bytes), free_bytes_(std::move(free_bytes)) {}

  // What may still be written; 0: there is no more room than what is kept.
  uint64_t Room() const {
    const uint64_t free = free_bytes_();
    return free > kept_bytes_ ? free - kept_bytes_ : 0;
  }
  bool Low() const { return Room() == 0; }

  absl::StatusOr<std::unique_ptr<File>> Open(std::string_view path, Mode mode) override;
  absl::StatusOr<FileInfo> Stat(std::string_view path) override { return below_->Stat(path); }
  absl::Status Rename(std::string_view from, std::string_view to) override {
    return below_->Rename(from, to);
  }
  absl::Status Link(std::string_view existing, std::string_view added) override {
    return below_->Link(existing, added);
  }
  absl::Status Remove(std::string_view path) override { return below_->Remove(path); }
  absl::Status CreateDirectory(std::string_view path) override {
    return below_->CreateDirectory(path);
  }
  absl::StatusOr<std::vector<std::string>> List(std::string_view directory) override {
    return below_->List(directory);
  }
  absl::Status SyncDirectory(std::string_view directory) override {
    return below_->SyncDirectory(directory);
  }

 private:
  class KeptFile;
  absl::Status CheckRoom(const std::string& path, uint64_t bytes) const;

  FileSystem* const below_;
  const uint64_t kept_bytes_;
  const std::function<uint64_t()> free_bytes_;
};

}  // namespace tandem

#endif  // TANDEM_COMMON_DATA_ROOM_KEEPER_H_
