// Auditor: reads the durable log and what clients see, knows what the tasks' values are, and
// reports every broken promise. It shares no code with the cores.
//
// Checked here: 1 durable accept, 3 one result a task and its bytes, 7 cancel, 9 idempotent submit,
// 10 replay (by the simulated master), 11 only durable state is visible, in order.
//
// Thread-safety: none.
#ifndef TANDEM_TESTS_SIM_AUDITOR_H_
#define TANDEM_TESTS_SIM_AUDITOR_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "master/core/events.h"
#include "master/core/records.h"
#include "tests/sim/world.h"

namespace tandem::sim {

class Auditor {
 public:
  explicit Auditor(World* world) : world_(world) {}

  // The bytes behind a region of the master's segments.
  void AddSegmentBytes(const Region& region, std::string bytes);

  void OnDurable(const master::Record& record);
  void OnSubmitAcknowledged(const std::string& request_id, JobId job);
  void OnCancelAcknowledged(JobId job);
  void OnStatus(const master::JobStatus& status);
  void OnGrant(JobId job, const std::shared_ptr<const BoundJob>& bound);

  // Every job has ended. Checks results.
  bool AllEnded() const;
  std::string Unfinished() const;
  void CheckEnd();

 private:
  struct JobAudit {
    std::shared_ptr<const BoundJob> bound;
    std::string request_id;
    std::vector<bool> done;  // By leaf.
    uint64_t leaves_done = 0;
    std::set<uint64_t> failed;
    uint64_t tasks_failed = 0;
    bool ended = false;
    bool cancelled = false;
    master::JobState state = master::JobState::kPending;
    master::JobStatus seen;  // The last status.
  };
  void On(const master::JobAccepted& r);
  void On(const master::LeavesDone& r);
  void On(const master::PartialsMerged&) {}
  void On(const master::LeavesRetried& r);
  void On(const master::JobCancelled&) {}
  void On(const master::JobEnded& r);
  void On(const master::JobDeleted&) {}
  void On(const master::WorkerKnown&) {}
  void On(const master::WorkerForgotten&) {}
  void On(const master::KernelAnnounced&) {}
  void On(const master::IdsIssued&) {}
  void On(const master::WorkerDrained&) {}
  std::string BytesOf(const OutputsHandle& outputs) const;
  void CheckMapBytes(const JobAudit& job, const master::LeavesDone& r);
  void CheckResult(JobId id, const JobAudit& job);

  World* world_;
  std::map<JobId, JobAudit> jobs_;
  std::map<std::string, JobId> requests_;
  std::map<JobId, std::shared_ptr<const BoundJob>> heard_;  // By workers.
  std::set<JobId> cancel_acknowledged_;
  std::map<std::pair<uint64_t, uint64_t>, std::string> segments_;  // By segment and offset.
};

}  // namespace tandem::sim

#endif  // TANDEM_TESTS_SIM_AUDITOR_H_
