#include "worker/device/nvml/nvml_monitor.h"

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/strings.h"
#include "worker/device/nvml/xid.h"

namespace tandem::worker {
namespace {

// How long one wait for an Xid takes: what ending the monitor waits for.
constexpr absl::Duration kListen = absl::Milliseconds(100);

absl::Status Unavailable(std::string_view what) {
  return Error(absl::StatusCode::kUnavailable, reason::kDeviceFault, what);
}

// Tells from readings what no Xid may have told.
class Watcher {
 public:
  // What became of the device since the reading before; nothing: it is as well as it was.
  std::optional<GpuEvent> Look(const GpuReading& reading) {
    const auto [before, first] = uncorrected_.try_emplace(reading.uuid, reading.ecc_uncorrected);
    const bool worse = reading.ecc_uncorrected.value_or(0) > before->second.value_or(0);
    if (reading.ecc_uncorrected.has_value()) before->second = reading.ecc_uncorrected;
    if (reading.lost) {
      return Once(reading, "lost", "the GPU is lost: NVML gets no answer from it; reboot");
    }
    if (reading.remapping_failed.value_or(false)) {
      return Once(reading, "rows",
                  "a bad row of its memory has no spare; reset it, and have it replaced");
    }
    if (!first && worse) {
      return Once(reading, "ecc",
                  "an uncorrectable memory error; drain it and reset it: nvidia-smi --gpu-reset");
    }
    return std::nullopt;
  }

 private:
  std::optional<GpuEvent> Once(const GpuReading& reading, const char* what, const char* text) {
    if (!told_.emplace(reading.uuid, what).second) return std::nullopt;
    return GpuEvent{reading.uuid, true, 0, text};
  }

  std::map<std::string, std::optional<uint64_t>> uncorrected_;
  std::set<std::pair<std::string, std::string>> told_;
};

}  // namespace

struct NvmlMonitor::State {
  State(NvmlOptions given, Listener to) : options(std::move(given)), listener(std::move(to)) {}

  const NvmlOptions options;
  const Listener listener;

  absl::Mutex mu;
  absl::Status status ABSL_GUARDED_BY(mu) = absl::UnknownError("NVML has not answered yet");
  absl::Status deaf ABSL_GUARDED_BY(mu);  // why no Xids are heard of; OK: they are
  std::vector<GpuReading> readings ABSL_GUARDED_BY(mu);
  std::optional<MonoTime> calling_since ABSL_GUARDED_BY(mu);
  bool stopping ABSL_GUARDED_BY(mu) = false;
  bool ended ABSL_GUARDED_BY(mu) = false;

  bool Ended() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return ended; }
  bool Stopping() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return stopping; }

  // Runs one call of NVML's, known to status() while it lasts.
  template <class F>
  auto Calling(F call) {
    Mark(Clock::Real()->Now());
    auto result = call();
    Mark(std::nullopt);
    return result;
  }
  void Mark(std::optional<MonoTime> since) {
    absl::MutexLock lock(&mu);
    calling_since = since;
  }
  void Tell(const GpuEvent& event) {
    {
      absl::MutexLock lock(&mu);
      if (stopping) return;
    }
    if (listener) listener(event);
  }
  void Deafen(absl::Status why) {
    absl::MutexLock lock(&mu);
    deaf = std::move(why);
  }
  // True when it is time to end.
  bool Rest(absl::Duration duration) {
    absl::MutexLock lock(&mu);
    return mu.AwaitWithTimeout(absl::Condition(this, &State::Stopping), duration);
  }
  void End(absl::Status why) {
    absl::MutexLock lock(&mu);
    if (!why.ok()) status = std::move(why);
    ended = true;
  }
};

NvmlMonitor::NvmlMonitor(NvmlOptions options, Listener listener)
    : state_(std::make_shared<State>(std::move(options), std::move(listener))),
      thread_([state = state_] { Run(state); }) {}

NvmlMonitor::~NvmlMonitor() {
  bool ended = false;
  {
    absl::MutexLock lock(&state_->mu);
    state_->stopping = true;
    ended = state_->mu.AwaitWithTimeout(absl::Condition(state_.get(), &State::Ended),
                                        state_->options.limit);
  }
  if (ended) {
    thread_.join();
  } else {
    thread_.detach();  // it holds a State of its own
  }
}

absl::Status NvmlMonitor::status() const {
  absl::MutexLock lock(&state_->mu);
  const std::optional<MonoTime> since = state_->calling_since;
  if (since.has_value() && Clock::Real()->Now() - *since > state_->options.limit) {
    return Unavailable(StrCat("NVML hangs: a call takes longer than ", state_->options.limit,
                              "; nvidia-smi and dmesg say more of the driver"));
  }
  return state_->status.ok() ? state_->deaf : state_->status;
}

std::vector<GpuReading> NvmlMonitor::readings() const {
  absl::MutexLock lock(&state_->mu);
  return state_->readings;
}

void NvmlMonitor::Run(const std::shared_ptr<State>& state) {
  auto opened = state->Calling([&] { return NvmlLibrary::Open(state->options.library); });
  if (!opened.ok()) {
    return state->End(Unavailable(ToStd(opened.status().message())));
  }
  NvmlLibrary& nvml = **opened;
  Watcher watcher;
  MonoTime next = Clock::Real()->Now();
  bool listens = nvml.reports_xids();
  if (!listens)
    state->Deafen(
        Unavailable("NVML reports no Xids of these GPUs; their memory's errors are still read"));
  while (!state->Rest(listens ? absl::ZeroDuration() : kListen)) {
    if (Clock::Real()->Now() >= next) {
      next = Clock::Real()->Now() + state->options.read_every;
      std::vector<GpuReading> readings = state->Calling([&] { return nvml.Read(); });
      for (const GpuReading& reading : readings) {
        if (const auto event = watcher.Look(reading)) state->Tell(*event);
      }
      absl::MutexLock lock(&state->mu);
      state->readings = std::move(readings);
      state->status = absl::OkStatus();
    }
    if (!listens) continue;
    const auto xid = state->Calling([&] { return nvml.NextXid(kListen); });
    listens = xid.ok();
    if (!xid.ok()) state->Deafen(xid.status());
    if (!xid.ok() || !xid->has_value()) continue;
    const uint64_t number = (*xid)->xid;
    state->Tell({(*xid)->uuid, MeaningOfXid(number) == XidMeaning::kOutOfService, number,
                 DescribeXid(number)});
  }
  state->Calling([&] {
    opened->reset();
    return true;
  });
  state->End(absl::OkStatus());
}

}  // namespace tandem::worker
