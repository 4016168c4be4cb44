// Client: workers, blobs, and explanations.
#include <utility>

#include "client/lib/client.h"
#include "client/lib/client_impl.h"
#include "client/lib/convert.h"
#include "client/lib/texts.h"
#include "common/base/status_macros.h"
#include "common/data/sha256.h"
#include "common/model/locator.h"
#include "common/wire/job_spec.h"

namespace tandem::client {

absl::StatusOr<WorkerSummary> Client::GetWorker(const std::string& worker) {
  RETURN_IF_ERROR(CheckText("worker", worker));
  v1::GetWorkerRequest request;
  request.set_worker(worker);
  v1::WorkerInfo response;
  RETURN_IF_ERROR(
      impl_->Call(impl_->cluster.get(), &v1::Cluster::Stub::GetWorker, request, &response));
  return FromWire(&response);
}

absl::StatusOr<WorkerSummary> Client::DrainWorker(const std::string& worker) {
  RETURN_IF_ERROR(CheckText("worker", worker));
  v1::DrainWorkerRequest request;
  request.set_worker(worker);
  v1::WorkerInfo response;
  RETURN_IF_ERROR(
      impl_->Call(impl_->cluster.get(), &v1::Cluster::Stub::DrainWorker, request, &response));
  return FromWire(&response);
}

absl::StatusOr<WorkerSummary> Client::ResumeWorker(const std::string& worker) {
  RETURN_IF_ERROR(CheckText("worker", worker));
  v1::ResumeWorkerRequest request;
  request.set_worker(worker);
  v1::WorkerInfo response;
  RETURN_IF_ERROR(
      impl_->Call(impl_->cluster.get(), &v1::Cluster::Stub::ResumeWorker, request, &response));
  return FromWire(&response);
}

absl::StatusOr<WorkerSummary> Client::ForgetRates(const std::string& worker,
                                                  const std::string& kernel) {
  RETURN_IF_ERROR(CheckText("worker", worker));
  RETURN_IF_ERROR(CheckText("kernel", kernel));
  v1::ForgetRatesRequest request;
  request.set_worker(worker);
  request.set_kernel(kernel);
  v1::WorkerInfo response;
  RETURN_IF_ERROR(
      impl_->Call(impl_->cluster.get(), &v1::Cluster::Stub::ForgetRates, request, &response));
  return FromWire(&response);
}

absl::StatusOr<WorkerExplanation> Client::ExplainWorker(const std::string& worker) {
  RETURN_IF_ERROR(CheckText("worker", worker));
  v1::ExplainWorkerRequest request;
  request.set_worker(worker);
  v1::WorkerExplanation response;
  RETURN_IF_ERROR(
      impl_->Call(impl_->cluster.get(), &v1::Cluster::Stub::ExplainWorker, request, &response));
  return FromWire(&response);
}

absl::StatusOr<JobExplanation> Client::Explain(JobId job) {
  v1::ExplainJobRequest request;
  request.set_id(job.value());
  v1::JobExplanation response;
  RETURN_IF_ERROR(impl_->Call(impl_->jobs.get(), &v1::Jobs::Stub::ExplainJob, request, &response));
  return FromWire(&response);
}

absl::StatusOr<std::vector<BlobSummary>> Client::ListBlobs() {
  std::vector<BlobSummary> blobs;
  v1::ListBlobsRequest request;
  do {
    v1::ListBlobsResponse response;
    RETURN_IF_ERROR(
        impl_->Call(impl_->lists.get(), &v1::Data::Stub::ListBlobs, request, &response));
    for (const v1::BlobEntry& entry : response.blobs()) blobs.push_back(FromWire(entry));
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return blobs;
}

absl::StatusOr<uint64_t> Client::DeleteBlob(const BlobId& blob) {
  v1::DeleteBlobRequest request;
  wire::Encode(BlobLocator{blob, 0}, request.mutable_blob());
  v1::DeleteBlobResponse response;
  RETURN_IF_ERROR(impl_->Call(impl_->lists.get(), &v1::Data::Stub::DeleteBlob, request, &response));
  return response.bytes();
}

absl::StatusOr<DiskUsage> Client::GetDiskUsage() {
  v1::DiskUsage response;
  RETURN_IF_ERROR(impl_->Call(impl_->lists.get(), &v1::Data::Stub::GetDiskUsage,
                              v1::GetDiskUsageRequest(), &response));
  return FromWire(response);
}

absl::Status Client::ReadBlob(const BlobId& blob, uint64_t* size, Sink sink) {
  v1::StatBlobsRequest stat;
  v1::StatBlobsResponse stats;
  wire::Encode(BlobLocator{blob, 0}, stat.add_blobs());
  RETURN_IF_ERROR(impl_->Call(impl_->lists.get(), &v1::Data::Stub::StatBlobs, stat, &stats));
  if (stats.blobs_size() == 1 && stats.blobs(0).present()) *size = stats.blobs(0).uploaded();
  v1::ReadBlobRequest request;
  wire::Encode(BlobLocator{blob, 0}, request.mutable_blob());
  grpc::ClientContext context;
  impl_->Prepare(&context);
  const auto reader = impl_->data->ReadBlob(&context, request);
  Sha256 hash;
  RETURN_IF_ERROR(impl_->ReadChunks(&context, reader.get(), [&](std::string_view bytes) {
    hash.Update(bytes);
    return sink(bytes);
  }));
  if (hash.Finish() == blob) return absl::OkStatus();
  return Error(absl::StatusCode::kDataLoss, reason::kChecksumMismatch,
               StrCat("the bytes that came are not those of blob ", blob,
                      ": they changed on the master's disk or on the way; read it again, and if "
                      "that does not help delete it and upload it anew"));
}

}  // namespace tandem::client
