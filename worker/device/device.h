// The seam between an executor and the device that it drives: batches in, completions out.
//
// A device has *lanes* (the core groups of a CPU; one or more streams of a GPU). A `Batch` is a
// list of parts of one kernel, of any jobs and leases of one owner; it goes to a lane in one call.
// Work on the host that surrounds a kernel (packing operands, merging partials) uses the cores of a
// lane through a `HostCrew`, so that the executor itself starts no threads and knows no TBB.
//
//   batch->parts.push_back(part);
//   batch->done = [](Batch* b) { queue.Push(b); };
//   device->Submit(lane, batch);            // returns at once
//
// Every call is asynchronous and never waits for the device. Batches of one lane begin in the order
// submitted; the next one fills what the one before leaves idle (threads, or copies on a GPU), so
// they may end in another order. `done` is called exactly
// once, from any thread, perhaps before Submit returns (a batch so short that a change of threads
// would cost more runs on the caller's); it must not block and may not submit.
//
// Failures: a task's own failure is a fault byte. What the device finds wrong with a whole batch is
// `batch->status`; then no result of it counts.
//
// Ownership: the caller owns the batch and everything it points to (arguments, buffers, fault
// bytes, partials) and keeps them unchanged from Submit until `done`, on success and on failure
// alike. The device owns scratch, staging and accumulators' memory.
//
// A device with a memory of its own finds in `PartBuffer` what the arguments point to: it copies
// inputs up, patches the pointers of its copy of the arguments, and copies outputs down. An
// output's buffer belongs to the parts of one batch, which write all of it but what they skip. A
// CPU ignores them.
//
// Thread-safety: Submit, SubmitWork, Collect and NewAccumulator are called from one thread.
#ifndef TANDEM_WORKER_DEVICE_DEVICE_H_
#define TANDEM_WORKER_DEVICE_DEVICE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/model/lease_messages.h"
#include "kernels/sdk/include/tandem/abi.h"
#include "worker/device/leaf_cursor.h"

namespace tandem::worker {

struct DeviceProperties {
  DeviceKind kind = DeviceKind::kUnspecified;
  std::string model;
  std::string uuid;  // GPUs
  uint32_t cores = 0;
  uint64_t memory_bytes = 0;
  uint64_t budget_bytes = 0;  // with own_memory: what batches may use of it
  uint32_t lanes = 0;
  uint32_t slots = 0;       // of the start log: slot numbers are below this
  bool own_memory = false;  // it needs every part's buffers
  // What the start of its driver took, and of its context there; 0: it has none.
  int64_t driver_ns = 0, context_ns = 0;
};

// Where a thread says what it starts, before it starts it: so that a crash names its suspects.
// Thread-safety: a slot belongs to one thread at a time.
class StartLog {
 public:
  static constexpr uint64_t kNoTask = std::numeric_limits<uint64_t>::max();

  virtual ~StartLog() = default;
  // `task` is kNoTask, or the one task of the leaf that runs now.
  virtual void Begin(uint32_t slot, uint64_t job, uint64_t first_leaf, uint64_t leaves,
                     uint64_t task) = 0;
  virtual void End(uint32_t slot) = 0;
};

// Exact partials of one job, gathered by one device over many batches, in any order.
class Accumulator {
 public:
  virtual ~Accumulator() = default;
};

// What one pointer of a part's arguments points to.
struct PartBuffer {
  uint32_t args_offset = 0;
  void* host = nullptr;
  uint64_t bytes = 0;
  bool output = false;
  bool table = false;    // of items: TandemBytes, or TandemSink where it is an output
  uint64_t content = 0;  // equal for equal bytes, so that a device may keep them; 0: not known
  bool shared = false;   // every task may read all of it
};

// A run of tasks that share their arguments.
struct BatchPart {
  const void* args = nullptr;
  TandemTask first = {0, 0};
  int64_t tasks = 0;
  uint8_t* fault = nullptr;  // a byte a task, zero; null where the kernel cannot fail
  absl::Span<const PartBuffer> buffers;

  // Kernels with reductions have one of these two. `partial` becomes the value of the node that the
  // part's leaves make up, folded up the range tree: float sums (TANDEM_WHOLE_LEAF) and a kernel's
  // own merge (TANDEM_OWN_MERGE). All others have `accumulator`. Parts of one batch have the same.
  Accumulator* accumulator = nullptr;
  void* partial = nullptr;

  // A call of the kernel has the tasks of one leaf, less those to be skipped: which tasks share a
  // call may show in a result. Parts of one batch have the same.
  bool leaf_calls = false;

  // Where its leaves begin in order and it may be cut short while it runs; only leaves before
  // cursor->end() have run then. For a batch of one part that is neither suspect nor has a partial.
  LeafCursor* cursor = nullptr;

  uint64_t job = 0;                 // for the start log
  uint64_t grain = 1;               // tasks a leaf; leaf i begins at task i * grain
  bool suspect = false;             // task by task on one thread, each one logged
  absl::Span<const uint64_t> skip;  // tasks not to run, ascending, all in the part

  int64_t failed = 0;  // Set before `done`; skipped tasks are not among them.
};

// The cores of one lane, for work on the host.
class HostCrew {
 public:
  using Body = absl::FunctionRef<void(int64_t begin, int64_t end)>;
  virtual ~HostCrew() = default;
  // Calls body over disjoint intervals that make up [0, n), of at least `grain` where it can.
  virtual void ParallelFor(int64_t n, int64_t grain, Body body) = 0;
};

// Who takes it has the batch: its device, before it touches anything of it, or its owner, who wants
// it back. Thread-safety: any thread.
class BatchGate {
 public:
  bool Take() { return !taken_.exchange(true, std::memory_order_acq_rel); }

 private:
  std::atomic<bool> taken_ = false;
};

struct Batch {
  const TandemKernelV1* kernel = nullptr;
  std::vector<BatchPart> parts;
  // Optional. A batch whose gate was taken from the device is `done` unread, as CANCELLED. Devices
  // with a memory of their own do not look at it.
  BatchGate* gate = nullptr;
  double expected_ns = 0;  // of all its tasks on one core; 0: not known
  // Optional. Host work just before and just after the kernel, on the lane.
  std::function<void(HostCrew&)> before;
  std::function<void(HostCrew&)> after;
  std::function<void(Batch*)> done;
  // May run on the thread that submits it, when it is short enough.
  bool may_run_here = false;
  // Of a device with a memory of its own: what is set apart for it at least while it is there. More
  // than the budget is too large.
  uint64_t memory_bytes = 0;

  // Set before `done`.
  absl::Status status;
  // Time of the lane that it took: that of its threads, summed, divided by the lane's threads.
  int64_t busy_ns = 0;
  // … and what of it the kernel's own host stages took.
  int64_t host_ns = 0;
  // Of a device with a memory of its own: what its copies and grids took (0 where it has no clock),
  // and what was copied.
  int64_t up_ns = 0, grid_ns = 0, down_ns = 0;
  uint64_t bytes_up = 0, bytes_down = 0;
  int64_t memory_ns = 0;      // … and what it took to get the memory
  bool first_launch = false;  // of its kernel on this device, which costs more than others
  // What `status` says is that it is too large: nothing of it was run. Parts of it may fit.
  bool too_large = false;
  // Then: what it needs of the device's memory, and the budget. Of the two that which is short: a
  // need within the budget says that others have the memory now.
  uint64_t need_bytes = 0;
  uint64_t budget_bytes = 0;
};

// Host work that is no kernel's: merging partials.
struct HostWork {
  std::function<void(HostCrew&)> run;
  std::function<void(HostWork*)> done;
  int64_t busy_ns = 0;
};

class Device {
 public:
  virtual ~Device() = default;  // waits until everything submitted is done
  virtual const DeviceProperties& properties() const = 0;
  // Not OK: the device is to be given up, with its process. Any thread.
  virtual absl::Status health() const { return absl::OkStatus(); }

  // REQUIRES: lane < properties().lanes; the batch has a part, and `done`.
  virtual void Submit(uint32_t lane, Batch* batch) = 0;
  virtual void SubmitWork(uint32_t lane, HostWork* work) = 0;

  // `args` is copied.
  virtual std::unique_ptr<Accumulator> NewAccumulator(const TandemKernelV1* kernel,
                                                      const void* args) = 0;
  // Merges what an accumulator has gathered into `into` (partial_bytes of host memory; the identity
  // when nothing was gathered), then calls `done`. REQUIRES: no batch that uses it is running; it
  // gathers nothing afterwards.
  virtual void Collect(uint32_t lane, Accumulator* accumulator, void* into,
                       std::function<void(absl::Status, int64_t busy_ns)> done) = 0;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_DEVICE_H_
