// FaultFileSystem: a file system in memory whose disk fills up, fails, writes short, or loses what
// was not synced.
//
//   FaultFileSystem fs;
//   fs.set_capacity(1 << 20);                          // then: DISK_FULL
//   fs.FailOnce(FaultFileSystem::Op::kSync, 2);        // the third sync from now fails
//   fs.Crash();                                        // names and bytes that were not synced go
//
// A crash also ends every File that was open: each later call on it fails.
// Thread-safety: safe from any thread.
#ifndef TANDEM_TESTS_SUPPORT_FAULT_FILE_SYSTEM_H_
#define TANDEM_TESTS_SUPPORT_FAULT_FILE_SYSTEM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/data/file_system.h"

namespace tandem {

class FaultFileSystem final : public FileSystem {
 public:
  enum class Op { kRead, kWrite, kReserve, kSync, kSyncDirectory, kOpen, kRename, kLink };

  // Bytes of all files together, reserved ones included.
  void set_capacity(uint64_t bytes);
  // A write takes at most this many bytes at a time.
  void set_write_bytes_max(size_t bytes);
  // Syncs say OK and do nothing.
  void set_lying(bool lying);
  // Syncs of files of at least so many bytes wait until the next call says another number.
  void HoldSyncs(uint64_t bytes);
  // The `skip + 1`-th call of this kind from now fails with an input/output error.
  void FailOnce(Op op, int skip = 0);
  // Takes back failures that have not happened yet.
  void ClearFailures();
  void Crash();
  // Changes one byte, durably. REQUIRES: the file has it.
  void Flip(std::string_view path, uint64_t offset);
  uint64_t Count(Op op) const;
  bool Exists(std::string_view path) const;
  // All paths of files, sorted.
  std::vector<std::string> Files() const;

  absl::StatusOr<std::unique_ptr<File>> Open(std::string_view path, Mode mode) override;
  absl::StatusOr<FileInfo> Stat(std::string_view path) override;
  absl::Status Rename(std::string_view from, std::string_view to) override;
  absl::Status Link(std::string_view existing, std::string_view added) override;
  absl::Status Remove(std::string_view path) override;
  absl::Status CreateDirectory(std::string_view path) override;
  absl::StatusOr<std::vector<std::string>> List(std::string_view directory) override;
  absl::Status SyncDirectory(std::string_view directory) override;

 private:
  friend class FaultFile;
  struct Inode {
    bool directory = false;
    std::string bytes;
    std::string durable;
    uint64_t reserved = 0;
  };
  using InodeHandle = std::shared_ptr<Inode>;
  using Names = std::map<std::string, InodeHandle, std::less<>>;

  absl::Status Enter(Op op, std::string_view path) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<InodeHandle> Find(std::string_view path) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  uint64_t Used() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  uint64_t RoomFor(const Inode& inode, uint64_t end) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;
  Names live_ ABSL_GUARDED_BY(mu_);
  Names durable_ ABSL_GUARDED_BY(mu_);
  uint64_t incarnation_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t capacity_ ABSL_GUARDED_BY(mu_) = UINT64_MAX;
  size_t write_bytes_max_ ABSL_GUARDED_BY(mu_) = SIZE_MAX;
  bool lying_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t held_from_ ABSL_GUARDED_BY(mu_) = UINT64_MAX;
  std::map<Op, int> failures_ ABSL_GUARDED_BY(mu_);  // Calls that still succeed.
  std::map<Op, uint64_t> counts_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem

#endif  // TANDEM_TESTS_SUPPORT_FAULT_FILE_SYSTEM_H_
