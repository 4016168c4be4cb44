// Attaching again: what a Welcome re-leased lives on under its new leases, all else is void.
#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/model/leaf_set.h"
#include "worker/core/worker_core.h"

namespace tandem::worker {

struct WorkerCore::Adoption {
  struct OfJob {
    std::vector<LeaseRun> grants;  // by first leaf, apart
    LeafSet unclaimed;
    bool divides = true;  // a commit may name several runs
  };
  absl::btree_map<JobId, OfJob> jobs;

  // Gives runs their new leases, a run perhaps several. All or nothing; each leaf once.
  bool Renew(JobId job, std::vector<LeaseRun>* runs);
};

bool WorkerCore::Adoption::Renew(JobId job, std::vector<LeaseRun>* runs) {
  const auto found = jobs.find(job);
  if (found == jobs.end()) return false;
  OfJob& of = found->second;
  std::vector<LeaseRun> renewed;
  for (const LeaseRun& run : *runs) {
    if (!of.unclaimed.ContainsAll({run.first(), run.end()})) return false;
    const size_t before = renewed.size();
    for (uint64_t leaf = run.first(); leaf < run.end();) {
      // The last grant that begins at or before `leaf`; it holds it, since `leaf` is unclaimed.
      const auto behind = std::upper_bound(
          of.grants.begin(), of.grants.end(), leaf,
          [](uint64_t value, const LeaseRun& grant) { return value < grant.first(); });
      renewed.push_back(std::prev(behind)->Within(leaf, run.end()));
      leaf = renewed.back().end();
    }
    if (renewed.size() - before > 1 && !of.divides) return false;
  }
  for (const LeaseRun& run : renewed) of.unclaimed.Remove({run.first(), run.end()});
  *runs = std::move(renewed);
  return true;
}

namespace {
uint64_t CountLeaves(const std::vector<LeaseRun>& runs) {
  uint64_t leaves = 0;
  for (const LeaseRun& run : runs) leaves += run.count();
  return leaves;
}
}  // namespace

std::vector<HeldLeaves> WorkerCore::Held() const {
  std::vector<HeldLeaves> held;
  const auto add = [&held](JobId job, const LeaseRun& run) {
    held.push_back({job, run.leaves, run.attempt, run.lease()});
  };
  outbox_.ForEach([&](const OutItem& item) {
    if (item.kind == OutItem::Kind::kReturn) return;
    for (const LeaseRun& run : item.runs) add(item.job, run);
  });
  for (const auto& [id, job] : jobs_) {
    for (const JobOnDevice& on : job.on) {
      for (const auto& [piece, part] : on.accumulator.pieces) {
        for (const LeaseRun& run : part.runs) add(id, run);
      }
    }
  }
  for (const auto& [id, piece] : pieces_) {
    if (piece.is_void || piece.merge != nullptr) continue;
    if (piece.renewed.empty()) add(piece.job, piece.run);
    for (const LeaseRun& run : piece.renewed) add(piece.job, run);
  }
  for (const auto& [id, job] : jobs_) {
    for (const LeaseRun& run : job.pool.runs()) add(id, run);
  }
  return held;
}

void WorkerCore::On(Welcomed event, MonoTime now, Effects* effects) {
  const bool push_again = event.epoch != epoch_ || now - lost_at_ > options_.push_again_after;
  link_ = Link::kAttached;
  epoch_ = event.epoch;
  max_epoch_ = std::max(max_epoch_, epoch_.value());
  lease_ttl_ = event.lease_ttl;
  heartbeat_ = event.heartbeat;
  heartbeat_at_ = now + heartbeat_;
  draining_ = shutting_down_;
  former_life_report_ = 0;

  Adoption adoption;
  for (const Grant& grant : event.adopted) {
    JobState* job = FindJob(grant.job);
    const uint64_t leaf_count = job != nullptr ? job->tree.leaf_count() : RangeTree::kTasksMax;
    LeaseRun run = LeaseRun::Of(grant, epoch_, leaf_count);
    Adoption::OfJob& of = adoption.jobs[grant.job];
    of.divides = job == nullptr || !job->info.whole_nodes();
    of.unclaimed.Add({run.first(), run.end()});
    of.grants.push_back(std::move(run));
  }
  for (auto& [id, of] : adoption.jobs) {
    std::sort(of.grants.begin(), of.grants.end(),
              [](const LeaseRun& a, const LeaseRun& b) { return a.first() < b.first(); });
  }
  outbox_.Rejoin(
      push_again, [&](JobId job, std::vector<LeaseRun>* runs) { return adoption.Renew(job, runs); },
      effects);
  AdoptAccumulators(&adoption, effects);
  AdoptPieces(&adoption, effects);
  AdoptRest(&adoption, effects);
  ForgetUndescribedJobs(effects);
}

// Taken whole or not at all: a partial cannot be divided.
void WorkerCore::AdoptAccumulators(Adoption* adoption, Effects* effects) {
  for (const auto& key : std::vector(accumulating_.begin(), accumulating_.end())) {
    const auto [id, device] = key;
    JobState& job = jobs_.at(id);
    Accumulator& accumulator = job.on[device].accumulator;
    std::vector<LeaseRun> runs;
    for (const auto& [piece, held] : accumulator.pieces) {
      runs.insert(runs.end(), held.runs.begin(), held.runs.end());
    }
    if (adoption->Renew(id, &runs)) {
      auto next = runs.begin();  // the same leaves in the same order
      for (auto& [piece, held] : accumulator.pieces) {
        uint64_t missing = CountLeaves(held.runs);
        held.runs.clear();
        for (; missing > 0; ++next) {
          missing -= next->count();
          held.runs.push_back(*next);
        }
      }
      continue;
    }
    accumulator = Accumulator();
    accumulating_.erase(key);
    OwnersExecutor* executor = &job.owner->executors[device];
    effects->to_executors.push_back(DiscardAccumulator{executor->id, id});
    // What is in flight may already have gone into what is discarded.
    for (auto& [piece_id, piece] : pieces_) {
      if (piece.job == key.first && piece.executor == executor && !piece.is_void) {
        VoidPiece(piece_id, &piece, effects);
      }
    }
  }
}

void WorkerCore::AdoptPieces(Adoption* adoption, Effects* effects) {
  for (auto& [id, owner] : owners_) owner.merges.clear();
  for (auto& [id, piece] : pieces_) {
    if (piece.is_void) continue;
    std::vector<LeaseRun> runs = {piece.run};
    if (piece.merge != nullptr || !adoption->Renew(piece.job, &runs)) {
      VoidPiece(id, &piece, effects);
      continue;
    }
    piece.renewed = std::move(runs);
    piece.recalled = false;
  }
}

// What was adopted and nothing claims is run (again).
void WorkerCore::AdoptRest(Adoption* adoption, Effects* effects) {
  for (auto& [id, job] : jobs_) {
    job.pool.TakeAll();
    job.splits.Clear();
    UpdateRunnable(&job);
    job.share_leaves = 0;
    job.backlog_told.reset();
    job.granted_leaves = 0;
    if (job.fault.has_value()) faults_.push_back(*job.fault);
  }
  TellRatesAgain();
  for (auto& [id, of] : adoption->jobs) {
    JobState* job = FindJob(id);
    if (job != nullptr) job->granted_leaves = CountLeaves(of.grants);
    for (const LeaseRun& grant : of.grants) {
      for (const LeafRange range : of.unclaimed.Within({grant.first(), grant.end()})) {
        LeaseRun rest = grant.Part(range.begin, range.size());
        if (job == nullptr) {
          Return(id, {std::move(rest)}, effects);
        } else {
          Accept(job, std::move(rest), /*front=*/false, effects);
        }
      }
    }
  }
}

// Jobs that the master no longer speaks of have ended meanwhile.
void WorkerCore::ForgetUndescribedJobs(Effects* effects) {
  std::vector<JobId> ended;
  for (const auto& [id, job] : jobs_) {
    if (job.session != session_) ended.push_back(id);
  }
  for (const JobId id : ended) EndJob(FindJob(id), effects);
}

void WorkerCore::DropEverything(Effects* effects) {
  for (auto& [id, piece] : pieces_) {
    if (!piece.is_void) VoidPiece(id, &piece, effects);
  }
  for (auto& [id, job] : jobs_) {
    job.pool.TakeAll();
    job.splits.Clear();
    UpdateRunnable(&job);
    for (JobOnDevice& on : job.on) on.accumulator = Accumulator();
  }
  accumulating_.clear();
  outbox_.DropAll(effects);
  for (auto& [name, owner] : owners_) {
    owner.merges.clear();
    for (OwnersExecutor& executor : owner.executors) KillExecutor(&executor, effects);
  }
}

// A worker whose own loop stood still for longer than its leases live may not go on: others run
// its leaves by now.
void WorkerCore::FenceIfPaused(MonoTime now, Effects* effects) {
  const MonoTime last = std::exchange(last_step_, std::max(last_step_, now));
  if (link_ != Link::kAttached || last == MonoTime::InfinitePast() || now - last <= lease_ttl_) {
    return;
  }
  ++counters_.fences;
  DropEverything(effects);
  link_ = Link::kDown;
  down_since_ = now;
  effects->reconnect = true;
}

}  // namespace tandem::worker
