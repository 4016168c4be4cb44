#include "common/data/blob_store.h"

#include <algorithm>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/data/blob_sums.h"
#include "common/data/blob_upload.h"
#include "common/data/sha256.h"

namespace tandem {
namespace {

constexpr size_t kReadBytes = size_t{1} << 20;

absl::Status NoBlob(std::string_view owner, const BlobId& id) {
  return Error(absl::StatusCode::kNotFound, reason::kBlobNotFound,
               StrCat(Quoted(owner), " has no blob ", id, ": upload it first"));
}

absl::StatusOr<BlobId> HashFile(File& file, BlobSummer* sums = nullptr) {
  Sha256 hash;
  std::string buffer(kReadBytes, '\0');
  for (uint64_t offset = 0;;) {
    ASSIGN_OR_RETURN(const size_t got, file.ReadAt(offset, buffer.data(), buffer.size()));
    if (got == 0) return hash.Finish();
    hash.Update(std::string_view(buffer).substr(0, got));
    if (sums != nullptr) sums->Update(std::string_view(buffer).substr(0, got));
    offset += got;
  }
}

absl::Status Damaged(std::string_view path, const BlobId& found) {
  return Error(absl::StatusCode::kDataLoss, reason::kChecksumMismatch,
               StrCat("blob file ", path, " holds other bytes, whose SHA-256 is ", found,
                      "; remove the blob and upload it again"));
}

}  // namespace

BlobStore::BlobStore(FileSystem* file_system, std::string directory, BlobLimits limits)
    : file_system_(file_system), directory_(std::move(directory)), limits_(limits) {}

BlobStore::~BlobStore() = default;

absl::StatusOr<std::unique_ptr<BlobStore>> BlobStore::Open(FileSystem* file_system,
                                                           std::string_view directory,
                                                           BlobLimits limits) {
  std::unique_ptr<BlobStore> store(new BlobStore(file_system, std::string(directory), limits));
  for (const char* folder : {"/blobs", "/owners", "/uploads", "/sums"}) {
    RETURN_IF_ERROR(CreateDirectories(*file_system, StrCat(directory, folder)));
  }
  RETURN_IF_ERROR(store->Recover());
  return store;
}

absl::Status BlobStore::Recover() {
  ASSIGN_OR_RETURN(const std::vector<std::string> owners,
                   file_system_->List(StrCat(directory_, "/owners")));
  for (const std::string& folder : owners) RETURN_IF_ERROR(RecoverOwner(folder));
  ASSIGN_OR_RETURN(const std::vector<std::string> uploaders,
                   file_system_->List(StrCat(directory_, "/uploads")));
  for (const std::string& folder : uploaders) RETURN_IF_ERROR(RecoverUploads(folder));
  RETURN_IF_ERROR(RecoverBlobs());
  return RecoverSums();
}

absl::Status BlobStore::RecoverOwner(const std::string& folder) {
  const std::string root = StrCat(directory_, "/owners/", folder);
  ASSIGN_OR_RETURN(const std::vector<std::string> prefixes, file_system_->List(root));
  uint64_t bytes = 0;
  for (const std::string& prefix : prefixes) {
    ASSIGN_OR_RETURN(const std::vector<std::string> names,
                     file_system_->List(StrCat(root, "/", prefix)));
    for (const std::string& name : names) {
      ASSIGN_OR_RETURN(const FileInfo info,
                       file_system_->Stat(StrCat(root, "/", prefix, "/", name)));
      bytes += info.size;
    }
  }
  absl::MutexLock lock(&mu_);
  owner_bytes_[folder] += bytes;
  return absl::OkStatus();
}

// Unfinished uploads that have a name are kept for going on.
absl::Status BlobStore::RecoverUploads(const std::string& folder) {
  const std::string root = StrCat(directory_, "/uploads/", folder);
  ASSIGN_OR_RETURN(const std::vector<std::string> names, file_system_->List(root));
  for (const std::string& name : names) {
    const std::string path = StrCat(root, "/", name);
    if (!BlobId::FromHex(name).ok()) {
      RETURN_IF_ERROR(file_system_->Remove(path));
      continue;
    }
    ASSIGN_OR_RETURN(const FileInfo info, file_system_->Stat(path));
    absl::MutexLock lock(&mu_);
    owner_bytes_[folder] += info.size;
    total_bytes_ += info.size;
  }
  return absl::OkStatus();
}

// Counts what is there and removes blobs that were published to nobody (a crash came between).
absl::Status BlobStore::RecoverBlobs() {
  const std::string root = StrCat(directory_, "/blobs");
  ASSIGN_OR_RETURN(const std::vector<std::string> prefixes, file_system_->List(root));
  for (const std::string& prefix : prefixes) {
    ASSIGN_OR_RETURN(const std::vector<std::string> names,
                     file_system_->List(StrCat(root, "/", prefix)));
    for (const std::string& name : names) {
      const std::string path = StrCat(root, "/", prefix, "/", name);
      ASSIGN_OR_RETURN(const FileInfo info, file_system_->Stat(path));
      if (info.links < 2) {
        RETURN_IF_ERROR(file_system_->Remove(path));
        continue;
      }
      absl::MutexLock lock(&mu_);
      total_bytes_ += info.size;
    }
  }
  return absl::OkStatus();
}

// Sums are written before their blob has its name, and removed after it.
absl::Status BlobStore::RecoverSums() {
  const std::string root = StrCat(directory_, "/sums");
  ASSIGN_OR_RETURN(const std::vector<std::string> prefixes, file_system_->List(root));
  for (const std::string& prefix : prefixes) {
    ASSIGN_OR_RETURN(const std::vector<std::string> names,
                     file_system_->List(StrCat(root, "/", prefix)));
    for (const std::string& name : names) {
      const absl::Status blob =
          file_system_->Stat(StrCat(directory_, "/blobs/", prefix, "/", name)).status();
      if (!absl::IsNotFound(blob)) continue;
      RETURN_IF_ERROR(file_system_->Remove(StrCat(root, "/", prefix, "/", name)));
    }
  }
  return absl::OkStatus();
}

// The owner's name as a file name: what is not plain is written %XX, so no two names collide and
// none leads elsewhere.
absl::StatusOr<std::string> BlobStore::FolderOf(std::string_view owner) const {
  if (owner.empty() || owner.size() > limits_.owner_name_bytes_max) {
    return InvalidError(reason::kBadArgument,
                        StrCat("an owner's name has 1 to ", limits_.owner_name_bytes_max,
                               " bytes, not ", owner.size()));
  }
  std::string folder;
  for (const char c : owner) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_';
    if (plain) {
      folder += c;
    } else {
      StrAppend(&folder, "%", ToHex(&c, 1));
    }
  }
  return folder;
}

std::string BlobStore::BlobPath(const BlobId& id) const {
  const std::string hex = id.ToHex();
  return StrCat(directory_, "/blobs/", hex.substr(0, 2), "/", hex);
}

std::string BlobStore::SumsPath(const BlobId& id) const {
  const std::string hex = id.ToHex();
  return StrCat(directory_, "/sums/", hex.substr(0, 2), "/", hex);
}

std::string BlobStore::OwnedPath(std::string_view folder, const BlobId& id) const {
  const std::string hex = id.ToHex();
  return StrCat(directory_, "/owners/", folder, "/", hex.substr(0, 2), "/", hex);
}

absl::StatusOr<std::string> BlobStore::FindOwned(std::string_view owner, const BlobId& id,
                                                 FileInfo* info) const {
  ASSIGN_OR_RETURN(const std::string folder, FolderOf(owner));
  std::string path = OwnedPath(folder, id);
  absl::StatusOr<FileInfo> found = file_system_->Stat(path);
  if (absl::IsNotFound(found.status())) return NoBlob(owner, id);
  ASSIGN_OR_RETURN(*info, std::move(found));
  return path;
}

absl::StatusOr<BlobInfo> BlobStore::Stat(std::string_view owner, const BlobId& id) {
  FileInfo info;
  RETURN_IF_ERROR(FindOwned(owner, id, &info).status());
  return BlobInfo{id, info.size, info.modified};
}

absl::StatusOr<std::string> BlobStore::PathOf(std::string_view owner, const BlobId& id) {
  FileInfo info;
  return FindOwned(owner, id, &info);
}

absl::StatusOr<std::unique_ptr<File>> BlobStore::OpenForReading(std::string_view owner,
                                                                const BlobId& id) {
  FileInfo info;
  ASSIGN_OR_RETURN(const std::string path, FindOwned(owner, id, &info));
  absl::StatusOr<std::unique_ptr<File>> file = file_system_->Open(path, FileSystem::Mode::kRead);
  if (absl::IsNotFound(file.status())) return NoBlob(owner, id);  // Removed since.
  return file;
}

absl::StatusOr<std::string> BlobStore::Read(std::string_view owner, const BlobId& id,
                                            uint64_t offset, uint64_t length) {
  ASSIGN_OR_RETURN(const std::unique_ptr<File> file, OpenForReading(owner, id));
  ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  if (offset > size || length > size - offset) {
    return Error(absl::StatusCode::kOutOfRange, reason::kTruncated,
                 StrCat("bytes [", offset, ",", offset, "+", length, ") of blob ", id,
                        " are beyond its end at ", size));
  }
  return ReadFully(*file, offset, length);
}

std::optional<std::vector<uint64_t>> BlobStore::LoadSums(const BlobId& id, uint64_t bytes) {
  const absl::StatusOr<std::unique_ptr<File>> file =
      file_system_->Open(SumsPath(id), FileSystem::Mode::kRead);
  if (!file.ok()) return std::nullopt;
  const absl::StatusOr<uint64_t> size = (*file)->Size();
  if (!size.ok() || *size > BlobBlocks(bytes) * sizeof(uint64_t) + kReadBytes) return std::nullopt;
  const absl::StatusOr<std::string> text = ReadFully(**file, 0, static_cast<size_t>(*size));
  return text.ok() ? DecodeBlobSums(bytes, *text) : std::nullopt;
}

// Not synced, and no matter if it fails: what is missing or torn is made again from the blob.
void BlobStore::KeepSums(const BlobId& id, uint64_t bytes, const std::vector<uint64_t>& sums) {
  const std::string path = SumsPath(id);
  if (!CreateDirectories(*file_system_, ParentOf(path)).ok()) return;
  const absl::StatusOr<std::unique_ptr<File>> file =
      file_system_->Open(path, FileSystem::Mode::kOpenAlways);
  if (!file.ok()) return;
  const std::string text = EncodeBlobSums(bytes, sums);
  if (WriteFully(**file, 0, text).ok()) (*file)->Truncate(text.size()).IgnoreError();
}

absl::StatusOr<std::vector<uint64_t>> BlobStore::Sums(std::string_view owner, const BlobId& id) {
  ASSIGN_OR_RETURN(const BlobInfo info, Stat(owner, id));
  if (std::optional<std::vector<uint64_t>> kept = LoadSums(id, info.size)) return *std::move(kept);
  ASSIGN_OR_RETURN(const std::unique_ptr<File> file, OpenForReading(owner, id));
  BlobSummer summer;
  ASSIGN_OR_RETURN(const BlobId found, HashFile(*file, &summer));
  if (found != id) return Damaged(BlobPath(id), found);
  std::vector<uint64_t> sums = summer.Finish();
  KeepSums(id, info.size, sums);
  return sums;
}

absl::Status BlobStore::Remove(std::string_view owner, const BlobId& id) {
  ASSIGN_OR_RETURN(const std::string folder, FolderOf(owner));
  const std::string owned = OwnedPath(folder, id);
  const std::string blob = BlobPath(id);
  {
    absl::MutexLock lock(&mu_);
    const absl::StatusOr<FileInfo> info = file_system_->Stat(owned);
    if (absl::IsNotFound(info.status())) return NoBlob(owner, id);
    RETURN_IF_ERROR(info.status());
    RETURN_IF_ERROR(file_system_->Remove(owned));
    owner_bytes_[folder] -= info->size;
    // Two names are left when nobody else had it: the one just removed is counted.
    if (info->links <= 2) {
      RETURN_IF_ERROR(file_system_->Remove(blob));
      total_bytes_ -= info->size;
      file_system_->Remove(SumsPath(id)).IgnoreError();
    }
  }
  RETURN_IF_ERROR(file_system_->SyncDirectory(ParentOf(owned)));
  return file_system_->SyncDirectory(ParentOf(blob));
}

absl::StatusOr<BlobPage> BlobStore::List(std::string_view owner, const BlobId& first,
                                         size_t page_size) {
  ASSIGN_OR_RETURN(const std::string folder, FolderOf(owner));
  const size_t limit =
      page_size == 0 ? limits_.page_rows_max : std::min(page_size, limits_.page_rows_max);
  const std::string root = StrCat(directory_, "/owners/", folder);
  const std::string from = first.ToHex();
  BlobPage page;
  const absl::StatusOr<std::vector<std::string>> prefixes = file_system_->List(root);
  if (absl::IsNotFound(prefixes.status())) return page;
  RETURN_IF_ERROR(prefixes.status());
  for (const std::string& prefix : *prefixes) {
    if (prefix < from.substr(0, 2)) continue;
    ASSIGN_OR_RETURN(const std::vector<std::string> names,
                     file_system_->List(StrCat(root, "/", prefix)));
    for (auto it = std::lower_bound(names.begin(), names.end(), from); it != names.end(); ++it) {
      ASSIGN_OR_RETURN(const BlobId id, BlobId::FromHex(*it));
      if (page.blobs.size() == limit) {
        page.next = id;
        return page;
      }
      const absl::StatusOr<FileInfo> info = file_system_->Stat(OwnedPath(folder, id));
      if (absl::IsNotFound(info.status())) continue;  // Removed since.
      RETURN_IF_ERROR(info.status());
      page.blobs.push_back({id, info->size, info->modified});
    }
  }
  return page;
}

absl::Status BlobStore::Verify(std::string_view owner, const BlobId& id) {
  ASSIGN_OR_RETURN(const std::string path, PathOf(owner, id));
  return VerifyFile(path, id);
}

absl::Status BlobStore::VerifyFile(const std::string& path, const BlobId& id) {
  ASSIGN_OR_RETURN(const std::unique_ptr<File> file,
                   file_system_->Open(path, FileSystem::Mode::kRead));
  ASSIGN_OR_RETURN(const BlobId found, HashFile(*file));
  return found == id ? absl::OkStatus() : Damaged(path, found);
}

absl::StatusOr<std::vector<std::string>> BlobStore::VerifyAll() {
  std::vector<std::string> problems;
  const std::string root = StrCat(directory_, "/blobs");
  ASSIGN_OR_RETURN(const std::vector<std::string> prefixes, file_system_->List(root));
  for (const std::string& prefix : prefixes) {
    ASSIGN_OR_RETURN(const std::vector<std::string> names,
                     file_system_->List(StrCat(root, "/", prefix)));
    for (const std::string& name : names) {
      const std::string path = StrCat(root, "/", prefix, "/", name);
      const absl::StatusOr<BlobId> id = BlobId::FromHex(name);
      if (!id.ok()) {
        problems.push_back(StrCat(path, " is not named by a SHA-256"));
        continue;
      }
      const absl::Status status = VerifyFile(path, *id);
      if (!status.ok() && !absl::IsNotFound(status)) problems.emplace_back(ToStd(status.message()));
    }
  }
  return problems;
}

uint64_t BlobStore::OwnerBytes(std::string_view owner) const {
  const absl::StatusOr<std::string> folder = FolderOf(owner);
  if (!folder.ok()) return 0;
  absl::MutexLock lock(&mu_);
  const auto it = owner_bytes_.find(*folder);
  return it == owner_bytes_.end() ? 0 : it->second;
}

uint64_t BlobStore::TotalBytes() const {
  absl::MutexLock lock(&mu_);
  return total_bytes_;
}

absl::Status BlobStore::CheckQuota(const std::string& folder, uint64_t bytes) const {
  const auto it = owner_bytes_.find(folder);
  const uint64_t owned = it == owner_bytes_.end() ? 0 : it->second;
  const auto refuse = [bytes](std::string_view whose, uint64_t used, uint64_t limit) {
    return Error(absl::StatusCode::kResourceExhausted, reason::kQuotaExceeded,
                 StrCat(whose, " blobs hold ", HumanSize(used), " of ", HumanSize(limit), "; ",
                        HumanSize(bytes), " more do not fit: remove blobs or raise the limit"));
  };
  const auto over = [bytes](uint64_t used, uint64_t limit) {
    return limit != 0 && (used > limit || bytes > limit - used);
  };
  if (over(owned, limits_.owner_bytes_max)) {
    return refuse("this owner's", owned, limits_.owner_bytes_max);
  }
  if (over(total_bytes_, limits_.total_bytes_max)) {
    return refuse("all", total_bytes_, limits_.total_bytes_max);
  }
  return absl::OkStatus();
}

absl::Status BlobStore::Reserve(const std::string& folder, uint64_t bytes) {
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(CheckQuota(folder, bytes));
  owner_bytes_[folder] += bytes;
  total_bytes_ += bytes;
  return absl::OkStatus();
}

void BlobStore::Unreserve(const std::string& folder, uint64_t bytes) {
  absl::MutexLock lock(&mu_);
  owner_bytes_[folder] -= bytes;
  total_bytes_ -= bytes;
}

}  // namespace tandem
