// Devices that pull, in virtual time: the real Puller against devices whose true speed only the
// simulation knows, with uneven leaves, messages that take their time, and devices that slow down,
// pause or die.
//
//   PullSimulation simulation(costs, devices, options);
//   simulation.Run();
//   simulation.seconds() / simulation.ideal()
//
// The ideal knows everything: all devices end at the same moment, and nothing costs but the work.
//
// Thread-safety: one thread.
#ifndef TANDEM_TESTS_WORKER_CORE_PULL_SIMULATION_H_
#define TANDEM_TESTS_WORKER_CORE_PULL_SIMULATION_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <vector>

#include "common/model/range_tree.h"
#include "worker/core/puller.h"

namespace tandem::worker {

// From `at` on the device has `factor` of its speed; 0: it stands still.
struct SpeedChange {
  double at = 0;
  double factor = 1;
};

struct SimulatedDevice {
  PullDevice told;   // what the puller is told of it
  double speed = 1;  // work a second
  double fixed_seconds = 0;
  double first_extra_seconds = 0;  // of its first piece
  std::vector<SpeedChange> changes;
  double dies_at = std::numeric_limits<double>::infinity();
};

struct SimulationOptions {
  PullerOptions puller;
  double message_seconds = 20e-6;  // from the core to a device, and back
  double notice_seconds = 1e-3;    // from a device's death to the core's knowledge of it
  uint64_t lease_leaves = 0;       // leases come one by one, so large; 0: all is there at once
  double lease_seconds = 1e-3;     // from asking for a lease to having it
};

class PullSimulation {
 public:
  PullSimulation(std::vector<double> costs, std::vector<SimulatedDevice> devices,
                 const SimulationOptions& options);
  // Until every leaf is done. False: nothing happens any more, and some are not.
  bool Run();

  double seconds() const { return last_end_; }
  double ideal() const;
  uint64_t pulls() const { return pulls_; }
  uint64_t steals() const { return steals_; }
  // True when no leaf was run to its end twice.
  bool once() const { return once_; }
  // When the last of the others ended.
  double seconds_without(size_t device) const;

 private:
  struct Piece {
    uint64_t id = 0;
    LeafRange leaves;
    bool first = false;
    bool begun = false;
    double begin = 0;
    double end = 0;
  };
  struct Device {
    SimulatedDevice is;
    std::deque<Piece> pieces;
    size_t held = 0;  // pieces, as the core knows
    double look_at = 0;
    bool launched = false;
    bool dead = false;
    uint64_t version = 0;  // of its schedule: events of older ones are void
    double last_end = 0;
  };
  struct Event {
    double at = 0;
    uint64_t number = 0;
    std::function<void()> act;
    bool operator<(const Event& other) const {
      return at != other.at ? at > other.at : number > other.number;
    }
  };

  void After(double seconds, std::function<void()> act);
  MonoTime Now() const {
    return MonoTime::FromNanos(1'000'000'000 + static_cast<int64_t>(now_ * 1e9));
  }
  double EndOf(const SimulatedDevice& device, double begin, double work) const;
  double Work(LeafRange leaves) const { return sums_[leaves.end] - sums_[leaves.begin]; }
  void AskAll();
  void AskOne(uint32_t device);
  LeafRange Take(PoolEnd end, uint64_t leaves_max);
  void Arrive(uint32_t device, Piece piece);
  void Begin(uint32_t device);
  void End(uint32_t device, uint64_t version);
  void GiveBack(uint32_t device, uint64_t piece, uint64_t leaves);
  void Die(uint32_t device);
  void LeaseMore();
  uint64_t PoolLeaves() const;
  Puller::Rest Rest() const;
  void TakeBack(const Puller::Steal& steal);

  std::vector<double> sums_;  // of costs before each leaf
  const SimulationOptions options_;
  RangeTree tree_;
  Puller puller_;
  std::vector<Device> devices_;
  std::deque<LeafRange> pool_;
  uint64_t leased_ = 0;
  bool lease_on_its_way_ = false;
  std::priority_queue<Event> events_;
  std::vector<bool> done_;
  uint64_t done_leaves_ = 0;
  double now_ = 0, last_end_ = 0;
  uint64_t last_event_ = 0, last_piece_ = 0, pulls_ = 0, steals_ = 0;
  bool once_ = true;
};

}  // namespace tandem::worker

#endif  // TANDEM_TESTS_WORKER_CORE_PULL_SIMULATION_H_
