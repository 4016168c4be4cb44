// A test's device over an emulated GPU with the exact clock, and batches for it.
#ifndef TANDEM_TESTS_WORKER_DEVICE_GPU_FIXTURE_H_
#define TANDEM_TESTS_WORKER_DEVICE_GPU_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/base/rng.h"
#include "tests/worker/device/emulated_fixture.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/device/gpu/gpu_device.h"

namespace tandem::worker {

// Remembers every start, and what has not ended.
class GridLog final : public StartLog {
 public:
  struct Start {
    uint64_t job, first_leaf, leaves, task;
  };
  void Begin(uint32_t slot, uint64_t job, uint64_t first_leaf, uint64_t leaves,
             uint64_t task) override {
    absl::MutexLock lock(&mu_);
    starts_.push_back({job, first_leaf, leaves, task});
    running_[slot] = starts_.back();
    peak_ = std::max(peak_, running_.size());
  }
  void End(uint32_t slot) override {
    absl::MutexLock lock(&mu_);
    running_.erase(slot);
  }
  std::vector<Start> starts() {
    absl::MutexLock lock(&mu_);
    return starts_;
  }
  // The most that had begun and not ended.
  size_t peak() {
    absl::MutexLock lock(&mu_);
    return peak_;
  }
  std::vector<Start> running() {
    absl::MutexLock lock(&mu_);
    std::vector<Start> all;
    for (const auto& [slot, start] : running_) all.push_back(start);
    return all;
  }

 private:
  absl::Mutex mu_;
  std::vector<Start> starts_ ABSL_GUARDED_BY(mu_);
  std::map<uint32_t, Start> running_ ABSL_GUARDED_BY(mu_);
  size_t peak_ ABSL_GUARDED_BY(mu_) = 0;
};

inline CoreGroup TwoThreads() {
  const auto domains = ReadCacheDomains();
  std::vector<int> cpus;
  for (const CacheDomain& domain : *domains) cpus.insert(cpus.end(), domain.begin(), domain.end());
  return CoreGroup{cpus, 2};
}

// A batch whose end can be waited for.
struct WaitedBatch {
  WaitedBatch() {
    batch.done = [this](Batch*) { done.Notify(); };
  }
  Batch batch;
  absl::Notification done;
};

struct DoubleArgs {
  const float* x;
  float* y;
};

// One part of double_it with buffers of its own.
struct DoublePart {
  explicit DoublePart(size_t tasks, Rng* rng = nullptr, uint64_t content = 0)
      : x(tasks), y(tasks, -7), fault(tasks, 0) {
    for (size_t i = 0; i < tasks; ++i) {
      x[i] = rng == nullptr ? static_cast<float>(i) : static_cast<float>(rng->Below(100)) - 10;
    }
    args = {x.data(), y.data()};
    buffers = {{{offsetof(DoubleArgs, x), x.data(), tasks * sizeof(float), false, false, content},
                {offsetof(DoubleArgs, y), y.data(), tasks * sizeof(float), true, false, 0}}};
  }
  BatchPart Part(uint64_t first = 0, uint64_t grain = 16) {
    BatchPart part;
    part.args = &args;
    part.first = {static_cast<int64_t>(first), 0};
    part.tasks = static_cast<int64_t>(x.size());
    part.fault = fault.data();
    part.buffers = buffers;
    part.job = 5;
    part.grain = grain;
    return part;
  }
  void ExpectDone(const BatchPart& part) const {
    int64_t negative = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(y[i], 2 * x[i]) << i;
      ASSERT_EQ(fault[i], x[i] < 0 ? 1 : 0) << i;
      negative += x[i] < 0;
    }
    EXPECT_EQ(part.failed, negative);
  }
  std::vector<float> x, y;
  std::vector<uint8_t> fault;
  DoubleArgs args;
  std::array<PartBuffer, 2> buffers;
};

class GpuDeviceTest : public ::testing::Test {
 protected:
  void Make(EmulatedOptions emulated = {}, const std::string& faults = "",
            GpuEngineOptions engine = {}) {
    emulated.faults = Must(FaultScript::Parse(faults));
    auto gpu = std::make_unique<EmulatedGpu>(emulated);
    gpu_ = gpu.get();
    GpuDeviceOptions options;
    options.kind = DeviceKind::kEmulated;
    options.cores = TwoThreads();
    options.engine = engine;
    // An emulated device fills what it gets: little is got faster.
    options.engine.extent_bytes = std::min(engine.extent_bytes, uint64_t{1} << 20);
    device_ = Must(GpuDevice::Make(std::move(gpu), options, &log_));
  }
  CpuDevice* cpu() {
    if (cpu_ == nullptr) {
      cpu_ = std::make_unique<CpuDevice>(std::vector<CoreGroup>{TwoThreads()},
                                         MachineInfo{"test", 1}, &cpu_log_);
    }
    return cpu_.get();
  }
  static absl::Status RunOn(Device* device, Batch* batch) {
    absl::Notification done;
    batch->done = [&done](Batch*) { done.Notify(); };
    device->Submit(0, batch);
    done.WaitForNotification();
    return batch->status;
  }
  absl::Status Run(Batch* batch) { return RunOn(device_.get(), batch); }
  static absl::Status CollectFrom(Device* device, Accumulator* accumulator, void* into) {
    absl::Notification done;
    absl::Status result;
    device->Collect(0, accumulator, into, [&](absl::Status status, int64_t) {
      result = std::move(status);
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  }

  GridLog log_, cpu_log_;
  EmulatedGpu* gpu_ = nullptr;  // device_'s
  std::unique_ptr<CpuDevice> cpu_;
  std::unique_ptr<GpuDevice> device_;
};

}  // namespace tandem::worker

#endif  // TANDEM_TESTS_WORKER_DEVICE_GPU_FIXTURE_H_
