// The durable state as records, and its hash.
#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "common/model/outputs.h"
#include "master/core/apply.h"

namespace tandem::master {
namespace {

class Hasher {
 public:
  void Add(uint64_t value) { hash_ = Mix64(hash_ + 0x9e3779b97f4a7c15u + value); }
  void Add(std::string_view text) {
    Add(text.size());
    for (size_t i = 0; i < text.size(); i += 8) {
      uint64_t word = 0;
      for (size_t j = i; j < std::min(i + 8, text.size()); ++j) {
        word = word << 8 | static_cast<uint8_t>(text[j]);
      }
      Add(word);
    }
  }
  void Add(const OutputsHandle& outputs) {
    if (outputs == nullptr || outputs->empty()) return Add(uint64_t{0});
    Add(outputs->size() + 1);
    for (const OutputPiece& piece : *outputs) {
      Add(piece.output);
      if (const auto* bytes = std::get_if<std::string>(&piece.where)) {
        Add(std::string_view(*bytes));
      } else {
        const Region& region = std::get<Region>(piece.where);
        for (uint64_t v : {region.segment.value(), region.offset, region.length, region.xxh3}) {
          Add(v);
        }
      }
    }
  }
  uint64_t hash() const { return hash_; }

 private:
  uint64_t hash_ = 0;
};

void HashJob(const Job& job, Hasher& h) {
  h.Add(job.id.value());
  h.Add(std::string_view(job.spec().owner));
  h.Add(std::string_view(job.bound->kernel_identity));
  h.Add(job.tree().task_count());
  h.Add(job.tree().grain());
  h.Add(std::string_view(job.request_id));
  h.Add(job.request_hash);
  h.Add(static_cast<uint64_t>(absl::ToUnixNanos(job.submitted)));
  h.Add(job.ended() ? job.phase.index() : 0);
  if (const auto* failed = std::get_if<Failed>(&job.phase)) h.Add(std::string_view(failed->reason));
  h.Add(job.done.interval_count());
  for (LeafRange leaves : job.done) {
    h.Add(leaves.begin);
    h.Add(leaves.end);
  }
  h.Add(job.tasks_failed);
  h.Add(job.busy_ns);
  h.Add(job.partials.size());
  job.partials.ForEach([&](const Partial& partial) {
    for (uint64_t v : {partial.id, partial.tasks, partial.failed}) h.Add(v);
    for (const LeafInterval& leaves : partial.leaves) {
      h.Add(leaves.first);
      h.Add(leaves.count);
    }
    h.Add(partial.outputs);
  });
  // By maximal intervals: entries that touch and are equal hash as one.
  LeafRange run;
  const Retry* last = nullptr;
  const auto flush = [&] {
    if (last == nullptr) return;
    for (uint64_t v : {run.begin, run.end, uint64_t{last->attempt}, uint64_t{last->failures},
                       uint64_t{last->strikes}, uint64_t{last->suspect}, uint64_t{last->level}}) {
      h.Add(v);
    }
    for (const auto& [task, strikes] : last->tasks) {
      h.Add(task);
      h.Add(strikes);
    }
  };
  job.retries.ForEach([&](LeafRange leaves, const Retry& retry) {
    if (last != nullptr && leaves.begin == run.end && retry == *last) {
      run.end = leaves.end;
      return;
    }
    flush();
    run = leaves;
    last = &retry;
  });
  flush();
}

void SnapshotRetries(const Job& job, std::vector<Record>* records) {
  job.retries.ForEach([&](LeafRange leaves, const Retry& retry) {
    LeavesRetried record{.job = job.id,
                         .leaves = IntervalOf(leaves),
                         .attempt = retry.attempt,
                         .failures = retry.failures,
                         .strikes = retry.strikes,
                         .suspect = retry.suspect,
                         .level = retry.level};
    if (retry.tasks.empty()) records->push_back(record);
    for (const auto& [task, strikes] : retry.tasks) {
      record.task_known = true;
      record.task = task;
      record.task_strikes = strikes;
      records->push_back(record);
    }
  });
}

void SnapshotJob(const Job& job, std::vector<Record>* records) {
  records->push_back(JobAccepted{.job = job.id,
                                 .bound = job.bound,
                                 .request_id = job.request_id,
                                 .request_hash = job.request_hash,
                                 .submitted = job.submitted});
  if (!job.done.empty() || job.busy_ns != 0) {
    LeavesDone done;
    done.job = job.id;
    for (LeafRange leaves : job.done) done.leaves.push_back(IntervalOf(leaves));
    done.tasks_failed = job.tasks_failed;
    done.busy_ns = job.busy_ns;
    records->push_back(std::move(done));
  }
  job.partials.ForEach([&](const Partial& partial) {
    records->push_back(PartialsMerged{.job = job.id, .consumed = {}, .result = partial});
  });
  SnapshotRetries(job, records);
  if (!job.ended()) return;
  JobEnded ended{job.id, static_cast<uint8_t>(StateOf(job.phase)), ""};
  if (const auto* failed = std::get_if<Failed>(&job.phase)) ended.reason = failed->reason;
  if (StateOf(job.phase) == JobState::kCancelled) records->push_back(JobCancelled{job.id});
  records->push_back(std::move(ended));
}

}  // namespace

void AppendSnapshot(const State& state, std::vector<Record>* records) {
  records->push_back(IdsIssued{state.reserved_jobs, state.last_worker});
  for (const auto& [identity, index] : state.kernel_index) {
    if (state.kernels[index].announced == nullptr) continue;
    records->push_back(KernelAnnounced{state.kernels[index].announced});
  }
  for (const auto& [id, name] : state.known_workers) records->push_back(WorkerKnown{id, name});
  for (const std::string& name : state.drained) records->push_back(WorkerDrained{name, true});
  for (const auto& [id, job] : state.jobs) SnapshotJob(*job, records);
}

uint64_t HashDurable(const State& state) {
  Hasher h;
  h.Add(state.reserved_jobs.value());
  h.Add(state.last_worker.value());
  for (const auto& [identity, index] : state.kernel_index) {
    if (state.kernels[index].announced != nullptr) h.Add(std::string_view(identity));
  }
  for (const auto& [id, name] : state.known_workers) {
    h.Add(id.value());
    h.Add(std::string_view(name));
  }
  for (const std::string& name : state.drained) h.Add(std::string_view(name));
  for (const auto& [id, job] : state.jobs) HashJob(*job, h);
  return h.hash();
}

}  // namespace tandem::master
