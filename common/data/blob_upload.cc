#include "common/data/blob_upload.h"

#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/data/blob_store.h"

namespace tandem {
namespace {

constexpr size_t kHashedAtOnce = size_t{1} << 20;

absl::Status TakenOver() {
  return Error(
      absl::StatusCode::kAborted, reason::kOverloaded,
      "another upload of the same blob has taken over: ask for its offset and go on there");
}

absl::Status TooLong(uint64_t bytes, uint64_t limit, std::string_view whose) {
  return InvalidError(reason::kTooLarge,
                      StrCat("an upload of ", bytes, " bytes is over ", whose, " ", limit));
}

}  // namespace

absl::StatusOr<std::unique_ptr<BlobUpload>> BlobStore::BeginPut(std::string_view owner,
                                                                std::optional<BlobId> id,
                                                                std::optional<uint64_t> size) {
  ASSIGN_OR_RETURN(const std::string folder, FolderOf(owner));
  if (size.value_or(0) > limits_.blob_bytes_max) {
    return TooLong(*size, limits_.blob_bytes_max, "the limit of a blob,");
  }
  if (id.has_value()) {
    const absl::StatusOr<BlobInfo> there = Stat(owner, *id);
    if (there.ok()) {
      auto upload = std::make_shared<Upload>(folder, id, "");
      absl::MutexLock lock(&upload->mu);
      upload->bytes = there->size;
      upload->done = true;
      return std::unique_ptr<BlobUpload>(
          new BlobUpload(this, upload, 0, std::nullopt, /*already_there=*/true));
    }
    if (!absl::IsNotFound(there.status())) return there.status();
  }
  ASSIGN_OR_RETURN(UploadHandle upload, JoinUpload(folder, id));
  absl::StatusOr<uint64_t> turn = StartTurn(*upload, size);
  if (!turn.ok()) {
    Leave(upload);
    return turn.status();
  }
  return std::unique_ptr<BlobUpload>(
      new BlobUpload(this, std::move(upload), *turn, size, /*already_there=*/false));
}

// The upload's shared state, one more user counted.
absl::StatusOr<BlobStore::UploadHandle> BlobStore::JoinUpload(const std::string& folder,
                                                              std::optional<BlobId> id) {
  const std::string root = StrCat(directory_, "/uploads/", folder);
  RETURN_IF_ERROR(CreateDirectories(*file_system_, root));
  absl::MutexLock lock(&mu_);
  if (!id.has_value()) {
    auto upload =
        std::make_shared<Upload>(folder, id, StrCat(root, "/anonymous-", ++last_anonymous_));
    upload->users = 1;
    return upload;
  }
  UploadHandle& upload = uploads_[{folder, *id}];
  if (upload == nullptr) {
    upload = std::make_shared<Upload>(folder, id, StrCat(root, "/", id->ToHex()));
  }
  ++upload->users;
  return upload;
}

void BlobStore::Leave(const UploadHandle& upload) {
  absl::MutexLock lock(&mu_);
  if (--upload->users == 0) Erase(*upload);
}

// The next upload of this blob begins anew, though somebody may still hold this one.
void BlobStore::Forget(const Upload& upload) {
  absl::MutexLock lock(&mu_);
  Erase(upload);
}

void BlobStore::Erase(const Upload& upload) {
  if (!upload.id.has_value()) return;
  const auto it = uploads_.find({upload.folder, *upload.id});
  if (it != uploads_.end() && it->second.get() == &upload) uploads_.erase(it);
}

// Opens the file, reads again what is there, checks the limits and takes the next turn.
absl::StatusOr<uint64_t> BlobStore::StartTurn(Upload& upload, std::optional<uint64_t> size) {
  absl::MutexLock lock(&upload.mu);
  if (upload.done) return TakenOver();
  if (upload.file == nullptr) {
    ASSIGN_OR_RETURN(upload.file, file_system_->Open(upload.path, FileSystem::Mode::kOpenAlways));
    std::string buffer(kHashedAtOnce, '\0');
    while (true) {
      ASSIGN_OR_RETURN(const size_t got,
                       upload.file->ReadAt(upload.bytes, buffer.data(), buffer.size()));
      if (got == 0) break;
      upload.hash.Update(std::string_view(buffer).substr(0, got));
      upload.sums.Update(std::string_view(buffer).substr(0, got));
      upload.bytes += got;
    }
  }
  if (size.has_value() && *size > upload.bytes) {
    absl::MutexLock store_lock(&mu_);
    RETURN_IF_ERROR(CheckQuota(upload.folder, *size - upload.bytes));
  }
  return ++upload.turn;
}

absl::StatusOr<uint64_t> BlobStore::UploadedBytes(std::string_view owner, const BlobId& id) {
  ASSIGN_OR_RETURN(const std::string folder, FolderOf(owner));
  const absl::StatusOr<FileInfo> info =
      file_system_->Stat(StrCat(directory_, "/uploads/", folder, "/", id));
  if (absl::IsNotFound(info.status())) return uint64_t{0};
  RETURN_IF_ERROR(info.status());
  return info->size;
}

absl::StatusOr<BlobInfo> BlobStore::Put(std::string_view owner, std::string_view bytes) {
  ASSIGN_OR_RETURN(const std::unique_ptr<BlobUpload> upload,
                   BeginPut(owner, std::nullopt, bytes.size()));
  RETURN_IF_ERROR(upload->Append(bytes));
  return upload->Finish();
}

// Gives the synced file its names. REQUIRES: the caller has upload.mu.
absl::Status BlobStore::Publish(Upload& upload, const BlobId& id, uint64_t bytes) {
  const std::string blob = BlobPath(id);
  const std::string owned = OwnedPath(upload.folder, id);
  RETURN_IF_ERROR(CreateDirectories(*file_system_, ParentOf(blob)));
  RETURN_IF_ERROR(CreateDirectories(*file_system_, ParentOf(owned)));
  {
    // Nobody may remove the blob between the look and the link.
    absl::MutexLock lock(&mu_);
    const bool stored = file_system_->Stat(blob).ok();
    if (!stored) RETURN_IF_ERROR(file_system_->Rename(upload.path, blob));
    const absl::Status linked = file_system_->Link(blob, owned);
    // An owner that has it already (it sent it twice at once) is not charged twice.
    const bool owned_before = absl::IsAlreadyExists(linked);
    if (!linked.ok() && !owned_before) {
      if (!stored) file_system_->Rename(blob, upload.path).IgnoreError();
      return linked;
    }
    if (stored) {
      RETURN_IF_ERROR(file_system_->Remove(upload.path));
      total_bytes_ -= bytes;
    }
    if (owned_before) owner_bytes_[upload.folder] -= bytes;
  }
  RETURN_IF_ERROR(file_system_->SyncDirectory(ParentOf(blob)));
  return file_system_->SyncDirectory(ParentOf(owned));
}

BlobUpload::~BlobUpload() {
  if (already_there_) return;
  if (!upload_->id.has_value()) {
    absl::MutexLock lock(&upload_->mu);
    if (!upload_->done) upload_->Drop(*store_);
  }
  store_->Leave(upload_);
}

void BlobStore::Upload::Drop(BlobStore& store) {
  done = true;
  file.reset();
  // What cannot be removed now goes when the store is opened again.
  store.file_system_->Remove(path).IgnoreError();
  store.Unreserve(folder, bytes);
  bytes = 0;
  store.Forget(*this);
}

uint64_t BlobUpload::offset() const {
  absl::MutexLock lock(&upload_->mu);
  return upload_->bytes;
}

absl::Status BlobUpload::Append(std::string_view bytes) {
  if (already_there_) return absl::OkStatus();
  absl::MutexLock lock(&upload_->mu);
  if (upload_->turn != turn_ || upload_->done) return TakenOver();
  const uint64_t end = upload_->bytes + bytes.size();
  if (size_.has_value() && end > *size_)
    return TooLong(end, *size_, "the size given at its start,");
  const uint64_t limit = store_->limits_.blob_bytes_max;
  if (end > limit) return TooLong(end, limit, "the limit of a blob,");
  RETURN_IF_ERROR(store_->Reserve(upload_->folder, bytes.size()));
  const absl::Status written = WriteFully(*upload_->file, upload_->bytes, bytes);
  if (!written.ok()) {
    store_->Unreserve(upload_->folder, bytes.size());
    // A part may have been written; the next upload must not take it for more than it is.
    upload_->file->Truncate(upload_->bytes).IgnoreError();
    return written;
  }
  upload_->hash.Update(bytes);
  upload_->sums.Update(bytes);
  upload_->bytes = end;
  return absl::OkStatus();
}

absl::StatusOr<BlobInfo> BlobUpload::Finish() {
  absl::MutexLock lock(&upload_->mu);
  if (already_there_) return BlobInfo{*upload_->id, upload_->bytes};
  if (upload_->turn != turn_ || upload_->done) return TakenOver();
  if (size_.has_value() && upload_->bytes != *size_) {
    return InvalidError(reason::kTruncated, StrCat("the upload ended after ", upload_->bytes,
                                                   " of ", *size_, " bytes: send the rest"));
  }
  const BlobId found = upload_->hash.Finish();
  if (upload_->id.has_value() && found != *upload_->id) {
    const absl::Status status = InvalidError(
        reason::kChecksumMismatch,
        StrCat("the ", upload_->bytes, " bytes uploaded have SHA-256 ", found, ", not ",
               *upload_->id, ": they changed on the way or in the file; upload them again"));
    upload_->Drop(*store_);
    return status;
  }
  RETURN_IF_ERROR(upload_->file->Sync());
  const BlobInfo info{found, upload_->bytes};
  store_->KeepSums(found, upload_->bytes, upload_->sums.Finish());
  RETURN_IF_ERROR(TANDEM_FAILPOINT("blob.before_publish"));
  RETURN_IF_ERROR(store_->Publish(*upload_, found, upload_->bytes));
  RETURN_IF_ERROR(TANDEM_FAILPOINT("blob.after_publish"));
  upload_->file.reset();
  upload_->done = true;
  return info;
}

}  // namespace tandem
