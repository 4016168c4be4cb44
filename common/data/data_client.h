// DataClient: blobs, regions and outputs from whoever serves them (tandem.v1.Data).
//
//   DataClient data(rpc::Connect(address, rpc::Traffic::kBulk), owner);
//   RETURN_IF_ERROR(data.ReadBlobInto(blob, offset, absl::MakeSpan(buffer, length)));
//
// Calls block; bulk bytes are copied once, from gRPC's buffers into the caller's. A read that ends
// early is an error. UNAVAILABLE may be tried again: every call is idempotent, and an upload goes
// on where it broke. Pushing regions is region_pusher.h.
//
// Errors: those of the service, with reason and field.
// Thread-safety: safe from any thread. Ownership: shares the channel.
#ifndef TANDEM_COMMON_DATA_DATA_CLIENT_H_
#define TANDEM_COMMON_DATA_DATA_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/data/chunk_buffers.h"
#include "common/model/locator.h"
#include "common/model/outputs.h"
#include "grpcpp/channel.h"
#include "tandem/v1/data.grpc.pb.h"

namespace tandem {

struct BlobPresence {
  bool present = false;
  uint64_t uploaded = 0;  // Bytes that need not be sent again.
};

class DataClient {
 public:
  // Takes consecutive bytes; an error ends the call and becomes its result.
  using Sink = absl::FunctionRef<absl::Status(std::string_view bytes)>;
  // Fills the whole buffer with the bytes at `offset`.
  using Reader = absl::FunctionRef<absl::Status(uint64_t offset, absl::Span<char> buffer)>;
  using Progress = absl::FunctionRef<void(uint64_t bytes_sent)>;

  DataClient(std::shared_ptr<grpc::Channel> channel, std::string owner);

  // In the order asked; any number.
  absl::StatusOr<std::vector<BlobPresence>> StatBlobs(absl::Span<const BlobLocator> blobs);
  // Sends what the server lacks of the blob; returns how many bytes that was.
  absl::StatusOr<uint64_t> PutBlob(const BlobLocator& blob, Reader read, Progress progress);
  absl::StatusOr<uint64_t> PutBlob(const BlobLocator& blob, std::string_view bytes);

  // length 0: to the end.
  absl::Status ReadBlob(const BlobLocator& blob, uint64_t offset, uint64_t length, Sink sink);
  absl::Status ReadBlobInto(const BlobLocator& blob, uint64_t offset, absl::Span<char> buffer);
  // The path of the blob's file for a process on this host; "" when it is not offered.
  absl::StatusOr<std::string> LocateBlob(const BlobLocator& blob, const std::string& host_id);

  // XXH3-64 of each MiB of the blob, as it was uploaded.
  absl::StatusOr<std::vector<uint64_t>> BlobSums(const BlobLocator& blob);

  // The bytes are checked against the region's checksum (by the server, and again here).
  absl::Status ReadRegion(const Region& region, Sink sink);
  // REQUIRES: buffer.size() == region.length.
  absl::Status ReadRegionInto(const Region& region, absl::Span<char> buffer);

  absl::Status ReadOutput(const v1::ReadOutputRequest& request, Sink sink);
  absl::StatusOr<v1::ListOutputResponse> ListOutput(const v1::ListOutputRequest& request);

 private:
  absl::Status ReadStream(const char* method, const google::protobuf::MessageLite& request,
                          Sink sink);
  absl::StatusOr<uint64_t> PutFrom(const BlobLocator& blob, uint64_t offset, Reader read,
                                   Progress progress);

  const std::shared_ptr<grpc::Channel> channel_;
  const std::string owner_;
  const std::unique_ptr<v1::Data::Stub> stub_;
  ChunkBuffers buffers_;
};

}  // namespace tandem

#endif  // TANDEM_COMMON_DATA_DATA_CLIENT_H_
