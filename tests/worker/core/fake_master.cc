#include "tests/worker/core/fake_master.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "common/base/check.h"
#include "common/base/strings.h"

namespace tandem::worker {

std::vector<FakeMaster::Leaf>& FakeMaster::LeavesOf(JobId job) {
  auto [it, is_new] = leaves_.try_emplace(job);
  if (is_new) it->second.resize(jobs_->at(job).leaf_count);
  return it->second;
}

// Consecutive leases of 2^level leaves, clipped at the end.
Grant FakeMaster::MakeGrant(JobId job, uint64_t first, uint8_t level, uint64_t count) {
  std::vector<Leaf>& leaves = LeavesOf(job);
  Grant grant{job, next_n_, first, level, count, leaves[first].attempt, leaves[first].suspect, {}};
  next_n_ += count;
  const uint64_t end = std::min<uint64_t>(first + (count << level), leaves.size());
  for (uint64_t leaf = first; leaf < end; ++leaf) {
    leaves[leaf].n = grant.first_n + ((leaf - first) >> level);
  }
  return grant;
}

void FakeMaster::GrantSome(std::vector<Event>* events) {
  const uint64_t set = rng_->Chance(0.3) ? ++last_set_ : last_set_;  // of suspects
  for (auto& [id, job] : *jobs_) {
    if (rng_->Chance(0.5)) continue;
    std::vector<Leaf>& leaves = LeavesOf(id);
    for (uint64_t first = 0; first < leaves.size(); ++first) {
      if (leaves[first].done || leaves[first].n != 0) continue;
      uint64_t free = 0;
      while (first + free < leaves.size() && !leaves[first + free].done &&
             leaves[first + free].n == 0 && leaves[first + free].suspect == leaves[first].suspect &&
             leaves[first + free].attempt == leaves[first].attempt) {
        ++free;
      }
      // Aligned leases of one size, as many as fit and chance allows.
      auto level = static_cast<uint8_t>(rng_->Below(5));
      while (level > 0 && (first % (uint64_t{1} << level) != 0 || (uint64_t{1} << level) > free)) {
        --level;
      }
      const uint64_t fit = std::max<uint64_t>(free >> level, 1);
      const uint64_t count =
          leaves[first].suspect ? 1 : rng_->Between(1, std::min<uint64_t>(fit, 30));
      Grant grant = MakeGrant(id, first, level, count);
      if (grant.suspect && rng_->Chance(0.7)) grant.suspect_set = set;
      events->push_back(Granted{std::move(grant)});
      break;
    }
  }
}

void FakeMaster::RecallSome(std::vector<Event>* events) {
  auto& [id, job] = *std::next(jobs_->begin(), static_cast<long>(rng_->Below(jobs_->size())));
  const uint64_t first = rng_->Below(job.leaf_count);
  events->push_back(Recalled{{id, {first, rng_->Between(1, 50)}}});
}

void FakeMaster::GrantMerge(std::vector<Event>* events) {
  for (auto& [id, job] : *jobs_) {
    if (!job.described.reduces) continue;
    const uint64_t n = next_n_++;
    merges_[n] = id;
    Partial input{n, {{0, 1}}, nullptr, 7, 0};
    events->push_back(MergeGranted{{id, n, {input, input}}});
    return;
  }
}

bool FakeMaster::Holds(JobId job, const LeafRun& run) {
  const std::vector<Leaf>& leaves = LeavesOf(job);
  const uint64_t first = run.leaves.first;
  if (first + run.leaves.count > leaves.size()) {
    complaints_.push_back("a run beyond the job's end");
    return false;
  }
  // Its numbers: n for the first leaf, never smaller, and by one at most from leaf to leaf.
  uint64_t n = run.n;
  for (uint64_t leaf = first; leaf < first + run.leaves.count; ++leaf) {
    if (leaves[leaf].n != n && leaves[leaf].n != n + 1) return false;
    if (leaf == first && leaves[leaf].n != n) return false;
    n = leaves[leaf].n;
  }
  return true;
}

std::string FakeMaster::BytesOf(const Commit& commit) {
  if (commit.outputs == nullptr || commit.outputs->size() != 1) return "";
  const OutputPiece& piece = commit.outputs->front();
  if (const auto* bytes = std::get_if<std::string>(&piece.where)) return *bytes;
  const Region& region = std::get<Region>(piece.where);
  const auto found = segments_.find(region.segment.value());
  if (found == segments_.end()) complaints_.push_back("a commit names bytes that are nowhere");
  return found == segments_.end() ? "" : found->second;
}

void FakeMaster::CheckOutputs(const FakeJob& job, const Commit& commit) {
  uint64_t sum = 0, tasks = 0;
  std::string values;
  for (const LeafRun& run : commit.runs) {
    for (uint64_t i = 0; i < run.leaves.count; ++i, ++tasks) {
      sum += run.leaves.first + i + 1;
      values += Bytes(run.leaves.first + i + 1);
    }
  }
  if (BytesOf(commit) != (job.described.reduces ? Bytes(sum) : values)) {
    complaints_.push_back(StrCat("job ", commit.job, ": the outputs are not those of the leaves"));
  }
  if (commit.tasks != tasks) complaints_.push_back("a commit counts other tasks than its leaves");
  if (job.described.whole_nodes()) {
    const LeafInterval& leaves = commit.runs.front().leaves;
    const uint64_t size = std::bit_ceil(leaves.count);
    const bool whole = leaves.count == size || leaves.first + leaves.count == job.leaf_count;
    if (commit.runs.size() != 1 || !whole || leaves.first % size != 0) {
      complaints_.push_back("a folded partial that is not of one node");
    }
  }
}

void FakeMaster::TakeCommit(const Commit& commit) {
  ++commits_;
  for (const LeafRun& run : commit.runs) {
    if (!Holds(commit.job, run)) {
      ++late_;
      return;
    }
  }
  CheckOutputs(jobs_->at(commit.job), commit);
  for (const LeafRun& run : commit.runs) {
    for (uint64_t i = 0; i < run.leaves.count; ++i) {
      Leaf& leaf = LeavesOf(commit.job)[run.leaves.first + i];
      CHECK(!leaf.done);
      leaf.done = true;
      leaf.n = 0;
      ++committed_;
    }
  }
}

void FakeMaster::Take(const Report& report) {
  if (report.number != last_report_ + 1) complaints_.push_back("reports are not numbered in order");
  last_report_ = report.number;
  for (const Commit& commit : report.commits) TakeCommit(commit);
  for (const MergeCommit& merge : report.merges) {
    if (merges_.erase(merge.n) == 0) complaints_.push_back("a merge is reported twice");
  }
  for (const Crash& crash : report.crashes) {
    ++crashes_;
    if (!Holds(crash.job, crash.run)) continue;
    for (uint64_t i = 0; i < crash.run.leaves.count; ++i) {
      Leaf& leaf = LeavesOf(crash.job)[crash.run.leaves.first + i];
      leaf.n = 0;
      leaf.suspect = true;
      ++leaf.attempt;
    }
  }
  for (const Return& back : report.returns) {
    if (!Holds(back.job, back.run)) continue;
    returned_ += back.run.leaves.count;
    for (uint64_t i = 0; i < back.run.leaves.count; ++i) {
      LeavesOf(back.job)[back.run.leaves.first + i].n = 0;
    }
  }
}

void FakeMaster::AckAll(std::vector<Event>* events) {
  if (last_report_ > 0) events->push_back(ReportAcked{last_report_});
}

Region FakeMaster::Store(std::string bytes) {
  const uint64_t segment = segments_.size() + 1;
  Region region{SegmentId(segment), 0, bytes.size(), 1};
  segments_[segment] = std::move(bytes);
  return region;
}

void FakeMaster::Attach(const SendHello& hello, std::vector<Event>* events) {
  if (hello.max_epoch > epoch_) complaints_.push_back("the worker obeys a later epoch");
  merges_.clear();
  for (auto& [id, leaves] : leaves_) {
    for (Leaf& leaf : leaves) leaf.n = 0;
  }
  for (const auto& [id, job] : *jobs_) events->push_back(job.described);
  Welcomed welcome{WorkerId(1), Epoch(epoch_), absl::Seconds(5), absl::Seconds(1), {}};
  for (const HeldLeaves& held : hello.held) {
    if (rng_->Chance(0.1)) continue;  // another worker has it by now
    std::vector<Leaf>& leaves = LeavesOf(held.job);
    uint64_t leaf = held.leaves.first;
    const uint64_t end = held.leaves.first + held.leaves.count;
    while (leaf < end) {
      uint64_t count = 0;
      while (leaf + count < end && !leaves[leaf + count].done && leaves[leaf + count].n == 0) {
        ++count;
      }
      if (count > 1 && rng_->Chance(0.2)) count = rng_->Between(1, count);  // in several grants
      if (count > 0) welcome.adopted.push_back(MakeGrant(held.job, leaf, 0, count));
      leaf += std::max<uint64_t>(count, 1);
    }
  }
  events->push_back(std::move(welcome));
}

bool FakeMaster::AllDone() const {
  for (const auto& [id, job] : *jobs_) {
    const auto found = leaves_.find(id);
    if (found == leaves_.end()) return false;
    for (const Leaf& leaf : found->second) {
      if (!leaf.done) return false;
    }
  }
  return true;
}

uint64_t FakeMaster::held() const {
  uint64_t held = 0;
  for (const auto& [id, leaves] : leaves_) {
    for (const Leaf& leaf : leaves) held += leaf.n != 0 ? 1 : 0;
  }
  return held;
}

}  // namespace tandem::worker
