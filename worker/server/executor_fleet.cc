#include "worker/server/executor_fleet.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>
#include <utility>
#include <variant>

#include "common/base/log.h"
#include "common/base/reason.h"
#include "common/base/strings.h"

namespace tandem::worker {
namespace {

// How often within a time limit start pages are looked at.
constexpr int kLooksALimit = 8;

// A start page has room for more threads than an executor has: two a core, and those around them.
uint32_t SlotsFor(const ExecutorLaunch& launch) {
  const uint32_t grids = launch.device == "cpu" ? 0 : kGridSlots;
  return static_cast<uint32_t>(2 * launch.cores.size()) + 64 + grids;
}

// CUDA looks once, when it starts, at what it may see: so it is shown that one device from outside.
std::vector<std::string> EnvironmentFor(std::string_view device) {
  if (!device.starts_with(kCudaDevice)) return {};
  return {StrCat("CUDA_VISIBLE_DEVICES=", device.substr(kCudaDevice.size())),
          "CUDA_DEVICE_ORDER=PCI_BUS_ID"};
}

bool HasEnded(const ExecutorProcess& process) {
  pollfd fd{process.exit_fd(), POLLIN, 0};
  return ::poll(&fd, 1, 0) == 1;
}

}  // namespace

std::string_view UuidOf(std::string_view device) {
  const std::string_view name = device.substr(device.find(':') + 1);
  return name.substr(0, name.find(';'));
}

void ExecutorFleet::Start(const StartExecutor& effect, std::vector<Event>* events) {
  ExecutorLaunch launch = options_.launch;
  launch.owner = effect.owner;
  launch.device = effect.device;
  launch.memory = options_.gpu_memory.For(UuidOf(effect.device)).ToString();
  launch.directory = identity_->OwnerDirectory(effect.owner);
  launch.start_page = identity_->StartPagePath(effect.executor);
  launch.local_data = local_data_;
  launch.kernel_libraries = kernel_libraries_;
  launch.beside_devices = has_devices_ && effect.device == "cpu";
  std::error_code error;
  std::filesystem::create_directories(launch.directory, error);
  const bool cuda = launch.device.starts_with(kCudaDevice);
  auto process = ExecutorProcess::Start(cuda ? options_.cuda_program : options_.program, launch,
                                        SlotsFor(launch), EnvironmentFor(launch.device));
  if (!process.ok()) {
    TLOG(Error, "executor_not_started", "executor", effect.executor, "owner", effect.owner, "why",
         ToStd(process.status().message()));
    events->push_back(ExecutorLost{effect.executor, "not started", {}});
    return;
  }
  TLOG(Info, "executor_started", "executor", effect.executor, "owner", effect.owner, "pid",
       (*process)->pid());
  staging_[effect.executor] = {effect.owner, (*process)->staging(), {}, nullptr, false};
  Live& live = live_[effect.executor];
  live.owner = effect.owner;
  live.device = effect.device;
  live.process = *std::move(process);
  live.ready_by = clock_->Now() + options_.ready_max;
}

void ExecutorFleet::Apply(Effects* effects, const Setups& setups, std::vector<Event>* events) {
  for (auto& effect : effects->to_executors) {
    if (const auto* start = std::get_if<StartExecutor>(&effect)) {
      Start(*start, events);
      continue;
    }
    if (const auto* close = std::get_if<CloseStaging>(&effect)) {
      staging_.erase(close->executor);
      continue;
    }
    const ExecutorId id = std::visit([](const auto& e) { return e.executor; }, effect);
    const auto found = live_.find(id);
    if (found == live_.end() || found->second.broken) continue;
    Live* live = &found->second;
    const auto say = [&](const executor::v1::ToExecutor& message) { Say(id, live, message); };
    std::visit(
        [&](auto& e) {
          using T = std::decay_t<decltype(e)>;
          if constexpr (std::is_same_v<T, KillExecutor>) {
            live->unwanted = true;
            Kill(live);
          } else if constexpr (std::is_same_v<T, SetupJob>) {
            const auto setup = setups.find(e.job);
            if (setup != setups.end()) live->outgoing.Add(e, setup->second, say);
          } else if constexpr (std::is_same_v<T, ReleaseStaging>) {
            live->outgoing.Add(e);
          } else if constexpr (!std::is_same_v<T, StartExecutor> &&
                               !std::is_same_v<T, CloseStaging>) {
            live->outgoing.Add(std::move(e), say);
          }
        },
        effect);
  }
  for (auto& [id, live] : live_) {
    live.outgoing.Finish([&, id = id, to = &live](const executor::v1::ToExecutor& message) {
      Say(id, to, message);
    });
  }
}

void ExecutorFleet::Say(ExecutorId id, Live* live, const executor::v1::ToExecutor& message) {
  if (live->broken) return;
  const absl::Status status = live->process->channel()->Send(message);
  if (!status.ok()) Break(live, id, ToStd(status.message()));
}

void ExecutorFleet::Break(Live* live, ExecutorId id, std::string_view why) {
  if (live->broken) return;
  TLOG(Warning, "executor_killed", "executor", id, "owner", live->owner, "why", why);
  Kill(live);
}

void ExecutorFleet::Kill(Live* live) {
  live->broken = true;
  live->killed_at = clock_->Now();
  live->process->Kill();
}

bool ExecutorFleet::Collect(std::vector<Event>* events) {
  bool something = false;
  const MonoTime now = clock_->Now();
  for (auto it = live_.begin(); it != live_.end();) {
    const ExecutorId id = it->first;
    Live& live = it->second;
    // Looked at first: what it said before its end is in the ring by now.
    const bool ended = HasEnded(*live.process);
    something |= Receive(id, &live, events);
    if (ended) {
      End(id, &live, live.process->Reap(), events);
    } else if (live.broken && now - live.killed_at >= options_.die_max) {
      GiveUpOn(id, &live, events);
    } else {
      if (!live.ready && now >= live.ready_by) Break(&live, id, "it did not get ready in time");
      ++it;
      continue;
    }
    it = live_.erase(it);
    something = true;
  }
  something |= ReapLate(events);
  return something;
}

// A process that a driver holds does not die of SIGKILL, and so does nobody else's on that device.
// The CPU's own is held by some file system at worst; another one may do better.
void ExecutorFleet::GiveUpOn(ExecutorId id, Live* live, std::vector<Event>* events) {
  const pid_t pid = live->process->pid();
  TLOG(Error, "executor_does_not_die", "executor", id, "device", live->device, "pid", pid, "killed",
       options_.die_max, "then", "nobody waits for it");
  End(id, live, "it was killed and does not end", events);
  if (live->device != "cpu") {
    events->push_back(DeviceTroubled{
        live->device,
        StrCat("its executor (process ", pid, ") was killed and does not end within ",
               options_.die_max, ": the driver holds it; see dmesg, reset the device or reboot")});
  }
  live->process->GiveUp();
  undying_.push_back({live->device, std::move(live->process)});
}

bool ExecutorFleet::Held(std::string_view device) const {
  return std::ranges::find(undying_, device, &Undying::device) != undying_.end();
}

// A device is well again once the last process that held on to it has gone, unless it was out of
// service for another reason, too.
bool ExecutorFleet::ReapLate(std::vector<Event>* events) {
  std::set<std::string> devices;
  std::erase_if(undying_, [&devices](const Undying& undying) {
    if (!HasEnded(*undying.process)) return false;
    TLOG(Info, "executor_has_died_after_all", "pid", undying.process->pid(), "device",
         undying.device);
    undying.process->Reap();
    devices.insert(undying.device);
    return true;
  });
  for (const std::string& device : devices) {
    if (device == "cpu" || Held(device)) continue;
    const auto condemned = condemned_.find(device);
    const std::string why = condemned == condemned_.end() ? "" : condemned->second;
    if (why.empty()) TLOG(Info, "device_in_service_again", "device", device);
    events->push_back(DeviceTroubled{device, why});
  }
  return !devices.empty();
}

bool ExecutorFleet::Receive(ExecutorId id, Live* live, std::vector<Event>* events) {
  bool something = false;
  while (!live->broken) {
    const absl::StatusOr<bool> received = live->process->channel()->Receive(&incoming_);
    if (!received.ok()) {
      Break(live, id, ToStd(received.status().message()));
      break;
    }
    if (!*received) break;
    something = true;
    if (incoming_.has_ready()) {
      const tandem::v1::Device& device = incoming_.ready().device();
      live->ready = true;
      staging_[id].device = device.kind();
      events->push_back(ExecutorReady{id, device.groups(), device.cores(),
                                      static_cast<DeviceKind>(device.kind()),
                                      incoming_.ready().shrinks()});
      ready_.push_back({id, std::move(*incoming_.mutable_ready())});
    }
    if (!incoming_.cannot_start().empty()) live->cannot_start = incoming_.cannot_start();
    for (const auto& [name, count] : incoming_.counters()) {
      counters_[name] += count;
      if (name == "bytes_up" || name == "bytes_down") {
        counters_[StrCat(name, "@", UuidOf(live->device))] += count;
      }
    }
    for (const tandem::v1::JobUsage& usage : incoming_.usages()) usage_.Add(usage);
    const absl::Status status = ToEvents(id, *live->process->staging(), &incoming_, events);
    if (!status.ok()) Break(live, id, ToStd(status.message()));
  }
  return something;
}

void ExecutorFleet::EndWhatIsOverdue(absl::Duration shortest, Allowed allowed) {
  if (live_.empty()) {
    look_at_ = MonoTime::InfiniteFuture();
    return;
  }
  const MonoTime now = clock_->Now();
  const MonoTime next =
      now + std::clamp(shortest / kLooksALimit, options_.look_min, options_.look_max);
  if (now < look_at_ && look_at_ <= next) return;
  look_at_ = next;
  for (auto& [id, live] : live_) {
    if (!live.broken) Watch(id, &live, allowed);
  }
}

std::vector<LateStart> ExecutorFleet::Late(Allowed usual) const {
  std::vector<LateStart> late;
  const MonoTime now = clock_->Now();
  for (const auto& [id, live] : live_) {
    for (const auto& [slot, watched] : live.watched) {
      const absl::Duration running = now - watched.since;
      if (running > usual(watched.started)) {
        late.push_back({live.device, watched.started, running});
      }
    }
  }
  std::ranges::stable_sort(late, std::greater<>(), &LateStart::running);
  return late;
}

void ExecutorFleet::Watch(ExecutorId id, Live* live, Allowed allowed) {
  const MonoTime now = clock_->Now();
  std::map<uint32_t, Watched> watched;
  for (const Started& started : live->process->Running()) {
    const auto before = live->watched.find(started.slot);
    const bool same = before != live->watched.end() && before->second.started == started;
    const MonoTime since = same ? before->second.since : now;
    watched[started.slot] = {started, since};
    if (now - since > allowed(started)) live->overdue.push_back(started);
  }
  live->watched = std::move(watched);
  if (!live->overdue.empty()) Break(live, id, "a task ran longer than its job's time limit");
}

void ExecutorFleet::End(ExecutorId id, Live* live, std::string how, std::vector<Event>* events) {
  const bool gone = how == StrCat("exit ", kDeviceGoneExit);
  if (!live->cannot_start.empty()) StrAppend(&how, ": ", live->cannot_start);
  ExecutorLost lost{id, std::move(how), {}};
  const std::vector<Started>& overdue = live->overdue;
  if (!overdue.empty()) lost.how = std::string(reason::kTimeLimit);
  for (const Started& started : live->process->Running()) {
    // Beside what took too long nothing else is to blame.
    if (!overdue.empty() && std::ranges::find(overdue, started) == overdue.end()) continue;
    lost.suspects.push_back(SuspectOf(started));
  }
  if (live->unwanted) {
    TLOG(Debug, "executor_stopped", "executor", id, "owner", live->owner);
  } else {
    TLOG(Warning, "executor_lost", "executor", id, "owner", live->owner, "how", lost.how,
         "suspects", lost.suspects.size());
  }
  if (gone) {
    TLOG(Error, "device_gone", "device", live->device);
    const char* const why =
        "it is gone: it stopped answering; mend it, then start the worker again";
    Condemn(live->device, why);
    events->push_back(DeviceTroubled{live->device, why});
  }
  events->push_back(std::move(lost));
}

Suspect SuspectOf(const Started& started) {
  return {JobId(started.job),
          {started.first_leaf, started.leaf_count},
          started.task.has_value(),
          started.task.value_or(0)};
}

void ExecutorFleet::AddPollFds(std::vector<pollfd>* fds) const {
  for (const auto& [id, live] : live_) {
    fds->push_back({live.process->channel()->wake_fd(), POLLIN, 0});
    fds->push_back({live.process->exit_fd(), POLLIN, 0});
  }
  for (const Undying& undying : undying_) {
    fds->push_back({undying.process->exit_fd(), POLLIN, 0});
  }
}

bool ExecutorFleet::PrepareToSleep() {
  bool may = true;
  for (auto& [id, live] : live_) {
    if (live.broken) continue;
    const absl::StatusOr<bool> prepared = live.process->channel()->PrepareToSleep();
    may = may && prepared.ok() && *prepared;
  }
  return may;
}

void ExecutorFleet::Awake() {
  for (auto& [id, live] : live_) {
    if (live.broken) {
      live.process->channel()->AwakeOnly();
      continue;
    }
    const absl::Status status = live.process->channel()->Awake();
    if (!status.ok()) Break(&live, id, ToStd(status.message()));
  }
}

MonoTime ExecutorFleet::next_deadline() const {
  MonoTime next = look_at_;
  for (const auto& [id, live] : live_) {
    if (live.broken) {
      next = std::min(next, live.killed_at + options_.die_max);
    } else if (!live.ready) {
      next = std::min(next, live.ready_by);
    }
  }
  return next;
}

std::shared_ptr<StagingFile> ExecutorFleet::StagingOf(ExecutorId executor) const {
  const auto found = staging_.find(executor);
  return found == staging_.end() ? nullptr : found->second.staging;
}

void ExecutorFleet::HandOverAt(std::string desk_path) {
  handover_path_ = std::move(desk_path);
  for (auto& [id, kept] : staging_) {
    kept.handover = nullptr;
    kept.not_taken = false;
  }
}

std::string ExecutorFleet::HandoverOf(ExecutorId executor) {
  const auto found = staging_.find(executor);
  if (found == staging_.end() || handover_path_.empty() || found->second.not_taken) return "";
  Kept& kept = found->second;
  if (kept.handover == nullptr) {
    auto given = Handover::Give(handover_path_, kept.staging->fd());
    if (!given.ok()) {
      TLOG(Info, "handover_not_possible", "executor", executor, "why",
           ToStd(given.status().message()), "then", "outputs are sent");
      kept.not_taken = true;
      return "";
    }
    kept.handover = *std::move(given);
  }
  return kept.handover->token();
}

const std::string& ExecutorFleet::OwnerOf(ExecutorId executor) const {
  return staging_.at(executor).owner;
}

tandem::v1::DeviceKind ExecutorFleet::DeviceOf(ExecutorId executor) const {
  return staging_.at(executor).device;
}

}  // namespace tandem::worker
