#include "worker/device/cpu/cpu_device.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "worker/device/cpu/cpu_accumulator.h"

namespace tandem::worker {
namespace {

// Partials kept for the next piece.
constexpr size_t kIdleBytesMax = size_t{1} << 30;
// An accumulator smaller than this is merged on the caller's thread.
constexpr uint64_t kCollectHereBytes = 64 << 10;

}  // namespace

uint32_t CpuDevice::SlotsOf(const std::vector<CoreGroup>& groups) {
  uint32_t slots = 1;
  for (const CoreGroup& group : groups) slots += Lane::SlotsOf(group);
  return slots;
}

CpuDevice::CpuDevice(const std::vector<CoreGroup>& groups, const MachineInfo& machine,
                     StartLog* log, int nice)
    : log_(log), pool_(kIdleBytesMax), slots_(SlotsOf(groups)) {
  properties_.kind = DeviceKind::kCpu;
  properties_.model = machine.cpu_model;
  properties_.memory_bytes = machine.memory_bytes;
  properties_.lanes = static_cast<uint32_t>(groups.size());
  properties_.slots = SlotsOf(groups);
  for (const CoreGroup& group : groups) properties_.cores += static_cast<uint32_t>(group.threads);
  Lane::AllowThreads(properties_.cores);
  uint32_t first_slot = 0;
  for (const CoreGroup& group : groups) {
    lanes_.push_back(std::make_unique<Lane>(group, first_slot, nice));
    first_slot += Lane::SlotsOf(group);
  }
  here_ = std::make_unique<SoloCrew>(first_slot);
}

CpuDevice::~CpuDevice() = default;

void CpuDevice::RunBatch(Crew* crew, uint32_t lane_threads, Batch* batch) {
  std::atomic<int64_t> thread_ns = 0;
  std::atomic<int64_t> host_ns = 0;
  if (batch->gate != nullptr && !batch->gate->Take()) {
    batch->status = absl::CancelledError("withdrawn before it began");
    const std::function<void(Batch*)> done = std::move(batch->done);
    return done(batch);
  }
  const int64_t start = NowNanos();
  if (batch->before) batch->before(*crew);
  const int64_t before = NowNanos() - start;
  batch->status = RunParts({batch, crew, log_, &slots_, &pool_, &thread_ns, &host_ns});
  const int64_t end = NowNanos();
  if (batch->after) batch->after(*crew);
  // What surrounds the kernel is spread over the threads as well as it goes.
  batch->busy_ns = before + thread_ns / lane_threads + (NowNanos() - end);
  batch->host_ns = host_ns / lane_threads;
  // The batch may be gone once `done` runs, and the function with it.
  const std::function<void(Batch*)> done = std::move(batch->done);
  done(batch);
}

void CpuDevice::Submit(uint32_t lane, Batch* batch) {
  Lane* target = lanes_[lane].get();
  const bool short_enough = batch->may_run_here && batch->expected_ns > 0 &&
                            batch->expected_ns <= kSplitNanos && target->idle();
  if (short_enough) return RunBatch(here_.get(), target->threads(), batch);
  target->Run([this, target, batch] { RunBatch(target, target->threads(), batch); });
}

void CpuDevice::SubmitWork(uint32_t lane, HostWork* work) {
  Lane* target = lanes_[lane].get();
  target->Run([target, work] {
    const int64_t start = NowNanos();
    work->run(*target);
    work->busy_ns = NowNanos() - start;
    const std::function<void(HostWork*)> done = std::move(work->done);
    done(work);
  });
}

std::unique_ptr<Accumulator> CpuDevice::NewAccumulator(const TandemKernelV1* kernel,
                                                       const void* args) {
  return std::make_unique<CpuAccumulator>(kernel, args, properties_.slots, &pool_);
}

void CpuDevice::Collect(uint32_t lane, Accumulator* accumulator, void* into,
                        std::function<void(absl::Status, int64_t)> done) {
  auto* mine = static_cast<CpuAccumulator*>(accumulator);
  auto merge = [mine, into, done = std::move(done)](HostCrew* crew) {
    const int64_t start = NowNanos();
    absl::Status status = mine->MergeInto(*crew, into);
    done(std::move(status), NowNanos() - start);
  };
  if (mine->bytes_held() <= kCollectHereBytes) return merge(here_.get());
  Lane* target = lanes_[lane].get();
  target->Run([merge = std::move(merge), target] { merge(target); });
}

}  // namespace tandem::worker
