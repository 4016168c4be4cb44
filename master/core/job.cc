#include "master/core/job.h"

#include <utility>

#include "common/base/check.h"

namespace tandem::master {
namespace {

ReductionKind ReductionOf(const BoundJob& bound) {
  ReductionKind kind = ReductionKind::kNone;
  for (const BoundOutput& output : bound.outputs) {
    if (!output.reduced()) continue;
    if (!output.accumulates()) return ReductionKind::kOrdered;
    kind = ReductionKind::kExact;
  }
  return kind;
}

}  // namespace

std::unique_ptr<Job> MakeJob(JobId id, std::shared_ptr<const BoundJob> bound) {
  auto job = std::make_unique<Job>();
  job->id = id;
  job->bound = std::move(bound);
  job->reduction = ReductionOf(*job->bound);
  job->partials = PartialSet(job->reduction == ReductionKind::kOrdered);
  return job;
}

uint64_t Job::tasks_done() const {
  if (done.empty()) return 0;
  const uint64_t last = tree().leaf_count() - 1;
  const uint64_t short_by = tree().leaf_count() * tree().grain() - tree().task_count();
  return done.count() * tree().grain() - (done.last().end == last + 1 ? short_by : 0);
}

std::vector<uint64_t> GivenUpTasks(const Job& job, const Retry& retry) {
  std::vector<uint64_t> tasks;
  for (const auto& [task, strikes] : retry.tasks) {
    if (uint64_t{retry.strikes} + strikes >= job.crash_limit()) tasks.push_back(task);
  }
  return tasks;
}

void Job::CheckInvariants() const {
  done.CheckInvariants();
  free.CheckInvariants();
  free_suspects.CheckInvariants();
  leases.CheckInvariants();
  retries.CheckInvariants();
  partials.CheckInvariants(tree());
  if (ended()) {
    CHECK(leases.empty());
    CHECK(merges.empty());
    CHECK(!anything_free());
    CHECK(!ready);
    return;
  }
  uint64_t leased = 0;
  for (const LeaseRun& run : leases) {
    leased += run.end - run.begin;
    CHECK(!done.Intersects({run.begin, run.end}));
    CHECK(!free.Intersects({run.begin, run.end}));
    CHECK(!free_suspects.Intersects({run.begin, run.end}));
  }
  for (LeafRange leaves : free) {
    CHECK(!done.Intersects(leaves));
    CHECK(!free_suspects.Intersects(leaves));
  }
  for (LeafRange leaves : free_suspects) CHECK(!done.Intersects(leaves));
  for (const auto& [need, leaf] : free_large) {
    CHECK(!done.Intersects({leaf, leaf + 1}));
    CHECK(!free.Intersects({leaf, leaf + 1}));
    CHECK(!free_suspects.Intersects({leaf, leaf + 1}));
  }
  CHECK_EQ(done.count() + free.count() + free_suspects.count() + free_large.size() + leased,
           tree().leaf_count());
  size_t merging = 0;
  for (const auto& [n, merge] : merges) merging += merge.inputs.size();
  CHECK_EQ(partials.available() + merging, partials.size());
  retries.ForEach([&](LeafRange leaves, const Retry&) { CHECK(!done.Intersects(leaves)); });
}

}  // namespace tandem::master
