// What a real GPU does for Tandem: start, copies, grids against the memory's own speed, what a
// launch costs and what merging saves, gemm against cuBLAS called bare; then through the engine and
// the executor, and whole jobs through a cluster. Says skipped where there is none.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/support/measure.h"
#include "bench/support/merging.h"
#include "bench/support/report.h"
#include "bench/support/settings.h"
#include "bench/support/streaming.h"
#include "bench/support/whole_job.h"
#include "common/base/clock.h"
#include "common/base/strings.h"
#include "common/probe/device_report.h"
#include "common/probe/probe_process.h"
#include "kernels/sdk/abi.h"
#include "worker/device/cuda/cuda_error.h"
#include "worker/device/cuda/cuda_runtime.h"

namespace tandem::bench {
namespace {

constexpr double kStartMax = 1;  // seconds
constexpr int kStarts = 5;
constexpr double kStreamingLeast = 0.9;  // of a device-to-device copy's bandwidth
constexpr double kGemmLeast = 0.95;      // of cuBLAS called bare
constexpr double kMergedLeast = 10;      // times as fast as launches of their own
constexpr int kTimes = 20;

// A process as a worker starts one, and what it takes to the end of a first grid. The first looks
// for its files.
void Starts(const Settings& settings, const std::string& device, Report* report) {
  std::vector<StartReport> starts;
  for (int i = 0; i <= (settings.quick ? 0 : kStarts); ++i) {
    const std::vector<std::string> argv = {StrCat(settings.bin, "/tandem-executor-cuda"),
                                           StrCat("--start=cuda:", device),
                                           StrCat("--since=", Clock::Real()->Now().nanos())};
    starts.push_back(Must(ParseStartReport(Must(RunProbe(argv, absl::Minutes(1)), "starting")),
                          "starting an executor"));
    Must(starts.back().error, "starting an executor");
  }
  if (starts.size() > 1) starts.erase(starts.begin());
  std::ranges::sort(starts, {}, &StartReport::seconds);
  const StartReport& median = starts[starts.size() / 2];
  std::string note;
  nlohmann::ordered_json parts = nlohmann::ordered_json::object();
  for (const auto& [name, seconds] : median.parts) {
    StrAppend(&note, note.empty() ? "" : ", ", name, " ", Readable(seconds * 1e3), " ms");
    parts[name] = seconds;
  }
  report->Add({.measure = "an executor's start, to the end of a first grid",
               .value = median.seconds,
               .unit = "s",
               .bound = Bound::kAtMost,
               .threshold = kStartMax,
               .note = note,
               .details = {{"parts", parts}}});
}

void CudaMust(cudaError_t error, const char* doing) {
  Must(worker::CudaStatus(error, doing, "0"), doing);
}

const TandemKernelV1& Find(std::string_view name) {
  const TandemLibraryV1* library = tandem_builtin_cuda_kernels();
  for (uint32_t i = 0; i < library->kernel_count; ++i) {
    if (name == library->kernels[i]->name) return *library->kernels[i];
  }
  Die(StrCat("no kernel is called ", name));
}

class Memory {
 public:
  explicit Memory(size_t bytes) { CudaMust(cudaMalloc(&p_, bytes + 1), "cudaMalloc"); }
  ~Memory() { cudaFree(p_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* get() const { return p_; }

 private:
  void* p_ = nullptr;
};

// A stream, and how long what is put onto it takes by the device's clock.
class Stream {
 public:
  Stream() {
    CudaMust(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
    CudaMust(cudaEventCreate(&begin_), "an event");
    CudaMust(cudaEventCreate(&end_), "an event");
  }
  cudaStream_t get() const { return stream_; }
  // Seconds a call, after one that warms up.
  double Seconds(int times, const std::function<void()>& call) const {
    call();
    CudaMust(cudaEventRecord(begin_, stream_), "recording");
    for (int i = 0; i < times; ++i) call();
    CudaMust(cudaEventRecord(end_, stream_), "recording");
    CudaMust(cudaStreamSynchronize(stream_), "waiting");
    float milliseconds = 0;
    CudaMust(cudaEventElapsedTime(&milliseconds, begin_, end_), "timing");
    return milliseconds * 1e-3 / times;
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

// Parts of a kernel, packed and on the device.
class Grid {
 public:
  Grid(std::string_view kernel, std::vector<TandemPart> parts)
      : kernel_(Find(kernel)),
        parts_(std::move(parts)),
        count_(static_cast<int32_t>(parts_.size())),
        slab_(static_cast<size_t>(kernel_.part_bytes) * parts_.size()),
        workspace_(static_cast<size_t>(kernel_.workspace_bytes(parts_.data(), count_))) {
    for (const TandemPart& part : parts_) tasks_ += part.tasks;
    if (kernel_.pack_parts == nullptr) return;
    std::vector<uint8_t> packed(static_cast<size_t>(kernel_.part_bytes) * parts_.size());
    kernel_.pack_parts(parts_.data(), count_, packed.data(), workspace_.get());
    CudaMust(cudaMemcpy(slab_.get(), packed.data(), packed.size(), cudaMemcpyHostToDevice),
             "packing");
  }
  void Launch(const Stream& stream) const {
    CudaMust(static_cast<cudaError_t>(kernel_.launch(parts_.data(), slab_.get(), count_, tasks_,
                                                     workspace_.get(), stream.get())),
             kernel_.name);
  }

 private:
  const TandemKernelV1& kernel_;
  const std::vector<TandemPart> parts_;
  const int32_t count_;
  const Memory slab_, workspace_;
  int64_t tasks_ = 0;
};

// Bytes a second; within the device read and written ones together.
struct CopyRates {
  double up = 0, down = 0, within = 0;
};
CopyRates Copies(const Stream& stream, size_t bytes, Report* report) {
  const Memory a(bytes), b(bytes);
  void* host = nullptr;
  CudaMust(cudaHostAlloc(&host, bytes, cudaHostAllocDefault), "cudaHostAlloc");
  const auto rate = [&](double moved, const std::function<void()>& copy) {
    return moved / stream.Seconds(kTimes, copy);
  };
  CopyRates rates;
  const auto size = static_cast<double>(bytes);
  const auto copy = [&](void* to, const void* from, cudaMemcpyKind kind) {
    CudaMust(cudaMemcpyAsync(to, from, bytes, kind, stream.get()), "a copy");
  };
  rates.up = rate(size, [&] { copy(a.get(), host, cudaMemcpyHostToDevice); });
  rates.down = rate(size, [&] { copy(host, a.get(), cudaMemcpyDeviceToHost); });
  rates.within = rate(2 * size, [&] { copy(b.get(), a.get(), cudaMemcpyDeviceToDevice); });
  const auto add = [&](const char* what, double value) {
    report->Add({.measure = what, .value = value * 1e-9, .unit = "GB/s"});
  };
  add("copies up, pinned", rates.up);
  add("copies down, pinned", rates.down);
  add("copies within the device", rates.within);
  CudaMust(cudaFreeHost(host), "cudaFreeHost");
  return rates;
}

struct SaxpyArgs {
  float scale;
  const void *x, *y;
  void* z;
  int64_t n, split;
};

// Bytes a second of saxpy's grid.
double Streaming(const Stream& stream, size_t bytes, double within, Report* report) {
  const Memory x(bytes), y(bytes), z(bytes);
  const auto n = static_cast<int64_t>(bytes / sizeof(float));
  const SaxpyArgs args{1.5f, x.get(), y.get(), z.get(), n, 0};
  const Grid grid("saxpy", {{&args, {0, 0}, n, nullptr, nullptr}});
  const double seconds = stream.Seconds(kTimes, [&] { grid.Launch(stream); });
  const double rate = 3 * static_cast<double>(bytes) / seconds;
  report->Add({.measure = "saxpy, operands resident, of the copies within",
               .value = rate / within,
               .unit = "",
               .bound = Bound::kAtLeast,
               .threshold = kStreamingLeast,
               .note = StrCat(Readable(rate * 1e-9), " GB/s"),
               .details = {{"gb_per_second", rate * 1e-9}}});
  return rate;
}

// One-task parts of as many scalars: each by a launch of its own, and all by one.
void Merging(const Stream& stream, int parts, Report* report) {
  const Memory z(sizeof(float) * static_cast<size_t>(parts));
  const Memory x(sizeof(float) * static_cast<size_t>(parts));
  std::vector<SaxpyArgs> args;
  for (int i = 0; i < parts; ++i) {
    args.push_back({static_cast<float>(i), x.get(), x.get(), z.get(), parts, 0});
  }
  std::vector<TandemPart> all;
  for (int i = 0; i < parts; ++i) all.push_back({&args[i], {i, i}, 1, nullptr, nullptr});
  const Grid merged("saxpy", all);
  const Grid single("saxpy", {all[0]});
  const double one = stream.Seconds(parts, [&] { single.Launch(stream); });
  const double together = stream.Seconds(kTimes, [&] { merged.Launch(stream); });
  report->Add({.measure = "a launch", .value = one * 1e6, .unit = "us"});
  report->Add({.measure = StrCat(parts, " one-task parts, merged, times as fast"),
               .value = one * parts / together,
               .unit = "",
               .bound = Bound::kAtLeast,
               .threshold = kMergedLeast,
               .note = StrCat(Readable(together * 1e6), " us merged")});
}

struct GemmArgs {
  const void *a, *b;
  void* c;
  int64_t m, n, k, split;
};

void Products(const Stream& stream, int64_t n, Report* report) {
  const auto bytes = static_cast<size_t>(n * n) * sizeof(float);
  const Memory a(bytes), b(bytes), c(bytes);
  CudaMust(cudaMemset(a.get(), 0, bytes), "clearing");
  CudaMust(cudaMemset(b.get(), 0, bytes), "clearing");
  const GemmArgs args{a.get(), b.get(), c.get(), n, n, n, 0};
  const Grid grid("gemm", {{&args, {0, 0}, n, nullptr, nullptr}});
  const double ours = stream.Seconds(kTimes, [&] { grid.Launch(stream); });
  cublasHandle_t handle = nullptr;
  if (cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS) Die("cuBLAS does not start");
  cublasSetStream(handle, stream.get());
  const float one = 1, zero = 0;
  const int size = static_cast<int>(n);
  const double bare = stream.Seconds(kTimes, [&] {
    cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &one,
                static_cast<const float*>(b.get()), size, static_cast<const float*>(a.get()), size,
                &zero, static_cast<float*>(c.get()), size);
  });
  cublasDestroy(handle);
  const double flops =
      2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  report->Add({.measure = StrCat("gemm n = ", n, ", operands resident, of cuBLAS bare"),
               .value = bare / ours,
               .unit = "",
               .bound = Bound::kAtLeast,
               .threshold = kGemmLeast,
               .note = StrCat(Readable(flops / ours * 1e-12), " Tflop/s")});
}

int Main(int argc, char** argv) {
  const Settings settings = ParseSettings(argc, argv, "What a real GPU does for Tandem.");
  const auto text =
      RunProbe({StrCat(settings.bin, "/tandem-executor-cuda"), "--probe"}, absl::Minutes(1));
  const DeviceReport found = Must(ParseDeviceReport(Must(text, "probing")), "probing");
  if (!found.error.ok() || found.devices.empty()) {
    std::printf("skipped: no CUDA device: %s\n", std::string(found.error.message()).c_str());
    return 0;
  }
  const ReportedDevice& device = found.devices.front();
  std::printf("%s, %s; driver %s, CUDA %s\n", device.model.c_str(),
              HumanSize(device.memory_bytes).c_str(), found.driver.c_str(), found.runtime.c_str());
  Report report(settings, "gpu");
  report.Describe("device", {{"model", device.model},
                             {"uuid", device.uuid},
                             {"capability", device.capability},
                             {"memory_bytes", device.memory_bytes},
                             {"driver", found.driver},
                             {"driver_cuda", found.driver_cuda},
                             {"cuda_runtime", found.runtime},
                             {"cuda_toolkit", found.toolkit}});
  Starts(settings, device.uuid, &report);
  const auto gpu = Must(worker::CudaRuntime::Open(device.uuid), "opening the device");
  const Stream stream;
  const size_t bytes = settings.quick ? size_t{1} << 16 : size_t{256} << 20;
  const CopyRates copies = Copies(stream, bytes, &report);
  const double grid = Streaming(stream, bytes, copies.within, &report);
  Merging(stream, settings.quick ? 100 : 10'000, &report);
  Products(stream, settings.quick ? 16 : 8192, &report);
  const GpuUnderTest engine = {
      [&device] { return Must(worker::CudaRuntime::Open(device.uuid), "opening the device"); },
      DeviceKind::kGpu, tandem_builtin_cuda_kernels(), worker::KernelForm::kCuda};
  MeasureStreamed(engine, {copies.up, copies.down, grid}, bytes, settings, &report);
  MeasureMerging(engine, settings.quick ? 100 : 10'000, settings, &report);
  MeasureLoneLease(engine, settings, &report);
  MeasureWholeJobs(settings, &report);
  return report.Finish();
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::Main(argc, argv); }
