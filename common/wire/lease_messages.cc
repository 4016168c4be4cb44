#include "common/wire/lease_messages.h"

#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "common/base/status_macros.h"
#include "common/wire/decode_util.h"
#include "common/wire/lists.h"

namespace tandem::wire {
namespace {

// Levels of the range tree: common/model/range_tree.h has at most 2^62 tasks.
constexpr uint32_t kLevelMax = 62;

absl::Status DecodeJob(uint64_t from, JobId* to) {
  if (ABSL_PREDICT_FALSE(from == 0)) return Malformed("job", "is missing");
  *to = JobId(from);
  return absl::OkStatus();
}

absl::Status CheckLease(uint64_t n) {
  return ABSL_PREDICT_FALSE(n == 0) ? Malformed("n", "is missing") : absl::OkStatus();
}

// A text that came from a kernel or an operating system.
void SetText(std::string_view text, std::string* to) {
  if (text.size() <= WireLimits::kReasonBytes && CheckText(text, text.size(), "").ok()) {
    to->assign(text);
  } else {
    *to = CleanText(text, WireLimits::kReasonBytes);
  }
}

absl::Status TakeReason(std::string* from, std::string* to, std::string_view field) {
  RETURN_IF_ERROR(CheckText(*from, WireLimits::kReasonBytes, field));
  *to = std::move(*from);
  return absl::OkStatus();
}

absl::Status CheckAscending(const std::vector<TaskFailure>& failures) {
  for (size_t i = 1; i < failures.size(); ++i) {
    if (failures[i - 1].task >= failures[i].task) {
      return Malformed(Indexed("failures", static_cast<int64_t>(i)), "is not in order of tasks");
    }
  }
  return absl::OkStatus();
}

}  // namespace

void Encode(const Region& from, v1::Region* to) {
  to->set_segment(from.segment.value());
  to->set_offset(from.offset);
  to->set_length(from.length);
  to->set_xxh3(from.xxh3);
}

absl::Status Decode(const v1::Region& from, Region* to) {
  if (from.segment() == 0) return Malformed("segment", "is missing");
  if (from.offset() + from.length() < from.offset()) return Malformed("length", "overflows");
  *to = Region{SegmentId(from.segment()), from.offset(), from.length(), from.xxh3()};
  return absl::OkStatus();
}

void Encode(const OutputPiece& from, v1::OutputPiece* to) {
  to->set_output(from.output);
  if (const auto* bytes = std::get_if<std::string>(&from.where)) {
    to->set_inline_(*bytes);
  } else {
    Encode(std::get<Region>(from.where), to->mutable_region());
  }
}

absl::Status Decode(v1::OutputPiece* from, OutputPiece* to) {
  if (from->output() >= WireLimits::kOutputs) {
    return Malformed("output", StrCat("is ", from->output(), "; kernels have fewer outputs"));
  }
  to->output = from->output();
  switch (from->where_case()) {
    case v1::OutputPiece::kInline:
      if (from->inline_().size() > WireLimits::kInlineBytes) {
        return Malformed("inline", StrCat("is longer than ", WireLimits::kInlineBytes, " bytes"));
      }
      to->where = std::move(*from->mutable_inline_());
      return absl::OkStatus();
    case v1::OutputPiece::kRegion:
      if (absl::Status status = Decode(from->region(), &to->where.emplace<Region>());
          !status.ok()) {
        return WithField(std::move(status), "region");
      }
      return absl::OkStatus();
    case v1::OutputPiece::WHERE_NOT_SET:
      break;
  }
  return Malformed("where", "is missing: neither inline bytes nor a region");
}

void Encode(const OutputsHandle& from, google::protobuf::RepeatedPtrField<v1::OutputPiece>* to) {
  if (from != nullptr) EncodeList(*from, to);
}

absl::Status Decode(google::protobuf::RepeatedPtrField<v1::OutputPiece>* from, OutputsHandle* to) {
  to->reset();
  if (from->empty()) return absl::OkStatus();
  auto pieces = std::make_shared<CommitOutputs>();
  RETURN_IF_ERROR(DecodeList(from, pieces.get(), WireLimits::kOutputs, "outputs"));
  *to = std::move(pieces);
  return absl::OkStatus();
}

void Encode(const TaskFailure& from, v1::TaskFailure* to) {
  to->set_task(from.task);
  to->set_attempt(from.attempt);
  SetText(from.reason, to->mutable_reason());
}

absl::Status Decode(v1::TaskFailure* from, TaskFailure* to) {
  to->task = from->task();
  to->attempt = from->attempt();
  return TakeReason(from->mutable_reason(), &to->reason, "reason");
}

void EncodeIntervals(const std::vector<LeafInterval>& from,
                     google::protobuf::RepeatedField<uint64_t>* to) {
  to->Reserve(to->size() + 2 * static_cast<int>(from.size()));
  for (const LeafInterval& leaves : from) {
    to->Add(leaves.first);
    to->Add(leaves.count);
  }
}

absl::Status DecodeIntervals(const google::protobuf::RepeatedField<uint64_t>& from,
                             std::vector<LeafInterval>* to) {
  if (from.size() % 2 != 0) return Malformed("leaves", "ends in half an interval");
  to->clear();
  to->reserve(static_cast<size_t>(from.size()) / 2);
  uint64_t end = 0;
  for (int i = 0; i < from.size(); i += 2) {
    const LeafInterval leaves{from[i], from[i + 1]};
    RETURN_IF_ERROR(CheckInterval(leaves.first, leaves.count, Indexed("leaves", i)));
    if (leaves.first < end) return Malformed(Indexed("leaves", i), "is not in ascending order");
    end = leaves.first + leaves.count;
    to->push_back(leaves);
  }
  return absl::OkStatus();
}

void Encode(const Grant& from, worker::v1::Grant* to) {
  to->set_job(from.job.value());
  to->set_first_n(from.first_n);
  to->set_first_leaf(from.first_leaf);
  to->set_level(from.level);
  to->set_count(from.count);
  to->set_attempt(from.attempt);
  to->set_suspect(from.suspect);
  to->mutable_skip_tasks()->Assign(from.skip_tasks.begin(), from.skip_tasks.end());
  to->set_suspect_set(from.suspect_set);
}

absl::Status Decode(const worker::v1::Grant& from, Grant* to) {
  RETURN_IF_ERROR(DecodeJob(from.job(), &to->job));
  if (from.first_n() == 0) return Malformed("first_n", "is missing");
  RETURN_IF_ERROR(CheckInterval(from.first_n(), from.count(), "count"));
  if (from.level() > kLevelMax) return Malformed("level", StrCat("is above ", kLevelMax));
  uint64_t leaves = 0;
  uint64_t end = 0;
  if (__builtin_mul_overflow(from.count(), uint64_t{1} << from.level(), &leaves) ||
      __builtin_add_overflow(from.first_leaf(), leaves, &end)) {
    return Malformed("count", "overflows");
  }
  if (from.skip_tasks_size() > WireLimits::kItems) return Malformed("skip_tasks", "is too long");
  to->first_n = from.first_n();
  to->first_leaf = from.first_leaf();
  to->level = static_cast<uint8_t>(from.level());
  to->count = from.count();
  to->attempt = from.attempt();
  to->suspect = from.suspect();
  to->skip_tasks.assign(from.skip_tasks().begin(), from.skip_tasks().end());
  to->suspect_set = from.suspect_set();
  return absl::OkStatus();
}

void Encode(const Partial& from, worker::v1::Partial* to) {
  to->set_id(from.id);
  EncodeIntervals(from.leaves, to->mutable_leaves());
  Encode(from.outputs, to->mutable_outputs());
  to->set_tasks(from.tasks);
  to->set_failed(from.failed);
}

absl::Status Decode(worker::v1::Partial* from, Partial* to) {
  to->id = from->id();
  RETURN_IF_ERROR(DecodeIntervals(from->leaves(), &to->leaves));
  RETURN_IF_ERROR(Decode(from->mutable_outputs(), &to->outputs));
  to->tasks = from->tasks();
  to->failed = from->failed();
  return absl::OkStatus();
}

void Encode(const MergeGrant& from, worker::v1::MergeGrant* to) {
  to->set_job(from.job.value());
  to->set_n(from.n);
  EncodeList(from.inputs, to->mutable_inputs());
}

absl::Status Decode(worker::v1::MergeGrant* from, MergeGrant* to) {
  RETURN_IF_ERROR(DecodeJob(from->job(), &to->job));
  RETURN_IF_ERROR(CheckLease(from->n()));
  to->n = from->n();
  return DecodeList(from->mutable_inputs(), &to->inputs, WireLimits::kItems, "inputs");
}

void Encode(const Recall& from, worker::v1::Recall* to) {
  to->set_job(from.job.value());
  to->set_first_leaf(from.leaves.first);
  to->set_leaf_count(from.leaves.count);
}

absl::Status Decode(const worker::v1::Recall& from, Recall* to) {
  RETURN_IF_ERROR(DecodeJob(from.job(), &to->job));
  RETURN_IF_ERROR(CheckInterval(from.first_leaf(), from.leaf_count(), "leaf_count"));
  to->leaves = {from.first_leaf(), from.leaf_count()};
  return absl::OkStatus();
}

void Encode(const Outlook& from, worker::v1::Outlook* to) {
  to->set_job(from.job.value());
  to->set_share_leaves(from.share_leaves);
}

absl::Status Decode(const worker::v1::Outlook& from, Outlook* to) {
  RETURN_IF_ERROR(DecodeJob(from.job(), &to->job));
  RETURN_IF_ERROR(CheckRate(from.share_leaves(), "share_leaves"));
  to->share_leaves = from.share_leaves();
  return absl::OkStatus();
}

void Encode(const HeldLeaves& from, worker::v1::HeldLeaves* to) {
  to->set_job(from.job.value());
  to->set_first_leaf(from.leaves.first);
  to->set_leaf_count(from.leaves.count);
  to->set_attempt(from.attempt);
  to->set_epoch(from.lease.epoch.value());
  to->set_n(from.lease.n);
}

absl::Status Decode(const worker::v1::HeldLeaves& from, HeldLeaves* to) {
  RETURN_IF_ERROR(DecodeJob(from.job(), &to->job));
  RETURN_IF_ERROR(CheckInterval(from.first_leaf(), from.leaf_count(), "leaf_count"));
  if (from.epoch() == 0) return Malformed("epoch", "is missing");
  RETURN_IF_ERROR(CheckLease(from.n()));
  to->leaves = {from.first_leaf(), from.leaf_count()};
  to->attempt = from.attempt();
  to->lease = LeaseId{Epoch(from.epoch()), from.n()};
  return absl::OkStatus();
}

void Encode(const LeafRun& from, worker::v1::LeafRun* to) {
  to->set_n(from.n);
  to->set_first_leaf(from.leaves.first);
  to->set_leaf_count(from.leaves.count);
}

absl::Status Decode(const worker::v1::LeafRun& from, LeafRun* to) {
  RETURN_IF_ERROR(CheckLease(from.n()));
  RETURN_IF_ERROR(CheckInterval(from.first_leaf(), from.leaf_count(), "leaf_count"));
  *to = LeafRun{from.n(), {from.first_leaf(), from.leaf_count()}};
  return absl::OkStatus();
}

void Encode(const Commit& from, worker::v1::Commit* to) {
  to->set_job(from.job.value());
  EncodeList(from.runs, to->mutable_runs());
  Encode(from.outputs, to->mutable_outputs());
  EncodeList(from.failures, to->mutable_failures());
  to->set_busy_ns(from.busy_ns);
  to->set_tasks(from.tasks);
}

absl::Status Decode(worker::v1::Commit* from, Commit* to) {
  RETURN_IF_ERROR(DecodeJob(from->job(), &to->job));
  if (from->runs().empty()) return Malformed("runs", "is missing: nothing is committed");
  RETURN_IF_ERROR(DecodeList(from->mutable_runs(), &to->runs, WireLimits::kItems, "runs"));
  RETURN_IF_ERROR(Decode(from->mutable_outputs(), &to->outputs));
  RETURN_IF_ERROR(
      DecodeList(from->mutable_failures(), &to->failures, WireLimits::kItems, "failures"));
  to->busy_ns = from->busy_ns();
  to->tasks = from->tasks();
  return CheckAscending(to->failures);
}

void Encode(const MergeCommit& from, worker::v1::MergeCommit* to) {
  to->set_job(from.job.value());
  to->set_n(from.n);
  Encode(from.outputs, to->mutable_outputs());
  to->set_tasks(from.tasks);
  to->set_failed(from.failed);
  SetText(from.error, to->mutable_error());
}

absl::Status Decode(worker::v1::MergeCommit* from, MergeCommit* to) {
  RETURN_IF_ERROR(DecodeJob(from->job(), &to->job));
  RETURN_IF_ERROR(CheckLease(from->n()));
  to->n = from->n();
  RETURN_IF_ERROR(Decode(from->mutable_outputs(), &to->outputs));
  to->tasks = from->tasks();
  to->failed = from->failed();
  return TakeReason(from->mutable_error(), &to->error, "error");
}

void Encode(const Crash& from, worker::v1::Crash* to) {
  to->set_job(from.job.value());
  Encode(from.run, to->mutable_run());
  to->set_task_known(from.task_known);
  to->set_task(from.task);
  SetText(from.signal, to->mutable_signal());
  to->set_suspected_leaves(from.suspected_leaves);
}

absl::Status Decode(worker::v1::Crash* from, Crash* to) {
  RETURN_IF_ERROR(DecodeJob(from->job(), &to->job));
  RETURN_IF_ERROR(WithField(Decode(from->run(), &to->run), "run"));
  to->task_known = from->task_known();
  to->task = from->task();
  to->suspected_leaves = from->suspected_leaves();
  return TakeReason(from->mutable_signal(), &to->signal, "signal");
}

void Encode(const Return& from, worker::v1::Return* to) {
  to->set_job(from.job.value());
  Encode(from.run, to->mutable_run());
  to->set_gpu_need_bytes(from.gpu_need_bytes);
  to->set_gpu_budget_bytes(from.gpu_budget_bytes);
}

absl::Status Decode(const worker::v1::Return& from, Return* to) {
  RETURN_IF_ERROR(DecodeJob(from.job(), &to->job));
  to->gpu_need_bytes = from.gpu_need_bytes();
  to->gpu_budget_bytes = from.gpu_budget_bytes();
  return WithField(Decode(from.run(), &to->run), "run");
}

void Encode(const JobFault& from, worker::v1::JobFault* to) {
  to->set_job(from.job.value());
  SetText(from.reason, to->mutable_reason());
  to->set_fatal(from.fatal);
}

absl::Status Decode(worker::v1::JobFault* from, JobFault* to) {
  RETURN_IF_ERROR(DecodeJob(from->job(), &to->job));
  if (from->reason().empty()) return Malformed("reason", "is missing");
  to->fatal = from->fatal();
  return TakeReason(from->mutable_reason(), &to->reason, "reason");
}

void Encode(const Backlog& from, worker::v1::Backlog* to) {
  to->set_job(from.job.value());
  to->set_leaves(from.leaves);
  to->set_granted(from.granted);
}

absl::Status Decode(const worker::v1::Backlog& from, Backlog* to) {
  RETURN_IF_ERROR(DecodeJob(from.job(), &to->job));
  to->leaves = from.leaves();
  to->granted = from.granted();
  return absl::OkStatus();
}

void Encode(const Report& from, worker::v1::Report* to) {
  to->set_number(from.number);
  EncodeList(from.commits, to->mutable_commits());
  EncodeList(from.merges, to->mutable_merges());
  EncodeList(from.crashes, to->mutable_crashes());
  EncodeList(from.returns, to->mutable_returns());
  EncodeList(from.job_faults, to->mutable_job_faults());
  to->set_forgot(from.forgot);
  EncodeList(from.rates, to->mutable_rates());
  EncodeList(from.backlogs, to->mutable_backlogs());
  EncodeList(from.splits, to->mutable_splits());
}

absl::Status Decode(worker::v1::Report* from, Report* to) {
  constexpr int kMax = WireLimits::kItems;
  if (from->number() == 0) return Malformed("number", "is missing");
  to->number = from->number();
  RETURN_IF_ERROR(DecodeList(from->mutable_commits(), &to->commits, kMax, "commits"));
  RETURN_IF_ERROR(DecodeList(from->mutable_merges(), &to->merges, kMax, "merges"));
  RETURN_IF_ERROR(DecodeList(from->mutable_crashes(), &to->crashes, kMax, "crashes"));
  RETURN_IF_ERROR(DecodeList(from->mutable_returns(), &to->returns, kMax, "returns"));
  RETURN_IF_ERROR(DecodeList(from->mutable_job_faults(), &to->job_faults, kMax, "job_faults"));
  to->forgot = from->forgot();
  RETURN_IF_ERROR(DecodeList(from->mutable_rates(), &to->rates, kMax, "rates"));
  RETURN_IF_ERROR(DecodeList(from->mutable_backlogs(), &to->backlogs, kMax, "backlogs"));
  return DecodeList(from->mutable_splits(), &to->splits, kMax, "splits");
}

}  // namespace tandem::wire
