// MasterBooks: what the master's Data service asks of the rest of the master.
//
// Thread-safety: safe from any thread; DiskUsage reads directories. Ownership: the parts outlive
// it.
#ifndef TANDEM_MASTER_SERVER_MASTER_BOOKS_H_
#define TANDEM_MASTER_SERVER_MASTER_BOOKS_H_

#include <string>
#include <utility>

#include "common/data/blob_store.h"
#include "common/data/data_service.h"
#include "common/data/segment_store.h"
#include "master/server/blob_uses.h"

namespace tandem::master {

class MasterBooks final : public DataBooks {
 public:
  MasterBooks(std::string directory, BlobStore* blobs, const SegmentStore* segments, BlobUses* uses)
      : directory_(std::move(directory)), blobs_(blobs), segments_(segments), uses_(uses) {}

  Uses UsesOf(std::string_view owner, const BlobId& blob) const override {
    return uses_->UsesOf(owner, blob);
  }
  absl::Status RemoveUnused(std::string_view owner, const BlobId& blob,
                            absl::FunctionRef<absl::Status()> remove) override {
    return uses_->RemoveUnused(owner, blob, remove);
  }
  absl::Status DiskUsage(std::string_view owner, v1::DiskUsage* to) override;

 private:
  const std::string directory_;
  BlobStore* const blobs_;
  const SegmentStore* const segments_;
  BlobUses* const uses_;
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_MASTER_BOOKS_H_
