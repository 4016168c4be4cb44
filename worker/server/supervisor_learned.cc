// Supervisor: what was learned of how long work takes outlives the worker.
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include "common/base/log.h"
#include "common/base/strings.h"
#include "worker/server/supervisor.h"

namespace tandem::worker {
namespace {

// How often what is learned is written down, at most.
constexpr absl::Duration kKeepEvery = absl::Seconds(30);

}  // namespace

// What is learned on one device holds for no other: of another model, or driven by other cores. An
// emulated one is what its user says.
void Supervisor::NoteHardware(const std::string& name, const tandem::v1::Device& device) {
  const char* const emulated =
      device.kind() == tandem::v1::DEVICE_EMULATED ? std::getenv("TANDEM_EMULATED") : nullptr;
  hardware_[name] = StrCat(device.model(), "; cores=", device.cores(), "; groups=", device.groups(),
                           emulated == nullptr ? "" : StrCat("; ", emulated));
}

// Nothing of it is needed: what cannot be had is learned anew.
void Supervisor::RecallLearned() {
  kept_version_ = core_.learned_version();
  keep_at_ = clock_->Now() + kKeepEvery;
  absl::StatusOr<std::vector<KeptDevice>> kept = keeper_.Read(clock_->WallNow());
  if (absl::IsNotFound(kept.status())) return;
  if (!kept.ok()) {
    TLOG(Warning, "rates_ignored", "why", ToStd(kept.status().message()), "then",
         "they are learned anew");
    return;
  }
  std::set<std::string> kernels;
  for (const tandem::v1::Kernel& kernel : kernels_) kernels.insert(IdentityOf(kernel));
  LearnedThatFits fits = KeepWhatFits(*std::move(kept), hardware_, kernels);
  if (fits.kernels_dropped > 0 || !fits.devices_dropped.empty()) {
    TLOG(Info, "rates_recalled", "rates", fits.kernels, "of_kernels_not_here", fits.kernels_dropped,
         "of_devices_gone_or_replaced", fits.devices_dropped);
  } else {
    TLOG(Info, "rates_recalled", "rates", fits.kernels);
  }
  events_.push_back(LearnedBefore{std::move(fits.devices)});
}

void Supervisor::KeepLearned(bool now) {
  const uint64_t version = core_.learned_version();
  const MonoTime at = clock_->Now();
  if (version == kept_version_ || (!now && at < keep_at_)) return;
  std::vector<KeptDevice> kept;
  for (LearnedDevice& learned : core_.Learned(at)) {
    std::string hardware = hardware_[learned.device];
    kept.push_back({std::move(learned), std::move(hardware)});
  }
  keeper_.Save(EncodeLearned(kept, clock_->WallNow()));
  kept_version_ = version;
  keep_at_ = at + kKeepEvery;
}

}  // namespace tandem::worker
