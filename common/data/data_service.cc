#include "common/data/data_service.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/base/utf8.h"
#include "common/data/chunk_stream.h"
#include "common/data/file_source.h"
#include "common/data/put_blob.h"
#include "common/model/locator.h"
#include "common/rpc/bulk.h"
#include "common/rpc/channel.h"
#include "common/rpc/owner.h"
#include "common/rpc/status.h"
#include "common/wire/decode_util.h"
#include "common/wire/job_spec.h"
#include "common/wire/lease_messages.h"

namespace tandem {
namespace {

constexpr uint64_t kSumsMax = 65'536;

// Ends a call before it has begun.
template <class Reactor>
class FailedCall final : public Reactor {
 public:
  explicit FailedCall(const absl::Status& status) { this->Finish(rpc::ToGrpc(status)); }
  void OnDone() override { delete this; }
};

absl::Status NotServed(std::string_view what) {
  return Error(absl::StatusCode::kUnimplemented, reason::kNotYetHonoured,
               StrCat("this server holds no ", what, ": ask the master"));
}

absl::StatusOr<BlobLocator> DecodeBlob(const v1::BlobRef& from) {
  BlobLocator blob;
  RETURN_IF_ERROR(WithField(wire::Decode(from, &blob), "blob"));
  return blob;
}

absl::Status CheckSize(const BlobLocator& blob, const BlobInfo& info) {
  if (blob.size == 0 || blob.size == info.size) return absl::OkStatus();
  return Error(absl::StatusCode::kNotFound, reason::kBlobNotFound,
               StrCat("blob ", blob.id, " has ", info.size, " bytes, not ", blob.size));
}

absl::StatusOr<std::unique_ptr<ByteSource>> OpenBlob(BlobStore* blobs, const std::string& owner,
                                                     const v1::ReadBlobRequest& request) {
  if (blobs == nullptr) return NotServed("blobs");
  ASSIGN_OR_RETURN(const BlobLocator blob, DecodeBlob(request.blob()));
  ASSIGN_OR_RETURN(const BlobInfo info, blobs->Stat(owner, blob.id));
  RETURN_IF_ERROR(CheckSize(blob, info));
  if (request.offset() > info.size || request.length() > info.size - request.offset()) {
    return Error(
        absl::StatusCode::kOutOfRange, reason::kBadArgument,
        StrCat("bytes [", request.offset(), ", ", request.offset(), " + ", request.length(),
               ") lie outside of blob ", blob.id, ", which has ", info.size));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<File> file, blobs->OpenForReading(owner, blob.id));
  const uint64_t length = request.length() == 0 ? info.size - request.offset() : request.length();
  return MakeFileSource(std::move(file), request.offset(), length);
}

absl::StatusOr<std::unique_ptr<ByteSource>> OpenRegion(SegmentStore* segments,
                                                       const std::string& owner,
                                                       const v1::ReadRegionRequest& request) {
  if (segments == nullptr) return NotServed("segments");
  Region region;
  RETURN_IF_ERROR(WithField(wire::Decode(request.region(), &region), "region"));
  ASSIGN_OR_RETURN(const std::string whose, segments->OwnerOf(region.segment));
  if (whose != owner) {
    return Error(absl::StatusCode::kNotFound, reason::kSegmentNotFound,
                 StrCat("there is no segment ", region.segment, " of yours"));
  }
  return MakeRegionSource(segments, region);
}

}  // namespace

DataService::DataService(DataServiceOptions options)
    : options_(std::move(options)), buffers_(rpc::kChunkBytesMax) {
  CHECK(options_.pool != nullptr);
}

grpc::ServerUnaryReactor* DataService::Unary(
    grpc::CallbackServerContext* context,
    std::function<absl::Status(const std::string& owner)> answer) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  absl::StatusOr<std::string> owner = rpc::OwnerOf(*context);
  if (!owner.ok()) {
    reactor->Finish(rpc::ToGrpc(owner.status()));
    return reactor;
  }
  options_.pool->Run([reactor, owner = *std::move(owner), answer = std::move(answer)] {
    reactor->Finish(rpc::ToGrpc(answer(owner)));
  });
  return reactor;
}

absl::Status DataService::StatOne(const std::string& owner, const v1::BlobRef& ref,
                                  v1::BlobStat* stat) {
  ASSIGN_OR_RETURN(const BlobLocator blob, DecodeBlob(ref));
  *stat->mutable_blob() = ref;
  const absl::StatusOr<BlobInfo> info = options_.blobs->Stat(owner, blob.id);
  if (info.ok() && CheckSize(blob, *info).ok()) {
    stat->set_present(true);
    stat->set_uploaded(info->size);
    return absl::OkStatus();
  }
  if (!info.ok() && !absl::IsNotFound(info.status())) return info.status();
  ASSIGN_OR_RETURN(const uint64_t uploaded, options_.blobs->UploadedBytes(owner, blob.id));
  stat->set_uploaded(uploaded);
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* DataService::StatBlobs(grpc::CallbackServerContext* context,
                                                 const v1::StatBlobsRequest* request,
                                                 v1::StatBlobsResponse* response) {
  return Unary(context, [this, request, response](const std::string& owner) -> absl::Status {
    if (options_.blobs == nullptr) return NotServed("blobs");
    if (request->blobs_size() > rpc::kStatBlobsMax) {
      return WithField(InvalidError(reason::kLimitExceeded,
                                    StrCat(request->blobs_size(), " blobs in one call; at most ",
                                           rpc::kStatBlobsMax)),
                       "blobs");
    }
    for (int i = 0; i < request->blobs_size(); ++i) {
      RETURN_IF_ERROR(WithField(StatOne(owner, request->blobs(i), response->add_blobs()),
                                wire::Indexed("blobs", i)));
    }
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* DataService::LocateBlob(grpc::CallbackServerContext* context,
                                                  const v1::LocateBlobRequest* request,
                                                  v1::LocateBlobResponse* response) {
  return Unary(context, [this, request, response](const std::string& owner) -> absl::Status {
    if (options_.blobs == nullptr) return NotServed("blobs");
    ASSIGN_OR_RETURN(const BlobLocator blob, DecodeBlob(request->blob()));
    ASSIGN_OR_RETURN(const BlobInfo info, options_.blobs->Stat(owner, blob.id));
    RETURN_IF_ERROR(CheckSize(blob, info));
    if (!options_.local_host_id.empty() && request->host_id() == options_.local_host_id) {
      ASSIGN_OR_RETURN(std::string path, options_.blobs->PathOf(owner, blob.id));
      if (IsUtf8(path)) *response->mutable_path() = std::move(path);
    }
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* DataService::GetBlobSums(grpc::CallbackServerContext* context,
                                                   const v1::GetBlobSumsRequest* request,
                                                   v1::GetBlobSumsResponse* response) {
  return Unary(context, [this, request, response](const std::string& owner) -> absl::Status {
    if (options_.blobs == nullptr) return NotServed("blobs");
    ASSIGN_OR_RETURN(const BlobLocator blob, DecodeBlob(request->blob()));
    ASSIGN_OR_RETURN(const BlobInfo info, options_.blobs->Stat(owner, blob.id));
    RETURN_IF_ERROR(CheckSize(blob, info));
    ASSIGN_OR_RETURN(const std::vector<uint64_t> sums, options_.blobs->Sums(owner, blob.id));
    const uint64_t first = request->first_block();
    if (first > sums.size()) {
      return WithField(
          Error(absl::StatusCode::kOutOfRange, reason::kBadArgument,
                StrCat("blob ", blob.id, " has ", sums.size(), " blocks of 1 MiB, not ", first)),
          "first_block");
    }
    const uint64_t end = std::min<uint64_t>(sums.size(), first + kSumsMax);
    response->mutable_xxh3()->Add(sums.begin() + static_cast<int64_t>(first),
                                  sums.begin() + static_cast<int64_t>(end));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* DataService::ListOutput(grpc::CallbackServerContext* context,
                                                  const v1::ListOutputRequest* request,
                                                  v1::ListOutputResponse* response) {
  return Unary(context, [this, request, response](const std::string& owner) -> absl::Status {
    if (options_.outputs == nullptr) return NotServed("outputs");
    return options_.outputs->ListOutput(owner, *request, response);
  });
}

// What a call waits for before it opens its source: nothing, or the end of a job.
template <class Request>
ChunkStream::Await DataService::WaitsFor(const std::string& owner, const Request& request) {
  if constexpr (std::is_same_v<Request, v1::ReadOutputRequest>) {
    if (request.when_ended() && options_.outputs != nullptr) {
      return [outputs = options_.outputs, owner, job = request.job()](std::function<void()> then) {
        return outputs->WhenEnded(owner, job, std::move(then));
      };
    }
  }
  return nullptr;
}

template <class Request, class Open>
grpc::ServerWriteReactor<grpc::ByteBuffer>* DataService::Stream(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request, Open open) {
  using Failed = FailedCall<grpc::ServerWriteReactor<grpc::ByteBuffer>>;
  absl::StatusOr<std::string> owner = rpc::OwnerOf(*context);
  if (!owner.ok()) return new Failed(owner.status());
  Request parsed;
  if (absl::Status status = rpc::ParseMessage(*request, &parsed); !status.ok()) {
    return new Failed(status);
  }
  ChunkStream::Await await = WaitsFor(*owner, parsed);
  return ChunkStream::Start(
      options_.pool, &buffers_,
      [owner = *std::move(owner), parsed = std::move(parsed), open = std::move(open)] {
        return open(owner, parsed);
      },
      await);
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* DataService::ReadBlob(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  return Stream<v1::ReadBlobRequest>(
      context, request, [this](const std::string& owner, const v1::ReadBlobRequest& parsed) {
        return OpenBlob(options_.blobs, owner, parsed);
      });
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* DataService::ReadOutput(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  return Stream<v1::ReadOutputRequest>(
      context, request,
      [this](const std::string& owner,
             const v1::ReadOutputRequest& parsed) -> absl::StatusOr<std::unique_ptr<ByteSource>> {
        if (options_.outputs == nullptr) return NotServed("outputs");
        return options_.outputs->OpenOutput(owner, parsed);
      });
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* DataService::ReadRegion(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  return Stream<v1::ReadRegionRequest>(
      context, request, [this](const std::string& owner, const v1::ReadRegionRequest& parsed) {
        return OpenRegion(options_.segments, owner, parsed);
      });
}

grpc::ServerReadReactor<grpc::ByteBuffer>* DataService::PutBlob(
    grpc::CallbackServerContext* context, grpc::ByteBuffer* response) {
  using Failed = FailedCall<grpc::ServerReadReactor<grpc::ByteBuffer>>;
  absl::StatusOr<std::string> owner = rpc::OwnerOf(*context);
  if (!owner.ok()) return new Failed(owner.status());
  if (options_.blobs == nullptr) return new Failed(NotServed("blobs"));
  return PutBlobCall::Start(options_.pool, options_.blobs, *std::move(owner), response);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* DataService::PushRegions(
    grpc::CallbackServerContext* context) {
  using Failed = FailedCall<grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>>;
  absl::StatusOr<std::string> owner = rpc::OwnerOf(*context);
  if (!owner.ok()) return new Failed(owner.status());
  if (options_.segments == nullptr) return new Failed(NotServed("segments"));
  PushRegionsCall::Parts parts;
  parts.pool = options_.pool;
  parts.sync_pool = options_.sync_pool != nullptr ? options_.sync_pool : options_.pool;
  parts.segments = options_.segments;
  parts.desk = options_.desk;
  parts.on_sync_failed = options_.on_sync_failed;
  return PushRegionsCall::Start(context, std::move(parts), *std::move(owner), options_.push_limits);
}

}  // namespace tandem
