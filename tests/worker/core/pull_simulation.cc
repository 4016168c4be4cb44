#include "tests/worker/core/pull_simulation.h"

#include <algorithm>
#include <utility>

namespace tandem::worker {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Nobody looks again at what is expected later than this.
constexpr double kLookMax = 1e3;

// The factor at `at`, and when it changes next.
std::pair<double, double> FactorAt(const SimulatedDevice& device, double at) {
  double factor = 1, until = device.dies_at;
  if (at >= device.dies_at) return {0, kNever};
  for (const SpeedChange& change : device.changes) {
    if (change.at <= at) {
      factor = change.factor;
    } else {
      until = std::min(until, change.at);
    }
  }
  return {factor, until};
}

}  // namespace

PullSimulation::PullSimulation(std::vector<double> costs, std::vector<SimulatedDevice> devices,
                               const SimulationOptions& options)
    : sums_(costs.size() + 1, 0),
      options_(options),
      tree_(costs.size(), 1),
      puller_(options.puller),
      done_(costs.size(), false) {
  for (size_t i = 0; i < costs.size(); ++i) sums_[i + 1] = sums_[i] + costs[i];
  for (SimulatedDevice& device : devices) {
    const uint32_t number = puller_.AddDevice(device.told);
    if (device.dies_at < kNever) After(device.dies_at, [this, number] { Die(number); });
    devices_.push_back({std::move(device), {}});
  }
  if (options_.lease_leaves == 0) {
    pool_.push_back({0, costs.size()});
    leased_ = costs.size();
  }
}

void PullSimulation::After(double seconds, std::function<void()> act) {
  events_.push({now_ + seconds, ++last_event_, std::move(act)});
}

double PullSimulation::EndOf(const SimulatedDevice& device, double begin, double work) const {
  double at = begin;
  while (true) {
    const auto [factor, until] = FactorAt(device, at);
    const double end = factor > 0 ? at + work / (device.speed * factor) : kNever;
    if (end <= until) return end;
    if (until == kNever) return kNever;
    work -= (until - at) * device.speed * factor;
    at = until;
  }
}

double PullSimulation::ideal() const {
  double work = sums_.back(), at = 0;
  while (true) {
    double speed = 0, until = kNever;
    for (const Device& device : devices_) {
      const auto [factor, change] = FactorAt(device.is, at);
      speed += factor * device.is.speed;
      until = std::min(until, change);
    }
    if (speed > 0 && at + work / speed <= until) return at + work / speed;
    if (until == kNever) return kNever;
    work -= speed * (until - at);
    at = until;
  }
}

double PullSimulation::seconds_without(size_t device) const {
  double last = 0;
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (i != device) last = std::max(last, devices_[i].last_end);
  }
  return last;
}

bool PullSimulation::Run() {
  LeaseMore();
  AskAll();
  while (done_leaves_ < done_.size()) {
    if (events_.empty()) return false;
    const Event event = events_.top();
    events_.pop();
    now_ = event.at;
    event.act();
    AskAll();
  }
  return true;
}

uint64_t PullSimulation::PoolLeaves() const {
  uint64_t leaves = 0;
  for (const LeafRange& run : pool_) leaves += run.size();
  return leaves;
}

Puller::Rest PullSimulation::Rest() const {
  return {PoolLeaves(), static_cast<double>(done_.size() - leased_)};
}

void PullSimulation::TakeBack(const Puller::Steal& steal) {
  ++steals_;
  puller_.Stealing(steal);
  After(options_.message_seconds, [this, s = steal] { GiveBack(s.victim, s.piece, s.leaves); });
}

void PullSimulation::LeaseMore() {
  if (leased_ == done_.size() || lease_on_its_way_ || PoolLeaves() >= options_.lease_leaves) return;
  lease_on_its_way_ = true;
  After(options_.lease_seconds, [this] {
    const uint64_t count = std::min(options_.lease_leaves, done_.size() - leased_);
    pool_.push_back({leased_, leased_ + count});
    leased_ += count;
    lease_on_its_way_ = false;
  });
}

// Everybody once, then a second piece each, as the core does it.
void PullSimulation::AskAll() {
  LeaseMore();
  for (uint32_t i = 0; i < devices_.size(); ++i) {
    if (const auto back = puller_.AskReturn(i, Now(), Rest()); back.has_value()) TakeBack(*back);
  }
  for (size_t depth = 0; depth < 2; ++depth) {
    for (uint32_t i = 0; i < devices_.size(); ++i) {
      if (devices_[i].held == depth) AskOne(i);
    }
  }
}

void PullSimulation::AskOne(uint32_t device) {
  const Puller::Decision pull = puller_.Ask(device, Now(), Rest());
  double& look_at = devices_[device].look_at;
  if (pull.look_again != MonoTime::InfiniteFuture() && look_at <= now_) {
    const double wait = absl::ToDoubleSeconds(pull.look_again - Now());
    if (wait < kLookMax) After(wait, [] {});
    look_at = now_ + wait;
  }
  if (pull.leaves == 0) {
    const std::optional<Puller::Steal> steal = puller_.AskSteal(device, Now());
    if (steal.has_value()) TakeBack(*steal);
    return;
  }
  Piece piece;
  piece.id = ++last_piece_;
  piece.leaves = Take(pull.end, pull.leaves);
  puller_.Took(device, piece.id, piece.leaves.size(), Now());
  ++pulls_;
  ++devices_[device].held;
  After(options_.message_seconds, [this, device, piece] { Arrive(device, piece); });
}

LeafRange PullSimulation::Take(PoolEnd end, uint64_t leaves_max) {
  LeafRange& run = end == PoolEnd::kFront ? pool_.front() : pool_.back();
  const Node node = end == PoolEnd::kFront ? tree_.LargestNodeAt(run.begin, leaves_max, run)
                                           : tree_.LargestNodeEndingAt(run.end, leaves_max, run);
  const LeafRange taken = tree_.Leaves(node);
  if (end == PoolEnd::kFront) {
    run.begin = taken.end;
    if (run.empty()) pool_.pop_front();
  } else {
    run.end = taken.begin;
    if (run.empty()) pool_.pop_back();
  }
  return taken;
}

void PullSimulation::Arrive(uint32_t index, Piece piece) {
  Device& device = devices_[index];
  if (device.dead) {
    After(options_.notice_seconds, [this, piece] { pool_.push_front(piece.leaves); });
    return;
  }
  device.pieces.push_back(piece);
  if (device.pieces.size() == 1) Begin(index);
}

void PullSimulation::Begin(uint32_t index) {
  Device& device = devices_[index];
  if (device.pieces.empty()) return;
  Piece& piece = device.pieces.front();
  piece.first = !device.launched;
  device.launched = true;
  piece.begun = true;
  piece.begin = now_ + device.is.fixed_seconds + (piece.first ? device.is.first_extra_seconds : 0);
  piece.end = EndOf(device.is, piece.begin, Work(piece.leaves));
  const uint64_t version = ++device.version;
  if (piece.end < kNever) After(piece.end - now_, [this, index, version] { End(index, version); });
}

void PullSimulation::End(uint32_t index, uint64_t version) {
  Device& device = devices_[index];
  if (device.dead || device.version != version) return;
  const Piece piece = device.pieces.front();
  device.pieces.pop_front();
  device.last_end = last_end_ = now_;
  for (uint64_t leaf = piece.leaves.begin; leaf < piece.leaves.end; ++leaf) {
    once_ = once_ && !done_[leaf];
    done_[leaf] = true;
  }
  done_leaves_ += piece.leaves.size();
  After(options_.message_seconds, [this, index, piece] {
    --devices_[index].held;
    puller_.Finished(index, piece.id, Now(),
                     piece.first ? Puller::Launch::kFirst : Puller::Launch::kWarm);
  });
  Begin(index);
}

// What of the far end has not started goes back, at most `leaves`.
void PullSimulation::GiveBack(uint32_t index, uint64_t id, uint64_t leaves) {
  Device& device = devices_[index];
  if (device.dead) return;
  LeafRange returned;
  uint64_t left = 0;
  bool found = false;
  for (Piece& piece : device.pieces) {
    if (piece.id != id) continue;
    found = true;
    uint64_t from = piece.leaves.end - std::min(leaves, piece.leaves.size());
    if (piece.begun && !device.is.told.gives_back) from = piece.leaves.end;
    while (piece.begun && from < piece.leaves.end &&
           EndOf(device.is, piece.begin, Work({piece.leaves.begin, from})) <= now_) {
      ++from;
    }
    if (piece.begun) from = std::max(from, std::min(piece.leaves.begin + 1, piece.leaves.end));
    returned = {from, piece.leaves.end};
    piece.leaves.end = from;
    left = piece.leaves.size();
  }
  std::erase_if(device.pieces, [](const Piece& piece) { return piece.leaves.empty(); });
  if (!returned.empty() && !device.pieces.empty() && device.pieces.front().id == id &&
      device.pieces.front().begun) {
    Piece& piece = device.pieces.front();
    piece.end = EndOf(device.is, piece.begin, Work(piece.leaves));
    const uint64_t version = ++device.version;
    if (piece.end < kNever)
      After(piece.end - now_, [this, index, version] { End(index, version); });
  }
  if (!found) return;  // The news that it has ended is on its way.
  After(options_.message_seconds, [this, index, id, returned, left] {
    if (devices_[index].dead) return;
    if (!returned.empty()) pool_.push_back(returned);
    if (left == 0) --devices_[index].held;
    puller_.Shrunk(index, id, left);
  });
}

void PullSimulation::Die(uint32_t index) {
  devices_[index].dead = true;
  After(options_.notice_seconds, [this, index] {
    puller_.Lost(index);
    devices_[index].held = 2;
    for (const Piece& piece : devices_[index].pieces) pool_.push_front(piece.leaves);
    devices_[index].pieces.clear();
  });
}

}  // namespace tandem::worker
