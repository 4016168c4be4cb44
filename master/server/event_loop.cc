#include "master/server/event_loop.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/reason.h"
#include "common/base/strings.h"
#include "common/rpc/status.h"
#include "master/server/syncer.h"
#include "master/server/timestamps.h"

namespace tandem::master {
namespace {

absl::Status ShuttingDown() {
  return rpc::WithRetryDelay(
      Error(absl::StatusCode::kUnavailable, reason::kShuttingDown, "the master is shutting down"),
      absl::Seconds(1));
}

absl::Status Overloaded() {
  return rpc::WithRetryDelay(Error(absl::StatusCode::kResourceExhausted, reason::kOverloaded,
                                   "too many calls wait for the master; try again in a moment"),
                             absl::Seconds(1));
}

absl::Status JournalFull() {
  return rpc::WithRetryDelay(
      Error(absl::StatusCode::kResourceExhausted, reason::kJournalFull,
            "the disk that holds the master's journal is full: nothing new is accepted until there "
            "is room again; running jobs go on"),
      absl::Seconds(5));
}

}  // namespace

EventLoop::EventLoop(LoopParts parts, LoopOptions options,
                     std::function<void(const absl::Status&)> on_failed)
    : parts_(std::move(parts)),
      options_(std::move(options)),
      on_failed_(std::move(on_failed)),
      core_(options_.core),
      hub_(parts_.board, parts_.cluster_id, parts_.host_id, parts_.handover),
      ledger_(&hub_),
      builder_(parts_.board),
      history_(options_.history_every),
      syncer_(std::make_unique<Syncer>(parts_.segments)) {}

EventLoop::~EventLoop() { Stop(); }

void EventLoop::Start() {
  thread_ = std::thread([this] { Run(); });
}

void EventLoop::Stop() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
  committer_.reset();  // Commits what is queued.
}

bool EventLoop::journal_full() const {
  return journal_full_ || (parts_.low_on_room && parts_.low_on_room());
}

// What is kept of the disk is for the jobs that are there.
absl::Status EventLoop::Submit(SubmitJob event, Done done) {
  if (journal_full()) return JournalFull();
  return Ask(std::move(event), std::move(done));
}

absl::Status EventLoop::Cancel(CancelJob event, Done done) {
  if (journal_full_) return JournalFull();
  return Ask(std::move(event), std::move(done));
}

absl::Status EventLoop::Delete(DeleteJob event, Done done) {
  if (journal_full_) return JournalFull();
  return Ask(std::move(event), std::move(done));
}

absl::Status EventLoop::Drain(DrainWorker event, Done done) {
  if (journal_full_) return JournalFull();
  return Ask(std::move(event), std::move(done));
}

absl::Status EventLoop::Ask(Event event, Done done) {
  return Enqueue(Asked{std::move(event), std::move(done)});
}

absl::Status EventLoop::ForgetRates(WorkerId worker, std::string kernel,
                                    std::function<void(const absl::Status&)> done) {
  return Enqueue(Forget{worker, std::move(kernel), std::move(done)});
}

absl::Status EventLoop::Call(std::function<void(const LoopView&)> call) {
  return Enqueue(Called(std::move(call)));
}

absl::Status EventLoop::Enqueue(Item item) {
  absl::MutexLock lock(&mu_);
  if (closed_ || stopping_) return ShuttingDown();
  if (queue_.size() >= options_.queue_max) return Overloaded();
  queue_.push_back(std::move(item));
  return absl::OkStatus();
}

// From workers' streams, which bound themselves.
void EventLoop::EnqueueUnbounded(Item item) {
  absl::MutexLock lock(&mu_);
  if (!closed_) queue_.push_back(std::move(item));
}

void EventLoop::OnHello(std::shared_ptr<WorkerStream> stream, wire::WorkerHello hello) {
  EnqueueUnbounded(Hello{std::move(stream), std::move(hello)});
}

void EventLoop::OnMessage(std::shared_ptr<WorkerStream> stream, FromWorker message) {
  EnqueueUnbounded(Message{std::move(stream), std::move(message)});
}

void EventLoop::OnGone(std::shared_ptr<WorkerStream> stream) {
  EnqueueUnbounded(Gone{std::move(stream)});
}

void EventLoop::OnDurable(const absl::Status& status, uint64_t seq) {
  journal_full_ = absl::IsResourceExhausted(status);
  absl::MutexLock lock(&mu_);
  told_durable_ = std::max(told_durable_, seq);
  told_ = true;
  if (!status.ok() && !absl::IsResourceExhausted(status)) store_error_ = status;
}

bool EventLoop::Ready() const { return stopping_ || told_ || (!queue_.empty() && !stalled_); }

// Takes what there is; returns false to stop.
bool EventLoop::WaitForWork(std::vector<Item>* items) {
  const bool stalled = !committer_->HasRoom();
  absl::Status store_error;
  bool stopping = false;
  {
    absl::MutexLock lock(&mu_);
    stalled_ = stalled;
    const MonoTime deadline = std::min(effects_.next_deadline, next_pulse_);
    const absl::Duration wait = deadline - parts_.clock->Now();
    mu_.AwaitWithTimeout(absl::Condition(this, &EventLoop::Ready),
                         std::max(wait, absl::ZeroDuration()));
    told_ = false;
    durable_seq_ = told_durable_;
    store_error = store_error_;
    stopping = stopping_;
    if (!stalled) items->swap(queue_);
  }
  now_ = std::max(now_, parts_.clock->Now());
  wall_ = parts_.clock->WallNow();
  if (!store_error.ok()) Fail(store_error);
  return !stopping && !failed_;
}

void EventLoop::Run() {
  std::vector<Item> items;
  while (true) {
    items.clear();
    if (!WaitForWork(&items)) break;
    ReleaseDurable();
    for (Item& item : items) Handle(std::move(item));
    HandleTimers();
    Act();
    hub_.Flush();  // Work is on its way first.
    DeleteOldJobs();
    AnswerAll();
    SaveSnapshotIfDue();
    hub_.Flush();
  }
  for (Item& item : items) {
    if (auto* asked = std::get_if<Asked>(&item)) asked->done(ShuttingDown());
    if (auto* forget = std::get_if<Forget>(&item)) forget->done(ShuttingDown());
  }
  EndEverything();
}

void EventLoop::Step(const Event& event) {
  ++events_;
  core_.Step(event, now_, &effects_);
}

void EventLoop::Handle(Item item) {
  if (auto* message = std::get_if<Message>(&item)) {
    hub_.NoteMessage(message->said, wall_);
    for (const v1::JobUsage& usage : message->said.usages) {
      ledger_.Used(message->said.worker, usage, now_);
    }
    for (const Event& event : message->said.events) {
      if (const auto* reported = std::get_if<WorkerReported>(&event)) {
        hub_.NoteReport(reported->worker, reported->report, wall_);
        ledger_.Reported(reported->worker, reported->report, now_);
      } else if (const auto* announced = std::get_if<WorkerAnnounced>(&event)) {
        parts_.kernels->Prefer(announced->kernels);
      }
      Step(event);
    }
    message->stream->Handled();
  } else if (auto* asked = std::get_if<Asked>(&item)) {
    asked_[++last_token_] = std::move(asked->done);
    if (auto* submit = std::get_if<SubmitJob>(&asked->event)) submit->token = last_token_;
    if (auto* cancel = std::get_if<CancelJob>(&asked->event)) cancel->token = last_token_;
    if (auto* remove = std::get_if<DeleteJob>(&asked->event)) remove->token = last_token_;
    if (auto* drain = std::get_if<DrainWorker>(&asked->event)) drain->token = last_token_;
    Step(asked->event);
  } else if (auto* hello = std::get_if<Hello>(&item)) {
    HandleHello(std::move(*hello));
  } else if (auto* gone = std::get_if<Gone>(&item)) {
    const WorkerHub::Gone was = hub_.Remove(gone->stream.get());
    if (was.worker.valid()) Step(WorkerDetached{was.worker, was.token});
  } else if (auto* forget = std::get_if<Forget>(&item)) {
    hub_.ForgetRates(forget->worker, forget->kernel, std::move(forget->done));
  } else if (auto* call = std::get_if<Called>(&item)) {
    (*call)(View());
  }
}

LoopView EventLoop::View() const {
  return {core_,    hub_,    epoch_,
          ledger_,  now_,    committer_->Stats(),
          batches_, events_, replay_differences_};
}

void EventLoop::HandleHello(Hello hello) {
  WorkerAttach attach{.token = ++last_token_,
                      .name = hello.hello.name,
                      .incarnation = hello.hello.incarnation,
                      .max_epoch = hello.hello.max_epoch,
                      .devices = hello.hello.devices,
                      .kernels = std::move(hello.hello.kernels),
                      .held = std::move(hello.hello.held),
                      .max_leases = hello.hello.max_leases};
  parts_.kernels->Prefer(attach.kernels);
  hub_.Greet(last_token_, std::move(hello.stream), std::move(hello.hello), parts_.clock->WallNow());
  Step(attach);
}

void EventLoop::HandleTimers() {
  if (now_ >= effects_.next_deadline) Step(Tick{});
  if (now_ < next_pulse_) return;
  next_pulse_ = now_ + options_.core.heartbeat;
  if (!committer_->HasRoom()) RenewAll();
  hub_.Pulse(now_);
  if (journal_full_) return;
  DeleteJobsPastRetention();
  FreeSegments();
}

// The queue is left alone while the disk is full: what the workers say is not heard, but they are
// there.
void EventLoop::RenewAll() {
  for (const WorkerId worker : hub_.Attached()) {
    Step(WorkerPulsed{worker, absl::ZeroDuration()});
  }
}

void EventLoop::Act() {
  ++batches_;
  NoteRecords();
  NoteWork();
  const absl::Time wall = parts_.clock->WallNow();
  Commit(wall);  // The disk takes longest.
  const std::vector<WorkerHub::Gone> gone = hub_.SendNow(effects_);
  Waiting waiting{.seq = last_seq_,
                  .wall = wall,
                  .at = now_,
                  .drops = std::move(effects_.drops),
                  .acks = std::move(effects_.acks),
                  .replies = std::move(effects_.replies),
                  .statuses = std::move(effects_.statuses),
                  .accepted = {},
                  .deleted = {}};
  for (const Record& record : effects_.records) {
    if (const auto* accepted = std::get_if<JobAccepted>(&record)) {
      waiting.accepted.push_back(accepted->job);
    } else if (const auto* deleted = std::get_if<JobDeleted>(&record)) {
      waiting.deleted.push_back(deleted->job);
    }
  }
  const MonoTime deadline = effects_.next_deadline;
  effects_ = Effects();
  effects_.next_deadline = deadline;
  const bool nothing = waiting.drops.empty() && waiting.acks.empty() && waiting.replies.empty() &&
                       waiting.statuses.empty() && waiting.accepted.empty() &&
                       waiting.deleted.empty();
  if (failed_) return;
  if (!nothing && waiting.seq > durable_seq_) {
    waiting_.push_back(std::move(waiting));
  } else if (!nothing) {
    Release(std::move(waiting));
  }
  if (gone.empty()) return;
  for (const WorkerHub::Gone& peer : gone) Step(WorkerDetached{peer.worker, peer.token});
  Act();
}

// Jobs and kernels are known to the helpers from here on, before anybody is told about them.
void EventLoop::NoteRecords() {
  for (const Record& record : effects_.records) {
    if (const auto* accepted = std::get_if<JobAccepted>(&record)) {
      parts_.board->Accept(std::make_shared<const JobAccepted>(*accepted));
      ledger_.Accepted(accepted->job, now_);
    } else if (const auto* announced = std::get_if<KernelAnnounced>(&record)) {
      parts_.kernels->Announce(announced->kernel);
    }
  }
  if (effects_.workers_changed) parts_.kernels->Count(core_.Kernels());
}

// What the ledger is to know of this round's effects.
void EventLoop::NoteWork() {
  for (const ToWorker& message : effects_.to_workers) {
    if (const auto* grant = std::get_if<Grant>(&message.what)) {
      ledger_.Granted(grant->job, message.worker, grant->count, now_);
    } else if (const auto* merge = std::get_if<MergeGrant>(&message.what)) {
      ledger_.MergeGranted(merge->job);
    } else if (const auto* welcome = std::get_if<WelcomeWorker>(&message.what)) {
      for (const Grant& adopted : welcome->adopted) {
        ledger_.Granted(adopted.job, message.worker, adopted.count, now_);
      }
    }
  }
  for (const JobStatus& status : effects_.statuses) ledger_.Became(status, now_);
}

void EventLoop::Commit(absl::Time wall) {
  if (effects_.records.empty()) return;
  for (const Record& record : effects_.records) {
    const auto* ended = std::get_if<JobEnded>(&record);
    builder_.Add(record, wall, ended == nullptr ? "" : ledger_.Close(ended->job, now_));
  }
  for (const JobStatus& status : effects_.statuses) builder_.AddResult(status);
  CommitBuilder::Commit commit = builder_.Take();
  records_since_snapshot_ += effects_.records.size();
  const absl::StatusOr<uint64_t> seq =
      committer_->Commit(std::move(commit.batch), std::move(commit.dirty));
  if (!seq.ok()) return Fail(seq.status());
  last_seq_ = *seq;
}

void EventLoop::ReleaseDurable() {
  while (!waiting_.empty() && waiting_.front().seq <= durable_seq_) {
    Waiting waiting = std::move(waiting_.front());
    waiting_.pop_front();
    Release(std::move(waiting));
  }
}

void EventLoop::Release(Waiting waiting) {
  std::vector<JobRow> rows;
  for (JobStatus& status : waiting.statuses) {
    const JobId job = status.job;
    ledger_.CommitWaited(job, now_ - waiting.at);
    jobs_ended_ |= HasEnded(status.state);
    parts_.board->Publish(std::move(status), waiting.wall);
    if (const std::optional<JobView> view = parts_.board->Find(job)) {
      if (std::optional<JobRow> row = history_.Note(*view, now_)) rows.push_back(*std::move(row));
    }
  }
  jobs_deleted_ |= !waiting.deleted.empty();
  for (const JobId job : waiting.deleted) {
    parts_.board->Remove(job);
    history_.Forget(job);
    ledger_.Forget(job);
  }
  if (!rows.empty()) committer_->Project(waiting.seq, std::move(rows));
  hub_.SendDurable(waiting.drops, waiting.acks);
  std::move(waiting.replies.begin(), waiting.replies.end(), std::back_inserter(replies_));
  for (const JobId job : waiting.accepted) Step(JobDurable{job});
}

void EventLoop::AnswerAll() {
  std::vector<Answers::Answer> answers;
  for (Reply& reply : std::exchange(replies_, {})) {
    const auto it = asked_.find(reply.token);
    if (it != asked_.end()) {
      answers.emplace_back(
          [done = std::move(it->second), result = std::move(reply.result)] { done(result); });
      asked_.erase(it);
    } else if (!reply.result.ok()) {
      hub_.Reject(reply.token, reply.result.status());
    }
  }
  answers_.Give(std::move(answers));
}

void EventLoop::DeleteOldJobs() {
  if (!std::exchange(jobs_ended_, false)) return;
  size_t total = 0;
  (void)parts_.board->Ended(0, &total);
  if (total <= options_.ended_jobs_kept) return;
  const std::vector<JobView> oldest = parts_.board->Ended(total - options_.ended_jobs_kept, &total);
  for (const JobView& view : oldest) {
    Step(DeleteJob{0, view.status.job, view.bound().spec.owner});
  }
  Act();
}

void EventLoop::DeleteJobsPastRetention() {
  if (options_.retention == absl::InfiniteDuration()) return;
  constexpr size_t kAtOnceMax = 1000;
  const absl::Time until = parts_.clock->WallNow() - options_.retention;
  for (const JobBoard::Old& old : parts_.board->EndedBefore(until, kAtOnceMax)) {
    Step(DeleteJob{0, old.job, old.owner});
  }
}

// Segments that no job names any more. What a worker has pushed and not yet named is younger than
// segment_quiet.
void EventLoop::FreeSegments() {
  if (!jobs_deleted_ || now_ < next_free_ || parts_.pool == nullptr || *freeing_) return;
  constexpr absl::Duration kLookMax = absl::Minutes(1);
  next_free_ = now_ + std::min(kLookMax, options_.segment_quiet);
  std::vector<SegmentId> candidates = parts_.segments->Unused(options_.segment_quiet);
  if (candidates.empty()) return;
  std::vector<SegmentId> referenced;
  core_.AddSegments(&referenced);
  *freeing_ = true;
  parts_.pool->Run([store = parts_.store, segments = parts_.segments, freeing = freeing_,
                    candidates = std::move(candidates),
                    referenced = std::move(referenced)]() mutable {
    absl::StatusOr<std::vector<SegmentId>> rows = store->ReferencedSegments();
    absl::StatusOr<uint64_t> freed = uint64_t{0};
    if (!rows.ok()) {
      freed = rows.status();
    } else {
      referenced.insert(referenced.end(), rows->begin(), rows->end());
      freed = segments->DeleteUnused(candidates, referenced);
    }
    if (!freed.ok()) {
      TLOG(Warning, "segments_not_deleted", "why", ToStd(freed.status().message()));
    } else if (*freed > 0) {
      TLOG(Info, "segments_deleted", "bytes", *freed);
    }
    *freeing = false;
  });
}

void EventLoop::SaveSnapshotIfDue() {
  // A snapshot costs as much as it is long: the longer, the rarer.
  const uint64_t due = std::max(options_.snapshot_every, 4 * snapshot_records_);
  if (failed_ || records_since_snapshot_ < due) return;
  std::vector<Record> records;
  core_.Snapshot(&records);
  RecordEncoder encoder;
  for (const Record& record : records) {
    absl::Time ended = parts_.clock->WallNow();
    const std::string* account = nullptr;
    if (const auto* end = std::get_if<JobEnded>(&record)) {
      account = &ledger_.Ended(end->job);
      const std::optional<JobView> view = parts_.board->Find(end->job);
      if (view && view->ended != absl::InfiniteFuture()) ended = view->ended;
    }
    encoder.Add(record, ended, account == nullptr ? "" : *account);
  }
  encoder.SetStateHash(core_.DurableHash());
  snapshot_records_ = records.size();
  records_since_snapshot_ = 0;
  committer_->SaveSnapshot(last_seq_, encoder.Take());
  TLOG(Info, "snapshot", "seq", last_seq_, "records", snapshot_records_);
}

void EventLoop::Fail(const absl::Status& status) {
  if (std::exchange(failed_, true)) return;
  TLOG(Error, "store_failed", "error", status.ToString());
  on_failed_(status);
}

void EventLoop::EndEverything() {
  std::vector<Item> rest;
  {
    absl::MutexLock lock(&mu_);
    closed_ = true;
    rest.swap(queue_);
  }
  for (Item& item : rest) {
    if (auto* asked = std::get_if<Asked>(&item)) asked->done(ShuttingDown());
    if (auto* hello = std::get_if<Hello>(&item)) hello->stream->Close(ShuttingDown());
    if (auto* forget = std::get_if<Forget>(&item)) forget->done(ShuttingDown());
    if (auto* call = std::get_if<Called>(&item)) {
      (*call)(View());
    }
  }
  if (!failed_ && committer_->HasRoom()) {  // Else some numbers are left out.
    core_.Close(&effects_);
    builder_.SetStateHash(core_.DurableHash());
    Commit(parts_.clock->WallNow());
  }
  for (const auto& [token, done] : asked_) done(ShuttingDown());
  asked_.clear();
  hub_.CloseAll(ShuttingDown());
}

}  // namespace tandem::master
