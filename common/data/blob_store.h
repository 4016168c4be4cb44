// BlobStore: files addressed by the SHA-256 of their bytes, each seen only by owners that put it.
//
//   ASSIGN_OR_RETURN(auto upload, store->BeginPut("ada", id, size));
//   upload->offset();                        // where to go on: 0, or where a broken upload ended
//   RETURN_IF_ERROR(upload->Append(bytes));
//   ASSIGN_OR_RETURN(BlobInfo info, upload->Finish());    // durable, and visible to ada
//
// Knowing a hash grants nothing: an owner sees a blob only after it has put all of its bytes
// itself. Equal bytes of several owners are stored once, by hard links:
//   <dir>/blobs/<2 hex>/<hex>                   the bytes
//   <dir>/owners/<owner>/<2 hex>/<hex>          the same file, one name an owner
//   <dir>/uploads/<owner>/<hex>                 an unfinished upload, kept for going on
//   <dir>/sums/<2 hex>/<hex>                    the checksums of its MiB blocks (blob_sums.h)
// A blob is only ever renamed into place whole, checked and synced.
//
// Errors: NOT_FOUND (BLOB_NOT_FOUND) for a blob that is not there or not this owner's;
// OUT_OF_RANGE; INVALID_ARGUMENT (CHECKSUM_MISMATCH) for an upload whose bytes have another hash:
// its bytes are dropped; RESOURCE_EXHAUSTED (QUOTA_EXCEEDED, DISK_FULL); ABORTED for an upload that
// another one of the same owner and blob has taken over; DATA_LOSS (CHECKSUM_MISMATCH) from Verify.
//
// Failpoints: blob.before_publish, blob.after_publish.
// Thread-safety: BlobStore is safe from any thread. A BlobUpload belongs to one thread.
// Ownership: the store outlives its uploads and the file system outlives the store. One process a
// directory.
#ifndef TANDEM_COMMON_DATA_BLOB_STORE_H_
#define TANDEM_COMMON_DATA_BLOB_STORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/data/file_system.h"
#include "common/model/ids.h"

namespace tandem {

struct BlobLimits {
  uint64_t blob_bytes_max = uint64_t{1} << 40;
  // Blobs and unfinished uploads of one owner, and of all; 0: as much as the disk holds.
  uint64_t owner_bytes_max = 0;
  uint64_t total_bytes_max = 0;
  size_t owner_name_bytes_max = 128;
  size_t page_rows_max = 1000;
};

struct BlobInfo {
  BlobId id;
  uint64_t size = 0;
  // When its last bytes were written; known in lists. Two that differ in it are equal.
  absl::Time created = absl::InfinitePast();
  friend bool operator==(const BlobInfo& a, const BlobInfo& b) {
    return a.id == b.id && a.size == b.size;
  }
};

// Bytes and files on disk.
struct BlobUsage {
  struct Sum {
    uint64_t bytes = 0;
    uint64_t files = 0;
  };
  Sum blobs, uploads;              // Of all owners; blobs that several have count once.
  Sum owner_blobs, owner_uploads;  // Of the one that was asked about.
};

struct BlobPage {
  std::vector<BlobInfo> blobs;  // In order of ids.
  BlobId next;                  // Where the next page begins; not valid(): no more.
};

class BlobUpload;

class BlobStore {
 public:
  // Makes the directory where it is not there; drops uploads that nobody can go on with.
  static absl::StatusOr<std::unique_ptr<BlobStore>> Open(FileSystem* file_system,
                                                         std::string_view directory,
                                                         BlobLimits limits);
  ~BlobStore();

  // Begins or goes on with an upload. With an id, an unfinished upload of the same owner is taken
  // over (its former writer gets ABORTED), and offset() says where to go on. Without one, the id is
  // what Finish finds, and nothing is kept when the upload breaks off. `size`, where known, is
  // checked against the limits now and against the bytes at the end.
  absl::StatusOr<std::unique_ptr<BlobUpload>> BeginPut(std::string_view owner,
                                                       std::optional<BlobId> id,
                                                       std::optional<uint64_t> size);
  // Bytes of an unfinished upload that need not be sent again; 0 when there is none.
  absl::StatusOr<uint64_t> UploadedBytes(std::string_view owner, const BlobId& id);
  // All bytes at once.
  absl::StatusOr<BlobInfo> Put(std::string_view owner, std::string_view bytes);

  absl::StatusOr<BlobInfo> Stat(std::string_view owner, const BlobId& id);
  absl::StatusOr<std::string> Read(std::string_view owner, const BlobId& id, uint64_t offset,
                                   uint64_t length);
  // For reading a blob in many steps.
  absl::StatusOr<std::unique_ptr<File>> OpenForReading(std::string_view owner, const BlobId& id);
  // A checksum of each MiB, as they were uploaded. Where none are kept, they are made from bytes
  // that still have the blob's SHA-256. Errors also: DATA_LOSS (CHECKSUM_MISMATCH).
  absl::StatusOr<std::vector<uint64_t>> Sums(std::string_view owner, const BlobId& id);
  // The file, for a reader on the same host to map.
  absl::StatusOr<std::string> PathOf(std::string_view owner, const BlobId& id);
  // This owner no longer has it; the bytes go with the last owner. Open files and mappings stay.
  absl::Status Remove(std::string_view owner, const BlobId& id);
  // Blobs of this owner with ids >= `first`. page_size 0: the limit.
  absl::StatusOr<BlobPage> List(std::string_view owner, const BlobId& first, size_t page_size);

  // Unfinished uploads of this owner: how many bytes have come, and when the last did.
  absl::StatusOr<std::vector<BlobInfo>> ListUploads(std::string_view owner);
  // Forgets an unfinished upload; whoever sends to it gets ABORTED.
  absl::Status RemoveUpload(std::string_view owner, const BlobId& id);
  // Forgets every unfinished upload that nobody sends to and whose last bytes came before `before`;
  // returns how many.
  absl::StatusOr<uint64_t> SweepUploads(absl::Time before);
  // Looks at every file.
  absl::StatusOr<BlobUsage> Usage(std::string_view owner);

  // Blobs and unfinished uploads.
  uint64_t OwnerBytes(std::string_view owner) const;
  uint64_t TotalBytes() const;

  // Reads all bytes and compares. Errors: DATA_LOSS naming the file.
  absl::Status Verify(std::string_view owner, const BlobId& id);
  // The same for every blob: what is wrong, one line each.
  absl::StatusOr<std::vector<std::string>> VerifyAll();

 private:
  friend class BlobUpload;
  struct Upload;
  using UploadHandle = std::shared_ptr<Upload>;
  using UploadKey = std::pair<std::string, BlobId>;

  BlobStore(FileSystem* file_system, std::string directory, BlobLimits limits);
  absl::Status Recover();
  absl::Status RecoverOwner(const std::string& folder);
  absl::Status RecoverUploads(const std::string& folder);
  absl::Status RecoverBlobs();
  absl::StatusOr<std::string> FolderOf(std::string_view owner) const;
  std::string OwnedPath(std::string_view folder, const BlobId& id) const;
  std::string BlobPath(const BlobId& id) const;
  std::string SumsPath(const BlobId& id) const;
  std::optional<std::vector<uint64_t>> LoadSums(const BlobId& id, uint64_t bytes);
  void KeepSums(const BlobId& id, uint64_t bytes, const std::vector<uint64_t>& sums);
  absl::Status RecoverSums();
  absl::StatusOr<std::string> FindOwned(std::string_view owner, const BlobId& id,
                                        FileInfo* info) const;
  absl::Status VerifyFile(const std::string& path, const BlobId& id);
  absl::StatusOr<UploadHandle> JoinUpload(const std::string& folder, std::optional<BlobId> id);
  absl::Status DropUpload(const std::string& folder, const BlobId& id, uint64_t bytes);
  absl::StatusOr<BlobUsage::Sum> SumOf(const std::string& folder, bool nested);
  void Leave(const UploadHandle& upload);
  void Forget(const Upload& upload);
  void Erase(const Upload& upload) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<uint64_t> StartTurn(Upload& upload, std::optional<uint64_t> size);
  absl::Status Publish(Upload& upload, const BlobId& id, uint64_t bytes);
  absl::Status Reserve(const std::string& folder, uint64_t bytes);
  absl::Status CheckQuota(const std::string& folder, uint64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Unreserve(const std::string& folder, uint64_t bytes);

  FileSystem* const file_system_;
  const std::string directory_;
  const BlobLimits limits_;

  mutable absl::Mutex mu_;
  // By the owner's folder: bytes that count against its quota.
  std::map<std::string, uint64_t, std::less<>> owner_bytes_ ABSL_GUARDED_BY(mu_);
  uint64_t total_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<UploadKey, UploadHandle> uploads_ ABSL_GUARDED_BY(mu_);
  uint64_t last_anonymous_ ABSL_GUARDED_BY(mu_) = 0;
};

class BlobUpload {
 public:
  // An unfinished upload with an id is kept for going on; one without is dropped.
  ~BlobUpload();

  // Bytes taken so far: where the next Append goes.
  uint64_t offset() const;
  // True when this owner has the blob already: nothing needs to be sent, Finish succeeds.
  bool already_there() const { return already_there_; }
  absl::Status Append(std::string_view bytes);
  // Checks, makes durable and publishes. Call it at most once.
  absl::StatusOr<BlobInfo> Finish();

 private:
  friend class BlobStore;
  BlobUpload(BlobStore* store, BlobStore::UploadHandle upload, uint64_t turn,
             std::optional<uint64_t> size, bool already_there)
      : store_(store),
        upload_(std::move(upload)),
        turn_(turn),
        size_(size),
        already_there_(already_there) {}

  BlobStore* const store_;
  const BlobStore::UploadHandle upload_;
  const uint64_t turn_;  // Whose turn it is to write: see BlobStore::Upload.
  const std::optional<uint64_t> size_;
  const bool already_there_;
};

}  // namespace tandem

#endif  // TANDEM_COMMON_DATA_BLOB_STORE_H_
