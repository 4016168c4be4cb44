// Executors for tests of the worker's core: they do what the effects say, in virtual time, and keep
// accumulators and staging as real ones do.
//
// The CPU has so many groups; every other device is one lane, and gives back what has not begun.
//
// Every leaf's value is its number plus one. A job's outputs are, by its kind: the values of a
// piece's leaves as 8 bytes each, one behind the other, or their sum.
//
// Thread-safety: one thread.
#ifndef TANDEM_TESTS_WORKER_CORE_FAKE_EXECUTORS_H_
#define TANDEM_TESTS_WORKER_CORE_FAKE_EXECUTORS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "worker/core/events.h"

namespace tandem::worker {

struct FakeJob {
  JobDescribed described;
  bool staged = false;  // outputs go to staging, not inline
  uint64_t leaf_count = 0;
};

class FakeExecutors {
 public:
  // `pieces_max`: in one group at a time.
  FakeExecutors(Rng* rng, const std::map<JobId, FakeJob>* jobs, uint32_t groups, size_t pieces_max)
      : rng_(rng), jobs_(jobs), groups_(groups), pieces_max_(pieces_max) {}

  // Does what the core says. What answers at once goes to `events`.
  void Apply(const Effects& effects, std::vector<Event>* events);
  // Lets one thing happen somewhere: something gets ready, or finishes, or is handed back.
  void Advance(std::vector<Event>* events);
  // One executor dies: in the middle of what its groups run, if they run something.
  void Crash(std::vector<Event>* events);

  bool idle() const;
  uint64_t bytes_staged() const;
  // The bytes at a place in staging. Dies when nothing is there: they were released too early.
  const std::string& Staged(ExecutorId executor, uint64_t offset) const;
  // Effects that broke a rule, in words.
  const std::vector<std::string>& complaints() const { return complaints_; }
  const std::vector<RunPiece>& pieces() const { return pieces_; }
  std::set<JobId> jobs_set_up(ExecutorId executor) const { return live_.at(executor).set_up; }
  size_t live() const { return live_.size(); }
  // Leaves that ran to their end on devices other than the CPU, and that shrinks brought back.
  uint64_t leaves_elsewhere() const { return leaves_elsewhere_; }
  uint64_t leaves_shrunk() const { return leaves_shrunk_; }

 private:
  struct Accumulated {
    std::vector<PieceId> pieces;
    uint64_t sum = 0;
    uint64_t tasks = 0;
  };
  struct Live {
    std::string owner;
    std::string device;
    bool ready = false;
    bool killed = false;
    std::set<JobId> set_up;
    std::map<uint32_t, std::deque<std::pair<RunPiece, std::optional<RunMerge>>>> queues;
    std::map<JobId, Accumulated> accumulators;
    std::set<JobId> flushes;
  };

  void Start(const StartExecutor& effect);
  void Do(Live* live, const RunPiece& run, std::vector<Event>* events);
  void FinishFirst(ExecutorId id, Live* live, uint32_t group, std::vector<Event>* events);
  void Flush(ExecutorId id, Live* live, JobId job, std::vector<Event>* events);
  void Cancel(ExecutorId id, Live* live, PieceId piece, std::vector<Event>* events);
  void Shrink(ExecutorId id, Live* live, const ShrinkPiece& shrink, std::vector<Event>* events);
  bool OnCpu(const Live& live) const { return live.device == "cpu"; }
  StagedOutput Output(ExecutorId id, bool staged, std::string bytes);
  void Complain(std::string text) { complaints_.push_back(std::move(text)); }

  Rng* const rng_;
  const std::map<JobId, FakeJob>* const jobs_;
  const uint32_t groups_;
  const size_t pieces_max_;
  std::map<ExecutorId, Live> live_;
  std::map<std::pair<ExecutorId, uint64_t>, std::string> staging_;
  std::vector<RunPiece> pieces_;
  uint64_t last_offset_ = 0;
  uint64_t leaves_elsewhere_ = 0, leaves_shrunk_ = 0;
  std::vector<std::string> complaints_;
};

std::string Bytes(uint64_t value);

}  // namespace tandem::worker

#endif  // TANDEM_TESTS_WORKER_CORE_FAKE_EXECUTORS_H_
