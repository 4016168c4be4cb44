// SplitOracle: which device ran which leaf to its end, from what goes into a core and comes out of
// it, in a plain map; and what the core tells of leases, held against it.
//
// For worlds in which nothing runs for leases that are gone: no lost streams, no pauses.
//
// Thread-safety: one thread.
#ifndef TANDEM_TESTS_WORKER_CORE_SPLIT_ORACLE_H_
#define TANDEM_TESTS_WORKER_CORE_SPLIT_ORACLE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/strings.h"
#include "worker/core/events.h"

namespace tandem::worker {

class SplitOracle {
 public:
  // Before the core takes it.
  void See(const Event& event) {
    if (const auto* e = std::get_if<PieceShrunk>(&event)) {
      if (const auto piece = pieces_.find(e->piece); piece != pieces_.end()) {
        piece->second.leaves.count = std::min(piece->second.leaves.count, e->leaves);
      }
    }
    const auto* done = std::get_if<PieceFinished>(&event);
    if (done == nullptr) return;
    const auto piece = pieces_.find(done->piece);
    if (piece == pieces_.end()) return;
    const RunPiece& run = piece->second;
    for (uint64_t i = 0; i < run.leaves.count; ++i) {
      ran_on_[{run.job, run.leaves.first + i}] = devices_.at(run.executor);
    }
  }

  // What came of the events before it.
  void See(const Effects& effects) {
    for (const Report& report : effects.reports) {
      for (const LeaseSplit& split : report.splits) Check(split);
    }
    for (const auto& effect : effects.to_executors) {
      if (const auto* e = std::get_if<StartExecutor>(&effect)) devices_[e->executor] = e->device;
      if (const auto* e = std::get_if<RunPiece>(&effect)) pieces_[e->piece] = *e;
    }
  }

  const std::vector<std::string>& complaints() const { return complaints_; }
  uint64_t told = 0, shared = 0, in_part = 0;

 private:
  // Grains are 1: tasks are leaves.
  void Check(const LeaseSplit& split) {
    ++told;
    shared += split.shares.size() > 1 ? 1 : 0;
    std::map<std::string, uint64_t> expected, said;
    uint64_t end = split.granted.begin, kept = 0;
    for (const TaskRange& range : split.kept) {
      if (range.empty() || range.begin < end || range.end > split.granted.end) Complain(split);
      end = range.end + 1;  // apart
      kept += range.size();
      for (uint64_t task = range.begin; task < range.end; ++task) {
        ++expected[ran_on_[{split.job, task}]];
      }
    }
    in_part += kept < split.granted.size() ? 1 : 0;
    for (const LeaseShare& share : split.shares) said[share.device_name] += share.tasks;
    if (said != expected || kept == 0) Complain(split);
  }
  void Complain(const LeaseSplit& split) {
    complaints_.push_back(StrCat("lease ", split.lease, " of job ", split.job.value(),
                                 " was not shared out as it is told"));
  }

  std::map<ExecutorId, std::string> devices_;
  std::map<PieceId, RunPiece> pieces_;
  std::map<std::pair<JobId, uint64_t>, std::string> ran_on_;
  std::vector<std::string> complaints_;
};

}  // namespace tandem::worker

#endif  // TANDEM_TESTS_WORKER_CORE_SPLIT_ORACLE_H_
