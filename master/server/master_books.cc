#include "master/server/master_books.h"

#include <sys/statvfs.h>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/data/file_system.h"

namespace tandem::master {
namespace {

v1::KindUsage* AddKind(const char* kind, const BlobUsage::Sum& all, const BlobUsage::Sum& owner,
                       v1::DiskUsage* to) {
  v1::KindUsage* usage = to->add_kinds();
  usage->set_kind(kind);
  usage->set_bytes(all.bytes);
  usage->set_files(all.files);
  usage->set_owner_bytes(owner.bytes);
  usage->set_owner_files(owner.files);
  return usage;
}

}  // namespace

absl::Status MasterBooks::DiskUsage(std::string_view owner, v1::DiskUsage* to) {
  ASSIGN_OR_RETURN(const BlobUsage blobs, blobs_->Usage(owner));
  AddKind("blobs", blobs.blobs, blobs.owner_blobs, to);
  AddKind("uploads", blobs.uploads, blobs.owner_uploads, to);
  BlobUsage::Sum results, owner_results;
  for (const SegmentInfo& segment : segments_->List()) {
    results.bytes += segment.bytes;
    ++results.files;
    const absl::StatusOr<std::string> whose = segments_->OwnerOf(segment.id);
    if (!whose.ok() || *whose != owner) continue;
    owner_results.bytes += segment.bytes;
    ++owner_results.files;
  }
  AddKind("results", results, owner_results, to);
  BlobUsage::Sum journal;
  for (const char* name : {"master.db", "master.db-wal", "master.db-shm"}) {
    const absl::StatusOr<FileInfo> info = RealFileSystem()->Stat(StrCat(directory_, "/", name));
    if (!info.ok()) continue;
    journal.bytes += info->size;
    ++journal.files;
  }
  AddKind("journal", journal, {}, to);
  struct statvfs disk;
  if (statvfs(directory_.c_str(), &disk) == 0) {
    to->set_disk_bytes(uint64_t{disk.f_blocks} * disk.f_frsize);
    to->set_disk_free_bytes(uint64_t{disk.f_bavail} * disk.f_frsize);
  }
  return absl::OkStatus();
}

}  // namespace tandem::master
