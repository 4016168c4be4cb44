// JobLedger: what each job has cost and where its time went, as the event loop sees it pass by.
//
//   ledger.Accepted(job, now);  ledger.Granted(…);  ledger.Used(worker, usage, now);  …
//   std::string account = ledger.Close(job, now);     // at its end, for the journal
//   std::optional<v1::JobAccount> account = ledger.Find(job, now);
//
// Nothing here decides anything: the core knows none of it. An ended job's account is kept as its
// bytes, in the journal too, until the job is forgotten.
//
// Thread-safety: one thread, the loop's. Ownership: the profiles outlive it.
#ifndef TANDEM_MASTER_SERVER_JOB_LEDGER_H_
#define TANDEM_MASTER_SERVER_JOB_LEDGER_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/model/ids.h"
#include "common/model/lease_messages.h"
#include "master/core/events.h"
#include "master/server/split_book.h"
#include "tandem/v1/jobs.pb.h"
#include "tandem/v1/usage.pb.h"

namespace tandem::master {

// What the ledger asks of a worker when it writes an account.
struct WorkerLook {
  std::string name;
  uint32_t groups = 0;  // Core groups of the device that is asked about.
  v1::DeviceKind device = v1::DEVICE_KIND_UNSPECIFIED;
};
class WorkerLooks {
 public:
  virtual ~WorkerLooks() = default;
  // `device`: UNSPECIFIED asks for the worker's first.
  virtual WorkerLook LookAt(WorkerId worker, v1::DeviceKind device) const = 0;
};

class JobLedger {
 public:
  static constexpr size_t kWorkersListed = 64;

  explicit JobLedger(const WorkerLooks* looks) : looks_(looks) {}

  // `age`: how long ago it was accepted; more than nothing after a restart, of which it then says
  // that it counts from now on only.
  void Accepted(JobId job, MonoTime now, absl::Duration age = absl::ZeroDuration());
  void Granted(JobId job, WorkerId worker, uint64_t leases, MonoTime now);
  void MergeGranted(JobId job);
  void Used(WorkerId worker, const v1::JobUsage& usage, MonoTime now);
  void Reported(WorkerId worker, const Report& report, MonoTime now);
  // A new state, durable or not.
  void Became(const JobStatus& status, MonoTime now);
  // Records of the job were made durable so long after they came up.
  void CommitWaited(JobId job, absl::Duration wait);

  // The job has ended: its account as of now, serialized.
  const std::string& Close(JobId job, MonoTime now);
  // The account of an ended job, from the log.
  void Restore(JobId job, std::string account);
  void Forget(JobId job);

  // Nothing for a job of which nothing is kept.
  std::optional<v1::JobAccount> Find(JobId job, MonoTime now) const;
  // How devices shared out some of its leases, as workers told this process; the latest last.
  std::vector<v1::LeaseSplit> Leases(JobId job) const;
  // Of an ended job, serialized; "" where nothing is kept.
  const std::string& Ended(JobId job) const;

 private:
  static constexpr size_t kReasons = static_cast<size_t>(WaitReason::kDrained) + 1;

  struct AtWorker {
    WorkerId worker;
    v1::DeviceKind device = v1::DEVICE_KIND_UNSPECIFIED;
    v1::Usage usage;
    uint64_t leases = 0;
    uint64_t leaves = 0;
    uint64_t returned_leaves = 0;
    MonoTime first;
    MonoTime last;
    uint64_t total_at_first = 0;  // The worker's time for all jobs, when this one came.
    uint64_t other_ns = 0;
  };
  struct Entry {
    MonoTime accepted;
    MonoTime since;  // Of the present state.
    JobState state = JobState::kPending;
    WaitReason wait = WaitReason::kNone;
    std::array<uint64_t, 3> in_state = {};  // PENDING, RUNNING, MERGING.
    std::array<uint64_t, kReasons> waited = {};
    std::vector<AtWorker> workers;
    uint64_t commits = 0;
    uint64_t commit_wait_ns = 0;
    uint64_t commit_wait_max_ns = 0;
    uint64_t merge_grants = 0;
    uint64_t crashes = 0;
    bool partial = false;
  };

  Entry* Live(JobId job);
  // The worker's first line, which has its leases; null: it has none.
  static AtWorker* FirstAt(Entry& entry, WorkerId worker);
  AtWorker& At(Entry& entry, WorkerId worker, v1::DeviceKind device, MonoTime now);
  static void Advance(Entry& entry, MonoTime now);
  void Write(const Entry& entry, v1::JobAccount* to) const;
  void WriteWorkers(const Entry& entry, v1::JobAccount* to) const;

  const WorkerLooks* const looks_;
  absl::flat_hash_map<JobId, Entry> live_;
  absl::flat_hash_map<JobId, std::string> ended_;
  SplitBook splits_;
  absl::flat_hash_map<WorkerId, uint64_t> busy_;  // Each worker's time for all jobs.
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_JOB_LEDGER_H_
