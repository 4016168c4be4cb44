// JobChecker: everything that can be found wrong with a request before the core sees it.
//
//   ASSIGN_OR_RETURN(std::shared_ptr<const BoundJob> job, checker.Bind(owner, &spec_proto));
//   RETURN_IF_ERROR(checker.CheckBlobs(job->spec));
//
// Strict decoding, the kernel, ValidateAndBind, sizes on the wire, whether the owner has every blob
// that the job names, and whether the disk has room for what is known of its results.
//
// Thread-safety: safe from any thread; Check reads files. Ownership: the parts outlive it.
#ifndef TANDEM_MASTER_SERVER_JOB_CHECKER_H_
#define TANDEM_MASTER_SERVER_JOB_CHECKER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/data/blob_store.h"
#include "common/model/bound_job.h"
#include "master/server/kernel_book.h"
#include "tandem/v1/jobs.pb.h"

namespace tandem::master {

class JobChecker {
 public:
  // A spec travels on to workers in one message, with its kernel beside it.
  static constexpr size_t kSpecBytesMax = (4 << 20) - (128 << 10);

  // `room_bytes`: what results may still take of the disk. Any thread.
  JobChecker(const KernelBook* kernels, BlobStore* blobs, std::function<uint64_t()> room_bytes,
             Capabilities capabilities)
      : kernels_(kernels),
        blobs_(blobs),
        room_bytes_(std::move(room_bytes)),
        capabilities_(capabilities) {}

  // Has the owner every blob that the job names? The caller pins them before it asks.
  absl::Status CheckBlobs(const JobSpec& spec) const;
  // Could the job's dense outputs lie on the disk as it is now? A reduction takes next to nothing,
  // and how long a ragged output gets nobody knows. A disk that is full objects to every job
  // (JOURNAL_FULL), not to this one. Errors: RESOURCE_EXHAUSTED DISK_FULL.
  absl::Status CheckRoom(const BoundJob& job) const;
  // Everything else; all there is for a plan, before anything is uploaded. Takes the proto apart.
  // Errors: those of SubmitJob, with the field's path.
  absl::StatusOr<std::shared_ptr<const BoundJob>> Bind(const std::string& owner,
                                                       v1::JobSpec* spec) const;

 private:
  const KernelBook* const kernels_;
  BlobStore* const blobs_;
  const std::function<uint64_t()> room_bytes_;
  const Capabilities capabilities_;
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_JOB_CHECKER_H_
