// SimExecutor: a virtual executor process: its core groups run pieces in virtual time, keep
// accumulators, merge, stage large outputs, and crash on poison tasks or by chance.
//
// It behaves as executor.proto says of a real one: a queue a group, a cancelled piece that has not
// started comes back, outputs beyond the inline bound lie in staging that outlives the process, and
// its start page names what had started.
//
// Thread-safety: none. Ownership: by SimWorker; what is still queued for a dead one does nothing.
#ifndef TANDEM_TESTS_SIM_SIM_EXECUTOR_H_
#define TANDEM_TESTS_SIM_SIM_EXECUTOR_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/model/bound_job.h"
#include "tests/sim/world.h"
#include "worker/core/events.h"

namespace tandem::sim {

class SimExecutor : public std::enable_shared_from_this<SimExecutor> {
 public:
  using Emit = std::function<void(worker::Event)>;
  // `task_time`: of one task on one group. `merges`: as a GPU it runs whatever is queued in one
  // launch, so that its start page tells nothing of it apart.
  SimExecutor(World* world, worker::ExecutorId id, std::string owner, uint32_t groups,
              absl::Duration task_time, bool merges, Emit emit);

  void SetUp(JobId job, std::shared_ptr<const BoundJob> bound);
  void Run(const worker::RunPiece& run);
  void Merge(const worker::RunMerge& run);
  void Cancel(worker::PieceId piece);
  // Keeps so many leaves, or as many as have begun.
  void Shrink(worker::PieceId piece, uint64_t leaves);
  void Flush(JobId job);
  void Discard(JobId job);
  void Forget(JobId job);
  // Ends the process. Wanted: by the supervisor; else a crash, whose start page has suspects.
  void Die(const std::string& how, bool wanted);
  // The worker itself died: nobody is told. What its start page says is there for the next one.
  std::vector<worker::Suspect> Vanish();

  bool alive() const { return alive_; }
  const std::string& owner() const { return owner_; }
  // Staged bytes, which outlive the process.
  const std::string* Staged(uint64_t offset) const;

 private:
  struct Piece {
    worker::PieceId id = 0;
    JobId job;
    LeafInterval leaves;
    uint32_t attempt = 0;
    bool suspect = false;
    std::set<uint64_t> skip;
    uint64_t inline_bytes_max = 0;
    bool merge = false;
    std::vector<Partial> inputs;
  };
  struct Group {
    std::deque<Piece> queue;  // The first one runs.
    MonoTime started;
  };
  struct Accumulator {
    std::vector<worker::PieceId> pieces;
    uint64_t value = 0;
    uint64_t tasks = 0;
  };
  struct JobSetup {
    std::shared_ptr<const BoundJob> bound;
    Accumulator accumulator;
  };

  void Queue(uint32_t group, Piece piece);
  void StartNext(uint32_t group);
  void Finish(uint32_t group);
  void FinishLeaves(const Piece& piece, absl::Duration busy);
  void FinishMerge(const Piece& piece, absl::Duration busy);
  // The first task of the piece that takes the executor down, if any.
  std::optional<uint64_t> Poison(const Piece& piece) const;
  std::vector<worker::StagedOutput> Output(std::string bytes, uint64_t inline_bytes_max);
  worker::Suspect SuspectOf(const Piece& piece, std::optional<uint64_t> task);
  std::vector<worker::Suspect> StartPage();
  // To the supervisor, after a moment.
  void Tell(worker::Event event);

  World* world_;
  worker::ExecutorId id_;
  std::string owner_;
  absl::Duration task_time_;
  bool merges_;
  Emit emit_;
  bool alive_ = true;
  std::vector<Group> groups_;
  std::map<JobId, JobSetup> jobs_;
  std::map<uint64_t, std::string> staging_;
  uint64_t staging_end_ = 0;
  std::optional<uint64_t> poison_;  // The task that is killing the process.
};

}  // namespace tandem::sim

#endif  // TANDEM_TESTS_SIM_SIM_EXECUTOR_H_
