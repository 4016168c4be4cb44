#include "master/store/memory_store.h"

#include <algorithm>
#include <limits>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "master/store/output_page.h"
#include "master/store/page_token.h"

namespace tandem::master {

void MemoryStore::set_lying(bool lying) {
  absl::MutexLock lock(&mu_);
  if (lying && !durable_.has_value()) durable_ = state_;
  if (!lying) durable_.reset();
}

void MemoryStore::Crash() {
  absl::MutexLock lock(&mu_);
  if (durable_.has_value()) state_ = *durable_;
}

void MemoryStore::set_write_error(absl::Status error) {
  absl::MutexLock lock(&mu_);
  write_error_ = std::move(error);
}

void MemoryStore::FlipLogByte(uint64_t seq) {
  absl::MutexLock lock(&mu_);
  for (Commit& commit : state_.log) {
    if (commit.header.last_seq < seq) continue;
    CHECK(!commit.payload.empty());
    commit.payload.back() = static_cast<char>(commit.payload.back() ^ 1);
    return;
  }
  CHECK_MSG(false, "no such commit");
}

absl::StatusOr<Epoch> MemoryStore::RaiseEpoch() {
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(write_error_);
  return state_.epoch = state_.epoch.next();
}

absl::StatusOr<Epoch> MemoryStore::CurrentEpoch() {
  absl::MutexLock lock(&mu_);
  return state_.epoch;
}

uint64_t MemoryStore::HeadSeq() {
  absl::MutexLock lock(&mu_);
  return state_.head_seq();
}

absl::Status MemoryStore::CheckWriter(Epoch epoch) const {
  if (epoch != state_.epoch || !epoch.valid()) return StaleEpoch(epoch, state_.epoch);
  return write_error_;
}

absl::Status MemoryStore::CheckNewRows(absl::Span<const AppendBatch> batches) const {
  std::set<OutputKey> outputs;
  std::set<FailureKey> failures;
  for (const AppendBatch& batch : batches) {
    for (const OutputRow& row : batch.outputs) {
      const OutputKey key(row.job, row.output, row.generation, row.first_task);
      if (state_.outputs.contains(key) || !outputs.insert(key).second) {
        return DuplicateRow(StrCat("an output row of job ", row.job, " at task ", row.first_task));
      }
    }
    for (const FailureRow& row : batch.failures) {
      const FailureKey key(row.job, row.failure.task, row.failure.attempt);
      if (state_.failures.contains(key) || !failures.insert(key).second) {
        return DuplicateRow(StrCat("a failure of job ", row.job, " task ", row.failure.task));
      }
    }
  }
  return absl::OkStatus();
}

void MemoryStore::ApplyRows(const AppendBatch& batch) {
  state_.forgotten.insert(batch.forgotten.begin(), batch.forgotten.end());
  for (const OutputRow& row : batch.outputs) {
    state_.outputs[{row.job, row.output, row.generation, row.first_task}] = row;
  }
  for (const FailureRow& row : batch.failures) {
    state_.failures[{row.job, row.failure.task, row.failure.attempt}] = row;
  }
  for (const JobRow& row : batch.history) UpsertJob(row);
}

void MemoryStore::UpsertJob(const JobRow& row) {
  JobRow& stored = state_.jobs[row.id];
  std::optional<std::string> spec = row.spec.has_value() ? row.spec : std::move(stored.spec);
  stored = row;
  stored.spec = std::move(spec);
}

absl::StatusOr<uint64_t> MemoryStore::Append(Epoch epoch, absl::Span<const AppendBatch> batches) {
  Commit commit;
  RETURN_IF_ERROR(EncodeCommit(batches, limits_, &commit.payload));
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(CheckWriter(epoch));
  RETURN_IF_ERROR(CheckNewRows(batches));
  commit.header = {state_.head_seq() + batches.size(), batches.size(), epoch, 0};
  commit.header.checksum = ChainChecksum(state_.head_checksum(), commit.header, commit.payload);
  state_.log.push_back(std::move(commit));
  for (const AppendBatch& batch : batches) ApplyRows(batch);
  return state_.head_seq();
}

// The commits that hold batches >= seq, whose links (and the one before them) were checked.
absl::StatusOr<std::vector<MemoryStore::Commit>> MemoryStore::CheckedLogFrom(uint64_t seq) {
  absl::MutexLock lock(&mu_);
  if (seq <= state_.base_seq) return LogBeginsLater(seq, state_.base_seq);
  std::vector<Commit> commits;
  uint64_t previous_seq = state_.base_seq;
  uint64_t previous_checksum = state_.base_checksum;
  for (const Commit& commit : state_.log) {
    RETURN_IF_ERROR(CheckLink(previous_seq, previous_checksum, commit.header, commit.payload));
    previous_seq = commit.header.last_seq;
    previous_checksum = commit.header.checksum;
    if (previous_seq >= seq) commits.push_back(commit);
  }
  return commits;
}

absl::Status MemoryStore::ReadFrom(uint64_t seq, const Visitor& visit) {
  ASSIGN_OR_RETURN(const std::vector<Commit> commits, CheckedLogFrom(std::max<uint64_t>(seq, 1)));
  for (const Commit& commit : commits) {
    RETURN_IF_ERROR(VisitBatches(commit.header, commit.payload, seq, visit));
  }
  return absl::OkStatus();
}

absl::Status MemoryStore::SaveSnapshot(Epoch epoch, uint64_t seq, std::string_view bytes) {
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(CheckWriter(epoch));
  const uint64_t present = state_.snapshot.has_value() ? state_.snapshot->seq : 0;
  RETURN_IF_ERROR(CheckSnapshotSeq(seq, present, state_.head_seq()));
  state_.snapshot = Snapshot{seq, std::string(bytes)};
  auto keep = state_.log.begin();
  for (; keep != state_.log.end() && keep->header.last_seq <= seq; ++keep) {
    state_.base_seq = keep->header.last_seq;
    state_.base_checksum = keep->header.checksum;
  }
  state_.log.erase(state_.log.begin(), keep);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Snapshot>> MemoryStore::LoadSnapshot() {
  absl::MutexLock lock(&mu_);
  return state_.snapshot;
}

absl::StatusOr<OutputPage> MemoryStore::OutputsOf(JobId job, uint32_t output, uint64_t first_task,
                                                  uint64_t task_count) {
  absl::MutexLock lock(&mu_);
  OutputPageBuilder builder(limits_, first_task, task_count);
  if (state_.forgotten.contains(job)) return std::move(builder).Finish();
  uint64_t generation = 0;
  while (generation <= std::numeric_limits<uint32_t>::max()) {
    auto it = state_.outputs.lower_bound({job, output, static_cast<uint32_t>(generation), 0});
    if (it == state_.outputs.end() || it->second.job != job || it->second.output != output) break;
    const uint32_t present = it->second.generation;
    builder.StartGeneration();
    for (; it != state_.outputs.end() && it->second.job == job && it->second.output == output &&
           it->second.generation == present;
         ++it) {
      if (!builder.Add(it->second)) break;
    }
    generation = uint64_t{present} + 1;
  }
  return std::move(builder).Finish();
}

absl::StatusOr<FailurePage> MemoryStore::FailuresOf(JobId job, uint32_t page_size,
                                                    std::string_view page_token) {
  ASSIGN_OR_RETURN(const FailurePlace place, ParseFailurePlace(page_token));
  absl::MutexLock lock(&mu_);
  FailurePage page;
  if (state_.forgotten.contains(job)) return page;
  for (auto it = state_.failures.lower_bound({job, place.task, place.attempt});
       it != state_.failures.end() && it->second.job == job; ++it) {
    const TaskFailure& failure = it->second.failure;
    if (page.rows.size() == PageRows(page_size, limits_.page_rows_max)) {
      page.next_page_token = ToPageToken(FailurePlace{failure.task, failure.attempt});
      break;
    }
    page.rows.push_back(it->second);
  }
  return page;
}

absl::StatusOr<std::vector<SegmentId>> MemoryStore::ReferencedSegments() {
  absl::MutexLock lock(&mu_);
  std::set<SegmentId> segments;
  for (const auto& [key, row] : state_.outputs) {
    const auto* region = std::get_if<Region>(&row.where);
    if (region != nullptr && !state_.forgotten.contains(row.job)) segments.insert(region->segment);
  }
  return std::vector<SegmentId>(segments.begin(), segments.end());
}

absl::Status MemoryStore::Project(uint64_t seq, absl::Span<const JobRow> rows) {
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(write_error_);
  if (seq < state_.projected_seq) return absl::OkStatus();
  for (const JobRow& row : rows) UpsertJob(row);
  state_.projected_seq = seq;
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> MemoryStore::ProjectedSeq() {
  absl::MutexLock lock(&mu_);
  return state_.projected_seq;
}

absl::StatusOr<JobPage> MemoryStore::ListJobs(const JobFilter& filter, uint32_t page_size,
                                              std::string_view page_token) {
  ASSIGN_OR_RETURN(const JobId older_than, ParseOlderThan(page_token));
  const auto matches = [&filter](const JobRow& row) {
    return (filter.owner.empty() || row.owner == filter.owner) &&
           (filter.states.empty() ||
            std::count(filter.states.begin(), filter.states.end(), row.state) > 0) &&
           row.name.substr(0, filter.name_prefix.size()) == filter.name_prefix &&
           filter.TakesKernel(row.kernel) && row.submitted >= filter.submitted_since &&
           std::all_of(filter.labels.begin(), filter.labels.end(), [&row](const auto& label) {
             const auto it = row.labels.find(label.first);
             return it != row.labels.end() && it->second == label.second;
           });
  };
  absl::MutexLock lock(&mu_);
  JobPage page;
  for (auto it = std::make_reverse_iterator(state_.jobs.lower_bound(older_than));
       it != state_.jobs.rend(); ++it) {
    if (!matches(it->second)) continue;
    if (page.rows.size() == PageRows(page_size, limits_.page_rows_max)) {
      page.next_page_token = ToPageToken(page.rows.back().id);
      break;
    }
    page.rows.push_back(it->second);
    page.rows.back().spec.reset();
  }
  return page;
}

absl::StatusOr<JobRow> MemoryStore::FindJob(JobId job) {
  absl::MutexLock lock(&mu_);
  const auto it = state_.jobs.find(job);
  if (it == state_.jobs.end()) return NoJob(job);
  return it->second;
}

absl::Status MemoryStore::EraseJob(JobId job) {
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(write_error_);
  state_.jobs.erase(job);
  return absl::OkStatus();
}

absl::StatusOr<bool> MemoryStore::Maintain() {
  absl::MutexLock lock(&mu_);
  const std::set<JobId>& forgotten = state_.forgotten;
  const auto is_forgotten = [&forgotten](const auto& row) {
    return forgotten.contains(row.second.job);
  };
  std::erase_if(state_.outputs, is_forgotten);
  std::erase_if(state_.failures, is_forgotten);
  return false;
}

absl::StatusOr<VerifyReport> MemoryStore::Verify() {
  VerifyReport report;
  uint64_t base = 0;
  {
    absl::MutexLock lock(&mu_);
    base = state_.base_seq;
    report.output_rows = state_.outputs.size();
  }
  const absl::StatusOr<std::vector<Commit>> commits = CheckedLogFrom(base + 1);
  if (commits.ok()) {
    report.commits = commits->size();
  } else {
    report.problems.emplace_back(ToStd(commits.status().message()));
  }
  return report;
}

}  // namespace tandem::master
