#include "common/data/data_client.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/data/blob_sums.h"
#include "common/data/xxh3.h"
#include "common/rpc/bulk.h"
#include "common/rpc/channel.h"
#include "common/rpc/owner.h"
#include "common/rpc/status.h"
#include "common/wire/job_spec.h"
#include "common/wire/lease_messages.h"
#include "grpcpp/support/sync_stream.h"

namespace tandem {
namespace {

constexpr int kPutTurnsMax = 5;
constexpr char kReadBlob[] = "/tandem.v1.Data/ReadBlob";
constexpr char kReadRegion[] = "/tandem.v1.Data/ReadRegion";
constexpr char kReadOutput[] = "/tandem.v1.Data/ReadOutput";
constexpr char kPutBlob[] = "/tandem.v1.Data/PutBlob";

grpc::internal::RpcMethod Method(const char* name, grpc::internal::RpcMethod::RpcType type) {
  return grpc::internal::RpcMethod(name, type);
}

// Copies a stream into a buffer that it must fill exactly.
class Filler {
 public:
  explicit Filler(absl::Span<char> buffer) : buffer_(buffer) {}
  absl::Status Take(std::string_view bytes) {
    if (bytes.size() > buffer_.size() - filled_) {
      return Error(absl::StatusCode::kDataLoss, reason::kProtocolError,
                   "the server sent more bytes than asked for");
    }
    std::memcpy(buffer_.data() + filled_, bytes.data(), bytes.size());
    filled_ += bytes.size();
    return absl::OkStatus();
  }
  absl::Status Check() const {
    if (filled_ == buffer_.size()) return absl::OkStatus();
    return Error(absl::StatusCode::kDataLoss, reason::kTruncated,
                 StrCat("the server sent ", filled_, " bytes instead of ", buffer_.size()));
  }

 private:
  const absl::Span<char> buffer_;
  size_t filled_ = 0;
};

absl::Status SinkMessage(const grpc::ByteBuffer& buffer, DataClient::Sink sink) {
  rpc::BulkMessage message;
  RETURN_IF_ERROR(rpc::ParseBulk(buffer, &message));
  for (const std::string_view piece : message.data) RETURN_IF_ERROR(sink(piece));
  return absl::OkStatus();
}

}  // namespace

DataClient::DataClient(std::shared_ptr<grpc::Channel> channel, std::string owner)
    : channel_(std::move(channel)),
      owner_(std::move(owner)),
      stub_(v1::Data::NewStub(channel_)),
      buffers_(rpc::kChunkBytesMax) {}

absl::StatusOr<std::vector<BlobPresence>> DataClient::StatBlobs(
    absl::Span<const BlobLocator> blobs) {
  std::vector<BlobPresence> found;
  found.reserve(blobs.size());
  while (!blobs.empty()) {
    const size_t count = std::min<size_t>(blobs.size(), rpc::kStatBlobsMax);
    v1::StatBlobsRequest request;
    v1::StatBlobsResponse response;
    for (const BlobLocator& blob : blobs.subspan(0, count)) {
      wire::Encode(blob, request.add_blobs());
    }
    grpc::ClientContext context;
    rpc::SetOwner(&context, owner_);
    RETURN_IF_ERROR(rpc::FromGrpc(stub_->StatBlobs(&context, request, &response)));
    if (response.blobs_size() != request.blobs_size()) {
      return Error(absl::StatusCode::kInternal, reason::kProtocolError,
                   "StatBlobs answered for another number of blobs");
    }
    for (const v1::BlobStat& stat : response.blobs()) {
      found.push_back({stat.present(), stat.uploaded()});
    }
    blobs.remove_prefix(count);
  }
  return found;
}

absl::StatusOr<uint64_t> DataClient::PutBlob(const BlobLocator& blob, Reader read,
                                             Progress progress) {
  for (int turn = 1;; ++turn) {
    ASSIGN_OR_RETURN(const std::vector<BlobPresence> found,
                     StatBlobs(absl::MakeConstSpan(&blob, 1)));
    if (found.front().present) return 0;
    absl::StatusOr<uint64_t> sent =
        PutFrom(blob, std::min(found.front().uploaded, blob.size), read, progress);
    // Another upload of the same bytes took over, perhaps our own broken one: go on after it.
    if (!absl::IsAborted(sent.status()) || turn == kPutTurnsMax) return sent;
  }
}

absl::StatusOr<uint64_t> DataClient::PutBlob(const BlobLocator& blob, std::string_view bytes) {
  CHECK_EQ(bytes.size(), blob.size);
  return PutBlob(
      blob,
      [bytes](uint64_t offset, absl::Span<char> buffer) {
        std::memcpy(buffer.data(), bytes.data() + offset, buffer.size());
        return absl::OkStatus();
      },
      [](uint64_t) {});
}

absl::StatusOr<uint64_t> DataClient::PutFrom(const BlobLocator& blob, uint64_t offset, Reader read,
                                             Progress progress) {
  grpc::ClientContext context;
  rpc::SetOwner(&context, owner_);
  grpc::ByteBuffer response;
  const std::unique_ptr<grpc::ClientWriter<grpc::ByteBuffer>> writer(
      grpc::internal::ClientWriterFactory<grpc::ByteBuffer>::Create(
          channel_.get(), Method(kPutBlob, grpc::internal::RpcMethod::CLIENT_STREAMING), &context,
          &response));
  v1::PutBlobRequest header;
  wire::Encode(blob, header.mutable_header()->mutable_blob());
  header.mutable_header()->set_offset(offset);
  bool open = writer->Write(rpc::FrameMessage(header));
  uint64_t sent = 0;
  while (open && offset + sent < blob.size) {
    const auto size =
        static_cast<size_t>(std::min<uint64_t>(buffers_.bytes(), blob.size - offset - sent));
    ChunkBuffers::Buffer buffer = buffers_.Take();
    if (absl::Status status = read(offset + sent, absl::MakeSpan(buffer.data(), size));
        !status.ok()) {
      context.TryCancel();
      (void)writer->Finish();
      return status;
    }
    const grpc::Slice slice = std::move(buffer).ToSlice(size);
    open = writer->Write(rpc::FrameBulk("", absl::MakeConstSpan(&slice, 1)));
    if (open) progress(sent += size);
  }
  writer->WritesDone();
  RETURN_IF_ERROR(rpc::FromGrpc(writer->Finish()));
  return sent;
}

absl::Status DataClient::ReadStream(const char* method,
                                    const google::protobuf::MessageLite& request, Sink sink) {
  grpc::ClientContext context;
  rpc::SetOwner(&context, owner_);
  const grpc::ByteBuffer framed = rpc::FrameMessage(request);
  const std::unique_ptr<grpc::ClientReader<grpc::ByteBuffer>> reader(
      grpc::internal::ClientReaderFactory<grpc::ByteBuffer>::Create(
          channel_.get(), Method(method, grpc::internal::RpcMethod::SERVER_STREAMING), &context,
          framed));
  grpc::ByteBuffer buffer;
  while (reader->Read(&buffer)) {
    if (absl::Status status = SinkMessage(buffer, sink); !status.ok()) {
      context.TryCancel();
      (void)reader->Finish();
      return status;
    }
    buffer.Clear();
  }
  return rpc::FromGrpc(reader->Finish());
}

absl::Status DataClient::ReadBlob(const BlobLocator& blob, uint64_t offset, uint64_t length,
                                  Sink sink) {
  v1::ReadBlobRequest request;
  wire::Encode(blob, request.mutable_blob());
  request.set_offset(offset);
  request.set_length(length);
  return ReadStream(kReadBlob, request, sink);
}

absl::Status DataClient::ReadBlobInto(const BlobLocator& blob, uint64_t offset,
                                      absl::Span<char> buffer) {
  if (buffer.empty()) return absl::OkStatus();
  Filler filler(buffer);
  RETURN_IF_ERROR(ReadBlob(blob, offset, buffer.size(),
                           [&filler](std::string_view bytes) { return filler.Take(bytes); }));
  return filler.Check();
}

absl::StatusOr<std::string> DataClient::LocateBlob(const BlobLocator& blob,
                                                   const std::string& host_id) {
  v1::LocateBlobRequest request;
  v1::LocateBlobResponse response;
  wire::Encode(blob, request.mutable_blob());
  request.set_host_id(host_id);
  grpc::ClientContext context;
  rpc::SetOwner(&context, owner_);
  RETURN_IF_ERROR(rpc::FromGrpc(stub_->LocateBlob(&context, request, &response)));
  return response.path();
}

absl::StatusOr<std::vector<uint64_t>> DataClient::BlobSums(const BlobLocator& blob) {
  std::vector<uint64_t> sums;
  while (sums.size() < BlobBlocks(blob.size)) {
    v1::GetBlobSumsRequest request;
    v1::GetBlobSumsResponse response;
    wire::Encode(blob, request.mutable_blob());
    request.set_first_block(sums.size());
    grpc::ClientContext context;
    rpc::SetOwner(&context, owner_);
    RETURN_IF_ERROR(rpc::FromGrpc(stub_->GetBlobSums(&context, request, &response)));
    if (response.xxh3().empty() || response.xxh3_size() + sums.size() > BlobBlocks(blob.size)) {
      return Error(
          absl::StatusCode::kDataLoss, reason::kProtocolError,
          StrCat("the server knows ", sums.size() + response.xxh3_size(), " checksums of blob ",
                 blob.id, ", which has ", BlobBlocks(blob.size), " blocks"));
    }
    sums.insert(sums.end(), response.xxh3().begin(), response.xxh3().end());
  }
  return sums;
}

absl::Status DataClient::ReadRegion(const Region& region, Sink sink) {
  v1::ReadRegionRequest request;
  wire::Encode(region, request.mutable_region());
  Xxh3Stream hash;
  RETURN_IF_ERROR(ReadStream(kReadRegion, request, [&](std::string_view bytes) {
    hash.Update(bytes);
    return sink(bytes);
  }));
  if (hash.Digest() != region.xxh3) {
    return Error(absl::StatusCode::kDataLoss, reason::kChecksumMismatch,
                 StrCat("the bytes of segment ", region.segment, " arrived changed"));
  }
  return absl::OkStatus();
}

absl::Status DataClient::ReadRegionInto(const Region& region, absl::Span<char> buffer) {
  CHECK_EQ(buffer.size(), region.length);
  Filler filler(buffer);
  RETURN_IF_ERROR(
      ReadRegion(region, [&filler](std::string_view bytes) { return filler.Take(bytes); }));
  return filler.Check();
}

absl::Status DataClient::ReadOutput(const v1::ReadOutputRequest& request, Sink sink) {
  return ReadStream(kReadOutput, request, sink);
}

absl::StatusOr<v1::ListOutputResponse> DataClient::ListOutput(
    const v1::ListOutputRequest& request) {
  v1::ListOutputResponse response;
  grpc::ClientContext context;
  rpc::SetOwner(&context, owner_);
  RETURN_IF_ERROR(rpc::FromGrpc(stub_->ListOutput(&context, request, &response)));
  return response;
}

}  // namespace tandem
