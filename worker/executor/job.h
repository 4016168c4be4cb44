// Job: what an executor keeps of a job: its kernel, its operands' readers, its accumulator.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<Job> job, Job::Make(&setup, kernels, resources));
//   job->readers()[i]->View(plan.operands[i])
//
// Thread-safety: readers may be used from any thread; the rest belongs to the executor's loop.
// Ownership: pieces point to their job, which outlives them.
#ifndef TANDEM_WORKER_EXECUTOR_JOB_H_
#define TANDEM_WORKER_EXECUTOR_JOB_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/bound_job.h"
#include "tandem/executor/v1/executor.pb.h"
#include "worker/device/device.h"
#include "worker/executor/args.h"
#include "worker/executor/blob_cache.h"
#include "worker/executor/cost.h"
#include "worker/executor/kernel_table.h"
#include "worker/executor/operand_view.h"
#include "worker/executor/usage.h"

namespace tandem::worker {

// What jobs of one executor share.
struct JobResources {
  OperandSources sources;
  std::shared_ptr<BlobCache> cache;
  bool local_data = true;
  BufferPool* pool = nullptr;
  // No wait goes on once it is set.
  std::shared_ptr<std::atomic<bool>> stopping = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<std::atomic<uint64_t>> bytes_fetched = std::make_shared<std::atomic<uint64_t>>(0);
};

// Exact partials of a job, between two flushes. A closed one takes no new piece, and is reported
// when those that run in it have finished.
struct JobAccumulator {
  std::unique_ptr<Accumulator> device;
  std::vector<uint64_t> pieces;  // finished, and counted in it
  uint64_t tasks = 0;
  uint64_t running = 0;  // pieces that are adding to it now
  bool discarded = false;
};

class Job {
 public:
  // Errors: whatever is wrong with a setup; `fatal` says whether with the job itself (no worker can
  // run it) or only here.
  static absl::StatusOr<std::unique_ptr<Job>> Make(executor::v1::JobSetup* setup,
                                                   const KernelTable& kernels,
                                                   const JobResources& resources, bool* fatal);

  uint64_t id() const { return id_; }
  const BoundJob& bound() const { return bound_; }
  const TandemKernelV1* kernel() const { return kernel_; }
  const ArgsTemplate& args() const { return args_; }
  const std::vector<std::unique_ptr<OperandReader>>& readers() const { return readers_; }
  OperandSource* remote() const { return remote_.get(); }
  // Names the bytes of an operand; empty where pieces share none of them, and no other job does.
  const std::string& identity(size_t operand) const { return identities_[operand]; }

  bool reduces() const { return reduces_; }
  // Float sums, own merges and sums of a pinned job: partials are folded up the tree, a piece is a
  // node and yields one.
  bool ordered() const { return ordered_; }
  // All outputs are exact reductions: pieces gather in one accumulator.
  bool accumulates() const { return accumulates_; }
  // Of one partial (of no tasks, where it grows with them); 0 without reductions.
  uint64_t partial_bytes() const { return partial_bytes_; }
  // What a batch of it is to have of a device's memory; 0: what it needs.
  uint64_t gpu_memory_bytes() const { return bound_.spec.resources.gpu_memory_bytes; }
  bool may_fail() const { return kernel_->fault_count > 1 || bound_.kernel.host_stages; }

  TaskCost cost;
  // The device's time for what one core would take, as the kernel's last batches have shown.
  double device_time = 1;
  Usage usage;           // since it was last told
  bool counted = false;  // there is usage to tell
  const std::shared_ptr<OperandUsage> operand_usage = std::make_shared<OperandUsage>();
  std::shared_ptr<JobAccumulator> accumulator;  // the open one; null: nothing gathered yet
  uint64_t pieces = 0;                          // known and not finished
  bool forgotten = false;

 private:
  Job() = default;
  absl::Status MakeReaders(const JobResources& resources);

  uint64_t id_ = 0;
  BoundJob bound_;
  const TandemKernelV1* kernel_ = nullptr;
  ArgsTemplate args_;
  std::shared_ptr<OperandSource> remote_;
  std::vector<std::unique_ptr<OperandReader>> readers_;
  std::vector<std::string> identities_;  // beside readers_
  uint64_t partial_bytes_ = 0;
  bool reduces_ = false;
  bool ordered_ = false;
  bool accumulates_ = false;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_JOB_H_
