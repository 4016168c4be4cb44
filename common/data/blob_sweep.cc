// BlobStore's housekeeping: unfinished uploads, and what everything weighs.
#include <utility>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/data/blob_store.h"
#include "common/data/blob_upload.h"

namespace tandem {
namespace {

// Names in a folder; none where there is no folder.
absl::StatusOr<std::vector<std::string>> NamesIn(FileSystem& file_system, const std::string& path) {
  absl::StatusOr<std::vector<std::string>> names = file_system.List(path);
  if (absl::IsNotFound(names.status())) return std::vector<std::string>();
  return names;
}

}  // namespace

absl::StatusOr<std::vector<BlobInfo>> BlobStore::ListUploads(std::string_view owner) {
  ASSIGN_OR_RETURN(const std::string folder, FolderOf(owner));
  const std::string root = StrCat(directory_, "/uploads/", folder);
  ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(*file_system_, root));
  std::vector<BlobInfo> uploads;
  for (const std::string& name : names) {
    const absl::StatusOr<BlobId> id = BlobId::FromHex(name);
    if (!id.ok()) continue;
    const absl::StatusOr<FileInfo> info = file_system_->Stat(StrCat(root, "/", name));
    if (absl::IsNotFound(info.status())) continue;  // Finished since.
    RETURN_IF_ERROR(info.status());
    uploads.push_back({*id, info->size, info->modified});
  }
  return uploads;
}

absl::Status BlobStore::RemoveUpload(std::string_view owner, const BlobId& id) {
  ASSIGN_OR_RETURN(const std::string folder, FolderOf(owner));
  const absl::StatusOr<FileInfo> info =
      file_system_->Stat(StrCat(directory_, "/uploads/", folder, "/", id));
  if (absl::IsNotFound(info.status())) {
    return Error(absl::StatusCode::kNotFound, reason::kBlobNotFound,
                 StrCat(Quoted(owner), " has begun no upload of ", id));
  }
  RETURN_IF_ERROR(info.status());
  return DropUpload(folder, id, info->size);
}

absl::Status BlobStore::DropUpload(const std::string& folder, const BlobId& id, uint64_t bytes) {
  ASSIGN_OR_RETURN(const UploadHandle upload, JoinUpload(folder, id));
  {
    absl::MutexLock lock(&upload->mu);
    if (!upload->done) {
      // Nobody has looked at the file since the store was opened: its size is what was charged.
      if (upload->file == nullptr) upload->bytes = bytes;
      upload->Drop(*this);
    }
  }
  Leave(upload);
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> BlobStore::SweepUploads(absl::Time before) {
  const std::string root = StrCat(directory_, "/uploads");
  ASSIGN_OR_RETURN(const std::vector<std::string> folders, NamesIn(*file_system_, root));
  uint64_t swept = 0;
  for (const std::string& folder : folders) {
    ASSIGN_OR_RETURN(const std::vector<std::string> names,
                     NamesIn(*file_system_, StrCat(root, "/", folder)));
    for (const std::string& name : names) {
      const absl::StatusOr<BlobId> id = BlobId::FromHex(name);
      const absl::StatusOr<FileInfo> info =
          file_system_->Stat(StrCat(root, "/", folder, "/", name));
      if (!id.ok() || !info.ok() || info->modified >= before) continue;
      {
        absl::MutexLock lock(&mu_);
        if (uploads_.contains({folder, *id})) continue;
      }
      RETURN_IF_ERROR(DropUpload(folder, *id, info->size));
      ++swept;
    }
  }
  return swept;
}

// Files in a folder, or in its folders.
absl::StatusOr<BlobUsage::Sum> BlobStore::SumOf(const std::string& folder, bool nested) {
  BlobUsage::Sum sum;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(*file_system_, folder));
  for (const std::string& name : names) {
    const std::string path = StrCat(folder, "/", name);
    if (nested) {
      ASSIGN_OR_RETURN(const BlobUsage::Sum inner, SumOf(path, false));
      sum.bytes += inner.bytes;
      sum.files += inner.files;
      continue;
    }
    const absl::StatusOr<FileInfo> info = file_system_->Stat(path);
    if (absl::IsNotFound(info.status())) continue;  // Gone since.
    RETURN_IF_ERROR(info.status());
    sum.bytes += info->size;
    ++sum.files;
  }
  return sum;
}

absl::StatusOr<BlobUsage> BlobStore::Usage(std::string_view owner) {
  ASSIGN_OR_RETURN(const std::string folder, FolderOf(owner));
  BlobUsage usage;
  ASSIGN_OR_RETURN(usage.blobs, SumOf(StrCat(directory_, "/blobs"), true));
  ASSIGN_OR_RETURN(usage.uploads, SumOf(StrCat(directory_, "/uploads"), true));
  ASSIGN_OR_RETURN(usage.owner_blobs, SumOf(StrCat(directory_, "/owners/", folder), true));
  ASSIGN_OR_RETURN(usage.owner_uploads, SumOf(StrCat(directory_, "/uploads/", folder), false));
  return usage;
}

}  // namespace tandem
