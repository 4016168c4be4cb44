// One upload's state, shared by BlobStore and the BlobUploads that write it in turn. Private to
// them.
//
// Thread-safety: safe from any thread, by its own mutex, which is taken before the store's.
#ifndef TANDEM_COMMON_DATA_BLOB_UPLOAD_H_
#define TANDEM_COMMON_DATA_BLOB_UPLOAD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/data/blob_store.h"
#include "common/data/blob_sums.h"
#include "common/data/file_system.h"
#include "common/data/sha256.h"
#include "common/model/ids.h"

namespace tandem {

struct BlobStore::Upload {
  Upload(std::string folder, std::optional<BlobId> id, std::string path)
      : folder(std::move(folder)), id(id), path(std::move(path)) {}

  // Forgets the bytes: nobody can go on with them.
  void Drop(BlobStore& store) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  const std::string folder;  // The owner's.
  const std::optional<BlobId> id;
  const std::string path;

  absl::Mutex mu;
  // Whose turn it is to write; grows when a BlobUpload takes over from another.
  uint64_t turn ABSL_GUARDED_BY(mu) = 0;
  std::unique_ptr<File> file ABSL_GUARDED_BY(mu);  // nullptr: not open yet, or done with.
  uint64_t bytes ABSL_GUARDED_BY(mu) = 0;
  Sha256 hash ABSL_GUARDED_BY(mu);
  BlobSummer sums ABSL_GUARDED_BY(mu);
  bool done ABSL_GUARDED_BY(mu) = false;  // Published or dropped.

  int users = 0;  // Guarded by the store's mutex.
};

}  // namespace tandem

#endif  // TANDEM_COMMON_DATA_BLOB_UPLOAD_H_
