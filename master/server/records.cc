#include "master/server/records.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/model/all_capabilities.h"
#include "common/model/bound_job.h"
#include "common/rpc/version.h"
#include "common/wire/job_spec.h"
#include "common/wire/kernel.h"
#include "common/wire/lease_messages.h"
#include "master/core/events.h"
#include "master/core/retry_table.h"
#include "master/server/timestamps.h"

namespace tandem::master {
namespace {

absl::Status Unreadable(std::string_view what) {
  return Error(absl::StatusCode::kDataLoss, reason::kStoreCorrupt,
               StrCat("a record of the log cannot be read: ", what));
}

absl::Status Unreadable(std::string_view what, const absl::Status& why) {
  return why.ok() ? why : Unreadable(StrCat(what, ": ", ToStd(why.message())));
}

void EncodeAccepted(const JobAccepted& from, journal::v1::JobAccepted* to) {
  to->set_job(from.job.value());
  wire::Encode(from.bound->spec, to->mutable_spec());
  wire::Encode(from.bound->kernel, to->mutable_kernel());
  to->set_request_id(from.request_id);
  to->set_request_hash(from.request_hash);
  EncodeTime(from.submitted, to->mutable_submitted());
}

absl::Status DecodeAccepted(journal::v1::JobAccepted* from, JobAccepted* to) {
  JobSpec spec;
  KernelInfo kernel;
  RETURN_IF_ERROR(Unreadable("spec", wire::Decode(from->mutable_spec(), &spec)));
  RETURN_IF_ERROR(Unreadable("kernel", wire::Decode(from->mutable_kernel(), &kernel)));
  // What a job accepted by another master asks for is not refused now.
  absl::StatusOr<BoundJob> bound = ValidateAndBind(std::move(spec), kernel, kAllCapabilities);
  RETURN_IF_ERROR(Unreadable("job", bound.status()));
  to->job = JobId(from->job());
  to->bound = std::make_shared<const BoundJob>(*std::move(bound));
  to->request_id = std::move(*from->mutable_request_id());
  to->request_hash = from->request_hash();
  to->submitted = DecodeTime(from->submitted());
  return absl::OkStatus();
}

struct Encoder {
  journal::v1::Record* to;
  absl::Time now;
  const std::string& account;

  void operator()(const JobAccepted& from) const {
    EncodeAccepted(from, to->mutable_job_accepted());
  }
  void operator()(const LeavesDone& from) const {
    journal::v1::LeavesDone* done = to->mutable_leaves_done();
    done->set_job(from.job.value());
    for (const LeafInterval& leaves : from.leaves) {
      done->add_leaves(leaves.first);
      done->add_leaves(leaves.count);
    }
    done->set_tasks_failed(from.tasks_failed);
    done->set_busy_ns(from.busy_ns);
    if (from.partial_id == 0) return;
    done->set_partial_id(from.partial_id);
    done->set_partial_tasks(from.partial_tasks);
    wire::Encode(from.outputs, done->mutable_partial());
  }
  void operator()(const PartialsMerged& from) const {
    journal::v1::PartialsMerged* merged = to->mutable_partials_merged();
    merged->set_job(from.job.value());
    merged->mutable_consumed()->Assign(from.consumed.begin(), from.consumed.end());
    merged->set_partial_id(from.result.id);
    wire::Encode(from.result.outputs, merged->mutable_partial());
    merged->set_tasks(from.result.tasks);
    merged->set_failed(from.result.failed);
    wire::EncodeIntervals(from.result.leaves, merged->mutable_leaves());
  }
  void operator()(const LeavesRetried& from) const {
    journal::v1::LeavesRetried* retried = to->mutable_leaves_retried();
    retried->set_job(from.job.value());
    retried->set_first_leaf(from.leaves.first);
    retried->set_leaf_count(from.leaves.count);
    retried->set_attempt(from.attempt);
    retried->set_strikes(from.strikes);
    retried->set_suspect(from.suspect);
    retried->set_suspect_level(from.level);
    retried->set_task_known(from.task_known);
    retried->set_task(from.task);
    retried->set_task_strikes(from.task_strikes);
    retried->set_failures(from.failures);
  }
  void operator()(const JobCancelled& from) const {
    to->mutable_job_cancelled()->set_job(from.job.value());
  }
  void operator()(const JobEnded& from) const {
    journal::v1::JobEnded* ended = to->mutable_job_ended();
    ended->set_job(from.job.value());
    ended->set_state(EncodeState(static_cast<JobState>(from.state)));
    ended->set_reason(from.reason);
    EncodeTime(now, ended->mutable_ended());
    if (!account.empty()) ended->mutable_account()->ParseFromString(account);
  }
  void operator()(const JobDeleted& from) const {
    to->mutable_job_deleted()->set_job(from.job.value());
  }
  void operator()(const WorkerKnown& from) const {
    to->mutable_worker_attached()->set_worker(from.worker.value());
    to->mutable_worker_attached()->set_name(from.name);
  }
  void operator()(const WorkerForgotten& from) const {
    to->mutable_worker_forgotten()->set_worker(from.worker.value());
  }
  void operator()(const KernelAnnounced& from) const {
    wire::Encode(*from.kernel, to->mutable_kernel_announced()->mutable_kernel());
  }
  void operator()(const IdsIssued& from) const {
    to->mutable_ids_issued()->set_job(from.job.value());
    to->mutable_ids_issued()->set_worker(from.worker.value());
  }
  void operator()(const WorkerDrained& from) const {
    to->mutable_worker_drained()->set_name(from.name);
    to->mutable_worker_drained()->set_drain(from.drain);
  }
};

absl::Status DecodeDone(journal::v1::LeavesDone* from, LeavesDone* to) {
  to->job = JobId(from->job());
  std::vector<LeafInterval> leaves;
  RETURN_IF_ERROR(Unreadable("leaves done", wire::DecodeIntervals(from->leaves(), &leaves)));
  to->leaves.assign(leaves.begin(), leaves.end());
  to->tasks_failed = from->tasks_failed();
  to->partial_id = from->partial_id();
  to->partial_tasks = from->partial_tasks();
  to->busy_ns = from->busy_ns();
  return Unreadable("partial", wire::Decode(from->mutable_partial(), &to->outputs));
}

absl::Status DecodeMerged(journal::v1::PartialsMerged* from, PartialsMerged* to) {
  to->job = JobId(from->job());
  to->consumed.assign(from->consumed().begin(), from->consumed().end());
  to->result.id = from->partial_id();
  to->result.tasks = from->tasks();
  to->result.failed = from->failed();
  RETURN_IF_ERROR(Unreadable("leaves", wire::DecodeIntervals(from->leaves(), &to->result.leaves)));
  return Unreadable("partial", wire::Decode(from->mutable_partial(), &to->result.outputs));
}

LeavesRetried DecodeRetried(const journal::v1::LeavesRetried& from) {
  return {.job = JobId(from.job()),
          .leaves = {from.first_leaf(), from.leaf_count()},
          .attempt = from.attempt(),
          .failures = from.failures(),
          .strikes = from.strikes(),
          .suspect = from.suspect(),
          .level = static_cast<uint8_t>(std::min(from.suspect_level(), kSuspectLevelMax)),
          .task_known = from.task_known(),
          .task = from.task(),
          .task_strikes = from.task_strikes()};
}

absl::Status DecodeEnded(journal::v1::JobEnded* from, DecodedRecord* to) {
  JobEnded ended;
  ended.job = JobId(from->job());
  switch (from->state()) {
    case v1::SUCCEEDED:
      ended.state = static_cast<uint8_t>(JobState::kSucceeded);
      break;
    case v1::FAILED:
      ended.state = static_cast<uint8_t>(JobState::kFailed);
      break;
    case v1::CANCELLED:
      ended.state = static_cast<uint8_t>(JobState::kCancelled);
      break;
    default:
      return Unreadable(StrCat("a job ended in state ", static_cast<int>(from->state())));
  }
  ended.reason = std::move(*from->mutable_reason());
  to->ended = DecodeTime(from->ended());
  if (from->has_account()) to->account = from->account().SerializeAsString();
  to->record = std::move(ended);
  return absl::OkStatus();
}

absl::Status DecodeRecord(journal::v1::Record* from, DecodedRecord* to) {
  using Kind = journal::v1::Record;
  switch (from->kind_case()) {
    case Kind::kJobAccepted:
      return DecodeAccepted(from->mutable_job_accepted(), &to->record.emplace<JobAccepted>());
    case Kind::kLeavesDone:
      return DecodeDone(from->mutable_leaves_done(), &to->record.emplace<LeavesDone>());
    case Kind::kPartialsMerged:
      return DecodeMerged(from->mutable_partials_merged(), &to->record.emplace<PartialsMerged>());
    case Kind::kLeavesRetried:
      to->record = DecodeRetried(from->leaves_retried());
      return absl::OkStatus();
    case Kind::kJobCancelled:
      to->record = JobCancelled{JobId(from->job_cancelled().job())};
      return absl::OkStatus();
    case Kind::kJobEnded:
      return DecodeEnded(from->mutable_job_ended(), to);
    case Kind::kJobDeleted:
      to->record = JobDeleted{JobId(from->job_deleted().job())};
      return absl::OkStatus();
    case Kind::kWorkerAttached:
      to->record = WorkerKnown{WorkerId(from->worker_attached().worker()),
                               std::move(*from->mutable_worker_attached()->mutable_name())};
      return absl::OkStatus();
    case Kind::kWorkerForgotten:
      to->record = WorkerForgotten{WorkerId(from->worker_forgotten().worker())};
      return absl::OkStatus();
    case Kind::kKernelAnnounced: {
      auto kernel = std::make_shared<KernelInfo>();
      RETURN_IF_ERROR(Unreadable(
          "kernel",
          wire::Decode(from->mutable_kernel_announced()->mutable_kernel(), kernel.get())));
      to->record = KernelAnnounced{std::move(kernel)};
      return absl::OkStatus();
    }
    case Kind::kIdsIssued:
      to->record =
          IdsIssued{JobId(from->ids_issued().job()), WorkerId(from->ids_issued().worker())};
      return absl::OkStatus();
    case Kind::kWorkerDrained:
      to->record = WorkerDrained{std::move(*from->mutable_worker_drained()->mutable_name()),
                                 from->worker_drained().drain()};
      return absl::OkStatus();
    case Kind::KIND_NOT_SET:
      break;
  }
  return Unreadable("it is of an unknown kind");
}

}  // namespace

bool RecordEncoder::Coalesce(const LeavesDone& record) {
  if (record.partial_id != 0 || records_.records().empty()) return false;
  journal::v1::Record& last = *records_.mutable_records(records_.records_size() - 1);
  if (!last.has_leaves_done() || record.leaves.empty()) return false;
  journal::v1::LeavesDone& done = *last.mutable_leaves_done();
  const int size = done.leaves_size();
  if (done.job() != record.job.value() || done.partial_id() != 0 || size == 0) return false;
  // Intervals stay in ascending order.
  const uint64_t end = done.leaves(size - 2) + done.leaves(size - 1);
  if (record.leaves.front().first < end) return false;
  for (const LeafInterval& leaves : record.leaves) {
    const int last_count = done.leaves_size() - 1;
    if (leaves.first == done.leaves(last_count - 1) + done.leaves(last_count)) {
      done.set_leaves(last_count, done.leaves(last_count) + leaves.count);
    } else {
      done.add_leaves(leaves.first);
      done.add_leaves(leaves.count);
    }
  }
  done.set_tasks_failed(done.tasks_failed() + record.tasks_failed);
  done.set_busy_ns(done.busy_ns() + record.busy_ns);
  return true;
}

void RecordEncoder::Add(const Record& record, absl::Time now, const std::string& account) {
  if (const auto* done = std::get_if<LeavesDone>(&record); done != nullptr && Coalesce(*done)) {
    return;
  }
  std::visit(Encoder{records_.add_records(), now, account}, record);
}

void RecordEncoder::SetStateHash(uint64_t hash) {
  records_.set_state_hash(hash);
  records_.set_state_hash_release(std::string(rpc::Version()));
}

std::string RecordEncoder::Take() {
  records_.set_format_major(kJournalFormatMajor);
  records_.set_format_minor(kJournalFormatMinor);
  std::string payload = records_.SerializeAsString();
  records_.Clear();  // Keeps its objects for the next batch.
  return payload;
}

absl::Status DecodeRecords(std::string_view payload,
                           const std::function<absl::Status(DecodedRecord)>& visit,
                           uint64_t* state_hash) {
  journal::v1::Records records;
  if (!records.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return Unreadable("its framing is broken");
  }
  if (records.format_major() != kJournalFormatMajor) {
    return Error(
        absl::StatusCode::kFailedPrecondition, reason::kVersionSkew,
        StrCat("the log has format ", records.format_major(), ".", records.format_minor(),
               ", this master reads ", kJournalFormatMajor, ".x: start the version that wrote it"));
  }
  if (state_hash != nullptr) {
    *state_hash = records.state_hash_release() == rpc::Version() ? records.state_hash() : 0;
  }
  for (journal::v1::Record& record : *records.mutable_records()) {
    DecodedRecord decoded;
    RETURN_IF_ERROR(DecodeRecord(&record, &decoded));
    RETURN_IF_ERROR(visit(std::move(decoded)));
  }
  return absl::OkStatus();
}

std::string EncodeJobSpec(const JobAccepted& accepted) {
  journal::v1::JobAccepted message;
  EncodeAccepted(accepted, &message);
  return message.SerializeAsString();
}

absl::Status DecodeJobSpec(std::string_view bytes, JobAccepted* accepted) {
  journal::v1::JobAccepted message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Unreadable("the framing of a job's spec is broken");
  }
  return DecodeAccepted(&message, accepted);
}

}  // namespace tandem::master
