// Puller: decides what each device of a worker pulls next of one job, and what it takes back from
// another, so that all of them end together (docs/ARCHITECTURE.md, "pull, don't cut").
//
//   const uint32_t gpu = puller.AddDevice({.end = PoolEnd::kFront, .seconds_per_leaf = 1e-4});
//   const Decision pull = puller.Ask(gpu, now, {pool.leaves(), share_to_come});
//   if (pull.leaves > 0) puller.Took(gpu, piece, leaves, now);   // at most pull.leaves, of
//   pull.end … puller.Finished(gpu, piece, now, Launch::kWarm);
//
// Nothing is planned ahead: each pull is small against what remains, sized by the rate that the
// device's own last pulls have shown, so a device that is throttled, busy or dying is noticed by
// them. What a device is predicted to do decides its first pull alone.
//
//   what remains  the pool and the share still to come, as seconds of all devices together
//   a pull        <= rate × min(quantum, half of what remains)
//   quantum       max(8 × fixed cost, 2 % of what remains)
//   alone         a device that nobody helps takes half of the pool, and never less than 32 fixed
//                 costs: only overhead counts, and that more comes before the pool is empty
//   no pull       that would end after the others could have finished all that remains
//   a steal       when the pool has nothing: of the piece that ends last, so many of its unstarted
//                 leaves, from its far end, that both devices end at the same time
//
// The slower a device is against the others, the surer it must be: leaves are uneven, and nobody
// can help with one that runs.
//
// Whoever asks cuts the answer down to nodes of the range tree. It asks again after each event and
// at Decision::look_again: a device that declined has counted on others.
//
// One puller is one job's. What other jobs have on the same devices it is told by Occupied and
// OtherEnded, so that it neither counts on a device that is busy nor takes their time for its own.
//
// Thread-safety: one thread. Cost: a pull with all that belongs to it, O(devices).
// Invariants: 1. when all devices were asked and the pool has a leaf, some device holds a piece or
// is occupied; 2. no more than pieces_max pieces a device; probes_max while its rate is unknown.
#ifndef TANDEM_WORKER_CORE_PULLER_H_
#define TANDEM_WORKER_CORE_PULLER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "common/base/clock.h"

namespace tandem::worker {

struct PullerOptions {
  double probe_seconds = 1e-3;          // the first pull, by prediction
  double quantum_fixed_costs = 8;       // quantum = max(8 × fixed cost,
  double quantum_of_rest = 0.02;        //               2 % of what remains);
  double least_fixed_costs = 2;         // a piece shorter than this is mostly overhead
  double least_fixed_costs_alone = 32;  // where nobody else is to end at the same time
  double piece_seconds_max = 0.5;       // the longest pull
  double memory_pieces = 12;            // at least so many of its last pieces a rate remembers
  double caution = 3;                   // standard deviations of a leaf's time that are allowed for
  double steal_gain_seconds = 50e-6;    // the least by which a steal must end earlier
};

// GPUs pull from the front of the pool, CPUs from its back.
enum class PoolEnd { kFront, kBack };

// What is known of a device before it has run anything of this job.
struct PullDevice {
  PoolEnd end = PoolEnd::kBack;
  uint32_t pieces_max = 2;      // held at a time: running and next
  uint32_t probes_max = 1;      // the same while its rate is not known
  double seconds_per_leaf = 0;  // predicted; 0: not known, then the first pull is one leaf
  double fixed_seconds = 0;     // a piece
  bool gives_back = false;      // leaves of a running piece that have not started can be taken back
};

class Puller {
 public:
  using PieceId = uint64_t;

  // Is this the device's first launch of the kernel? It pays for loading it, and teaches nothing.
  enum class Launch { kFirst, kWarm };

  struct Rest {
    uint64_t leaves = 0;  // in the pool
    double to_come = 0;   // leaves that this worker may still expect
  };
  struct Decision {
    uint64_t leaves = 0;  // at most so many, >= 1; 0: nothing now
    PoolEnd end = PoolEnd::kBack;
    // When nothing was pulled because others will be sooner: ask again if they are not.
    MonoTime look_again = MonoTime::InfiniteFuture();
  };
  // `leaves` from the far end of a piece: those that its device starts last.
  struct Steal {
    uint32_t victim = 0;
    PieceId piece = 0;
    uint64_t leaves = 0;
  };

  explicit Puller(const PullerOptions& options = {}) : options_(options) {}

  uint32_t AddDevice(const PullDevice& device);
  // A device that is gone holds nothing and is counted on for nothing. REQUIRES: as returned by
  // AddDevice, as all below.
  void Lost(uint32_t device);
  // It is there again, and must prove itself anew.
  void Back(uint32_t device, const PullDevice& prediction);

  // How much `device` should pull now.
  Decision Ask(uint32_t device, MonoTime now, const Rest& rest) const;
  // What `device` holds and should give back unstarted: its next piece, when the one before it is
  // so late that the others would be sooner.
  std::optional<Steal> AskReturn(uint32_t device, MonoTime now, const Rest& rest) const;
  // What `device`, which holds nothing and has just been told to pull nothing, should take from
  // another. Steals that were asked for and not answered are not asked for again.
  std::optional<Steal> AskSteal(uint32_t device, MonoTime now) const;

  void Took(uint32_t device, PieceId piece, uint64_t leaves, MonoTime now);
  // `measured`: seconds that its leaves alone took, where the device says so; else the time since
  // its last end counts, fixed cost included.
  void Finished(uint32_t device, PieceId piece, MonoTime now, Launch launch,
                std::optional<double> measured = std::nullopt);
  // What a piece costs whatever its size, as it is known by now.
  void FixedCost(uint32_t device, double seconds) {
    devices_[device].setup.fixed_seconds = seconds;
  }
  // Pieces of other jobs, which run before this job's next one, keep the device until then.
  void Occupied(uint32_t device, MonoTime until);
  // One of them has ended: what this job has on the device begins no earlier.
  void OtherEnded(uint32_t device, MonoTime now);
  // A steal is under way; Shrunk ends it, whatever it brought.
  void Stealing(const Steal& steal);
  // The piece now has so many leaves; none: it came back unstarted as a whole.
  void Shrunk(uint32_t device, PieceId piece, uint64_t leaves);

  // For people and for what depends on it; 0: not known.
  double SecondsPerLeaf(uint32_t device) const { return devices_[device].slope; }
  bool Proven(uint32_t device) const { return devices_[device].weight > 0; }

 private:
  struct Held {
    PieceId piece = 0;
    uint64_t leaves = 0;
    MonoTime since;
    bool stealing = false;
  };
  struct DeviceState {
    PullDevice setup;
    bool there = true;
    double slope = 0;  // seconds a leaf: measured, else predicted, else 0
    // Decayed sums over what was measured: pieces, those of them with a fixed cost in their time,
    // leaves, seconds.
    double weight = 0, fixed_costs = 0, leaves = 0, seconds = 0;
    std::vector<Held> held;                        // in the order in which they run
    MonoTime last_end = MonoTime::InfinitePast();  // of a piece of any job
    MonoTime occupied_until = MonoTime::InfinitePast();
  };
  // A device as it looks now: when it is free, and its rate from then on.
  struct Outlook {
    double free_in = 0;  // seconds from now
    double slope = 0;
  };
  // Until when the pool can be finished: by all, and by all but one.
  struct Ends {
    double all = 0;
    double others = 0;
  };

  Outlook LookAt(const DeviceState& device, MonoTime now) const;
  bool Late(const DeviceState& device, MonoTime now) const;
  double RunsFor(const DeviceState& device, MonoTime now) const;
  Ends EndsOf(uint32_t device, double leaves, MonoTime now) const;
  // `fixed_costs`: how many are in `seconds`.
  void Learn(DeviceState* device, double leaves, double seconds, double fixed_costs);
  // Of `seconds` without a fixed cost.
  void LearnSpread(const DeviceState& device, double leaves, double seconds);
  // Of a leaf's time, relative to the mean.
  double Variance() const;
  // How many times the mean a leaf may well take, as far as this device should care.
  double Spread(const DeviceState& device, double rate_mean) const;
  double MeanRate() const;
  bool Alone() const;
  Held* Find(uint32_t device, PieceId piece);

  const PullerOptions options_;
  std::vector<DeviceState> devices_;
  // Decayed sums over the pieces of all devices: squared relative errors, and what they would be
  // per squared relative deviation of a leaf.
  double errors_ = 0, errors_expected_ = 0;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_CORE_PULLER_H_
