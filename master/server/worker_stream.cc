#include "master/server/worker_stream.h"

#include <string>
#include <variant>

#include "absl/time/time.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/rpc/channel.h"
#include "common/rpc/status.h"
#include "common/wire/decode_util.h"
#include "common/wire/kernel.h"
#include "common/wire/lease_messages.h"
#include "master/server/commit_check.h"

namespace tandem::master {

std::shared_ptr<WorkerStream> WorkerStream::Start(const Parts& parts, std::string_view peer) {
  std::shared_ptr<WorkerStream> stream(new WorkerStream(parts, rpc::HostOfPeer(peer)));
  stream->self_ = stream;
  stream->Drive();
  return stream;
}

void WorkerStream::OnDone() {
  parts_.inbox->OnGone(shared_from_this());
  self_.reset();
}

void WorkerStream::OnReadDone(bool ok) {
  if (!ok) return Close(absl::OkStatus());  // It has said all, or is gone.
  FromWorker message;
  bool first = false;
  {
    absl::MutexLock lock(&mu_);
    if (end_) return;
    first = !std::exchange(greeted_, true);
  }
  const absl::Status status = first ? TakeHello() : TakeMessage(&message);
  if (!status.ok()) {
    TLOG(Warning, "worker_message_refused", "error", ToStd(status.message()));
    return Close(status);
  }
  if (!first) {
    {
      absl::MutexLock lock(&mu_);
      ++unhandled_;
    }
    parts_.inbox->OnMessage(shared_from_this(), std::move(message));
  }
  // Only now may the next read begin: on another thread it could overtake this message.
  {
    absl::MutexLock lock(&mu_);
    reading_ = false;
  }
  Drive();  // Behind Hello it reads on if Welcome() came meanwhile; else Welcome() does.
}

void WorkerStream::Handled() {
  {
    absl::MutexLock lock(&mu_);
    --unhandled_;
  }
  Drive();
}

absl::Status WorkerStream::TakeHello() {
  if (!incoming_.has_hello()) return wire::Malformed("hello", "is missing: it comes first");
  wire::WorkerHello hello;
  RETURN_IF_ERROR(WithField(wire::Decode(incoming_.mutable_hello(), &hello), "hello"));
  if (wire::ProtocolMajor(hello.protocol) != wire::ProtocolMajor(wire::kProtocol)) {
    return Error(
        absl::StatusCode::kFailedPrecondition, reason::kVersionSkew,
        StrCat("worker ", hello.name, " (", hello.version, ") speaks protocol ", hello.protocol,
               ", this master ", wire::kProtocol, ": run the same release on both"));
  }
  parts_.inbox->OnHello(shared_from_this(), std::move(hello));
  return absl::OkStatus();
}

absl::Status WorkerStream::TakeMessage(FromWorker* message) {
  std::vector<Event>* events = &message->events;
  if (incoming_.has_hello()) return wire::Malformed("hello", "came twice");
  TakePulse(events);
  WorkerId worker;
  {
    absl::MutexLock lock(&mu_);
    worker = worker_;
  }
  if (!incoming_.kernels().empty()) {
    WorkerAnnounced announced{worker, {}};
    for (v1::Kernel& kernel : *incoming_.mutable_kernels()) {
      RETURN_IF_ERROR(
          WithField(wire::Decode(&kernel, &announced.kernels.emplace_back()), "kernels"));
    }
    events->push_back(std::move(announced));
  }
  for (int i = 0; i < incoming_.reports_size(); ++i) {
    RETURN_IF_ERROR(
        WithField(TakeReport(incoming_.mutable_reports(i), events), wire::Indexed("reports", i)));
  }
  if (incoming_.leaving()) events->push_back(WorkerLeft{worker});
  if (incoming_.counters().size() > kCountersMax) {
    return wire::Malformed("counters", StrCat("are more than ", kCountersMax));
  }
  message->worker = worker;
  for (v1::JobUsage& usage : *incoming_.mutable_usages()) {
    message->usages.push_back(std::move(usage));
  }
  for (const auto& [name, grown] : incoming_.counters()) {
    RETURN_IF_ERROR(wire::CheckText(name, wire::WireLimits::kNameBytes, "counters"));
    message->counters[name] += grown;
  }
  if (incoming_.heartbeat()) RETURN_IF_ERROR(TakeReadings(message));
  if (incoming_.notes().empty()) return absl::OkStatus();
  message->notes = std::move(*incoming_.mutable_notes()->rbegin());
  return WithField(CheckNotes(*message->notes), "notes");
}

absl::Status WorkerStream::TakeReadings(FromWorker* message) {
  if (incoming_.readings_size() > kReadingsMax) {
    return wire::Malformed("readings", StrCat("are more than ", kReadingsMax));
  }
  message->readings.emplace();
  for (int i = 0; i < incoming_.readings_size(); ++i) {
    RETURN_IF_ERROR(
        WithField(wire::Decode(incoming_.mutable_readings(i), &message->readings->emplace_back()),
                  wire::Indexed("readings", i)));
  }
  return absl::OkStatus();
}

absl::Status WorkerStream::CheckNotes(const worker::v1::WorkerNotes& notes) {
  if (notes.findings_size() > kFindingsMax || notes.late_size() > kLateMax) {
    return wire::Malformed("findings", StrCat("are more than ", kFindingsMax, ", or more than ",
                                              kLateMax, " are late"));
  }
  for (const v1::Finding& finding : notes.findings()) {
    RETURN_IF_ERROR(wire::CheckText(finding.token(), wire::WireLimits::kNameBytes, "token"));
    RETURN_IF_ERROR(wire::CheckText(finding.what(), wire::WireLimits::kReasonBytes, "what"));
    RETURN_IF_ERROR(wire::CheckText(finding.advice(), wire::WireLimits::kReasonBytes, "advice"));
  }
  for (const worker::v1::LateRun& late : notes.late()) {
    RETURN_IF_ERROR(wire::CheckInterval(late.first_leaf(), late.leaf_count(), "late"));
    RETURN_IF_ERROR(wire::CheckText(late.device(), wire::WireLimits::kNameBytes, "device"));
  }
  return absl::OkStatus();
}

void WorkerStream::TakePulse(std::vector<Event>* events) {
  absl::MutexLock lock(&mu_);
  WorkerPulsed pulsed{worker_, absl::ZeroDuration()};
  if (incoming_.pulse() != 0 && incoming_.pulse() != last_pulse_) {
    last_pulse_ = incoming_.pulse();
    const MonoTime sent = MonoTime::FromNanos(static_cast<int64_t>(last_pulse_));
    const MonoTime now = parts_.clock->Now();
    if (sent < now) pulsed.round_trip = now - sent;
  }
  events->push_back(pulsed);
}

absl::Status WorkerStream::TakeReport(worker::v1::Report* report, std::vector<Event>* events) {
  WorkerReported reported;
  RETURN_IF_ERROR(wire::Decode(report, &reported.report));
  RETURN_IF_ERROR(CheckReport(reported.report));
  {
    absl::MutexLock lock(&mu_);
    reported.worker = worker_;
  }
  events->push_back(std::move(reported));
  return absl::OkStatus();
}

absl::Status WorkerStream::CheckReport(const Report& report) {
  const auto find = [this](JobId job) -> const BoundJob* {
    if (last_job_ == nullptr || last_job_->job != job) last_job_ = parts_.board->FindAccepted(job);
    return last_job_ == nullptr ? nullptr : last_job_->bound.get();
  };
  // A job that is no longer here is stale, not malformed: the core drops it.
  for (size_t i = 0; i < report.commits.size(); ++i) {
    if (const BoundJob* job = find(report.commits[i].job)) {
      absl::Status status = CheckCommit(*job, report.commits[i]);
      status.Update(CheckRegions(*job, report.commits[i].outputs.get()));
      if (!status.ok()) {
        return WithField(std::move(status), wire::Indexed("commits", static_cast<int64_t>(i)));
      }
    }
  }
  for (size_t i = 0; i < report.merges.size(); ++i) {
    if (const BoundJob* job = find(report.merges[i].job)) {
      absl::Status status = CheckMerge(*job, report.merges[i]);
      status.Update(CheckRegions(*job, report.merges[i].outputs.get()));
      if (!status.ok()) {
        return WithField(std::move(status), wire::Indexed("merges", static_cast<int64_t>(i)));
      }
    }
  }
  return absl::OkStatus();
}

// A record may only name bytes that are here, and only those of the job's owner: the store stops
// when it cannot sync what it is told to.
absl::Status WorkerStream::CheckRegions(const BoundJob& job, const CommitOutputs* outputs) const {
  if (outputs == nullptr) return absl::OkStatus();
  for (const OutputPiece& piece : *outputs) {
    const auto* region = std::get_if<Region>(&piece.where);
    if (region == nullptr) continue;
    const absl::Status status = parts_.segments->CheckHolds(*region, job.spec.owner);
    if (!status.ok()) {
      return wire::Malformed("where",
                             StrCat("names bytes that are not its: ", ToStd(status.message())));
    }
  }
  return absl::OkStatus();
}

void WorkerStream::Welcome(WorkerId worker) {
  {
    absl::MutexLock lock(&mu_);
    worker_ = worker;
  }
  Drive();
}

void WorkerStream::Send(worker::v1::MasterMessage message) {
  bool cut_off = false;
  {
    absl::MutexLock lock(&mu_);
    if (end_) return;
    const size_t bytes = message.ByteSizeLong();
    const bool alone =
        message.has_welcome() || (!waiting_.empty() && waiting_.back().message.has_welcome());
    if (!waiting_.empty() && !alone && waiting_.back().bytes + bytes <= kMergedBytesMax) {
      waiting_.back().message.MergeFrom(message);
      waiting_.back().message.set_drain(message.drain());  // The last word counts.
      waiting_.back().bytes += bytes;
    } else {
      waiting_.push_back({std::move(message), bytes});
    }
    waiting_bytes_ += bytes;
    cut_off = waiting_bytes_ > kWaitingBytesMax;
  }
  if (cut_off) {
    return Close(Error(absl::StatusCode::kResourceExhausted, reason::kOverloaded,
                       "the worker does not read what the master sends; attach again"));
  }
  Drive();
}

void WorkerStream::OnWriteDone(bool ok) {
  {
    absl::MutexLock lock(&mu_);
    writing_ = false;
    if (!ok) waiting_.clear();  // The read side ends the call.
  }
  Drive();
}

void WorkerStream::Close(const absl::Status& status) {
  {
    absl::MutexLock lock(&mu_);
    if (end_) return;
    end_ = status;
    waiting_.clear();
  }
  Drive();
}

WorkerStream::Action WorkerStream::NextAction() {
  if (driving_ || finished_) return Action::kNone;
  if (end_) {
    finished_ = true;
    return Action::kFinish;
  }
  const bool may_read = !greeted_ || (worker_.valid() && unhandled_ < kUnhandledMax);
  if (!reading_ && may_read) {
    reading_ = true;
    return Action::kRead;
  }
  if (!writing_ && !waiting_.empty()) {
    outgoing_ = std::move(waiting_.front().message);
    waiting_bytes_ -= waiting_.front().bytes;
    waiting_.pop_front();
    writing_ = true;
    return Action::kWrite;
  }
  return Action::kNone;
}

void WorkerStream::Drive() {
  const std::shared_ptr<WorkerStream> keep = shared_from_this();
  while (true) {
    Action action;
    absl::Status end;
    {
      absl::MutexLock lock(&mu_);
      action = NextAction();
      if (action == Action::kNone) return;
      if (action == Action::kFinish) end = *end_;
      driving_ = true;
    }
    switch (action) {
      case Action::kNone:
        break;
      case Action::kRead:
        StartRead(&incoming_);
        break;
      case Action::kWrite:
        StartWrite(&outgoing_);
        break;
      case Action::kFinish:
        Finish(rpc::ToGrpc(end));
        break;
    }
    absl::MutexLock lock(&mu_);
    driving_ = false;
  }
}

}  // namespace tandem::master
