#include "tests/sim/auditor.h"

#include "tests/sim/task_model.h"

namespace tandem::sim {

using master::JobState;

void Auditor::AddSegmentBytes(const Region& region, std::string bytes) {
  segments_[{region.segment.value(), region.offset}] = std::move(bytes);
}

std::string Auditor::BytesOf(const OutputsHandle& outputs) const {
  if (outputs == nullptr || outputs->size() != 1) return "";
  const OutputPiece& piece = outputs->front();
  if (const auto* bytes = std::get_if<std::string>(&piece.where)) return *bytes;
  const Region& region = std::get<Region>(piece.where);
  const auto it = segments_.find({region.segment.value(), region.offset});
  return it == segments_.end() ? "" : it->second;
}

void Auditor::OnDurable(const master::Record& record) {
  std::visit([&](const auto& r) { On(r); }, record);
}

void Auditor::On(const master::JobAccepted& r) {
  JobAudit& job = jobs_[r.job];
  world_->Expect(job.bound == nullptr, StrCat("job ", r.job, " is accepted twice"));
  job.bound = r.bound;
  job.request_id = r.request_id;
  job.done.assign(r.bound->tree.leaf_count(), false);
  const auto [it, added] = requests_.emplace(r.request_id, r.job);
  world_->Expect(added,
                 StrCat("request ", r.request_id, " made jobs ", it->second, " and ", r.job));
}

void Auditor::On(const master::LeavesDone& r) {
  JobAudit& job = jobs_[r.job];
  if (job.bound == nullptr || job.ended) {
    return world_->Broken(StrCat("leaves done of job ", r.job, ", which is not running"));
  }
  const RangeTree& tree = job.bound->tree;
  for (const LeafInterval& leaves : r.leaves) {
    for (uint64_t leaf = leaves.first; leaf < leaves.first + leaves.count; ++leaf) {
      world_->Expect(!job.done.at(leaf), StrCat("job ", r.job, " leaf ", leaf, " is done twice"));
      job.done[leaf] = true;
      ++job.leaves_done;
    }
  }
  uint64_t last = 0;
  for (const TaskFailure& failure : r.failures) {
    const uint64_t leaf = tree.LeafOfTask(failure.task);
    bool inside = false;
    for (const LeafInterval& leaves : r.leaves) {
      inside = inside || (leaves.first <= leaf && leaf < leaves.first + leaves.count);
    }
    world_->Expect(inside, "a failure outside what became done");
    world_->Expect(failure.task >= last, "failures out of order");
    last = failure.task;
    world_->Expect(job.failed.insert(failure.task).second, "a task failed twice for good");
  }
  job.tasks_failed += r.tasks_failed;
  world_->Expect(job.tasks_failed == job.failed.size(), "failures are not counted right");
  if (job.bound->kernel.name == "map" && r.outputs != nullptr) CheckMapBytes(job, r);
}

void Auditor::CheckMapBytes(const JobAudit& job, const master::LeavesDone& r) {
  const RangeTree& tree = job.bound->tree;
  const std::string bytes = BytesOf(r.outputs);
  const LeafInterval covered = r.covered.front();
  const uint64_t base = covered.first * tree.grain();
  const uint64_t tasks_covered =
      tree.Tasks(LeafRange{covered.first, covered.first + covered.count}).size();
  world_->Expect(
      bytes.size() == kValueBytes * tasks_covered,
      StrCat("job ", r.job, ": an output of ", r.outputs->size(), " pieces has ", bytes.size(),
             " bytes for ", tasks_covered, " tasks from leaf ", covered.first, " on"));
  for (const LeafInterval& leaves : r.leaves) {
    const TaskRange tasks = tree.Tasks(LeafRange{leaves.first, leaves.first + leaves.count});
    for (uint64_t task = tasks.begin; task < tasks.end; ++task) {
      if (job.failed.contains(task)) continue;
      world_->Expect(DecodeValue(bytes, task - base) == TaskValue(r.job, task),
                     StrCat("job ", r.job, " task ", task, " has another task's bytes"));
    }
  }
}

void Auditor::On(const master::LeavesRetried& r) {
  JobAudit& job = jobs_[r.job];
  for (uint64_t i = 0; i < r.leaves.count; ++i) {
    world_->Expect(!job.done.at(r.leaves.first + i),
                   StrCat("job ", r.job, " leaf ", r.leaves.first + i, " runs again though done"));
  }
}

void Auditor::On(const master::JobEnded& r) {
  JobAudit& job = jobs_[r.job];
  world_->Expect(!job.ended, StrCat("job ", r.job, " ended twice"));
  job.ended = true;
  job.state = static_cast<JobState>(r.state);
  job.cancelled = job.state == JobState::kCancelled;
  if (job.state == JobState::kSucceeded) {
    world_->Expect(job.leaves_done == job.done.size(),
                   StrCat("job ", r.job, " succeeded without all of its leaves"));
  }
}

void Auditor::OnSubmitAcknowledged(const std::string& request_id, JobId job) {
  const auto it = requests_.find(request_id);
  world_->Expect(it != requests_.end() && it->second == job,
                 StrCat("request ", request_id, " was acknowledged but is not durable"));
}

void Auditor::OnCancelAcknowledged(JobId job) {
  world_->Expect(jobs_[job].cancelled, StrCat("cancel of job ", job, " is not durable"));
  cancel_acknowledged_.insert(job);
}

void Auditor::OnGrant(JobId job, const std::shared_ptr<const BoundJob>& bound) {
  const auto heard = heard_.try_emplace(job, bound).first;
  world_->Expect(heard->second == bound,
                 StrCat("number ", job, ", of which workers have heard, is given to another job"));
  world_->Expect(!cancel_acknowledged_.contains(job),
                 StrCat("job ", job, " is granted after its cancel was acknowledged"));
}

void Auditor::OnStatus(const master::JobStatus& status) {
  JobAudit& job = jobs_[status.job];
  if (job.bound == nullptr) return world_->Broken("a status of a job that is not durable");
  world_->Expect(status.sequence > job.seen.sequence, "a watcher's sequence went back");
  world_->Expect(status.tasks_done >= job.seen.tasks_done,
                 StrCat("job ", status.job, ": what was seen done is not done any more"));
  world_->Expect(job.seen.state < JobState::kSucceeded || status.state == job.seen.state,
                 "an ended job changed its state");
  if (status.state >= JobState::kSucceeded) {
    world_->Expect(job.ended && job.state == status.state, "an end was seen before it was durable");
  }
  job.seen = status;
}

bool Auditor::AllEnded() const {
  for (const auto& [id, job] : jobs_) {
    if (!job.ended || job.seen.state < JobState::kSucceeded) return false;
  }
  return true;
}

std::string Auditor::Unfinished() const {
  std::string text;
  for (const auto& [id, job] : jobs_) {
    if (job.ended) continue;
    text += StrCat(" job ", id, " (", job.bound->kernel.name, "): ", job.leaves_done, " of ",
                   job.done.size(), " leaves, state ", static_cast<int>(job.seen.state), " waits ",
                   static_cast<int>(job.seen.wait_reason));
  }
  return text;
}

void Auditor::CheckResult(JobId id, const JobAudit& job) {
  const RangeTree& tree = job.bound->tree;
  const uint64_t value = DecodeValue(BytesOf(job.seen.result));
  uint64_t expected = 0;
  if (job.bound->kernel.name == "count") {
    for (uint64_t task = 0; task < tree.task_count(); ++task) {
      if (!job.failed.contains(task)) expected += TaskValue(id, task);
    }
  } else if (!tree.empty()) {
    expected = FoldNode(tree, tree.root(),
                        [&](uint64_t leaf) { return LeafValue(id, tree, leaf, job.failed); });
  }
  world_->Expect(value == expected, StrCat("job ", id, " has a wrong sum"));
}

void Auditor::CheckEnd() {
  for (const auto& [id, job] : jobs_) {
    if (job.cancelled) continue;
    if (SetupCrashes(id)) {
      world_->Expect(job.state == JobState::kFailed || job.bound->task_count() == 0,
                     StrCat("job ", id, " succeeded though it crashes at once"));
      continue;
    }
    const JobSpec& spec = job.bound->spec;
    const bool over =
        spec.max_task_failures.has_value() && job.tasks_failed > *spec.max_task_failures;
    // Too many crashes in a row: not all of its tasks have run.
    const bool given_up = job.seen.reason.rfind("CRASH_LIMIT", 0) == 0;
    world_->Expect(!given_up || job.tasks_failed > 0,
                   StrCat("job ", id, " is blamed for another's crashes"));
    const bool fails = over || given_up || (job.tasks_failed > 0 && !spec.allow_failed);
    world_->Expect(job.state == (fails ? JobState::kFailed : JobState::kSucceeded),
                   StrCat("job ", id, " ended in the wrong state: ", job.seen.reason));
    if (!over && !given_up) {
      world_->Expect(job.leaves_done == job.done.size(), StrCat("job ", id, " lost a task"));
    }
    if (job.state == JobState::kSucceeded && job.bound->kernel.name != "map") CheckResult(id, job);
  }
}

}  // namespace tandem::sim
