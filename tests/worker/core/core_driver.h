// CoreDriver: a worker's core in a test's hands: builders of events, and the effects by kind.
//
// Thread-safety: one thread.
#ifndef TANDEM_TESTS_WORKER_CORE_CORE_DRIVER_H_
#define TANDEM_TESTS_WORKER_CORE_CORE_DRIVER_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "worker/core/worker_core.h"

namespace tandem::worker {

inline JobDescribed ConcatJob(uint64_t id, uint64_t leaves, double cost_ns = 1000) {
  JobDescribed job;
  job.job = JobId(id);
  job.owner = "ada";
  job.kernel = "kernel@0";
  job.task_count = leaves;
  job.grain = 1;
  job.appends = true;
  job.cost_ns_per_task = cost_ns;
  return job;
}

inline JobDescribed SumJob(uint64_t id, uint64_t leaves, double cost_ns = 1000) {
  JobDescribed job = ConcatJob(id, leaves, cost_ns);
  job.appends = false;
  job.reduces = job.accumulates = true;
  job.partial_bytes = 8;
  return job;
}

// A core that believes hints, for jobs whose first pieces shall be large.
inline CoreOptions Believing() {
  CoreOptions options;
  options.pull.unproven_leaves_max = uint64_t{1} << 40;
  return options;
}

class CoreDriver {
 public:
  explicit CoreDriver(CoreOptions options = {}, uint32_t groups = 1)
      : groups_(groups), core_(options, 1) {}

  // Attaches, and gets every executor ready as soon as it is started.
  void Attach(std::vector<JobDescribed> jobs, std::vector<Grant> adopted = {}, uint64_t epoch = 1) {
    Do(Connected{});
    std::vector<Event> events;
    for (JobDescribed& job : jobs) events.push_back(std::move(job));
    events.push_back(Welcomed{WorkerId(1), Epoch(epoch), absl::Seconds(5), absl::Seconds(1),
                              std::move(adopted)});
    DoAll(std::move(events));
  }
  // `count` leases of 2^level leaves.
  void Give(uint64_t job, uint64_t first_n, uint64_t first, uint64_t count, uint8_t level = 0,
            bool suspect = false) {
    Do(Granted{{JobId(job), first_n, first, level, count, 1, suspect, {}}});
  }

  // One batch of events; the effects are those of this batch alone.
  void DoAll(std::vector<Event> events) {
    effects_ = Effects();
    for (;;) {
      for (Event& event : events) core_.Step(std::move(event), now_, &effects_);
      core_.Settle(now_, &effects_);
      core_.CheckInvariants();
      events.clear();
      for (const StartExecutor& start : Of<StartExecutor>()) {
        if (start.executor <= last_ready_) continue;
        last_ready_ = start.executor;
        ExecutorReady ready{start.executor, groups_, groups_, DeviceKind::kCpu};
        if (start.device != "cpu") ready = {start.executor, 1, 1, DeviceKind::kEmulated};
        ready.shrinks = shrinks;
        events.push_back(ready);
      }
      if (events.empty()) return;
    }
  }
  void Do(Event event) {
    std::vector<Event> events;
    events.push_back(std::move(event));
    DoAll(std::move(events));
  }
  void After(absl::Duration time) {
    now_ = now_ + time;
    Do(Tick{});
  }

  // The piece's leaves give a byte each.
  PieceFinished Finished(const RunPiece& piece, absl::Duration busy = absl::Milliseconds(1)) {
    PieceFinished done{piece.executor, piece.piece, busy, {}, false, {}, {}, piece.leaves.count};
    done.outputs.push_back({0, std::string(piece.leaves.count, 'x'), 0, 0});
    return done;
  }
  PieceFinished Accumulated(const RunPiece& piece, absl::Duration busy = absl::Milliseconds(1)) {
    PieceFinished done = Finished(piece, busy);
    done.outputs.clear();
    done.accumulated = true;
    return done;
  }

  template <class T>
  std::vector<T> Of() const {
    std::vector<T> found;
    for (const auto& effect : effects_.to_executors) {
      if (const T* e = std::get_if<T>(&effect)) found.push_back(*e);
    }
    return found;
  }
  std::vector<RunPiece> pieces() const { return Of<RunPiece>(); }
  std::vector<Commit> commits() const {
    std::vector<Commit> commits;
    for (const Report& report : effects_.reports) {
      commits.insert(commits.end(), report.commits.begin(), report.commits.end());
    }
    return commits;
  }
  std::vector<Return> returns() const {
    std::vector<Return> returns;
    for (const Report& report : effects_.reports) {
      returns.insert(returns.end(), report.returns.begin(), report.returns.end());
    }
    return returns;
  }
  std::vector<JobFault> faults() const {
    std::vector<JobFault> faults;
    for (const Report& report : effects_.reports) {
      faults.insert(faults.end(), report.job_faults.begin(), report.job_faults.end());
    }
    return faults;
  }
  // What executors that get ready say of themselves.
  bool shrinks = false;
  Effects& effects() { return effects_; }
  WorkerCore& core() { return core_; }
  MonoTime now() const { return now_; }

 private:
  const uint32_t groups_;
  WorkerCore core_;
  Effects effects_;
  MonoTime now_ = MonoTime::FromNanos(1'000'000'000);
  ExecutorId last_ready_ = 0;
};

}  // namespace tandem::worker

#endif  // TANDEM_TESTS_WORKER_CORE_CORE_DRIVER_H_
