#include "common/data/put_blob.h"

#include <algorithm>
#include <string_view>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/model/locator.h"
#include "common/rpc/status.h"
#include "common/wire/job_spec.h"
#include "tandem/v1/data.pb.h"

namespace tandem {

grpc::ServerReadReactor<grpc::ByteBuffer>* PutBlobCall::Start(IoPool* pool, BlobStore* blobs,
                                                              std::string owner,
                                                              grpc::ByteBuffer* response) {
  auto* call = new PutBlobCall(pool, blobs, std::move(owner), response);
  call->Begin();
  return call;
}

absl::Status PutBlobCall::OnBatch(std::vector<grpc::ByteBuffer> batch) {
  for (const grpc::ByteBuffer& buffer : batch) {
    rpc::BulkMessage message;
    RETURN_IF_ERROR(rpc::ParseBulk(buffer, &message));
    RETURN_IF_ERROR(TakeMessage(message));
  }
  return absl::OkStatus();
}

absl::Status PutBlobCall::TakeMessage(const rpc::BulkMessage& message) {
  if (!message.fields.empty()) RETURN_IF_ERROR(TakeHeader(message.fields));
  if (upload_ == nullptr) {
    return InvalidError(reason::kProtocolError, "an upload begins with a header");
  }
  if (upload_->already_there()) return absl::OkStatus();
  for (std::string_view piece : message.data) {
    const size_t known = static_cast<size_t>(std::min<uint64_t>(skip_, piece.size()));
    skip_ -= known;
    piece.remove_prefix(known);
    if (!piece.empty()) RETURN_IF_ERROR(upload_->Append(piece));
  }
  return absl::OkStatus();
}

absl::Status PutBlobCall::TakeHeader(const std::string& fields) {
  v1::PutBlobRequest request;
  if (!request.ParseFromString(fields) || !request.has_header()) {
    return InvalidError(reason::kProtocolError, "the upload's first message is not a header");
  }
  if (upload_ != nullptr) return InvalidError(reason::kProtocolError, "the header came twice");
  BlobLocator blob;
  RETURN_IF_ERROR(WithField(wire::Decode(request.header().blob(), &blob), "header.blob"));
  ASSIGN_OR_RETURN(upload_, blobs_->BeginPut(owner_, blob.id, blob.size));
  size_ = blob.size;
  const uint64_t expected = upload_->offset();
  if (upload_->already_there()) return absl::OkStatus();
  if (request.header().offset() > expected) {
    return WithField(
        Error(absl::StatusCode::kOutOfRange, reason::kBadArgument,
              StrCat("the upload of ", blob.id, " goes on at byte ", expected, ", not at ",
                     request.header().offset(), ": ask StatBlobs how far it has come")),
        "header.offset");
  }
  // What a broken upload had under way may have come since the caller asked.
  skip_ = expected - request.header().offset();
  return absl::OkStatus();
}

absl::Status PutBlobCall::Publish() {
  if (upload_ == nullptr) {
    return InvalidError(reason::kProtocolError, "the upload ended before its header");
  }
  // A connection that breaks ends the stream too: what has come is kept.
  if (!upload_->already_there() && upload_->offset() < size_) {
    return Error(absl::StatusCode::kAborted, reason::kTruncated,
                 StrCat("the upload broke off at byte ", upload_->offset(), " of ", size_,
                        ": go on from there"));
  }
  ASSIGN_OR_RETURN(const BlobInfo info, upload_->Finish());
  v1::BlobStat stat;
  wire::Encode(BlobLocator{info.id, info.size}, stat.mutable_blob());
  stat.set_present(true);
  stat.set_uploaded(info.size);
  *response_ = rpc::FrameMessage(stat);
  return absl::OkStatus();
}

void PutBlobCall::OnEnd(const absl::Status& status) {
  const absl::Status published = status.ok() ? Publish() : status;
  upload_.reset();
  Finish(rpc::ToGrpc(published));
}

}  // namespace tandem
