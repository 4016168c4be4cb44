#include "tests/worker/core/fake_executors.h"

#include <algorithm>
#include <cstring>
#include <variant>

#include "common/base/check.h"
#include "common/base/strings.h"

namespace tandem::worker {

std::string Bytes(uint64_t value) {
  std::string bytes(sizeof(value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

void FakeExecutors::Start(const StartExecutor& effect) {
  for (const auto& [id, live] : live_) {
    if (live.owner == effect.owner && live.device == effect.device) {
      Complain("two executors of one owner on one device");
    }
  }
  live_[effect.executor].owner = effect.owner;
  live_[effect.executor].device = effect.device;
}

void FakeExecutors::Apply(const Effects& effects, std::vector<Event>* events) {
  for (const auto& effect : effects.to_executors) {
    if (const auto* start = std::get_if<StartExecutor>(&effect)) {
      Start(*start);
      continue;
    }
    if (const auto* close = std::get_if<CloseStaging>(&effect)) {
      if (live_.contains(close->executor)) Complain("staging of a live executor is closed");
      std::erase_if(staging_, [&](const auto& s) { return s.first.first == close->executor; });
      continue;
    }
    const ExecutorId id = std::visit([](const auto& e) { return e.executor; }, effect);
    const auto found = live_.find(id);
    if (found == live_.end()) continue;  // died meanwhile
    Live* live = &found->second;
    if (live->killed) continue;
    if (!live->ready && !std::holds_alternative<KillExecutor>(effect)) {
      Complain("an executor is used before it is ready");
    }
    if (std::holds_alternative<KillExecutor>(effect)) live->killed = true;
    if (const auto* e = std::get_if<SetupJob>(&effect)) live->set_up.insert(e->job);
    if (const auto* e = std::get_if<RunPiece>(&effect)) Do(live, *e, events);
    if (const auto* e = std::get_if<RunMerge>(&effect)) {
      live->queues[e->group].push_back({RunPiece{}, *e});
    }
    if (const auto* e = std::get_if<CancelPiece>(&effect)) Cancel(id, live, e->piece, events);
    if (const auto* e = std::get_if<ShrinkPiece>(&effect)) Shrink(id, live, *e, events);
    if (const auto* e = std::get_if<FlushJob>(&effect)) live->flushes.insert(e->job);
    if (const auto* e = std::get_if<DiscardAccumulator>(&effect)) live->accumulators.erase(e->job);
    if (const auto* e = std::get_if<ForgetJob>(&effect)) {
      if (live->set_up.erase(e->job) == 0) Complain("a job is forgotten that was not set up");
      live->accumulators.erase(e->job);
      live->flushes.erase(e->job);
    }
    if (const auto* e = std::get_if<ReleaseStaging>(&effect)) {
      if (staging_.erase({id, e->offset}) == 0) Complain("staging is released twice");
    }
  }
}

void FakeExecutors::Do(Live* live, const RunPiece& run, std::vector<Event>*) {
  pieces_.push_back(run);
  auto& queue = live->queues[run.group];
  queue.push_back({run, std::nullopt});
  if (!live->set_up.contains(run.job)) Complain("a piece of a job that is not set up");
  if (run.group >= (OnCpu(*live) ? groups_ : 1)) Complain("a piece for a group that is not there");
  if (queue.size() > pieces_max_) Complain("a group holds too many pieces");
  if (run.leaves.count == 0) Complain("an empty piece");
  if (jobs_->at(run.job).leaf_count < run.leaves.first + run.leaves.count) {
    Complain("a piece beyond the job's end");
  }
  size_t pieces = 0;
  for (const auto& [group, others] : live->queues) pieces += others.size();
  if (run.suspect && pieces > 1) Complain("a suspect does not run alone");
  if (run.suspect && run.leaves.count > 1) Complain("a suspect of more than a leaf");
  const DeviceChoice choice = jobs_->at(run.job).described.device;
  if (choice != DeviceChoice::kAuto && (choice == DeviceChoice::kCpu) != OnCpu(*live)) {
    Complain("a piece on a device that was not asked for");
  }
  // A group is one owner's at a time.
  for (const auto& [id, other] : live_) {
    if (other.device != live->device) continue;
    const auto found = other.queues.find(run.group);
    if (&other != live && found != other.queues.end() && !found->second.empty() && !other.killed) {
      Complain("two owners share a group");
    }
  }
}

// The first of a group is running: it goes on.
void FakeExecutors::Cancel(ExecutorId id, Live* live, PieceId piece, std::vector<Event>* events) {
  for (auto& [group, queue] : live->queues) {
    for (size_t i = 1; i < queue.size(); ++i) {
      const PieceId queued =
          queue[i].second.has_value() ? queue[i].second->piece : queue[i].first.piece;
      if (queued != piece) continue;
      events->push_back(PieceReturned{id, piece});
      queue.erase(queue.begin() + static_cast<long>(i));
      return;
    }
  }
}

// Of the first of a group one leaf has begun.
void FakeExecutors::Shrink(ExecutorId id, Live* live, const ShrinkPiece& shrink,
                           std::vector<Event>* events) {
  for (auto& [group, queue] : live->queues) {
    for (size_t i = 0; i < queue.size(); ++i) {
      RunPiece& run = queue[i].first;
      if (queue[i].second.has_value() || run.piece != shrink.piece) continue;
      const uint64_t before = run.leaves.count;
      const uint64_t begun = i == 0 ? 1 : 0;
      run.leaves.count = std::min(before, std::max(shrink.leaves, begun));
      leaves_shrunk_ += before - run.leaves.count;
      events->push_back(PieceShrunk{id, run.piece, run.leaves.count});
      if (run.leaves.count == 0) queue.erase(queue.begin() + static_cast<long>(i));
      return;
    }
  }
}

StagedOutput FakeExecutors::Output(ExecutorId id, bool staged, std::string bytes) {
  StagedOutput output;
  if (!staged) {
    output.inline_bytes = std::move(bytes);
    return output;
  }
  output.offset = last_offset_ += 64;
  output.length = bytes.size();
  staging_[{id, output.offset}] = std::move(bytes);
  return output;
}

void FakeExecutors::FinishFirst(ExecutorId id, Live* live, uint32_t group,
                                std::vector<Event>* events) {
  auto& queue = live->queues[group];
  const auto [run, merge] = queue.front();
  queue.pop_front();
  if (merge.has_value()) {
    uint64_t tasks = 0;
    for (const Partial& input : merge->inputs) tasks += input.tasks;
    events->push_back(MergeFinished{
        id, merge->piece, {Output(id, false, Bytes(tasks))}, tasks, 0, "", absl::Microseconds(5)});
    return;
  }
  const FakeJob& job = jobs_->at(run.job);
  if (!OnCpu(*live)) leaves_elsewhere_ += run.leaves.count;
  PieceFinished done{id, run.piece,       absl::Microseconds(10 + run.leaves.count), {}, false, {},
                     {}, run.leaves.count};
  uint64_t sum = 0;
  std::string values;
  for (uint64_t i = 0; i < run.leaves.count; ++i) {
    sum += run.leaves.first + i + 1;
    values += Bytes(run.leaves.first + i + 1);
  }
  if (job.described.accumulates) {
    Accumulated& into = live->accumulators[run.job];
    into.pieces.push_back(run.piece);
    into.sum += sum;
    into.tasks += run.leaves.count;
    done.accumulated = true;
  } else {
    done.outputs.push_back(Output(id, job.staged, job.described.reduces ? Bytes(sum) : values));
  }
  events->push_back(std::move(done));
}

void FakeExecutors::Flush(ExecutorId id, Live* live, JobId job, std::vector<Event>* events) {
  const Accumulated from = std::exchange(live->accumulators[job], {});
  events->push_back(PartialFinished{
      id, job, from.pieces, {Output(id, jobs_->at(job).staged, Bytes(from.sum))}, from.tasks});
}

void FakeExecutors::Advance(std::vector<Event>* events) {
  if (live_.empty()) return;
  auto it = std::next(live_.begin(), static_cast<long>(rng_->Below(live_.size())));
  auto& [id, live] = *it;
  if (live.killed) {
    events->push_back(ExecutorLost{id, "SIGKILL", {}});
    live_.erase(it);
  } else if (!live.ready) {
    live.ready = true;
    ExecutorReady ready{id, groups_, groups_, DeviceKind::kCpu};
    if (!OnCpu(live)) ready = {id, 1, 1, DeviceKind::kEmulated};
    ready.shrinks = id % 2 == 0;
    events->push_back(ready);
  } else if (!live.flushes.empty() && rng_->Chance(0.5)) {
    const JobId job = *live.flushes.begin();
    live.flushes.erase(job);
    Flush(id, &live, job, events);
  } else {
    const auto group = static_cast<uint32_t>(rng_->Below(groups_));
    if (!live.queues[group].empty()) FinishFirst(id, &live, group, events);
  }
}

void FakeExecutors::Crash(std::vector<Event>* events) {
  if (live_.empty()) return;
  auto it = std::next(live_.begin(), static_cast<long>(rng_->Below(live_.size())));
  ExecutorLost lost{it->first, "SIGSEGV", {}};
  for (const auto& [group, queue] : it->second.queues) {
    if (queue.empty() || queue.front().second.has_value() || rng_->Chance(0.3)) continue;
    const RunPiece& run = queue.front().first;
    const uint64_t first = rng_->Between(run.leaves.first, run.leaves.first + run.leaves.count - 1);
    lost.suspects.push_back({run.job, {first, 1}, false, 0});
  }
  events->push_back(std::move(lost));
  live_.erase(it);
}

bool FakeExecutors::idle() const {
  for (const auto& [id, live] : live_) {
    if (!live.ready || !live.flushes.empty()) return false;
    for (const auto& [group, queue] : live.queues) {
      if (!queue.empty()) return false;
    }
  }
  return true;
}

uint64_t FakeExecutors::bytes_staged() const {
  uint64_t bytes = 0;
  for (const auto& [place, content] : staging_) bytes += content.size();
  return bytes;
}

const std::string& FakeExecutors::Staged(ExecutorId executor, uint64_t offset) const {
  const auto found = staging_.find({executor, offset});
  CHECK(found != staging_.end());
  return found->second;
}

}  // namespace tandem::worker
