// What the core's tests share: bound jobs made by hand, a core with a fake clock whose invariants
// are checked after every Step, and a model worker that answers grants at once.
//
// Thread-safety: none.
#ifndef TANDEM_TESTS_MASTER_CORE_HARNESS_H_
#define TANDEM_TESTS_MASTER_CORE_HARNESS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/model/bound_job.h"
#include "master/core/core.h"

namespace tandem::master {

enum class TestKernel { kMap, kExactSum, kOrderedSum, kOwnMerge };

KernelInfo KernelFor(TestKernel kernel);

// Builds a BoundJob without operands: what the core needs of one, and no more.
struct JobBuilder {
  TestKernel kernel = TestKernel::kMap;
  uint64_t tasks = 0;
  uint64_t grain = 1;
  std::string owner = "ann";
  int32_t priority = 0;
  uint32_t retries = 0;
  uint32_t crash_limit = 3;
  std::optional<uint64_t> max_task_failures = std::nullopt;
  bool allow_failed = false;
  absl::Duration time_limit = absl::InfiniteDuration();
  uint64_t max_lease_leaves = 0;
  DeviceChoice device = DeviceChoice::kAuto;
  double ns_per_task = 0;  // The kernel's hint.
  uint64_t gpu_memory_bytes = 0;
  bool fail_unsatisfiable = false;

  std::shared_ptr<const BoundJob> Build() const;
};

// One inline output of eight bytes.
OutputsHandle OutputOf(uint64_t value);
uint64_t ValueOf(const OutputsHandle& outputs);

// A core on a fake clock.
class CoreHarness {
 public:
  explicit CoreHarness(Options options = {});

  // Steps, checks the invariants and that the journal's replay equals the live state, and returns
  // this Step's effects.
  Effects Step(Event event);
  // Moves time on, delivering Ticks as their deadlines come; the last Step's effects.
  Effects Advance(absl::Duration d);
  // A new master of the next epoch, from the journal (or a snapshot of it).
  void Restart(bool from_snapshot = false);

  // What a master says last before it stops cleanly.
  void Close();
  // As Restart, with the last `lost` records (at most) never having become durable.
  void RestartFromPrefix(uint64_t lost);

  JobId Submit(const JobBuilder& job, std::string request_id = "");
  // Attaches a worker with all test kernels; its number. `cores` run leaves at once.
  WorkerId Attach(const std::string& name, uint64_t cores = 1, uint64_t max_leases = 2048,
                  std::vector<HeldLeaves> held = {}, uint64_t incarnation = 1);
  // The worker says what its former life was running when it ended.
  void TellFormerLife(WorkerId worker, std::vector<std::pair<JobId, LeafInterval>> running);
  Effects Report(WorkerId worker, tandem::Report report);
  // The worker's measured speed.
  Effects Rate(WorkerId worker, const std::string& kernel, double tasks_per_second);
  Effects Pulse(WorkerId worker) { return Step(WorkerPulsed{worker, absl::Milliseconds(1)}); }
  Effects Detach(WorkerId worker) { return Step(WorkerDetached{worker, streams_[worker]}); }
  Effects Crash(WorkerId worker, JobId job, LeafRun run, std::optional<uint64_t> task = {},
                bool overdue = false);
  // What the last Attach was answered.
  const WelcomeWorker& welcome() const { return welcome_; }
  const Reply& reply() const { return reply_; }
  Effects CommitRun(WorkerId worker, JobId job, LeafRun run,
                    std::vector<TaskFailure> failures = {});

  // Beside its CPU, of what is attached from now on.
  std::vector<DeviceInfo> further_devices;

  JobStatus Status(JobId job) const { return *core().Status(job); }
  MasterCore& core() { return *core_; }
  const MasterCore& core() const { return *core_; }
  MonoTime now() const { return now_; }
  const std::vector<Record>& journal() const { return journal_; }
  // Everything sent to the worker since the last call, by kind.
  template <class T>
  std::vector<T> Take(WorkerId worker) {
    std::vector<T> taken;
    std::vector<ToWorker> rest;
    for (ToWorker& message : sent_) {
      if (message.worker == worker && std::holds_alternative<T>(message.what)) {
        taken.push_back(std::get<T>(std::move(message.what)));
      } else {
        rest.push_back(std::move(message));
      }
    }
    sent_ = std::move(rest);
    return taken;
  }

 private:
  Options options_;
  std::unique_ptr<MasterCore> core_;
  MonoTime now_ = MonoTime::FromNanos(1'000'000'000);
  MonoTime deadline_ = MonoTime::InfiniteFuture();
  uint64_t epoch_ = 1;
  uint64_t next_token_ = 1;
  uint64_t next_report_ = 1;
  std::vector<Record> journal_;
  std::vector<ToWorker> sent_;
  std::map<WorkerId, RequestToken> streams_;
  WelcomeWorker welcome_;
  Reply reply_{0, JobId()};
};

// The commit of a whole grant (of a map), as the worker's report would say it.
LeafRun RunOf(const Grant& grant, const RangeTree& tree);

}  // namespace tandem::master

#endif  // TANDEM_TESTS_MASTER_CORE_HARNESS_H_
