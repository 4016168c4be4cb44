// Client: operands on their way up.
#include <algorithm>
#include <set>
#include <utility>

#include "client/lib/client_impl.h"
#include "client/lib/hash_cache.h"
#include "common/base/status_macros.h"
#include "common/wire/job_spec.h"

namespace tandem::client {
namespace {

constexpr int kBlobsAStat = 1000;

absl::Status Left(const client::Upload& upload) {
  return Error(absl::StatusCode::kCancelled, reason::kInterrupted,
               StrCat("left the upload of ", upload.what,
                      "; give the same command again, and it goes on where this one ended"));
}

}  // namespace

absl::StatusOr<uint64_t> Client::Impl::UploadOne(const client::Upload& upload, uint64_t from,
                                                 absl::FunctionRef<void(uint64_t)> sent) {
  grpc::ClientContext context;
  Prepare(&context);
  if (!BeginStream(&context)) return Left(upload);
  v1::BlobStat stat;
  const auto writer = data->PutBlob(&context, &stat);
  v1::PutBlobRequest request;
  wire::Encode(BlobLocator{upload.id, upload.source.size()},
               request.mutable_header()->mutable_blob());
  request.mutable_header()->set_offset(from);
  uint64_t bytes = 0;
  absl::Status read = absl::OkStatus();
  if (writer->Write(request)) {
    read = upload.source.Read(from, [&](std::string_view chunk) {
      request.set_data(chunk.data(), chunk.size());
      if (!writer->Write(request)) return absl::CancelledError("the stream ended");
      bytes += chunk.size();
      sent(bytes);
      return absl::OkStatus();
    });
  }
  if (!read.ok() && !absl::IsCancelled(read)) {  // the file, not the stream
    context.TryCancel();
    (void)writer->Finish();
    EndStream(&context);
    return read;
  }
  writer->WritesDone();
  const absl::Status status = rpc::FromGrpc(writer->Finish());
  EndStream(&context);
  if (!status.ok() && stopped()) return Left(upload);
  if (!status.ok()) return WithContext(status, upload.what);
  return bytes;
}

absl::StatusOr<std::vector<Client::Impl::Missing>> Client::Impl::FindMissing(
    const std::vector<client::Upload>& uploads) {
  // The same bytes may be given twice; they are sent once.
  std::vector<const client::Upload*> wanted;
  std::set<BlobId> seen;
  for (const client::Upload& upload : uploads) {
    if (seen.insert(upload.id).second) wanted.push_back(&upload);
  }
  std::vector<Missing> missing;
  for (size_t at = 0; at < wanted.size(); at += kBlobsAStat) {
    v1::StatBlobsRequest request;
    v1::StatBlobsResponse response;
    const size_t end = std::min(wanted.size(), at + kBlobsAStat);
    for (size_t i = at; i < end; ++i) {
      wire::Encode(BlobLocator{wanted[i]->id, wanted[i]->source.size()}, request.add_blobs());
    }
    RETURN_IF_ERROR(Call(lists.get(), &v1::Data::Stub::StatBlobs, request, &response));
    for (size_t i = at; i < end && i - at < static_cast<size_t>(response.blobs_size()); ++i) {
      const v1::BlobStat& stat = response.blobs(static_cast<int>(i - at));
      if (stat.present()) continue;
      missing.push_back({wanted[i], std::min(stat.uploaded(), wanted[i]->source.size())});
    }
  }
  return missing;
}

absl::StatusOr<uint64_t> Client::Impl::UploadWhole(const client::Upload& upload, uint64_t from,
                                                   absl::FunctionRef<void(uint64_t)> sent) {
  uint64_t bytes = 0;
  absl::Time give_up = absl::Now() + options_.patience;
  for (absl::Duration backoff = kBackoffFirst;; backoff = std::min(backoff * 2, kBackoffMax)) {
    uint64_t now = 0;
    const absl::StatusOr<uint64_t> done = UploadOne(upload, from, [&](uint64_t so_far) {
      now = so_far;
      sent(bytes + so_far);
    });
    if (done.ok()) return bytes + *done;
    const absl::Status& failed = done.status();
    if (ReasonOf(failed) == reason::kChecksumMismatch) HashCache::OfUser()->Forget(upload.id);
    if (!absl::IsUnavailable(failed) && !absl::IsAborted(failed)) return failed;
    bytes += now;
    ASSIGN_OR_RETURN(const std::vector<Missing> missing, FindMissing({upload}));
    if (missing.empty()) return bytes;
    if (missing[0].from > from) give_up = absl::Now() + options_.patience;
    const absl::Duration left = give_up - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::IsUnavailable(failed) ? Unavailable(failed) : failed;
    }
    from = missing[0].from;
    if (!Pause(std::min(backoff, left))) return Left(upload);
  }
}

absl::StatusOr<uint64_t> Client::BytesToUpload(const std::vector<client::Upload>& uploads) {
  ASSIGN_OR_RETURN(const auto missing, impl_->FindMissing(uploads));
  uint64_t bytes = 0;
  for (const auto& [upload, from] : missing) bytes += upload->source.size() - from;
  return bytes;
}

absl::StatusOr<uint64_t> Client::Upload(const std::vector<client::Upload>& uploads,
                                        UploadProgress progress) {
  ASSIGN_OR_RETURN(const auto missing, impl_->FindMissing(uploads));
  uint64_t total = 0, sent = 0;
  for (const auto& [upload, from] : missing) total += upload->source.size() - from;
  for (const auto& [upload, from] : missing) {
    const uint64_t before = sent;
    ASSIGN_OR_RETURN(const uint64_t bytes, impl_->UploadWhole(*upload, from, [&](uint64_t done) {
      progress(std::min(total, before + done), total);
    }));
    sent = before + bytes;
  }
  return sent;
}

}  // namespace tandem::client
