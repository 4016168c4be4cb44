// What goes into the worker's core and what comes out of it.
//
// The core pools granted leaves, hands pieces to the core groups (and later GPUs) that have room,
// collects what they finish into reports, and survives the loss of either side: of an executor (its
// suspects are reported, the rest goes back to the pool) and of the master (it keeps running; at
// the next attach it says what it holds).
//
//   WorkerCore core(options, seed);
//   for (const Event& event : batch) core.Step(event, now, &effects);
//   core.Settle(now, &effects);   // once a batch: hands out pieces, makes the report
//
// What the shell owes the core: everything of a stream's past is gone before Connected; a Welcome's
// jobs are described before its Welcomed; each PushRegion is answered by exactly one PushDone or
// PushFailed; each StartExecutor by exactly one ExecutorLost in the end; what an executor said
// before it was lost comes before its ExecutorLost.
//
// Staging: a finished piece's large outputs lie in the staging file of the executor *incarnation*
// that made them. The core asks the shell to push them to the master's segments (PushRegion), puts
// the Region that comes back into the commit, and releases the staging once the commit is
// acknowledged.
//
// Thread-safety: plain data.
#ifndef TANDEM_WORKER_CORE_EVENTS_H_
#define TANDEM_WORKER_CORE_EVENTS_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/model/ids.h"
#include "common/model/job_spec.h"
#include "common/model/lease_messages.h"
#include "worker/core/device_model.h"

namespace tandem::worker {

using PieceId = uint64_t;
using PushId = uint64_t;

// The largest budget that counts.
inline constexpr uint64_t kBudgetMax = std::numeric_limits<uint64_t>::max() / 2;

// One life of one executor process. Numbers are never used again.
using ExecutorId = uint64_t;

// Bytes of one output: inline, or in an executor's staging file.
struct StagedOutput {
  uint32_t output = 0;
  std::string inline_bytes;  // used when length == 0
  uint64_t offset = 0;
  uint64_t length = 0;
};

// ---- events from the master's stream ----

struct Connected {};  // the stream is up; answer with SendHello
struct Disconnected {};

struct JobDescribed {
  JobId job;
  std::string owner;
  std::string kernel;
  uint64_t task_count = 0;
  uint64_t grain = 0;
  bool reduces = false;      // has reduced outputs
  bool accumulates = false;  // all outputs reduced and exact: an executor may keep one accumulator
  bool appends = false;  // the outputs of adjacent pieces, one behind the other, are those of both
  uint64_t partial_bytes = 0;
  absl::Duration time_limit = absl::InfiniteDuration();  // of one task
  double cost_ns_per_task = 0;                // the kernel's hint, on one core; 0: unknown
  std::string extents;                        // of its inner axes, as text ("k=21")
  DeviceChoice device = DeviceChoice::kAuto;  // which may run it; an emulated GPU is one of those
  uint64_t gpu_memory_bytes = 0;              // a device with a smaller budget does not run it

  // Sums in floating point are folded up the tree: a piece is one node, a commit one node's
  // partial.
  bool whole_nodes() const { return reduces && !accumulates; }
};
struct Welcomed {
  WorkerId worker;
  Epoch epoch;
  absl::Duration lease_ttl;
  absl::Duration heartbeat;
  std::vector<Grant> adopted;  // every older lease is void
};
struct Granted {
  Grant grant;
};
struct MergeGranted {
  MergeGrant merge;
};
struct Recalled {
  Recall recall;
};
struct OutlookSaid {
  Outlook outlook;
};
struct JobDropped {
  JobId job;
};
struct ReportAcked {
  uint64_t number = 0;
};
struct DrainSaid {
  bool drain = true;
};
// What was learned of how long a kernel takes is forgotten; of all of them: "".
struct ForgetSaid {
  uint64_t number = 0;  // the report that follows says it
  std::string kernel;   // identity or name
};

// ---- events from executors ----

struct ExecutorReady {
  ExecutorId executor = 0;
  uint32_t groups = 1;  // lanes of its device: core groups; each pulls for itself
  uint32_t cores = 1;
  DeviceKind kind = DeviceKind::kCpu;
  bool shrinks = false;  // it answers ShrinkPiece, also of a piece that has begun
};
// A device besides the CPU, which every worker has: it exists from now on. Again: what it can has
// changed.
struct DeviceFound {
  std::string device;  // "emulated:0", "cuda:GPU-…": what StartExecutor will call it
  DeviceKind kind = DeviceKind::kGpu;
  std::vector<std::string> kernels;    // identities of those that it has a form of
  uint64_t budget_bytes = kBudgetMax;  // of its memory, for batches
  std::string model;                   // "NVIDIA H200": devices of one model are alike
};
// It is out of service, and why; or, when there is no trouble, in service again.
struct DeviceTroubled {
  std::string device;
  std::string trouble;
};
// A start page says which leaves had started and not finished.
struct Suspect {
  JobId job;
  LeafInterval leaves;
  bool task_known = false;
  uint64_t task = 0;
};
struct ExecutorLost {
  ExecutorId executor = 0;
  std::string how;  // "SIGSEGV", "exit 3"; "TIME_LIMIT": killed for what the suspects did
  std::vector<Suspect> suspects;
};
struct PieceFinished {
  ExecutorId executor = 0;
  PieceId piece = 0;
  absl::Duration busy;
  absl::Duration fetch;
  bool accumulated = false;
  std::vector<StagedOutput> outputs;
  std::vector<TaskFailure> failures;
  uint64_t tasks = 0;
  bool first_launch = false;  // of its kernel in that process: it says nothing of others
  BatchMeasured stages;       // of `busy`, as the device measured; none: all of it is the grid
};
struct PartialFinished {
  ExecutorId executor = 0;
  JobId job;
  std::vector<PieceId> pieces;
  std::vector<StagedOutput> outputs;
  uint64_t tasks = 0;
};
struct MergeFinished {
  ExecutorId executor = 0;
  PieceId piece = 0;
  std::vector<StagedOutput> outputs;
  uint64_t tasks = 0;
  uint64_t failed = 0;
  std::string error;
  absl::Duration busy;
};
struct PieceReturned {
  ExecutorId executor = 0;
  PieceId piece = 0;
};
// The answer to ShrinkPiece: the piece has its first `leaves` now; 0: all of it came back.
struct PieceShrunk {
  ExecutorId executor = 0;
  PieceId piece = 0;
  uint64_t leaves = 0;
};
// A piece of one leaf was not run: it needs so much of the device's memory. A need within the
// budget says that others have it now.
struct PieceTooLarge {
  ExecutorId executor = 0;
  PieceId piece = 0;
  uint64_t need_bytes = 0;
  uint64_t budget_bytes = 0;
  std::string reason;
};
struct JobErrored {
  ExecutorId executor = 0;
  JobId job;
  std::string reason;
  bool fatal = false;
  std::vector<PieceId> pieces;
};

// ---- events from the pusher and the timer ----

struct PushDone {
  PushId push = 0;
  Region region;
};
struct PushFailed {
  PushId push = 0;  // tried again after the next Welcome, or after a backoff
};
struct Tick {};
// Before anything else: what a former life of this worker was running when it ended. It is reported
// once there is a stream.
struct FormerLife {
  std::vector<Suspect> suspects;
};
// What a former life had learned of the devices that are still there. After their DeviceFound.
struct LearnedBefore {
  std::vector<LearnedDevice> devices;
};
struct Shutdown {};  // finish what runs, return the rest, leave; without a master: leave at once

using Event =
    std::variant<Connected, Disconnected, JobDescribed, Welcomed, Granted, MergeGranted, Recalled,
                 OutlookSaid, JobDropped, ReportAcked, DrainSaid, ForgetSaid, ExecutorReady,
                 ExecutorLost, DeviceFound, DeviceTroubled, PieceFinished, PartialFinished,
                 MergeFinished, PieceReturned, PieceShrunk, PieceTooLarge, JobErrored, PushDone,
                 PushFailed, Tick, FormerLife, LearnedBefore, Shutdown>;

// ---- effects ----

struct SendHello {
  uint64_t max_epoch = 0;
  std::vector<HeldLeaves> held;
};
struct StartExecutor {  // the shell answers with ExecutorReady or ExecutorLost
  ExecutorId executor = 0;
  std::string owner;
  std::string device = "cpu";  // which of the worker's devices it is to drive
};
struct KillExecutor {
  ExecutorId executor = 0;
};
struct SetupJob {  // before the first piece of a job for this executor
  ExecutorId executor = 0;
  JobId job;
};
struct RunPiece {
  ExecutorId executor = 0;
  PieceId piece = 0;
  JobId job;
  LeafInterval leaves;
  uint32_t attempt = 0;
  uint32_t group = 0;
  bool suspect = false;
  std::vector<uint64_t> skip_tasks;  // ascending, all in the piece
  uint64_t inline_bytes_max = 0;     // outputs of at most this many bytes in all come inline
};
struct RunMerge {
  ExecutorId executor = 0;
  PieceId piece = 0;
  uint32_t group = 0;
  JobId job;
  std::vector<Partial> inputs;
};
struct CancelPiece {
  ExecutorId executor = 0;
  PieceId piece = 0;
};
// Only to an executor that shrinks: keep so many leaves, give back what has not begun behind them.
struct ShrinkPiece {
  ExecutorId executor = 0;
  PieceId piece = 0;
  uint64_t leaves = 0;
};
struct FlushJob {
  ExecutorId executor = 0;
  JobId job;
};
struct DiscardAccumulator {
  ExecutorId executor = 0;
  JobId job;
};
struct ForgetJob {
  ExecutorId executor = 0;
  JobId job;
};
struct ReleaseStaging {
  ExecutorId executor = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
};
// Nothing in the staging of an executor that is lost is needed any more.
struct CloseStaging {
  ExecutorId executor = 0;
};
struct PushRegion {
  PushId push = 0;
  ExecutorId executor = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
  JobId job;  // for the books
};

struct Effects {
  std::optional<SendHello> hello;
  bool reconnect = false;  // this worker paused for too long: end the stream and attach anew
  bool heartbeat = false;
  std::vector<Report> reports;  // numbered
  std::vector<std::variant<StartExecutor, KillExecutor, SetupJob, RunPiece, RunMerge, CancelPiece,
                           ShrinkPiece, FlushJob, DiscardAccumulator, ForgetJob, ReleaseStaging,
                           CloseStaging>>
      to_executors;  // in order
  std::vector<PushRegion> pushes;
  bool former_life_told = false;  // and durably counted: its start pages may go
  bool leaving = false;           // everything is handed back or reported and acknowledged
  MonoTime next_deadline = MonoTime::InfiniteFuture();
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_CORE_EVENTS_H_
