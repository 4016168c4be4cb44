// From the wire's messages to what the client's callers see.
//
// Thread-safety: pure functions.
#ifndef TANDEM_CLIENT_LIB_CONVERT_H_
#define TANDEM_CLIENT_LIB_CONVERT_H_

#include "absl/status/statusor.h"
#include "client/lib/client.h"
#include "tandem/v1/cluster.pb.h"
#include "tandem/v1/data.pb.h"
#include "tandem/v1/jobs.pb.h"

namespace tandem::client {

// Each takes the message apart. Errors: INTERNAL or INVALID_ARGUMENT when a master of another
// version says what this client cannot read.
absl::StatusOr<JobInfo> FromWire(v1::Job* job);
absl::StatusOr<JobPlan> FromWire(v1::JobPlan* plan);
absl::StatusOr<WorkerSummary> FromWire(v1::WorkerInfo* worker);
MasterSummary FromWire(const v1::MasterInfo& master);
absl::StatusOr<JobExplanation> FromWire(v1::JobExplanation* explanation);
absl::StatusOr<WorkerExplanation> FromWire(v1::WorkerExplanation* explanation);
BlobSummary FromWire(const v1::BlobEntry& entry);
DiskUsage FromWire(const v1::DiskUsage& usage);
v1::JobState ToWire(JobState state);
void ToWire(absl::Time time, google::protobuf::Timestamp* to);

}  // namespace tandem::client

#endif  // TANDEM_CLIENT_LIB_CONVERT_H_
