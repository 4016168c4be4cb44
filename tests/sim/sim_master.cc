#include "tests/sim/sim_master.h"

#include <algorithm>
#include <utility>

#include "tests/sim/sim_worker.h"

namespace tandem::sim {

SimMaster::SimMaster(World* world, Auditor* auditor) : world_(world), auditor_(auditor) {
  options_.merge_inputs_max = 2 + world->rng.Below(15);
}

void SimMaster::Later(absl::Duration delay, std::function<void()> action) {
  world_->queue.After(delay, [this, life = life_, action = std::move(action)] {
    if (up_ && life == life_) action();
  });
}

std::unique_ptr<master::MasterCore> SimMaster::Replayed(bool from_snapshot) {
  auto core = std::make_unique<master::MasterCore>(options_);
  for (const master::Record& record : durable_) core->Replay(record);
  if (!from_snapshot) return core;
  std::vector<master::Record> snapshot;
  core->Snapshot(&snapshot);
  auto again = std::make_unique<master::MasterCore>(options_);
  for (const master::Record& record : snapshot) again->Replay(record);
  world_->Expect(again->DurableHash() == core->DurableHash(), "a snapshot makes another state");
  durable_ = std::move(snapshot);
  return again;
}

void SimMaster::Start() {
  if (up_) return;
  up_ = true;
  ++life_;
  ++epoch_;
  const bool from_snapshot = world_->rng.Chance(0.5);
  core_ = Replayed(from_snapshot);
  world_->Trace("master starts, epoch ", epoch_, from_snapshot ? " from a snapshot" : "");
  core_->Recovered(Epoch(epoch_), world_->now());
  // What a shell shows after a restart.
  for (JobId job : core_->Jobs()) auditor_->OnStatus(*core_->Status(job));
  bounds_.clear();
  for (const master::Record& record : durable_) {
    if (const auto* accepted = std::get_if<master::JobAccepted>(&record)) {
      bounds_[accepted->job] = accepted->bound;
    }
  }
  Post(master::Tick{});
}

void SimMaster::Crash() {
  if (!up_) return;
  // The disk may have written any of the rows that it had not yet promised, in order.
  const size_t survive = unsynced_.empty() ? 0 : world_->rng.Below(unsynced_.size() + 1);
  world_->Trace("master crashes; ", survive, " of ", unsynced_.size(), " rows survive");
  for (size_t i = 0; i < survive; ++i) Durable(std::move(unsynced_[i]));
  up_ = false;
  awake_ = syncing_ = false;
  core_.reset();
  events_.clear();
  unsynced_.clear();
  waiting_.clear();
  answers_.clear();
  rows_made_ = rows_durable_ = 0;
  for (auto& [token, stream] : std::exchange(streams_, {})) {
    if (!stream.connection->up) continue;
    world_->queue.After(
        world_->Random(absl::Microseconds(20), absl::Milliseconds(5)),
        [stream = stream] { stream.worker->OnConnectionClosed(stream.connection); });
    stream.connection->up = false;
  }
}

void SimMaster::Pause(absl::Duration time) {
  world_->Trace("master pauses");
  paused_until_ = std::max(paused_until_, world_->now() + time);
}

void SimMaster::Post(master::Event event) {
  if (!up_) return;
  events_.push_back(std::move(event));
  Wake();
}

void SimMaster::Wake() {
  if (awake_ || !up_) return;
  awake_ = true;
  Later(std::max(absl::Microseconds(10), paused_until_ - world_->now()), [this] { Loop(); });
}

void SimMaster::Loop() {
  awake_ = false;
  if (world_->now() < paused_until_) return Wake();
  master::Effects effects;
  for (const master::Event& event : std::exchange(events_, {})) {
    core_->Step(event, world_->now(), &effects);
  }
  core_->CheckInvariants();
  Act(std::move(effects));
}

void SimMaster::SetTimer(MonoTime at) {
  timer_ = at;
  if (at == MonoTime::InfiniteFuture()) return;
  world_->queue.At(at, [this, life = life_, at] {
    if (up_ && life == life_ && timer_ == at) Post(master::Tick{});
  });
}

void SimMaster::Act(master::Effects effects) {
  std::vector<JobId> accepted_jobs;
  if (!effects.records.empty()) {
    for (const master::Record& record : effects.records) {
      if (const auto* accepted = std::get_if<master::JobAccepted>(&record)) {
        bounds_[accepted->job] = accepted->bound;
        accepted_jobs.push_back(accepted->job);
      }
    }
    unsynced_.push_back(std::move(effects.records));
    ++rows_made_;
  }
  for (const master::DescribeJob& d : effects.describes) {
    SendTo(d.worker,
           [job = d.job, bound = bounds_.at(d.job)](SimWorker* w) { w->OnDescribed(job, bound); });
  }
  for (const master::ToWorker& message : effects.to_workers) {
    if (const auto* welcome = std::get_if<master::WelcomeWorker>(&message.what)) {
      SendWelcome(*welcome, effects.describes);
    } else {
      SendMessage(message);
    }
  }
  for (const master::EndStream& end : effects.ends) EndStream(end.stream);
  for (const master::SetDrain& d : effects.drains) {
    SendTo(d.worker, [drain = d.drain](SimWorker* w) { w->OnEvent(worker::DrainSaid{drain}); });
  }
  waiting_.push_back({rows_made_, std::move(accepted_jobs), std::move(effects.drops),
                      std::move(effects.acks), std::move(effects.replies),
                      std::move(effects.statuses)});
  Release();
  Sync();
  SetTimer(effects.next_deadline);
}

SimMaster::Stream* SimMaster::StreamOf(WorkerId worker) {
  for (auto& [token, stream] : streams_) {
    if (stream.id == worker && stream.connection->up) return &stream;
  }
  return nullptr;
}

void SimMaster::SendTo(WorkerId worker, std::function<void(SimWorker*)> deliver) {
  Stream* stream = StreamOf(worker);
  if (stream == nullptr) return;
  Send(world_, stream->connection, kToWorker,
       [to = stream->worker, deliver = std::move(deliver)] { deliver(to); });
}

// The first message of a stream; descriptions for it come behind.
void SimMaster::SendWelcome(const master::WelcomeWorker& welcome,
                            const std::vector<master::DescribeJob>& describes) {
  const auto it = streams_.find(welcome.stream);
  if (it == streams_.end()) return;
  for (auto& [token, stream] : streams_) {
    if (stream.id == welcome.worker) stream.id = WorkerId();
  }
  it->second.id = welcome.worker;
  world_->Trace("welcome ", it->second.worker->name(), " adopted ", welcome.adopted.size());
  for (JobId job : welcome.jobs) {
    SendTo(welcome.worker,
           [job, bound = bounds_.at(job)](SimWorker* w) { w->OnDescribed(job, bound); });
  }
  worker::Welcomed welcomed{welcome.worker, welcome.epoch, welcome.lease_ttl, welcome.heartbeat,
                            welcome.adopted};
  SendTo(welcome.worker, [welcomed](SimWorker* w) { w->OnEvent(welcomed); });
  for (const master::DescribeJob& d : describes) {
    if (d.worker != welcome.worker) continue;
    SendTo(d.worker,
           [job = d.job, bound = bounds_.at(d.job)](SimWorker* w) { w->OnDescribed(job, bound); });
  }
}

void SimMaster::EndStream(uint64_t token) {
  const auto it = streams_.find(token);
  if (it == streams_.end()) return;
  const Stream ended = it->second;
  streams_.erase(it);
  world_->Trace("the master ends the stream of ", ended.worker->name());
  world_->queue.After(absl::Milliseconds(1),
                      [ended] { ended.worker->OnConnectionClosed(ended.connection); });
}

void SimMaster::SendMessage(const master::ToWorker& message) {
  if (const auto* grant = std::get_if<Grant>(&message.what)) {
    auditor_->OnGrant(grant->job, bounds_.at(grant->job));
    world_->Trace("grant job ", grant->job, " leaf ", grant->first_leaf, " x", grant->count,
                  " level ", static_cast<int>(grant->level), " attempt ", grant->attempt,
                  grant->suspect ? " suspect" : "", " to ", message.worker);
    SendTo(message.worker, [m = *grant](SimWorker* w) { w->OnEvent(worker::Granted{m}); });
  } else if (const auto* merge = std::get_if<MergeGrant>(&message.what)) {
    world_->Trace("merge job ", merge->job, " of ", merge->inputs.size(), " to ", message.worker);
    SendTo(message.worker, [m = *merge](SimWorker* w) { w->OnEvent(worker::MergeGranted{m}); });
  } else if (const auto* recall = std::get_if<Recall>(&message.what)) {
    SendTo(message.worker, [m = *recall](SimWorker* w) { w->OnEvent(worker::Recalled{m}); });
  } else if (const auto* outlook = std::get_if<Outlook>(&message.what)) {
    SendTo(message.worker, [m = *outlook](SimWorker* w) { w->OnEvent(worker::OutlookSaid{m}); });
  }
}

void SimMaster::Sync() {
  if (syncing_ || unsynced_.empty()) return;
  syncing_ = true;
  const bool stalls = world_->rng.Chance(world_->weather.stall);
  const absl::Duration time =
      stalls ? absl::Seconds(2) : world_->Random(absl::Microseconds(100), world_->weather.sync_max);
  Later(time, [this, rows = unsynced_.size()] { Synced(rows); });
}

void SimMaster::Durable(std::vector<master::Record> row) {
  for (master::Record& record : row) {
    auditor_->OnDurable(record);
    durable_.push_back(std::move(record));
  }
}

void SimMaster::Synced(size_t rows) {
  syncing_ = false;
  for (size_t i = 0; i < rows; ++i) {
    Durable(std::move(unsynced_.front()));
    unsynced_.pop_front();
  }
  rows_durable_ += rows;
  Release();
  if (unsynced_.empty() && world_->rng.Chance(0.05)) {
    world_->Expect(Replayed(world_->rng.Chance(0.3))->DurableHash() == core_->DurableHash(),
                   "a replay makes another state than the live one");
  }
  Sync();
}

void SimMaster::Release() {
  while (!waiting_.empty() && waiting_.front().row <= rows_durable_) {
    const Waiting waiting = std::move(waiting_.front());
    waiting_.pop_front();
    ReleaseOne(waiting);
  }
}

void SimMaster::ReleaseOne(const Waiting& waiting) {
  for (JobId job : waiting.accepted) Post(master::JobDurable{job});
  for (const master::JobStatus& status : waiting.statuses) {
    auditor_->OnStatus(status);
    if (status.state >= master::JobState::kSucceeded) {
      world_->Trace("job ", status.job, " ends in state ", static_cast<int>(status.state), " ",
                    status.reason);
    }
  }
  for (const master::DropJob& d : waiting.drops) {
    SendTo(d.worker, [job = d.job](SimWorker* w) { w->OnEvent(worker::JobDropped{job}); });
  }
  for (const master::AckReport& a : waiting.acks) {
    SendTo(a.worker, [n = a.number](SimWorker* w) { w->OnEvent(worker::ReportAcked{n}); });
  }
  for (const master::Reply& reply : waiting.replies) {
    if (const auto it = answers_.find(reply.token); it != answers_.end()) {
      const Answered answered = std::move(it->second);
      answers_.erase(it);
      answered(reply.result);
      continue;
    }
    const auto stream = streams_.find(reply.token);
    if (stream == streams_.end() || reply.result.ok()) continue;
    world_->Trace(stream->second.worker->name(),
                  " is refused: ", std::string(reply.result.status().message()));
    EndStream(reply.token);
  }
}

ConnectionPtr SimMaster::Connect(SimWorker* worker) {
  if (!up_) return nullptr;
  auto connection = std::make_shared<Connection>();
  connection->token = next_token_++;
  streams_[connection->token] = {connection, worker, WorkerId()};
  return connection;
}

void SimMaster::OnConnectionBroken(const ConnectionPtr& connection) {
  // Seen a little later, and not at all by a master that is down.
  Later(world_->Random(absl::Microseconds(50), absl::Milliseconds(100)), [this, connection] {
    const auto it = streams_.find(connection->token);
    if (it == streams_.end()) return;
    const WorkerId id = it->second.id;
    streams_.erase(it);
    if (id.valid()) Post(master::WorkerDetached{id, connection->token});
  });
}

void SimMaster::OnAttach(const ConnectionPtr& connection, master::WorkerAttach attach) {
  attach.token = connection->token;
  Post(std::move(attach));
}

void SimMaster::OnReport(const ConnectionPtr& connection, const Report& report) {
  const auto it = streams_.find(connection->token);
  if (it == streams_.end() || !it->second.id.valid()) return;
  Post(master::WorkerReported{it->second.id, report});
}

void SimMaster::OnHeartbeat(const ConnectionPtr& connection) {
  const auto it = streams_.find(connection->token);
  if (it == streams_.end() || !it->second.id.valid()) return;
  Post(master::WorkerPulsed{it->second.id, absl::Milliseconds(1)});
}

bool SimMaster::Push(const std::string& bytes, Region* region) {
  if (!up_) return false;
  *region = {SegmentId(epoch_), segment_end_, bytes.size(), 1};
  segment_end_ += bytes.size();
  auditor_->AddSegmentBytes(*region, bytes);
  return true;
}

void SimMaster::Submit(master::SubmitJob submit, Answered answered) {
  if (!up_) return;
  submit.token = next_token_++;
  answers_[submit.token] = std::move(answered);
  Post(std::move(submit));
}

void SimMaster::Cancel(JobId job, std::string owner, Answered answered) {
  if (!up_) return;
  const uint64_t token = next_token_++;
  answers_[token] = std::move(answered);
  Post(master::CancelJob{token, job, std::move(owner)});
}

void SimMaster::Drain(const std::string& worker, bool drain) {
  if (!up_) return;
  Post(master::DrainWorker{next_token_++, WorkerId(), drain, worker});
}

std::string SimMaster::Summary() const {
  if (core_ == nullptr) return "master: down";
  std::string text = StrCat("master: epoch ", epoch_);
  for (const master::WorkerView& view : core_->Workers()) {
    text += StrCat("; ", view.name, " phase ", static_cast<int>(view.phase), " leases ",
                   view.leases, view.draining ? " draining" : "");
  }
  return text;
}

}  // namespace tandem::sim
