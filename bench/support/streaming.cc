#include "bench/support/streaming.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "bench/support/measure.h"
#include "common/base/strings.h"
#include "worker/device/cpu/topology.h"
#include "worker/device/gpu/gpu_device.h"

namespace tandem::bench {
namespace {

constexpr double kStreamedLeast = 0.9;
constexpr size_t kBatches = 32;
constexpr size_t kSliceBytes = 256 << 10;  // of a copy by one thread

class NoLog final : public worker::StartLog {
 public:
  void Begin(uint32_t, uint64_t, uint64_t, uint64_t, uint64_t) override {}
  void End(uint32_t) override {}
};

struct SaxpyArgs {
  float scale;
  const void *x, *y;
  void* z;
  int64_t n, split;
};

const TandemKernelV1* Saxpy(const TandemLibraryV1& library) {
  for (uint32_t i = 0; i < library.kernel_count; ++i) {
    if (std::string_view(library.kernels[i]->name) == "saxpy") return library.kernels[i];
  }
  Die("no kernel is called saxpy");
}

// A part of the arrays, with a batch of its own.
struct Part {
  SaxpyArgs args = {};
  worker::PartBuffer buffers[3];
  worker::Batch batch;
};

class Arrays {
 public:
  explicit Arrays(size_t floats) : x_(floats, 2), y_(floats, 3), z_(floats) {}

  std::unique_ptr<Part> PartOf(const TandemKernelV1* kernel, size_t begin, size_t count) {
    auto part = std::make_unique<Part>();
    part->args = {1.5f, &x_[begin], &y_[begin], &z_[begin], static_cast<int64_t>(count), 0};
    const auto bytes = static_cast<uint64_t>(count * sizeof(float));
    part->buffers[0] = {offsetof(SaxpyArgs, x), &x_[begin], bytes, false, false, 0};
    part->buffers[1] = {offsetof(SaxpyArgs, y), &y_[begin], bytes, false, false, 0};
    part->buffers[2] = {offsetof(SaxpyArgs, z), &z_[begin], bytes, true, false, 0};
    part->batch.kernel = kernel;
    worker::BatchPart tasks;
    tasks.args = &part->args;
    tasks.tasks = static_cast<int64_t>(count);
    tasks.grain = count;
    tasks.buffers = part->buffers;
    part->batch.parts.push_back(tasks);
    return part;
  }
  void Clear() { std::ranges::fill(z_, 0); }
  void Check() const {
    for (const float z : z_) {
      if (z != 6) Die(StrCat("a streamed result is ", z, ", not 6"));
    }
  }
  // What the feed does of it: all in, all out.
  void Feed(worker::HostCrew& crew, char* pinned) {
    const size_t bytes = x_.size() * sizeof(float);
    const auto slices = static_cast<int64_t>((bytes + kSliceBytes - 1) / kSliceBytes);
    crew.ParallelFor(slices, 1, [&](int64_t begin, int64_t end) {
      const size_t from = static_cast<size_t>(begin) * kSliceBytes;
      const size_t count = std::min(bytes, static_cast<size_t>(end) * kSliceBytes) - from;
      std::memcpy(pinned + from, reinterpret_cast<const char*>(x_.data()) + from, count);
      std::memcpy(pinned + from, reinterpret_cast<const char*>(y_.data()) + from, count);
      std::memcpy(reinterpret_cast<char*>(z_.data()) + from, pinned + from, count);
    });
  }

 private:
  std::vector<float> x_, y_, z_;
};

double SecondsOfFeed(worker::GpuDevice* device, char* pinned, Arrays* arrays) {
  absl::Notification done;
  worker::HostWork work;
  double seconds = 0;
  work.run = [&](worker::HostCrew& crew) {
    const Stopwatch watch;
    arrays->Feed(crew, pinned);
    seconds = watch.Seconds();
  };
  work.done = [&done](worker::HostWork*) { done.Notify(); };
  device->SubmitWork(0, &work);
  done.WaitForNotification();
  return seconds;
}

double SecondsOfStream(worker::GpuDevice* device, const TandemKernelV1* kernel, size_t floats,
                       Arrays* arrays) {
  const size_t a_batch = (floats + kBatches - 1) / kBatches;
  std::vector<std::unique_ptr<Part>> parts;
  for (size_t begin = 0; begin < floats; begin += a_batch) {
    parts.push_back(arrays->PartOf(kernel, begin, std::min(a_batch, floats - begin)));
  }
  absl::BlockingCounter left(static_cast<int>(parts.size()));
  arrays->Clear();
  const Stopwatch watch;
  for (const auto& part : parts) {
    part->batch.done = [&left](worker::Batch*) { left.DecrementCount(); };
    device->Submit(0, &part->batch);
  }
  left.Wait();
  const double seconds = watch.Seconds();
  for (const auto& part : parts) Must(part->batch.status, "a batch");
  arrays->Check();
  return seconds;
}

}  // namespace

void MeasureStreamed(const GpuUnderTest& gpu, const DeviceRates& rates, size_t bytes,
                     const Settings& settings, Report* report) {
  const TandemKernelV1* const kernel = Saxpy(*gpu.kernels);
  std::unique_ptr<worker::GpuRuntime> runtime = gpu.open();
  auto* const pinned = static_cast<char*>(Must(runtime->AllocateHost(bytes), "pinned memory"));
  worker::GpuDeviceOptions options;
  options.kind = gpu.kind;
  options.cores = Must(worker::FindCoreGroups({.cores = 0, .groups = 1}), "cores").front();
  NoLog log;
  const auto device =
      Must(worker::GpuDevice::Make(std::move(runtime), options, &log), "the device");
  const size_t floats = bytes / sizeof(float);
  Arrays arrays(floats);
  // In turn; the first of each warms up.
  std::vector<double> feed, stream;
  for (int i = 0; i <= (settings.quick ? 1 : 5); ++i) {
    const double fed = SecondsOfFeed(device.get(), pinned, &arrays);
    const double streamed = SecondsOfStream(device.get(), kernel, floats, &arrays);
    if (i == 0) continue;
    feed.push_back(fed);
    stream.push_back(streamed);
  }
  const auto array = static_cast<double>(bytes);
  const std::pair<const char*, double> stages[] = {{"feed", Median(feed)},
                                                   {"copy up", 2 * array / rates.up},
                                                   {"copy down", array / rates.down},
                                                   {"grid", 3 * array / rates.grid}};
  const auto* const slowest =
      std::ranges::max_element(stages, {}, [](const auto& stage) { return stage.second; });
  std::string all;
  for (const auto& [name, seconds] : stages) {
    StrAppend(&all, "; ", name, " ", Readable(seconds * 1e3), " ms");
  }
  report->Add(
      {.measure = "saxpy, streamed, of its slowest stage alone",
       .value = slowest->second / Median(stream),
       .unit = "",
       .bound = Bound::kAtLeast,
       .threshold = kStreamedLeast,
       .note = StrCat(Readable(Median(stream) * 1e3), " ms, bound by ", slowest->first, all),
       .details = {{"streamed_s", stream}, {"feed_s", feed}, {"bound_by", slowest->first}}});
}

}  // namespace tandem::bench
