// What the engine of a GPU costs on the host: from a lone batch's arrival to its grid, from there
// to its end, and for each part of a merged one. The device beneath does nothing, at once.
#include <benchmark/benchmark.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "worker/device/gpu/gpu_device.h"

namespace tandem::worker {
namespace {

int64_t Nanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class NullRuntime final : public GpuRuntime {
 public:
  const GpuProperties& properties() const override { return properties_; }
  absl::Status health() const override { return absl::OkStatus(); }
  absl::StatusOr<DeviceAddress> Allocate(uint64_t bytes) override {
    return DeviceAddress{next_.fetch_add((bytes + 255) / 256 * 256)};
  }
  absl::Status Free(DeviceAddress) override { return absl::OkStatus(); }
  uint64_t FreeBytes() const override { return uint64_t{1} << 34; }
  absl::StatusOr<void*> AllocateHost(uint64_t bytes) override {
    return std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  }
  absl::Status FreeHost(void* memory) override {
    std::free(memory);
    return absl::OkStatus();
  }
  absl::StatusOr<StreamId> NewStream() override { return 0; }
  absl::StatusOr<EventId> NewEvent() override { return 0; }
  absl::Status CopyUp(StreamId, DeviceAddress, const void*, uint64_t) override { return {}; }
  absl::Status CopyDown(StreamId, void*, DeviceAddress, uint64_t) override { return {}; }
  absl::Status Fill(StreamId, DeviceAddress, uint8_t, uint64_t) override { return {}; }
  absl::Status LaunchGrid(StreamId, const GridLaunch&) override {
    launched_ns = Nanos();
    return {};
  }
  absl::Status Record(StreamId, EventId) override { return {}; }
  absl::Status Wait(StreamId, EventId) override { return {}; }
  absl::StatusOr<bool> Reached(EventId) const override { return true; }
  absl::StatusOr<absl::Duration> Between(EventId, EventId) const override {
    return absl::ZeroDuration();
  }
  absl::Status Call(StreamId, Callback callback) override {
    callback(absl::OkStatus());
    return {};
  }

  static std::atomic<int64_t> launched_ns;

 private:
  GpuProperties properties_;
  std::atomic<uint64_t> next_ = 4096;
};
std::atomic<int64_t> NullRuntime::launched_ns = 0;

class NoLog final : public StartLog {
 public:
  void Begin(uint32_t, uint64_t, uint64_t, uint64_t, uint64_t) override {}
  void End(uint32_t) override {}
};

struct Args {
  const float* x;
  float* y;
};

struct Bench {
  explicit Bench(size_t parts) : x(parts), y(parts), args(parts), buffers(2 * parts) {
    kernel.name = "nothing";
    kernel.args_bytes = sizeof(Args);
    kernel.fault_count = 1;
    batch.kernel = &kernel;
    for (size_t i = 0; i < parts; ++i) {
      args[i] = {&x[i], &y[i]};
      buffers[2 * i] = {0, &x[i], sizeof(float), false, false, 0};
      buffers[2 * i + 1] = {8, &y[i], sizeof(float), true, false, 0};
      BatchPart part;
      part.args = &args[i];
      part.tasks = 1;
      part.job = i + 1;
      part.buffers = absl::MakeConstSpan(buffers).subspan(2 * i, 2);
      batch.parts.push_back(part);
    }
    GpuDeviceOptions options;
    options.kind = DeviceKind::kEmulated;
    options.cores = FindCoreGroups({.cores = 0, .groups = 1})->front();
    device = *GpuDevice::Make(std::make_unique<NullRuntime>(), options, &log);
  }
  void Run() {
    absl::Notification done;
    batch.done = [&done](Batch*) { done.Notify(); };
    device->Submit(0, &batch);
    done.WaitForNotification();
  }
  std::vector<float> x, y;
  std::vector<Args> args;
  std::vector<PartBuffer> buffers;
  TandemKernelV1 kernel = {};
  Batch batch;
  NoLog log;
  std::unique_ptr<GpuDevice> device;
};

void LoneBatch(benchmark::State& state) {
  Bench bench(1);
  int64_t to_grid_ns = 0;
  for (auto _ : state) {
    const int64_t start = Nanos();
    bench.Run();
    to_grid_ns += NullRuntime::launched_ns - start;
  }
  state.counters["to_grid_us"] =
      static_cast<double>(to_grid_ns) * 1e-3 / static_cast<double>(state.iterations());
}
BENCHMARK(LoneBatch)->UseRealTime();

void MergedParts(benchmark::State& state) {
  const auto parts = static_cast<size_t>(state.range(0));
  Bench bench(parts);
  for (auto _ : state) bench.Run();
  state.SetItemsProcessed(static_cast<int64_t>(parts) * state.iterations());
}
BENCHMARK(MergedParts)->Arg(100)->Arg(4000)->UseRealTime();

}  // namespace
}  // namespace tandem::worker

BENCHMARK_MAIN();
