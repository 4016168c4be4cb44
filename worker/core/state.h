// What a worker's core knows of devices, jobs, owners, executors and pieces: plain state, moved by
// the handlers of WorkerCore.
//
// An owner has at most one executor a device at a time; its life:
//   kNone → kStarting → kReady → kNone (lost), and → kStopping → kNone when the core ends it.
//
// Thread-safety: belongs to the core. Ownership: OwnerState and JobState live in ordered node maps,
// OwnersExecutor in a deque that only grows, so pointers to them hold until their owner is erased.
#ifndef TANDEM_WORKER_CORE_STATE_H_
#define TANDEM_WORKER_CORE_STATE_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/model/range_tree.h"
#include "worker/core/device_model.h"
#include "worker/core/events.h"
#include "worker/core/lease_run.h"
#include "worker/core/lease_splits.h"
#include "worker/core/note_budget.h"
#include "worker/core/pool.h"
#include "worker/core/puller.h"
#include "worker/core/rate_model.h"

namespace tandem::worker {

// A merge lease, and how often an executor was lost over it.
struct MergeWork {
  MergeGrant grant;
  uint32_t losses = 0;
};

// By its number in WorkerCore::devices_; the server's CPU is the first.
using DeviceIndex = uint32_t;
inline constexpr DeviceIndex kCpuDevice = 0;
inline constexpr size_t kDevicesMax = 64;

struct WorkerDevice {
  std::string name;  // "cpu", "emulated:0": how the shell knows it
  DeviceKind kind = DeviceKind::kCpu;
  std::optional<absl::btree_set<std::string>>
      kernels;                         // identities that it has a form of; else all
  std::string trouble;                 // not empty: out of service, and why
  uint64_t budget_bytes = kBudgetMax;  // of its memory, for batches
  std::string model;                   // devices of one model are alike; "": like no other
  uint32_t lanes = 0;                  // as its executors have said; 0: none has yet
  DeviceModel learned;
  // What the master was told of each line of `learned`, and when it may be told again.
  struct Told {
    double tasks_per_second = 0;  // by the latest job in this life; 0: as the model says
    double told_tasks_per_second = 0;
    uint64_t told_samples = 0;
    MonoTime at;
  };
  absl::btree_map<ModelKey, Told> told;
  bool news = false;          // there is a line of which it knows nothing
  uint64_t told_version = 0;  // of `learned`, all of which was told
  MonoTime tell_at = MonoTime::InfinitePast();
};

struct OwnerState;

// An owner's executor on one device.
struct OwnersExecutor {
  enum class Phase { kNone, kStarting, kReady, kStopping };

  OwnersExecutor(OwnerState* of, DeviceIndex on) : owner(of), device(on) {}

  OwnerState* owner;
  DeviceIndex device;
  Phase phase = Phase::kNone;
  ExecutorId id = 0;
  uint32_t lanes = 1;
  uint32_t cores = 1;
  bool shrinks = false;           // pieces that have begun, too
  absl::btree_set<JobId> set_up;  // known to it
  uint32_t in_flight = 0;         // pieces and merges
  bool alone = false;             // what runs shall harm nothing else: nothing runs beside it …
  LeaseId suspect_set;            // … but what is of the same set of suspects

  uint32_t losses = 0;  // in a row: no piece was finished, and no start page says why
  MonoTime start_at;    // not before
  MonoTime idle_since = MonoTime::InfiniteFuture();
  uint32_t voids = 0;                                 // pieces in flight that nobody waits for …
  MonoTime voids_since = MonoTime::InfiniteFuture();  // … since the last of them came or went
};

struct OwnerState {
  std::string name;
  std::deque<OwnersExecutor> executors;  // by device
  // Jobs with unstarted leaves, by the order in which they came to have some or last had a turn.
  absl::btree_set<std::pair<uint64_t, JobId>> runnable;
  std::deque<MergeWork> merges;  // before everything else, on the CPU
  uint64_t last_turn = 0;
  uint32_t jobs = 0;

  bool has_work() const { return !merges.empty() || !runnable.empty(); }
};

// Pieces whose outputs are in the accumulator that one of the owner's executors keeps for a job.
struct Accumulator {
  struct Held {
    std::vector<LeaseRun> runs;  // of a piece: one, until a Welcome divides it
    std::vector<TaskFailure> failures;
    absl::Duration busy;
  };
  absl::btree_map<PieceId, Held> pieces;
  absl::Duration work;  // busy time of `pieces`
  uint64_t leaves = 0;
  bool flushing = false;
  bool tainted = false;  // a void piece went in: its partial will be dropped, so see to it soon
  MonoTime idle_since = MonoTime::InfiniteFuture();
  bool empty() const { return pieces.empty(); }
};

// What is known of how long a job's tasks take on one lane of a device.
struct Estimate {
  double seconds_per_task = 0;  // 0: nothing is known, not even a hint
  double fixed_seconds = 0;     // a piece
  // What says so: the kernel's hint; what it took with other extents, and with the job's very
  // extents; the job itself.
  enum class Source { kHint, kKernel, kSameExtents, kJob } source = Source::kHint;
  double hinted_seconds_per_task = 0;  // 0: there is no hint

  bool proven() const { return source == Source::kJob; }
  // While the job is not measured, the larger of what hint and kernel say: its data may be other.
  double careful_seconds_per_task() const {
    return proven() ? seconds_per_task : std::max(hinted_seconds_per_task, seconds_per_task);
  }
  // What the first pieces are sized by.
  double first_seconds_per_task() const {
    return source == Source::kKernel ? careful_seconds_per_task() : seconds_per_task;
  }
};

// How the lanes pull of one job, and what each of them has of it.
struct JobPulls {
  explicit JobPulls(const PullerOptions& options) : puller(options) {}
  struct OfLane {
    absl::Duration predicted;  // of its pieces there, as far as they are predicted
    uint32_t unpredicted = 0;
    uint32_t in_flight = 0;
    bool there = false;      // for this job
    bool told_rate = false;  // the puller predicts by what the job has shown on another lane
  };
  Puller puller;  // its devices are the lanes
  std::vector<OfLane> lanes;
  bool both_ends = false;  // GPUs and the CPU share it
};

// What a job has on one device.
struct JobOnDevice {
  Accumulator accumulator;
  RateModel rate;              // one task, on one lane
  uint64_t proven_leaves = 0;  // of the largest piece that has finished
  uint32_t too_large = 0;      // single leaves, since then
};

struct JobState {
  JobDescribed info;
  ModelKey model_key;
  RangeTree tree;
  OwnerState* owner = nullptr;
  uint64_t session = 0;  // in which it was last described
  // Devices that may run it, a bit each, as of a version of them.
  mutable uint64_t eligible = 0;
  mutable uint64_t eligible_version = 0;
  uint64_t barred = 0;  // devices that refused it, or too many of its leaves, while another runs it

  Pool pool;
  uint64_t order = 0;  // its key in owner->runnable; 0: not there
  double share_leaves = 0;
  std::optional<JobFault> fault;  // cannot run here: everything of it goes back …
  MonoTime fault_until;           // … until then
  uint32_t losses = 0;            // of executors, in a row, before anything of it had begun

  std::unique_ptr<JobPulls> pulls;  // once something was pulled
  std::vector<JobOnDevice> on;      // by device, as far as there was something
  uint32_t in_flight = 0;           // pieces, void ones excluded
  uint64_t running_leaves = 0;
  uint64_t piece_leaves_max = std::numeric_limits<uint64_t>::max();
  std::optional<uint64_t> backlog_told;  // what the master knows of it
  uint64_t granted_leaves = 0;           // in this session, adopted ones included

  LeaseSplits splits;
  NoteBudget notes;  // of them
};

struct InFlightPiece {
  OwnersExecutor* executor = nullptr;
  uint32_t lane = 0;
  JobId job;
  LeaseRun run;                      // empty for a merge
  std::vector<LeaseRun> renewed;     // what a Welcome divided `run` into; else empty
  std::unique_ptr<MergeWork> merge;  // null for a piece of leaves
  absl::Duration predicted;          // infinite while nothing is known
  absl::Duration unproven;           // at its most, while its job is not measured
  bool is_void = false;              // its leases are gone: whatever comes of it is dropped
  bool alone = false;                // nothing runs beside it but others of its set of suspects
  bool recalled = false;             // what comes back of it goes to the master
  PoolEnd end = PoolEnd::kFront;     // of the pool from which it was pulled
};

// What runs pieces one after the other: a core group, or a GPU. One owner's at a time.
struct PullLane {
  DeviceIndex device = kCpuDevice;
  uint32_t number = 0;           // in its device
  OwnerState* holder = nullptr;  // the present one, or the last
  uint32_t in_flight = 0;
  uint32_t voids = 0;        // of those: how many nobody waits for
  uint32_t unpredicted = 0;  // … and how many may take any time
  absl::Duration predicted;  // of the others, together
  absl::Duration unproven;   // of all whose jobs were not measured
  MonoTime held_since;
  MonoTime busy_since = MonoTime::InfinitePast();  // since when its first piece runs, at least
  MonoTime last_end = MonoTime::InfinitePast();    // of a piece
};

struct CoreCounters {
  uint64_t pieces = 0;
  uint64_t leaves = 0;
  uint64_t merges = 0;
  uint64_t flushes = 0;
  uint64_t executors_started = 0;
  uint64_t executors_lost = 0;
  uint64_t suspects = 0;
  uint64_t leaves_returned = 0;
  uint64_t pieces_void = 0;
  uint64_t fences = 0;
  uint64_t reports = 0;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_CORE_STATE_H_
