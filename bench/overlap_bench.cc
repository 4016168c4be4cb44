// How well the engine of a GPU overlaps copies and grids of different batches, by the clock:
// batches whose copies up, grids and copies down take 5 ms and more each, on an emulated device
// that is paced, against its busiest line alone. (In virtual time: gpu_overlap_test.)
#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "bench/support/measure.h"
#include "bench/support/report.h"
#include "bench/support/settings.h"
#include "common/base/strings.h"
#include "worker/device/emulated/emulated_gpu.h"
#include "worker/device/gpu/gpu_device.h"

namespace tandem::bench {
namespace {

constexpr double kOverlapLeast = 0.9;
constexpr double kBytesPerSecond = 1e8;  // slow, so that the host has time for the bytes as well
constexpr double kCores = 4;

// Seconds of one batch on each line.
struct Load {
  double up, grid, down;
};

class NoLog final : public worker::StartLog {
 public:
  void Begin(uint32_t, uint64_t, uint64_t, uint64_t, uint64_t) override {}
  void End(uint32_t) override {}
};

struct Args {
  const float* x;
  float* y;
};

// A kernel that does nothing: what its grids take is the model's.
TandemKernelV1 Idle() {
  TandemKernelV1 kernel = {};
  kernel.name = "idle";
  kernel.args_bytes = sizeof(Args);
  kernel.fault_count = 1;
  kernel.range = [](const TandemPart*, int32_t, void*) -> int64_t { return 0; };
  return kernel;
}

// A batch of one task with so many bytes on either side.
class Work {
 public:
  Work(const TandemKernelV1* kernel, const Load& load, absl::BlockingCounter* left)
      : x_(Floats(load.up)), y_(Floats(load.down)) {
    args_ = {x_.data(), y_.data()};
    buffers_[0] = {0, x_.data(), x_.size() * sizeof(float), false, false, 0};
    buffers_[1] = {8, y_.data(), y_.size() * sizeof(float), true, false, 0};
    batch_.kernel = kernel;
    batch_.expected_ns = load.grid * kCores * 1e9;
    worker::BatchPart part;
    part.args = &args_;
    part.tasks = 1;
    part.buffers = buffers_;
    batch_.parts.push_back(part);
    batch_.done = [left](worker::Batch*) { left->DecrementCount(); };
  }
  worker::Batch* batch() { return &batch_; }

 private:
  static size_t Floats(double seconds) {
    return static_cast<size_t>(seconds * kBytesPerSecond / sizeof(float));
  }
  std::vector<float> x_, y_;
  Args args_ = {};
  worker::PartBuffer buffers_[2];
  worker::Batch batch_;
};

// Until all batches, submitted at once, are done.
double Seconds(worker::GpuDevice* device, const TandemKernelV1* kernel, const Load& load,
               int batches) {
  absl::BlockingCounter left(batches);
  std::vector<std::unique_ptr<Work>> all;
  for (int i = 0; i < batches; ++i) all.push_back(std::make_unique<Work>(kernel, load, &left));
  const Stopwatch watch;
  for (const auto& work : all) device->Submit(0, work->batch());
  left.Wait();
  const double seconds = watch.Seconds();
  for (const auto& work : all) Must(work->batch()->status, "a batch");
  return seconds;
}

void Measure(const char* name, const Load& load, int batches, Report* report) {
  worker::EmulatedOptions emulated;
  emulated.clock = worker::EmulatedClock::kPaced;
  emulated.speed.cores = kCores;
  emulated.speed.copy_bytes_per_second = kBytesPerSecond;
  worker::GpuDeviceOptions options;
  options.kind = DeviceKind::kEmulated;
  options.cores = Must(worker::FindCoreGroups({.cores = 0, .groups = 1}), "cores").front();
  NoLog log;
  const auto device =
      Must(worker::GpuDevice::Make(std::make_unique<worker::EmulatedGpu>(emulated), options, &log),
           "a device");
  const TandemKernelV1 kernel = Idle();
  (void)Seconds(device.get(), &kernel, load, batches);  // The device gets its memory.
  const double took = Seconds(device.get(), &kernel, load, batches);
  const worker::EmulatedSpeed& speed = emulated.speed;
  const double copy = speed.copy_fixed_seconds, launch = speed.launch_seconds;
  const double busiest = batches * std::max({load.up + copy, load.grid + launch, load.down + copy});
  report->Add({.measure = StrCat("copies and grids overlap, paced, ", name),
               .value = busiest / took,
               .unit = "",
               .bound = Bound::kAtLeast,
               .threshold = kOverlapLeast,
               .note = StrCat("up ", load.up * 1e3, " ms, grid ", load.grid * 1e3, ", down ",
                              load.down * 1e3, "; took ", Readable(took), " s"),
               .details = {{"took_s", took}, {"busiest_s", busiest}}});
}

int Main(int argc, char** argv) {
  const Settings settings =
      ParseSettings(argc, argv, "How well copies and grids of different batches overlap.");
  Report report(settings, "overlap");
  // The first copy up and the last copy down overlap with nothing.
  const int batches = settings.quick ? 40 : 200;
  Measure("all alike", {5e-3, 5e-3, 5e-3}, batches, &report);
  Measure("bound by copy up", {10e-3, 5e-3, 5e-3}, batches, &report);
  Measure("bound by grid", {5e-3, 10e-3, 5e-3}, batches, &report);
  Measure("bound by copy down", {5e-3, 5e-3, 10e-3}, batches, &report);
  return report.Finish();
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::Main(argc, argv); }
