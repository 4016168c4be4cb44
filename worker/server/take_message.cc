// What the master says, as the core's events.
#include <utility>

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/wire/lease_messages.h"
#include "common/wire/session.h"
#include "worker/server/supervisor.h"
#include "worker/server/translate.h"

namespace tandem::worker {

absl::Status Supervisor::TakeMessage(worker::v1::MasterMessage* message) {
  if (message->has_welcome()) RETURN_IF_ERROR(TakeWelcome(message->mutable_welcome()));
  if (!welcomed_) return absl::InvalidArgumentError("the master's first message is no welcome");
  for (worker::v1::JobDescription& job : *message->mutable_jobs()) RETURN_IF_ERROR(TakeJob(&job));
  // The grants beside the word to work again are the first of it.
  if (!message->drain()) TakeDrain(false);
  for (const worker::v1::Grant& grant : message->grants()) {
    Granted event;
    RETURN_IF_ERROR(wire::Decode(grant, &event.grant));
    events_.push_back(std::move(event));
  }
  for (worker::v1::MergeGrant& merge : *message->mutable_merges()) {
    MergeGranted event;
    RETURN_IF_ERROR(wire::Decode(&merge, &event.merge));
    events_.push_back(std::move(event));
  }
  for (const worker::v1::Recall& recall : message->recalls()) {
    Recalled event;
    RETURN_IF_ERROR(wire::Decode(recall, &event.recall));
    events_.push_back(std::move(event));
  }
  for (const uint64_t job : message->drop_jobs()) {
    setups_.erase(JobId(job));
    events_.push_back(JobDropped{JobId(job)});
  }
  if (message->acked_report() != 0) events_.push_back(ReportAcked{message->acked_report()});
  for (const worker::v1::Outlook& outlook : message->outlooks()) {
    OutlookSaid event;
    RETURN_IF_ERROR(wire::Decode(outlook, &event.outlook));
    events_.push_back(std::move(event));
  }
  for (worker::v1::ForgetRates& forget : *message->mutable_forgets()) {
    TLOG(Info, "rates_forgotten", "name", identity_.name(), "kernel",
         forget.kernel().empty() ? "all" : forget.kernel());
    keep_now_ = true;
    events_.push_back(ForgetSaid{forget.number(), std::move(*forget.mutable_kernel())});
  }
  if (message->drain()) TakeDrain(true);
  if (message->pulse() != 0) {
    pulse_ = message->pulse();
    if (events_.empty()) events_.push_back(Tick{});  // answered at once
  }
  return absl::OkStatus();
}

void Supervisor::TakeDrain(bool drain) {
  if (drain == draining_) return;
  draining_ = drain;
  TLOG(Info, "drain", "name", identity_.name(), "drain", draining_);
  keep_now_ |= draining_;
  events_.push_back(DrainSaid{draining_});
}

absl::Status Supervisor::TakeWelcome(worker::v1::Welcome* message) {
  wire::WorkerWelcome welcome;
  const std::string host_id = message->host_id();
  const std::string cluster = message->cluster_id();
  const std::string handover = message->handover();
  setups_.clear();  // what is not described anew has ended
  for (worker::v1::JobDescription& job : *message->mutable_jobs()) RETURN_IF_ERROR(TakeJob(&job));
  message->clear_jobs();
  RETURN_IF_ERROR(wire::Decode(message, &welcome));
  welcomed_ = true;
  notes_.Forget();
  backoff_.Reset();
  const bool local = options_.local_data && !host_id.empty() && host_id == host_id_;
  fleet_.AllowLocalData(local);
  fleet_.HandOverAt(local ? handover : "");
  TLOG(Info, "attached", "worker", welcome.worker, "name", identity_.name(), "epoch", welcome.epoch,
       "adopted", welcome.adopted.size(), "cluster", cluster);
  events_.push_back(Welcomed{welcome.worker, welcome.epoch, welcome.lease_ttl, welcome.heartbeat,
                             std::move(welcome.adopted)});
  return absl::OkStatus();
}

// A job that cannot be bound is refused by name; its grants go back.
absl::Status Supervisor::TakeJob(worker::v1::JobDescription* message) {
  executor::v1::JobSetup setup;
  *setup.mutable_description() = *message;
  setup.set_master_data_address(options_.master);
  wire::JobDescription description;
  RETURN_IF_ERROR(wire::Decode(message, &description));
  setups_[description.job] = std::move(setup);
  const JobDescribed refused = DescribeRefused(description);
  absl::StatusOr<JobDescribed> described = Describe(std::move(description));
  if (described.ok()) {
    events_.push_back(*std::move(described));
    return absl::OkStatus();
  }
  TLOG(Error, "job_not_understood", "job", refused.job, "why", ToStd(described.status().message()));
  events_.push_back(refused);
  events_.push_back(JobErrored{
      0, refused.job, StrCat("BAD_SPEC: ", ToStd(described.status().message())), false, {}});
  return absl::OkStatus();
}

}  // namespace tandem::worker
