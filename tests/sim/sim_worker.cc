#include "tests/sim/sim_worker.h"

#include <algorithm>
#include <utility>

#include "tests/master/core/harness.h"
#include "tests/sim/sim_master.h"

namespace tandem::sim {
namespace {

constexpr uint32_t kFast = 0;

std::string DeviceName(uint32_t index) { return StrCat("emulated:", index); }

}  // namespace

SimWorker::SimWorker(World* world, SimMaster* master, std::string name)
    : world_(world), master_(master), name_(std::move(name)) {}

void SimWorker::Later(absl::Duration delay, std::function<void()> action) {
  world_->queue.After(delay, [this, life = life_, action = std::move(action)] {
    if (up_ && life == life_) action();
  });
}

void SimWorker::Start() {
  if (up_) return;
  up_ = true;
  ++life_;
  world_->Trace(name_, " starts");
  worker::CoreOptions options;
  options.restart_max = absl::Seconds(1);
  core_ = std::make_unique<worker::WorkerCore>(options, world_->rng.Next());
  events_.push_back(worker::FormerLife{leftovers_});
  FindDevices();
  Connect();
}

void SimWorker::FindDevices() {
  for (uint32_t i = 0; i < world_->devices; ++i) {
    worker::DeviceFound found{DeviceName(i), DeviceKind::kEmulated, {"map"}};
    if (i == kFast) found.kernels.insert(found.kernels.end(), {"count", "sum"});
    events_.push_back(found);
  }
}

void SimWorker::TroubleADevice(absl::Duration time) {
  if (!up_ || world_->devices == 0) return;
  const std::string device = DeviceName(static_cast<uint32_t>(world_->rng.Below(world_->devices)));
  world_->Trace(name_, " has trouble with ", device);
  OnEvent(worker::DeviceTroubled{device, "Xid 79"});
  Later(time, [this, device] { OnEvent(worker::DeviceTroubled{device, ""}); });
}

void SimWorker::MendDevices() {
  for (uint32_t i = 0; i < world_->devices; ++i) {
    OnEvent(worker::DeviceTroubled{DeviceName(i), ""});
  }
}

void SimWorker::Crash() {
  if (!up_) return;
  world_->Trace(name_, " crashes");
  up_ = false;
  awake_ = false;
  for (auto& [id, executor] : executors_) {
    for (const worker::Suspect& suspect : executor->Vanish()) leftovers_.push_back(suspect);
  }
  executors_.clear();
  jobs_.clear();
  events_.clear();
  core_.reset();
  BreakConnection();
}

void SimWorker::Pause(absl::Duration time) {
  world_->Trace(name_, " pauses");
  paused_until_ = std::max(paused_until_, world_->now() + time);
}

void SimWorker::KillAnExecutor() {
  for (auto& [id, executor] : executors_) {
    if (executor->alive() && world_->rng.Chance(0.5)) return executor->Die("SIGKILL", false);
  }
}

void SimWorker::BreakConnection() {
  if (connection_ == nullptr) return;
  world_->Trace(name_, " loses its connection");
  connection_->up = false;
  master_->OnConnectionBroken(connection_);
  OnConnectionClosed(connection_);
}

void SimWorker::OnConnectionClosed(const ConnectionPtr& connection) {
  if (connection_ != connection) return;
  connection_->up = false;
  connection_ = nullptr;
  if (!up_) return;
  events_.push_back(worker::Disconnected{});
  Wake();
  Later(world_->Random(absl::Milliseconds(20), absl::Milliseconds(400)), [this] { Connect(); });
}

void SimWorker::Partition(bool to_master, bool to_worker, absl::Duration time) {
  if (connection_ == nullptr) return;
  world_->Trace(name_, " partition ", to_master, to_worker);
  const MonoTime until = world_->now() + time;
  if (to_master) connection_->held_until[kToMaster] = until;
  if (to_worker) connection_->held_until[kToWorker] = until;
}

void SimWorker::Connect() {
  if (connection_ != nullptr) return;
  connection_ = master_->Connect(this);
  if (connection_ == nullptr) {
    Later(world_->Random(absl::Milliseconds(50), absl::Milliseconds(500)), [this] { Connect(); });
    return;
  }
  // Everything of the old stream is gone before the new one begins.
  events_.push_back(worker::Connected{});
  Wake();
}

void SimWorker::OnDescribed(JobId job, std::shared_ptr<const BoundJob> bound) {
  worker::JobDescribed described;
  described.job = job;
  described.owner = bound->spec.owner;
  described.kernel = bound->kernel.name;
  described.task_count = bound->task_count();
  described.grain = bound->grain();
  described.reduces = bound->has_reduction();
  described.accumulates = bound->kernel.name == "count";
  described.appends = bound->kernel.name == "map";
  described.partial_bytes = 8;
  jobs_[job] = std::move(bound);
  OnEvent(described);
}

void SimWorker::OnEvent(worker::Event event) {
  if (!up_) return;
  if (const auto* welcome = std::get_if<worker::Welcomed>(&event)) {
    world_->Expect(welcome->epoch.value() >= max_epoch_, "a worker obeys a lower epoch");
    max_epoch_ = welcome->epoch.value();
  }
  events_.push_back(std::move(event));
  Wake();
}

void SimWorker::Wake() {
  if (awake_ || !up_) return;
  awake_ = true;
  const absl::Duration wait = std::max(absl::Microseconds(10), paused_until_ - world_->now());
  Later(wait, [this] { Loop(); });
}

void SimWorker::Loop() {
  awake_ = false;
  if (world_->now() < paused_until_) return Wake();
  worker::Effects effects;
  for (worker::Event& event : std::exchange(events_, {})) {
    core_->Step(std::move(event), world_->now(), &effects);
  }
  core_->Settle(world_->now(), &effects);
  core_->CheckInvariants();
  Act(std::move(effects));
}

void SimWorker::Act(worker::Effects effects) {
  if (effects.hello.has_value()) Attach(*effects.hello);
  for (auto& what : effects.to_executors) {
    std::visit([this](const auto& e) { ToExecutor(e); }, what);
  }
  for (const worker::PushRegion& push : effects.pushes) Push(push);
  if (connection_ != nullptr) {
    for (Report& report : effects.reports) {
      Send(world_, connection_, kToMaster,
           [this, connection = connection_, report = std::move(report)] {
             master_->OnReport(connection, report);
           });
    }
    if (effects.heartbeat) {
      Send(world_, connection_, kToMaster,
           [this, connection = connection_] { master_->OnHeartbeat(connection); });
    }
  }
  if (effects.former_life_told) leftovers_.clear();
  SetTimer(effects.next_deadline);
  if (effects.reconnect) BreakConnection();
}

void SimWorker::Attach(const worker::SendHello& hello) {
  if (connection_ == nullptr) return;
  master::WorkerAttach attach;
  attach.name = name_;
  attach.incarnation = life_;
  attach.max_epoch = hello.max_epoch;
  attach.held = hello.held;
  attach.max_leases = 256;
  DeviceInfo cpu;
  cpu.kind = DeviceKind::kCpu;
  cpu.cores = 2;
  attach.devices.push_back(cpu);
  for (uint32_t i = 0; i < world_->devices; ++i) {
    attach.devices.emplace_back().kind = DeviceKind::kEmulated;
  }
  for (const auto kernel :
       {master::TestKernel::kMap, master::TestKernel::kExactSum, master::TestKernel::kOrderedSum}) {
    attach.kernels.push_back(master::KernelFor(kernel));
  }
  Send(world_, connection_, kToMaster,
       [this, connection = connection_, attach] { master_->OnAttach(connection, attach); });
}

void SimWorker::SetTimer(MonoTime at) {
  timer_ = at;
  if (at == MonoTime::InfiniteFuture()) return;
  world_->queue.At(at, [this, life = life_, at] {
    if (!up_ || life != life_ || timer_ != at) return;
    events_.push_back(worker::Tick{});
    Wake();
  });
}

void SimWorker::ToExecutor(const worker::StartExecutor& e) {
  absl::Duration task_time = world_->Random(absl::Microseconds(20), absl::Milliseconds(2));
  const bool cpu = e.device == "cpu";
  if (e.device == DeviceName(kFast)) task_time /= 10;
  if (!cpu && e.device != DeviceName(kFast)) task_time *= 10;
  const uint32_t groups = cpu ? 2 : 1;
  executors_[e.executor] =
      std::make_shared<SimExecutor>(world_, e.executor, e.owner, groups, task_time, /*merges=*/!cpu,
                                    [this, life = life_](worker::Event event) {
                                      if (up_ && life == life_) OnEvent(std::move(event));
                                    });
  Later(world_->Random(absl::Milliseconds(1), absl::Milliseconds(20)), [this, e, groups, cpu] {
    const auto it = executors_.find(e.executor);
    if (it == executors_.end() || !it->second->alive()) return;
    if (world_->rng.Chance(world_->weather.start_failure)) return it->second->Die("exit 1", false);
    worker::ExecutorReady ready;
    ready.executor = e.executor;
    ready.groups = groups;
    ready.cores = groups;
    ready.kind = cpu ? DeviceKind::kCpu : DeviceKind::kEmulated;
    ready.shrinks = world_->devices > 0;
    OnEvent(ready);
  });
}
void SimWorker::ToExecutor(const worker::KillExecutor& e) {
  executors_.at(e.executor)->Die("killed", true);
}
void SimWorker::ToExecutor(const worker::SetupJob& e) {
  executors_.at(e.executor)->SetUp(e.job, jobs_.at(e.job));
}
void SimWorker::ToExecutor(const worker::RunPiece& e) { executors_.at(e.executor)->Run(e); }
void SimWorker::ToExecutor(const worker::RunMerge& e) { executors_.at(e.executor)->Merge(e); }
void SimWorker::ToExecutor(const worker::CancelPiece& e) {
  if (executors_.contains(e.executor)) executors_.at(e.executor)->Cancel(e.piece);
}
void SimWorker::ToExecutor(const worker::ShrinkPiece& e) {
  executors_.at(e.executor)->Shrink(e.piece, e.leaves);
}
void SimWorker::ToExecutor(const worker::FlushJob& e) { executors_.at(e.executor)->Flush(e.job); }
void SimWorker::ToExecutor(const worker::DiscardAccumulator& e) {
  if (executors_.contains(e.executor)) executors_.at(e.executor)->Discard(e.job);
}
void SimWorker::ToExecutor(const worker::ForgetJob& e) {
  if (executors_.contains(e.executor)) executors_.at(e.executor)->Forget(e.job);
}
void SimWorker::ToExecutor(const worker::CloseStaging& e) { executors_.erase(e.executor); }

void SimWorker::Push(const worker::PushRegion& push) {
  const std::string* bytes = executors_.at(push.executor)->Staged(push.offset);
  if (bytes == nullptr || bytes->size() != push.length) {
    return world_->Broken("a push of bytes that are not staged");
  }
  Later(world_->Random(absl::Microseconds(100), 2 * world_->weather.delay_max),
        [this, id = push.push, bytes = *bytes] {
          Region region;
          if (connection_ != nullptr && master_->Push(bytes, &region)) {
            OnEvent(worker::PushDone{id, region});
          } else {
            OnEvent(worker::PushFailed{id});
          }
        });
}

std::string SimWorker::Summary() const {
  if (core_ == nullptr) return StrCat(name_, ": down");
  return StrCat(name_, ": ", core_->attached() ? "attached" : "not attached", ", backlog ",
                core_->backlog_leaves(), ", held ", core_->Held().size());
}

}  // namespace tandem::sim
