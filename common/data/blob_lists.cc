// DataService: an owner's blobs as a list, their deletion, and what is on the disk.
#include <algorithm>
#include <string>
#include <utility>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/data/data_service.h"
#include "common/model/locator.h"
#include "common/wire/job_spec.h"

namespace tandem {
namespace {

constexpr uint32_t kPageMax = 1000;
// A page token: what kind comes next, and the first id of it.
constexpr char kBlobs = 'b';
constexpr char kUploads = 'u';

absl::Status NotServed() {
  return Error(absl::StatusCode::kUnimplemented, reason::kNotYetHonoured,
               "this server keeps no blobs: ask the master");
}

struct Place {
  char kind = kBlobs;
  BlobId first;
};

absl::StatusOr<Place> ParsePlace(const std::string& token) {
  if (token.empty()) return Place();
  if (token[0] == kBlobs || token[0] == kUploads) {
    const absl::StatusOr<BlobId> id = BlobId::FromHex(token.substr(1));
    if (id.ok()) return Place{token[0], *id};
  }
  return WithField(InvalidError(reason::kBadPageToken,
                                "the page token is not one that this call gave out: begin again "
                                "without one"),
                   "page_token");
}

void EncodeTime(absl::Time from, google::protobuf::Timestamp* to) {
  const timespec time = absl::ToTimespec(from);
  to->set_seconds(time.tv_sec);
  to->set_nanos(static_cast<int32_t>(time.tv_nsec));
}

void AddEntry(const BlobInfo& info, bool unfinished, v1::BlobEntry* to) {
  wire::Encode(BlobLocator{info.id, info.size}, to->mutable_blob());
  if (info.created != absl::InfinitePast()) EncodeTime(info.created, to->mutable_created());
  to->set_unfinished(unfinished);
}

}  // namespace

absl::Status DataService::List(const std::string& owner, const v1::ListBlobsRequest& request,
                               v1::ListBlobsResponse* response) {
  if (request.page_size() > kPageMax) {
    return WithField(
        InvalidError(reason::kLimitExceeded,
                     StrCat("page_size is ", request.page_size(), "; at most ", kPageMax)),
        "page_size");
  }
  const size_t count = request.page_size() == 0 ? kPageMax : request.page_size();
  ASSIGN_OR_RETURN(const Place place, ParsePlace(request.page_token()));
  if (place.kind == kBlobs) {
    ASSIGN_OR_RETURN(const BlobPage page, options_.blobs->List(owner, place.first, count));
    for (const BlobInfo& info : page.blobs) {
      v1::BlobEntry* entry = response->add_blobs();
      AddEntry(info, false, entry);
      const DataBooks::Uses uses = options_.books->UsesOf(owner, info.id);
      for (const JobId job : uses.jobs) entry->add_jobs(job.value());
      entry->set_job_count(uses.count);
      entry->set_in_use(uses.live);
    }
    if (page.next.valid()) {
      response->set_next_page_token(StrCat(kBlobs, page.next.ToHex()));
      return absl::OkStatus();
    }
  }
  ASSIGN_OR_RETURN(const std::vector<BlobInfo> uploads, options_.blobs->ListUploads(owner));
  for (const BlobInfo& info : uploads) {
    if (place.kind == kUploads && info.id < place.first) continue;
    if (static_cast<size_t>(response->blobs_size()) == count) {
      response->set_next_page_token(StrCat(kUploads, info.id.ToHex()));
      break;
    }
    AddEntry(info, true, response->add_blobs());
  }
  return absl::OkStatus();
}

absl::Status DataService::Delete(const std::string& owner, const v1::DeleteBlobRequest& request,
                                 v1::DeleteBlobResponse* response) {
  BlobLocator blob;
  RETURN_IF_ERROR(WithField(wire::Decode(request.blob(), &blob), "blob"));
  const absl::StatusOr<BlobInfo> info = options_.blobs->Stat(owner, blob.id);
  if (absl::IsNotFound(info.status())) {
    ASSIGN_OR_RETURN(const uint64_t uploaded, options_.blobs->UploadedBytes(owner, blob.id));
    // What there is to say of one that is neither is what Stat said.
    if (!options_.blobs->RemoveUpload(owner, blob.id).ok()) return info.status();
    response->set_bytes(uploaded);
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(info.status());
  response->set_bytes(info->size);
  return options_.books->RemoveUnused(owner, blob.id,
                                      [&] { return options_.blobs->Remove(owner, blob.id); });
}

grpc::ServerUnaryReactor* DataService::ListBlobs(grpc::CallbackServerContext* context,
                                                 const v1::ListBlobsRequest* request,
                                                 v1::ListBlobsResponse* response) {
  return Unary(context, [this, request, response](const std::string& owner) {
    if (options_.blobs == nullptr || options_.books == nullptr) return NotServed();
    return List(owner, *request, response);
  });
}

grpc::ServerUnaryReactor* DataService::DeleteBlob(grpc::CallbackServerContext* context,
                                                  const v1::DeleteBlobRequest* request,
                                                  v1::DeleteBlobResponse* response) {
  return Unary(context, [this, request, response](const std::string& owner) {
    if (options_.blobs == nullptr || options_.books == nullptr) return NotServed();
    return Delete(owner, *request, response);
  });
}

grpc::ServerUnaryReactor* DataService::GetDiskUsage(grpc::CallbackServerContext* context,
                                                    const v1::GetDiskUsageRequest* request,
                                                    v1::DiskUsage* response) {
  return Unary(context, [this, response](const std::string& owner) {
    if (options_.blobs == nullptr || options_.books == nullptr) return NotServed();
    return options_.books->DiskUsage(owner, response);
  });
}

}  // namespace tandem
