#include "worker/core/puller.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/container/inlined_vector.h"
#include "common/base/check.h"

namespace tandem::worker {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kSecondsPerLeafMin = 1e-12;
constexpr double kLeavesMax = 1e18;
// Of a measured time, at most so much is taken for fixed cost.
constexpr double kFixedCostShareMax = 0.75;
// The memory of how uneven leaves are, in pieces of all devices; and the most that is believed.
constexpr double kSpreadMemory = 64;
constexpr double kErrorMax = 4;
// A rate remembers so many leaves that their mean errs by no more than this.
constexpr double kMeanErrorMax = 0.15;
constexpr double kSlowerMax = 3;
// A piece goes back when its device would be later than the others by this factor.
constexpr double kReturnMargin = 1.25;
// Between two looks at a device that is late.
constexpr double kLookAgainMin = 200e-6;

double SecondsSince(MonoTime now, MonoTime then) {
  return std::max(0.0, static_cast<double>(now.NanosSince(then)) * 1e-9);
}

}  // namespace

uint32_t Puller::AddDevice(const PullDevice& device) {
  devices_.emplace_back();
  Back(static_cast<uint32_t>(devices_.size() - 1), device);
  return static_cast<uint32_t>(devices_.size() - 1);
}

void Puller::Lost(uint32_t device) {
  devices_[device].there = false;
  devices_[device].held.clear();
}

void Puller::Back(uint32_t device, const PullDevice& prediction) {
  DeviceState& state = devices_[device];
  state = DeviceState();
  state.setup = prediction;
  state.slope = prediction.seconds_per_leaf;
}

// How long the first of its pieces has been running.
double Puller::RunsFor(const DeviceState& device, MonoTime now) const {
  return SecondsSince(
      now, std::max({device.held.front().since, device.last_end, device.occupied_until}));
}

bool Puller::Late(const DeviceState& device, MonoTime now) const {
  return RunsFor(device, now) > device.setup.fixed_seconds +
                                    static_cast<double>(device.held.front().leaves) * device.slope;
}

// A piece that is late is taken to be half done: the longer it is late, the less is expected of its
// device.
Puller::Outlook Puller::LookAt(const DeviceState& device, MonoTime now) const {
  const double occupied = SecondsSince(device.occupied_until, now);
  Outlook outlook{occupied, device.slope};
  if (device.held.empty()) return outlook;
  const double ran = RunsFor(device, now);
  const double first =
      device.setup.fixed_seconds + static_cast<double>(device.held.front().leaves) * device.slope;
  outlook.free_in = first - ran;
  if (outlook.free_in < 0) {
    outlook.free_in = -outlook.free_in;
    outlook.slope *= ran / first;
  }
  outlook.free_in += occupied;
  for (size_t i = 1; i < device.held.size(); ++i) {
    outlook.free_in +=
        device.setup.fixed_seconds + static_cast<double>(device.held[i].leaves) * outlook.slope;
  }
  return outlook;
}

// As if leaves were a fluid; but nobody ends before it has run one leaf.
Puller::Ends Puller::EndsOf(uint32_t device, double leaves, MonoTime now) const {
  struct Entry {
    double free_in, rate;
    bool other;
  };
  absl::InlinedVector<Entry, 16> entries;
  double one_leaf = kNever;
  const double rate_mean = MeanRate();
  for (uint32_t i = 0; i < devices_.size(); ++i) {
    const DeviceState& state = devices_[i];
    if (!state.there || state.slope <= 0) continue;
    const Outlook outlook = LookAt(state, now);
    Entry entry{outlook.free_in, 1 / std::max(outlook.slope, kSecondsPerLeafMin), i != device};
    if (entry.other) {
      one_leaf = std::min(one_leaf, entry.free_in + state.setup.fixed_seconds +
                                        outlook.slope * Spread(state, rate_mean));
    }
    auto at = entries.end();
    while (at != entries.begin() && (at - 1)->free_in > entry.free_in) --at;
    entries.insert(at, entry);
  }
  // Leaves that are done by t: Σ rate × (t - free_in) over those that are free by then.
  double rate_all = 0, late_all = 0, rate_others = 0, late_others = 0;
  Ends ends{kNever, kNever};
  const auto end_of = [leaves](double rate, double late) {
    return rate > 0 ? (leaves + late) / rate : kNever;
  };
  for (const Entry& entry : entries) {
    if (entry.free_in < ends.all) {
      rate_all += entry.rate;
      late_all += entry.rate * entry.free_in;
      ends.all = end_of(rate_all, late_all);
    }
    if (entry.other && entry.free_in < ends.others) {
      rate_others += entry.rate;
      late_others += entry.rate * entry.free_in;
      ends.others = end_of(rate_others, late_others);
    }
  }
  ends.others = std::max(ends.others, one_leaf);
  return ends;
}

Puller::Decision Puller::Ask(uint32_t device, MonoTime now, const Rest& rest) const {
  const DeviceState& state = devices_[device];
  Decision decision{0, state.setup.end};
  if (!state.there || rest.leaves == 0 || state.held.size() >= state.setup.pieces_max) {
    return decision;
  }
  const bool proven = state.weight > 0;
  if (!proven && state.held.size() >= state.setup.probes_max) return decision;
  if (state.slope <= 0) {
    decision.leaves = 1;
    return decision;
  }
  const Outlook self = LookAt(state, now);
  const double fixed = state.setup.fixed_seconds;
  const Ends ends = EndsOf(device, static_cast<double>(rest.leaves) + rest.to_come, now);
  if (self.free_in + fixed + self.slope * Spread(state, MeanRate()) > ends.others) {
    decision.look_again =
        now.PlusNanos(static_cast<int64_t>(std::max(ends.others, kLookAgainMin) * 1e9));
    return decision;
  }
  double target = options_.probe_seconds;
  if (proven) {
    const bool alone = Alone();
    if (alone) {
      target = static_cast<double>(rest.leaves) * self.slope / 2;
    } else {
      const double quantum =
          std::max(options_.quantum_fixed_costs * fixed, options_.quantum_of_rest * ends.all);
      target = std::min(quantum, (ends.all - self.free_in) / 2);
    }
    target = std::max(
        target, (alone ? options_.least_fixed_costs_alone : options_.least_fixed_costs) * fixed);
    target = std::min(target, options_.piece_seconds_max);
  }
  const double leaves =
      std::clamp(target / std::max(self.slope, kSecondsPerLeafMin), 1.0, kLeavesMax);
  decision.leaves = std::min(static_cast<uint64_t>(leaves), rest.leaves);
  return decision;
}

std::optional<Puller::Steal> Puller::AskReturn(uint32_t device, MonoTime now,
                                               const Rest& rest) const {
  const DeviceState& state = devices_[device];
  if (!state.there || state.held.size() < 2 || state.slope <= 0) return std::nullopt;
  const Held& last = state.held.back();
  if (last.stealing || !Late(state, now)) return std::nullopt;
  const auto leaves = static_cast<double>(last.leaves);
  const Outlook self = LookAt(state, now);
  const Ends ends = EndsOf(device, static_cast<double>(rest.leaves) + rest.to_come + leaves, now);
  // As if it were to be pulled now; and a margin, so that it does not go to and fro.
  const double end = self.free_in + self.slope * (Spread(state, MeanRate()) - leaves);
  if (end <= ends.others * kReturnMargin + options_.steal_gain_seconds) return std::nullopt;
  return Steal{device, last.piece, last.leaves};
}

std::optional<Puller::Steal> Puller::AskSteal(uint32_t device, MonoTime now) const {
  const DeviceState& thief = devices_[device];
  if (!thief.there || !thief.held.empty()) return std::nullopt;
  std::optional<Steal> best;
  double best_end = 0;
  for (uint32_t i = 0; i < devices_.size(); ++i) {
    const DeviceState& victim = devices_[i];
    if (i == device || !victim.there || victim.held.empty() || victim.slope <= 0) continue;
    const Held& last = victim.held.back();
    const Outlook outlook = LookAt(victim, now);
    if (last.stealing || outlook.free_in <= best_end) continue;
    double unstarted = static_cast<double>(last.leaves);
    if (victim.held.size() == 1) {
      if (!victim.setup.gives_back) continue;
      const double slope = std::max(outlook.slope, kSecondsPerLeafMin);
      unstarted = std::min(unstarted - 1, outlook.free_in / slope);
    }
    // Both end together when the thief takes so many.
    const double slope = thief.slope > 0 ? thief.slope : outlook.slope;
    double take = (outlook.free_in - thief.setup.fixed_seconds - options_.steal_gain_seconds) /
                  (slope + outlook.slope);
    take = std::min(take, unstarted);
    if (thief.weight == 0) take = std::min(take, std::max(1.0, options_.probe_seconds / slope));
    if (take < 1) continue;
    best_end = outlook.free_in;
    best = Steal{i, last.piece, static_cast<uint64_t>(take)};
  }
  return best;
}

void Puller::Took(uint32_t device, PieceId piece, uint64_t leaves, MonoTime now) {
  DCHECK(leaves > 0);
  devices_[device].held.push_back({piece, leaves, now, false});
}

Puller::Held* Puller::Find(uint32_t device, PieceId piece) {
  for (Held& held : devices_[device].held) {
    if (held.piece == piece) return &held;
  }
  return nullptr;
}

void Puller::Finished(uint32_t device, PieceId piece, MonoTime now, Launch launch,
                      std::optional<double> measured) {
  Held* held = Find(device, piece);
  if (held == nullptr) return;  // of before it was lost
  DeviceState& state = devices_[device];
  const double seconds =
      measured.value_or(SecondsSince(now, std::max(held->since, state.last_end)));
  const auto leaves = static_cast<double>(held->leaves);
  state.held.erase(state.held.begin() + (held - state.held.data()));
  state.last_end = now;
  if (launch == Launch::kWarm) return Learn(&state, leaves, seconds, measured ? 0 : 1);
  // It was no slower than this.
  const double most = std::max(seconds / leaves, kSecondsPerLeafMin);
  state.slope = state.slope > 0 ? std::min(state.slope, most) : most;
}

void Puller::Learn(DeviceState* device, double leaves, double seconds, double fixed_costs) {
  if (device->weight > 0) {
    LearnSpread(*device, leaves, seconds - fixed_costs * device->setup.fixed_seconds);
  }
  // The more uneven leaves are, the more of them make a mean.
  const double mean_of = Variance() / (kMeanErrorMax * kMeanErrorMax);
  const double keep = 1 - std::min(1 / options_.memory_pieces, leaves / std::max(mean_of, leaves));
  device->weight = device->weight * keep + 1;
  device->fixed_costs = device->fixed_costs * keep + fixed_costs;
  device->leaves = device->leaves * keep + leaves;
  device->seconds = device->seconds * keep + seconds;
  const double fixed = std::min(device->fixed_costs * device->setup.fixed_seconds,
                                kFixedCostShareMax * device->seconds);
  device->slope = std::max((device->seconds - fixed) / device->leaves, kSecondsPerLeafMin);
}

// The mean of n leaves that differ independently errs by the n-th part of a leaf's variance.
void Puller::LearnSpread(const DeviceState& device, double leaves, double seconds) {
  const double mean = device.slope * leaves;
  const double error = std::clamp((seconds - mean) / mean, -kErrorMax, kErrorMax);
  const double keep = 1 - 1 / kSpreadMemory;
  errors_ = errors_ * keep + error * error;
  errors_expected_ = errors_expected_ * keep + 1 / leaves;
}

double Puller::Variance() const {
  if (errors_expected_ <= 0) return 0;
  return std::min(errors_ / errors_expected_, kErrorMax * kErrorMax);
}

// A device that is slow against the others adds little, and would be the last by much: the slower
// it is, the more it allows for.
double Puller::Spread(const DeviceState& device, double rate_mean) const {
  const double slower = std::clamp(std::sqrt(rate_mean * device.slope), 1.0, kSlowerMax);
  return 1 + options_.caution * slower * std::sqrt(Variance());
}

double Puller::MeanRate() const {
  double rate = 0, devices = 0;
  for (const DeviceState& state : devices_) {
    if (!state.there || state.slope <= 0) continue;
    rate += 1 / std::max(state.slope, kSecondsPerLeafMin);
    ++devices;
  }
  return devices > 0 ? rate / devices : 0;
}

bool Puller::Alone() const {
  return std::count_if(devices_.begin(), devices_.end(),
                       [](const DeviceState& state) { return state.there; }) == 1;
}

void Puller::Occupied(uint32_t device, MonoTime until) { devices_[device].occupied_until = until; }

void Puller::OtherEnded(uint32_t device, MonoTime now) {
  DeviceState& state = devices_[device];
  state.last_end = std::max(state.last_end, now);
}

void Puller::Stealing(const Steal& steal) {
  if (Held* held = Find(steal.victim, steal.piece)) held->stealing = true;
}

void Puller::Shrunk(uint32_t device, PieceId piece, uint64_t leaves) {
  Held* held = Find(device, piece);
  if (held == nullptr) return;
  held->stealing = false;
  held->leaves = leaves;
  DeviceState& state = devices_[device];
  if (leaves == 0) state.held.erase(state.held.begin() + (held - state.held.data()));
}

}  // namespace tandem::worker
