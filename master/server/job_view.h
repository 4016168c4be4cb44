// JobView: a job as callers may see it, and its forms in the API and in history.
//
// Thread-safety: plain data and pure functions.
#ifndef TANDEM_MASTER_SERVER_JOB_VIEW_H_
#define TANDEM_MASTER_SERVER_JOB_VIEW_H_

#include <memory>

#include "absl/time/time.h"
#include "master/core/events.h"
#include "master/core/records.h"
#include "master/store/rows.h"
#include "master/store/store.h"
#include "tandem/v1/jobs.pb.h"

namespace tandem::master {

struct JobView {
  std::shared_ptr<const JobAccepted> accepted;
  JobStatus status;  // Durable.
  absl::Time ended = absl::InfiniteFuture();

  const BoundJob& bound() const { return *accepted->bound; }
  absl::Time started() const {
    return status.started_after ? accepted->submitted + *status.started_after
                                : absl::InfiniteFuture();
  }
};

enum class JobDetail {
  kWhole,
  kBrief,  // Without the spec's operands.
};
void EncodeJob(const JobView& view, JobDetail detail, v1::Job* to);
void EncodeOutputs(const BoundJob& job, google::protobuf::RepeatedPtrField<v1::OutputInfo>* to);
void EncodePlan(const BoundJob& job, v1::JobPlan* to);

// `with_spec`: history has none yet.
JobRow RowOf(const JobView& view, bool with_spec);
// A job that only history remembers. `spec` may be missing (lists): then owner, name, kernel,
// labels and counts are all there is.
absl::StatusOr<JobView> ViewOf(const JobRow& row);
void EncodeRow(const JobRow& row, v1::Job* to);

bool Matches(const JobView& view, const JobFilter& filter);

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_JOB_VIEW_H_
