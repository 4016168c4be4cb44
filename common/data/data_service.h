// DataService: the master's gRPC service (tandem.v1.Data) of blobs, segments and outputs.
//
//   DataService data({.blobs = &blobs, .segments = &segments, .pool = &pool, …});
//   rpc::Server::Start(options, {&data, …});
//
// Every call is made for the owner in its metadata and sees only what is this owner's. Files are
// read and written on the IoPool, bulk bytes pass as raw slices. What a part is missing (null) for
// answers UNIMPLEMENTED.
//
// Thread-safety: safe from any thread. Ownership: what the options point to outlives the service,
// and the service outlives the server that it is registered with.
#ifndef TANDEM_COMMON_DATA_DATA_SERVICE_H_
#define TANDEM_COMMON_DATA_DATA_SERVICE_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/data/blob_store.h"
#include "common/data/byte_source.h"
#include "common/data/chunk_buffers.h"
#include "common/data/chunk_stream.h"
#include "common/data/io_pool.h"
#include "common/data/push_regions.h"
#include "common/data/segment_store.h"
#include "common/model/ids.h"
#include "tandem/v1/data.grpc.pb.h"

namespace tandem {

// Outputs of jobs: the master's part of the service. Called on the IoPool.
class OutputSource {
 public:
  virtual ~OutputSource() = default;
  virtual absl::StatusOr<std::unique_ptr<ByteSource>> OpenOutput(
      std::string_view owner, const v1::ReadOutputRequest& request) = 0;
  // Calls `then` when the job has ended, on any thread; at once for one that has, or that there is
  // not. Returns what gives up waiting, if anything is left to give up. Called on gRPC's threads.
  virtual ChunkStream::Withdraw WhenEnded(std::string_view owner, uint64_t job,
                                          std::function<void()> then) = 0;
  virtual absl::Status ListOutput(std::string_view owner, const v1::ListOutputRequest& request,
                                  v1::ListOutputResponse* response) = 0;
};

// What the master knows of its data beyond the stores: who uses a blob, and what all of it weighs.
// Called on the IoPool.
class DataBooks {
 public:
  static constexpr size_t kJobsListed = 16;

  virtual ~DataBooks() = default;
  struct Uses {
    std::vector<JobId> jobs;  // Newest first, at most kJobsListed.
    uint64_t count = 0;
    bool live = false;  // One of them has not ended.
  };
  virtual Uses UsesOf(std::string_view owner, const BlobId& blob) const = 0;
  // Calls `remove` while nobody can come to use the blob. Errors: FAILED_PRECONDITION BLOB_IN_USE;
  // those of `remove`.
  virtual absl::Status RemoveUnused(std::string_view owner, const BlobId& blob,
                                    absl::FunctionRef<absl::Status()> remove) = 0;
  virtual absl::Status DiskUsage(std::string_view owner, v1::DiskUsage* to) = 0;
};

struct DataServiceOptions {
  BlobStore* blobs = nullptr;
  SegmentStore* segments = nullptr;
  OutputSource* outputs = nullptr;
  DataBooks* books = nullptr;  // Without it blobs are neither listed nor deleted here.
  IoPool* pool = nullptr;      // Required.
  // Where syncs wait for the disk, so that nothing else waits with them; null: on `pool`.
  IoPool* sync_pool = nullptr;
  // A segment could not be made durable. Called from `sync_pool`.
  std::function<void(const absl::Status&)> on_sync_failed;
  // Where readers on this host may be told the paths of blobs: HostId(); else "".
  std::string local_host_id;
  // Where workers on this host hand memory over; null: nowhere.
  HandoverDesk* desk = nullptr;
  PushRegionsCall::Limits push_limits;
};

using DataServiceBase = v1::Data::WithCallbackMethod_StatBlobs<
    v1::Data::WithCallbackMethod_ListOutput<v1::Data::WithCallbackMethod_LocateBlob<
        v1::Data::WithCallbackMethod_GetBlobSums<v1::Data::WithCallbackMethod_ListBlobs<
            v1::Data::WithCallbackMethod_DeleteBlob<v1::Data::WithCallbackMethod_GetDiskUsage<
                v1::Data::WithRawCallbackMethod_PutBlob<v1::Data::WithRawCallbackMethod_ReadBlob<
                    v1::Data::WithRawCallbackMethod_ReadOutput<
                        v1::Data::WithRawCallbackMethod_ReadRegion<
                            v1::Data::WithRawCallbackMethod_PushRegions<
                                v1::Data::Service>>>>>>>>>>>>;

class DataService final : public DataServiceBase {
 public:
  explicit DataService(DataServiceOptions options);

  grpc::ServerUnaryReactor* StatBlobs(grpc::CallbackServerContext* context,
                                      const v1::StatBlobsRequest* request,
                                      v1::StatBlobsResponse* response) override;
  grpc::ServerUnaryReactor* LocateBlob(grpc::CallbackServerContext* context,
                                       const v1::LocateBlobRequest* request,
                                       v1::LocateBlobResponse* response) override;
  grpc::ServerUnaryReactor* GetBlobSums(grpc::CallbackServerContext* context,
                                        const v1::GetBlobSumsRequest* request,
                                        v1::GetBlobSumsResponse* response) override;
  grpc::ServerUnaryReactor* ListBlobs(grpc::CallbackServerContext* context,
                                      const v1::ListBlobsRequest* request,
                                      v1::ListBlobsResponse* response) override;
  grpc::ServerUnaryReactor* DeleteBlob(grpc::CallbackServerContext* context,
                                       const v1::DeleteBlobRequest* request,
                                       v1::DeleteBlobResponse* response) override;
  grpc::ServerUnaryReactor* GetDiskUsage(grpc::CallbackServerContext* context,
                                         const v1::GetDiskUsageRequest* request,
                                         v1::DiskUsage* response) override;
  grpc::ServerUnaryReactor* ListOutput(grpc::CallbackServerContext* context,
                                       const v1::ListOutputRequest* request,
                                       v1::ListOutputResponse* response) override;
  grpc::ServerReadReactor<grpc::ByteBuffer>* PutBlob(grpc::CallbackServerContext* context,
                                                     grpc::ByteBuffer* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* ReadBlob(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* ReadOutput(grpc::CallbackServerContext* context,
                                                         const grpc::ByteBuffer* request) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* ReadRegion(grpc::CallbackServerContext* context,
                                                         const grpc::ByteBuffer* request) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* PushRegions(
      grpc::CallbackServerContext* context) override;

 private:
  grpc::ServerUnaryReactor* Unary(grpc::CallbackServerContext* context,
                                  std::function<absl::Status(const std::string& owner)> answer);
  template <class Request>
  ChunkStream::Await WaitsFor(const std::string& owner, const Request& request);
  template <class Request, class Open>
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Stream(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request, Open open);
  absl::Status List(const std::string& owner, const v1::ListBlobsRequest& request,
                    v1::ListBlobsResponse* response);
  absl::Status Delete(const std::string& owner, const v1::DeleteBlobRequest& request,
                      v1::DeleteBlobResponse* response);
  absl::Status StatOne(const std::string& owner, const v1::BlobRef& ref, v1::BlobStat* stat);

  const DataServiceOptions options_;
  ChunkBuffers buffers_;
};

}  // namespace tandem

#endif  // TANDEM_COMMON_DATA_DATA_SERVICE_H_
