// PutBlobCall: takes one upload. First a header, then bytes; resumes where a broken upload ended.
//
// Thread-safety and ownership: as BulkIntake.
#ifndef TANDEM_COMMON_DATA_PUT_BLOB_H_
#define TANDEM_COMMON_DATA_PUT_BLOB_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/data/blob_store.h"
#include "common/data/bulk_intake.h"
#include "common/rpc/bulk.h"
#include "grpcpp/support/server_callback.h"

namespace tandem {

class PutBlobCall final : public BulkIntake<grpc::ServerReadReactor<grpc::ByteBuffer>> {
 public:
  static grpc::ServerReadReactor<grpc::ByteBuffer>* Start(IoPool* pool, BlobStore* blobs,
                                                          std::string owner,
                                                          grpc::ByteBuffer* response);
  void OnDone() override { delete this; }

 private:
  PutBlobCall(IoPool* pool, BlobStore* blobs, std::string owner, grpc::ByteBuffer* response)
      : BulkIntake(pool), blobs_(blobs), owner_(std::move(owner)), response_(response) {}

  absl::Status OnBatch(std::vector<grpc::ByteBuffer> batch) override;
  void OnEnd(const absl::Status& status) override;
  absl::Status TakeMessage(const rpc::BulkMessage& message);
  absl::Status TakeHeader(const std::string& fields);
  absl::Status Publish();

  BlobStore* const blobs_;
  const std::string owner_;
  grpc::ByteBuffer* const response_;
  std::unique_ptr<BlobUpload> upload_;
  uint64_t size_ = 0;  // Of the whole blob.
  uint64_t skip_ = 0;  // Bytes that will come and are there already.
};

}  // namespace tandem

#endif  // TANDEM_COMMON_DATA_PUT_BLOB_H_
