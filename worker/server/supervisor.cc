#include "worker/server/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/data/host_id.h"
#include "common/rpc/owner.h"
#include "common/wire/lease_messages.h"
#include "common/wire/session.h"
#include "worker/server/kernel_libraries.h"

namespace tandem::worker {
namespace {

// Some 100 bytes each: a message stays far from its limit.
constexpr size_t kUsagesAMessage = 4096;
// How often the log says again that there is no master, or that it refuses this worker.
constexpr absl::Duration kTroubleAgain = absl::Minutes(5);
constexpr absl::Duration kGoodbyeMax = absl::Seconds(2);
constexpr uint64_t kHandOverBytesMin = 64 << 10;

CoreOptions CoreOptionsOf(const WorkerOptions& options) {
  CoreOptions core;
  core.kill_when_master_lost = !options.finish_when_master_lost;
  return core;
}

FleetOptions FleetOptionsOf(const WorkerOptions& options) {
  FleetOptions fleet;
  fleet.program = options.executor;
  fleet.cuda_program = CudaExecutorOf(options.executor);
  fleet.launch.cores = options.cores;
  fleet.launch.groups = options.cpu_groups;
  fleet.launch.cache_bytes_max = options.cache_bytes_max;
  fleet.launch.pinned_bytes_max = options.pinned_bytes_max;
  fleet.gpu_memory = options.gpu_memory;
  fleet.launch.mapped_bytes_max = options.gpu_mapped_max;
  return fleet;
}

UniqueFd TakeOverSignals() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGTERM);
  ::sigaddset(&set, SIGINT);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  return UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

void Wait(std::vector<pollfd>* fds, absl::Duration timeout) {
  timespec time = absl::ToTimespec(std::max(timeout, absl::ZeroDuration()));
  ::ppoll(fds->data(), fds->size(), timeout == absl::InfiniteDuration() ? nullptr : &time, nullptr);
}

}  // namespace

Supervisor::Supervisor(const WorkerOptions& options, Identity identity, Clock* clock)
    : options_(options),
      identity_(std::move(identity)),
      clock_(clock),
      queue_(std::make_shared<EventQueue>()),
      signals_(TakeOverSignals()),
      keeper_(identity_.directory() + "/learned"),
      core_(CoreOptionsOf(options), identity_.incarnation()),
      fleet_(FleetOptionsOf(options), &identity_, clock),
      pushers_(options.master, queue_, clock, fleet_.usage()),
      backoff_({}, identity_.incarnation()),
      host_id_(HostId()) {}

Supervisor::~Supervisor() = default;

absl::Status Supervisor::Run() {
  std::unique_ptr<CudaSearch> cuda;  // goes on while the CPUs' executor is asked
  if (options_.gpus) {
    cuda = std::make_unique<CudaSearch>(CudaExecutorOf(options_.executor), options_.gpu_time_limit);
  }
  FormerLife former;
  for (const Started& left : identity_.FindLeftovers()) {
    TLOG(Warning, "was_running_when_worker_ended", "job", left.job, "first_leaf", left.first_leaf,
         "leaves", left.leaf_count);
    former.suspects.push_back(SuspectOf(left));
  }
  ASSIGN_OR_RETURN(KernelLibraries libraries,
                   FindKernelLibraries({.executor = options_.executor,
                                        .paths = options_.kernel_paths,
                                        .load_limit = options_.kernel_load_limit}));
  fleet_.UseKernelLibraries(std::move(libraries.files));
  if (former.suspects.empty()) identity_.DropLeftovers();
  RETURN_IF_ERROR(FindKernels());
  RETURN_IF_ERROR(FindEmulated());
  if (cuda != nullptr) RETURN_IF_ERROR(FindCuda(cuda.get()));
  fleet_.HasDevices(devices_.size() > 1);
  WarnOfUnknownDevices();
  RecallLearned();
  events_.push_back(std::move(former));
  TLOG(Info, "worker_starts", "name", identity_.name(), "master", options_.master, "cores",
       FormatCpuList(options_.cores), "kernels", kernels_.size(), "directory",
       identity_.directory());
  Connect();
  while (!done_) {
    Collect();
    if (!events_.empty() || clock_->Now() >= core_deadline_) {
      StepCore();
    } else {
      Sleep();
    }
  }
  Leave();
  return result_;
}

void Supervisor::Collect() {
  fleet_.Collect(&events_);
  fleet_.EndWhatIsOverdue(core_.ShortestLimit(), [this](const Started& started) {
    return core_.TimeAllowed(JobId(started.job), {started.first_leaf, started.leaf_count},
                             started.task.has_value());
  });
  for (const ExecutorFleet::SaidReady& said : fleet_.TakeReady()) {
    TakeKernels(said.ready, /*announce=*/true);
  }
  if (clock_->Now() >= nvml_look_at_) LookAtNvml();
  for (LoopEvent& event : queue_->Take()) {
    std::visit([this](auto& e) { Handle(std::move(e)); }, event);
  }
  if (stream_ == nullptr && clock_->Now() >= connect_at_) Connect();
}

void Supervisor::StepCore() {
  const MonoTime now = clock_->Now();
  Effects effects;
  std::vector<Event> events = std::exchange(events_, {});
  for (Event& event : events) {
    if (const auto* troubled = std::get_if<DeviceTroubled>(&event)) NoteTrouble(*troubled);
    core_.Step(std::move(event), now, &effects);
  }
  core_.Settle(now, &effects);
  core_deadline_ = effects.next_deadline;
  Act(&effects);
  KeepLearned(std::exchange(keep_now_, false));
}

void Supervisor::Act(Effects* effects) {
  fleet_.Apply(effects, setups_, &events_);
  if (effects->reconnect) {
    TLOG(Error, "worker_paused_too_long", "name", identity_.name());
    Disconnect(absl::CancelledError("this worker paused for longer than its leases live"));
  }
  if (effects->hello.has_value() && stream_ != nullptr) SayHello(*effects->hello);
  // A message each: the stream merges them as far as a message may grow (a rejoin reports all that
  // is held at once).
  for (const Report& report : effects->reports) {
    worker::v1::WorkerMessage one;
    if (stream_ == nullptr || !welcomed_) break;
    AddUsage(&one);  // Of what the report says is done, and so before it.
    wire::Encode(report, one.add_reports());
    stream_->Send(std::move(one));
  }
  worker::v1::WorkerMessage message;
  bool send = false;
  if (effects->heartbeat) {
    message.set_heartbeat(true);
    AddCounters(&message);
    if (stream_ != nullptr && welcomed_) AddUsage(&message);
    AddReadings(&message);
    NoteWhatIsLate();
    send = true;
  }
  if (stream_ != nullptr && welcomed_) send |= notes_.Take(&message);
  if (pulse_ != 0) {
    message.set_pulse(std::exchange(pulse_, 0));
    send = true;
  }
  if (welcomed_ && !to_announce_.empty()) {
    for (tandem::v1::Kernel& kernel : to_announce_) *message.add_kernels() = std::move(kernel);
    to_announce_.clear();
    send = true;
  }
  if (send && stream_ != nullptr && welcomed_) stream_->Send(std::move(message));
  for (const PushRegion& push : effects->pushes) {
    const std::shared_ptr<StagingFile> staging = fleet_.StagingOf(push.executor);
    const auto bytes = staging == nullptr ? absl::NotFoundError("the staging is closed")
                                          : staging->Read(push.offset, push.length);
    if (bytes.ok()) {
      // A small piece costs less where it rides with others in a message.
      HandedPlace place;
      if (push.length >= kHandOverBytesMin) {
        place = {fleet_.HandoverOf(push.executor), push.offset};
      }
      pushers_.Push(fleet_.OwnerOf(push.executor),
                    {push.push, push.job, fleet_.DeviceOf(push.executor)}, *bytes, staging,
                    std::move(place));
    } else {
      events_.push_back(PushFailed{push.push});
    }
  }
  if (effects->former_life_told) identity_.DropLeftovers();
  if (effects->leaving) done_ = true;
}

void Supervisor::NoteWhatIsLate() {
  notes_.SetLate(fleet_.Late([this](const Started& started) {
    return std::max(
        options_.late_after,
        core_.TimeExpected(JobId(started.job), {started.first_leaf, started.leaf_count}));
  }));
}

void Supervisor::SayHello(const SendHello& hello) {
  worker::v1::WorkerMessage message;
  worker::v1::Hello* said = message.mutable_hello();
  said->set_name(identity_.name());
  said->set_incarnation(identity_.incarnation());
  said->set_version(TANDEM_VERSION);
  said->set_protocol(wire::kProtocol);
  said->set_max_epoch(hello.max_epoch);
  for (const tandem::v1::Device& device : devices_) *said->add_devices() = device;
  for (const tandem::v1::Kernel& kernel : kernels_) *said->add_kernels() = kernel;
  to_announce_.clear();
  for (const HeldLeaves& held : hello.held) wire::Encode(held, said->add_held());
  said->set_host_id(host_id_);
  said->set_max_leases(options_.max_leases);
  stream_->Send(std::move(message));
}

void Supervisor::AddCounters(worker::v1::WorkerMessage* message) {
  std::map<std::string, uint64_t> now = fleet_.counters();
  const CoreCounters& core = core_.counters();
  now["pieces"] = core.pieces;
  now["leaves"] = core.leaves;
  now["merges"] = core.merges;
  now["flushes"] = core.flushes;
  now["executors_started"] = core.executors_started;
  now["executors_lost"] = core.executors_lost;
  now["suspects"] = core.suspects;
  now["leaves_returned"] = core.leaves_returned;
  now["fences"] = core.fences;
  now["bytes_pushed"] = pushers_.bytes_pushed();
  now["bytes_handed_over"] = pushers_.bytes_handed_over();
  for (const auto& [name, value] : now) {
    uint64_t& told = counters_told_[name];
    if (value > told) (*message->mutable_counters())[name] = value - told;
    told = value;
  }
}

void Supervisor::AddUsage(worker::v1::WorkerMessage* message) {
  if (fleet_.usage()->empty()) return;
  for (tandem::v1::JobUsage& usage : fleet_.usage()->Take(kUsagesAMessage)) {
    *message->add_usages() = std::move(usage);
  }
}

void Supervisor::Connect() {
  stream_ = ControlStream::Open(options_.master, ++last_stream_, queue_);
  welcomed_ = false;
  draining_ = false;
  pulse_ = 0;
  connect_at_ = MonoTime::InfiniteFuture();
  events_.push_back(Connected{});
}

void Supervisor::Disconnect(const absl::Status& why) {
  if (stream_ == nullptr) return;
  const bool was_welcomed = std::exchange(welcomed_, false);
  stream_ = nullptr;
  const absl::Duration wait = backoff_.Next();
  connect_at_ = clock_->Now() + wait;
  if (was_welcomed) {
    trouble_.clear();
    TLOG(Warning, "master_lost", "name", identity_.name(), "why", ToStd(why.message()));
  } else if (ReasonOf(why).empty() && IsNews("no master")) {
    TLOG(Warning, "no_master_answers", "name", identity_.name(), "at", options_.master, "why",
         ToStd(why.message()), "then", "tries on until one does");
  }
  events_.push_back(Disconnected{});
}

bool Supervisor::IsNews(const std::string& trouble) {
  const MonoTime now = clock_->Now();
  if (trouble == trouble_ && now < trouble_at_ + kTroubleAgain) return false;
  trouble_ = trouble;
  trouble_at_ = now;
  return true;
}

void Supervisor::Handle(StreamClosed event) {
  if (stream_ == nullptr || event.stream != stream_->number()) return;
  const std::string reason = ReasonOf(event.status);
  if (reason == reason::kVersionSkew) {
    result_ = event.status;
    done_ = true;
  } else if (!reason.empty() && IsNews(reason)) {
    TLOG(Warning, "attach_refused", "name", identity_.name(), "reason", reason, "why",
         ToStd(event.status.message()));
  }
  Disconnect(event.status);
}

void Supervisor::Handle(StreamMessage event) {
  if (stream_ == nullptr || event.stream != stream_->number()) return;
  const absl::Status status = TakeMessage(event.message.get());
  if (status.ok()) return;
  TLOG(Error, "master_misunderstood", "name", identity_.name(), "why", ToStd(status.message()));
  Disconnect(status);
}

void Supervisor::TakeSignals() {
  signalfd_siginfo info = {};
  while (::read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
    ++stops_;
    TLOG(Info, "worker_stops", "name", identity_.name(), "signal", info.ssi_signo, "asked", stops_);
    if (stops_ == 1) events_.push_back(Shutdown{});
    if (stops_ > 1) done_ = true;
  }
}

void Supervisor::Sleep() {
  const bool may_sleep = fleet_.PrepareToSleep();
  if (may_sleep) {
    std::vector<pollfd> fds = {{queue_->fd(), POLLIN, 0}, {signals_.get(), POLLIN, 0}};
    fleet_.AddPollFds(&fds);
    MonoTime deadline = std::min({core_deadline_, fleet_.next_deadline(), nvml_look_at_});
    if (stream_ == nullptr) deadline = std::min(deadline, connect_at_);
    Wait(&fds, deadline - clock_->Now());
  }
  fleet_.Awake();
  TakeSignals();
}

// Says goodbye, where somebody listens, and waits a moment for the answer.
void Supervisor::Leave() {
  KeepLearned(/*now=*/true);
  if (stream_ == nullptr || !welcomed_) return;
  worker::v1::WorkerMessage message;
  message.set_leaving(core_.attached());
  AddCounters(&message);
  stream_->Send(std::move(message));
  stream_->Close();
  const MonoTime until = clock_->Now() + kGoodbyeMax;
  while (stream_ != nullptr && clock_->Now() < until) {
    for (LoopEvent& event : queue_->Take()) {
      if (std::holds_alternative<StreamClosed>(event)) stream_ = nullptr;
    }
    if (stream_ == nullptr) break;
    std::vector<pollfd> fds = {{queue_->fd(), POLLIN, 0}};
    Wait(&fds, until - clock_->Now());
  }
}

}  // namespace tandem::worker
