// Harness: an executor with small kernels, a source of bytes that counts what is read from it, and
// the supervisor's half of the conversation.
//
//   Harness h;
//   BoundJob job = h.SetUp(7, spec);
//   h.Run(7, {0, 4});                            // sends a piece, waits for its report
//   h.OutputBytes(h.done().at(1).outputs(0))
//
// Thread-safety: one thread, but for the source, which the executor's threads call.
#ifndef TANDEM_TESTS_WORKER_EXECUTOR_HARNESS_H_
#define TANDEM_TESTS_WORKER_EXECUTOR_HARNESS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "common/model/bound_job.h"
#include "common/model/job_spec.h"
#include "tandem/executor/v1/executor.pb.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/device/emulated/emulated_gpu.h"
#include "worker/device/gpu/gpu_device.h"
#include "worker/executor/executor.h"
#include "worker/ring/staging.h"

namespace tandem::worker::testing {

// Blobs and regions in memory.
class FakeSource final : public OperandSource {
 public:
  BlobLocator AddBlob(const std::string& bytes);
  Region AddRegion(const std::string& bytes);
  // Answers LocateBlob for this blob.
  void Place(const BlobLocator& blob, const std::string& path);
  // A byte of the blob is another one from now on.
  void Damage(const BlobLocator& blob, uint64_t offset);
  // The next `n` reads are UNAVAILABLE.
  void FailNext(int n);
  uint64_t bytes_read() const;

  absl::StatusOr<std::string> LocateBlob(const BlobLocator& blob) override;
  absl::StatusOr<std::vector<uint64_t>> BlobSums(const BlobLocator& blob) override;
  absl::Status ReadBlob(const BlobLocator& blob, uint64_t offset, uint64_t length,
                        char* to) override;
  absl::Status ReadRegion(const Region& region, char* to) override;

 private:
  mutable absl::Mutex mu_;
  std::map<BlobId, std::string> blobs_;
  std::map<BlobId, std::string> places_;
  std::map<BlobId, std::vector<uint64_t>> sums_;
  std::map<uint64_t, std::string> regions_;
  int failing_ = 0;
  uint64_t bytes_read_ = 0;
};

class NoLog final : public StartLog {
 public:
  void Begin(uint32_t, uint64_t, uint64_t, uint64_t, uint64_t) override {}
  void End(uint32_t) override {}
};

// An executor of another kind: with the built-in kernels, on an emulated device.
struct HarnessOptions {
  bool local_data = false;
  uint64_t cache_bytes = uint64_t{1} << 30;
  std::optional<ExecutorLimits> limits;  // else those for its device
  bool builtin_kernels = false;
  int threads_a_group = 2;  // of its two core groups
  std::optional<EmulatedOptions> emulated;
  GpuEngineOptions engine;
};

class Harness {
 public:
  // Two groups of two threads.
  explicit Harness(bool local_data = false, uint64_t cache_bytes = uint64_t{1} << 30,
                   const ExecutorLimits& limits = {});
  explicit Harness(const HarnessOptions& options);
  ~Harness();

  // Sends a job's setup; the spec comes back with its defaults filled in.
  BoundJob SetUp(uint64_t job, JobSpec spec);
  executor::v1::JobSetup MakeSetup(uint64_t job, JobSpec spec, BoundJob* bound = nullptr);
  // A message with one more piece; its number.
  uint64_t AddPiece(uint64_t job, LeafRange leaves, executor::v1::ToExecutor* message);
  void Send(executor::v1::ToExecutor message);
  // Runs the executor's loop until the condition holds.
  void Until(const std::function<bool()>& condition);
  // Sends a piece and waits until it was reported in any way; its number.
  uint64_t Run(uint64_t job, LeafRange leaves);
  // A job's tasks in pieces, one a range, all sent at once; the packed bytes of output 0 in order.
  std::string RunAll(uint64_t job, const std::vector<LeafRange>& pieces);

  std::string OutputBytes(const tandem::v1::OutputPiece& piece) const;
  // A path in a folder of this harness.
  std::string Path(const std::string& name) const;
  PathLocator WriteFile(const std::string& name, const std::string& bytes, uint64_t data_offset = 0,
                        uint64_t slice_bytes = 4096) const;

  FakeSource* source() { return source_.get(); }
  Executor* executor() { return executor_.get(); }
  // Null: it is a CPU.
  EmulatedGpu* emulated() { return emulated_; }
  StagingAllocator* staging() { return staging_.get(); }
  const std::map<uint64_t, executor::v1::PieceDone>& done() const { return done_; }
  const std::map<uint64_t, executor::v1::MergeDone>& merges() const { return merges_; }
  const std::vector<executor::v1::PartialDone>& partials() const { return partials_; }
  const std::vector<executor::v1::JobError>& errors() const { return errors_; }
  const std::vector<uint64_t>& returned() const { return returned_; }
  // The last answer for each piece.
  const std::map<uint64_t, uint64_t>& shrunk() const { return shrunk_; }
  const std::vector<executor::v1::TooLarge>& too_large() const { return too_large_; }
  uint64_t counter(const std::string& name) const;
  // What was told so far of what the job cost.
  tandem::v1::Usage usage(uint64_t job) const;
  const executor::v1::Ready& ready() const { return ready_; }

 private:
  void TakeReplies();
  bool Reported(uint64_t piece) const;

  const std::string folder_;
  std::shared_ptr<FakeSource> source_;
  BufferPool pool_;
  NoLog log_;
  std::unique_ptr<StagingFile> staging_file_;
  std::unique_ptr<StagingAllocator> staging_;
  KernelTable kernels_;
  EmulatedGpu* emulated_ = nullptr;  // device_'s
  std::unique_ptr<Device> device_;
  std::unique_ptr<Executor> executor_;
  absl::Mutex mu_;
  bool woken_ = false;
  uint64_t last_piece_ = 0;

  executor::v1::Ready ready_;
  std::map<uint64_t, executor::v1::PieceDone> done_;
  std::map<uint64_t, executor::v1::MergeDone> merges_;
  std::vector<executor::v1::PartialDone> partials_;
  std::vector<executor::v1::JobError> errors_;
  std::vector<uint64_t> returned_;
  std::vector<executor::v1::TooLarge> too_large_;
  std::map<uint64_t, uint64_t> shrunk_;
  std::map<std::string, uint64_t> counters_;
  std::map<uint64_t, tandem::v1::Usage> usages_;
};

// A dense operand, and one of each kind of locator for it.
OperandSpec Dense(DType dtype, std::vector<int64_t> shape, Locator locator);
template <class T>
std::string BytesOf(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}
template <class T>
std::vector<T> ValuesOf(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}
// A random partition of [0, leaves) into ranges.
std::vector<LeafRange> RandomCut(uint64_t leaves, uint64_t seed);
// A random partition into nodes of the tree.
std::vector<LeafRange> RandomNodes(const RangeTree& tree, uint64_t seed);

}  // namespace tandem::worker::testing

#endif  // TANDEM_TESTS_WORKER_EXECUTOR_HARNESS_H_
