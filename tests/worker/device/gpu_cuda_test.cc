// The GPU engine over CUDA, on softcuda or a real device: what an executor submits, with the
// built-in kernels, must come back as the CPU device's bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "common/base/error.h"
#include "common/base/rng.h"
#include "kernels/image_codec/image_codec.h"
#include "tests/kernels/library.h"
#include "tests/worker/device/cuda_process.h"
#include "tests/worker/device/gpu_fixture.h"
#include "worker/device/cuda/cuda_runtime.h"

namespace tandem::worker {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Arguments in the layout of abi.h, and what their pointers point to.
class Args {
 public:
  template <class T>
  Args& Add(T value) {
    bytes_.resize((bytes_.size() + sizeof(T) - 1) / sizeof(T) * sizeof(T));
    const auto* p = reinterpret_cast<const uint8_t*>(&value);
    bytes_.insert(bytes_.end(), p, p + sizeof(T));
    return *this;
  }
  template <class T>
  Args& Buffer(std::vector<T>& values, bool output = false, bool table = false,
               bool shared = false) {
    Add(values.data());
    buffers_.push_back({static_cast<uint32_t>(bytes_.size() - sizeof(void*)), values.data(),
                        values.size() * sizeof(T), output, table, 0, shared});
    return *this;
  }
  // The last buffer's content has this name: it stays on the device.
  Args& Known(uint64_t content) {
    buffers_.back().content = content;
    return *this;
  }
  BatchPart Part(TandemTask first, int64_t tasks, std::vector<uint8_t>* fault = nullptr) const {
    BatchPart part;
    part.args = bytes_.data();
    part.first = first;
    part.tasks = tasks;
    part.fault = fault == nullptr ? nullptr : fault->data();
    part.buffers = buffers_;
    part.job = 3;
    part.grain = 64;
    return part;
  }
  const void* data() const { return bytes_.data(); }

 private:
  std::vector<uint8_t> bytes_;
  std::vector<PartBuffer> buffers_;
};

std::vector<float> Floats(Rng* rng, size_t n, float low, float high) {
  std::vector<float> x(n);
  for (float& v : x) v = low + (high - low) * static_cast<float>(rng->Below(10'000)) * 1e-4f;
  return x;
}

absl::Status RunOn(Device* device, Batch* batch) {
  absl::Notification done;
  batch->done = [&done](Batch*) { done.Notify(); };
  device->Submit(0, batch);
  done.WaitForNotification();
  return batch->status;
}

void Append(std::vector<uint8_t>* bytes, const void* data, size_t size) {
  const auto* p = static_cast<const uint8_t*>(data);
  bytes->insert(bytes->end(), p, p + size);
}
template <class T>
void Append(std::vector<uint8_t>* bytes, const std::vector<T>& values) {
  Append(bytes, values.data(), values.size() * sizeof(T));
}

// One way to use a device: all bytes that come of it.
using Bytes = std::vector<uint8_t>;
using Form = Bytes (*)(Device*, const TandemLibraryV1&);

// A map whose tasks can fail, in parts of different scalars.
Bytes Options(Device* device, const TandemLibraryV1& library) {
  Rng rng(1);
  Batch batch;
  batch.kernel = &FindKernel(library, "black_scholes");
  struct Part {
    std::vector<float> s, x, y, call, put;
    std::vector<uint8_t> fault;
    Args args;
  };
  std::vector<std::unique_ptr<Part>> parts;
  for (const size_t n : {700, 1, 0, 1234}) {
    parts.push_back(std::make_unique<Part>());
    Part& part = *parts.back();
    part.s = Floats(&rng, n, 10, 200);
    part.x = Floats(&rng, n, 10, 200);
    part.y = Floats(&rng, n, -0.5f, 5);
    part.call.resize(n);
    part.put.resize(n);
    part.fault.resize(n);
    part.args.Buffer(part.s).Buffer(part.x).Buffer(part.y);
    part.args.Add(0.01f * static_cast<float>(parts.size())).Add(0.25f);
    part.args.Buffer(part.call, true).Buffer(part.put, true);
    part.args.Add(static_cast<int64_t>(n)).Add(int64_t{0});
    batch.parts.push_back(part.args.Part({500, 0}, static_cast<int64_t>(n), &part.fault));
  }
  EXPECT_EQ(RunOn(device, &batch), absl::OkStatus());
  Bytes bytes;
  for (size_t i = 0; i < parts.size(); ++i) {
    Append(&bytes, parts[i]->call);
    Append(&bytes, parts[i]->put);
    Append(&bytes, parts[i]->fault);
    Append(&bytes, &batch.parts[i].failed, sizeof(int64_t));
  }
  return bytes;
}

// A warp a task.
Bytes Paths(Device* device, const TandemLibraryV1& library) {
  Rng rng(2);
  const size_t n = 9;
  auto s = Floats(&rng, n, 90, 110), x = Floats(&rng, n, 60, 100), y = Floats(&rng, n, 0.1f, 2);
  std::vector<float> price(n);
  std::vector<uint8_t> fault(n);
  Args args;
  args.Buffer(s).Buffer(x).Buffer(y).Add(0.05f).Add(0.3f).Add(int32_t{5}).Add(int32_t{70});
  args.Add(uint64_t{7}).Buffer(price, true).Add(int64_t{n}).Add(int64_t{0});
  Batch batch;
  batch.kernel = &FindKernel(library, "asian_option");
  batch.parts = {args.Part({40, 0}, n, &fault)};
  EXPECT_EQ(RunOn(device, &batch), absl::OkStatus());
  Bytes bytes;
  Append(&bytes, price);
  Append(&bytes, fault);
  return bytes;
}

Bytes Collected(Device* device, Accumulator* accumulator, const TandemKernelV1& kernel,
                const Args& args) {
  Bytes bytes(static_cast<size_t>(kernel.partial_bytes(args.data(), 0)));
  kernel.partial_init(args.data(), bytes.data());
  absl::Notification collected;
  device->Collect(0, accumulator, bytes.data(), [&](const absl::Status& status, int64_t) {
    EXPECT_EQ(status, absl::OkStatus());
    collected.Notify();
  });
  collected.WaitForNotification();
  return bytes;
}

// A reduction gathered over batches.
Bytes Counts(Device* device, const TandemLibraryV1& library) {
  Rng rng(3);
  std::vector<uint8_t> value(5000);
  for (uint8_t& v : value) v = static_cast<uint8_t>(rng.Below(3) == 0 ? rng.Below(256) : 9);
  Args args;
  args.Buffer(value).Add(static_cast<int64_t>(value.size())).Add(int64_t{0});
  const TandemKernelV1& kernel = FindKernel(library, "histogram");
  const auto accumulator = device->NewAccumulator(&kernel, args.data());
  for (const auto& [begin, tasks] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 1000}, {1000, 3999}, {4999, 1}}) {
    Batch batch;
    batch.kernel = &kernel;
    batch.parts = {args.Part({begin, begin}, tasks)};
    batch.parts[0].accumulator = accumulator.get();
    EXPECT_EQ(RunOn(device, &batch), absl::OkStatus());
  }
  return Collected(device, accumulator.get(), kernel, args);
}

// Float sums, leaf by leaf up the range tree.
Bytes Sums(Device* device, const TandemLibraryV1& library) {
  Rng rng(4);
  const int64_t n = 256, d = 13;
  auto x = Floats(&rng, n * d, -1, 1), w = Floats(&rng, d, -1, 1);
  std::vector<float> label(n);
  for (int64_t i = 0; i < n; ++i) label[i] = i % 50 == 7 ? 0.5f : static_cast<float>(i % 2);
  std::vector<uint8_t> fault(n);
  Args args;
  args.Buffer(x).Buffer(label).Buffer(w).Add(n).Add(d).Add(int64_t{0});
  const TandemKernelV1& kernel = FindKernel(library, "gradient");
  Bytes partial(static_cast<size_t>(kernel.partial_bytes(args.data(), 0)));
  Batch batch;
  batch.kernel = &kernel;
  batch.parts = {args.Part({0, 0}, n, &fault)};
  batch.parts[0].partial = partial.data();
  EXPECT_EQ(RunOn(device, &batch), absl::OkStatus());
  Bytes bytes;  // but what lies between the outputs
  Append(&bytes, partial.data(), d * sizeof(float));
  Append(&bytes, partial.data() + TANDEM_PARTIAL_ALIGN, sizeof(float));
  Append(&bytes, fault);
  return bytes;
}

// Batches that are on their way together.
class Together {
 public:
  void Submit(Device* device, Batch* batch) {
    dones_.push_back(std::make_unique<absl::Notification>());
    batch->done = [done = dones_.back().get()](Batch*) { done->Notify(); };
    batches_.push_back(batch);
    device->Submit(0, batch);
  }
  void Wait() {
    for (size_t i = 0; i < batches_.size(); ++i) {
      dones_[i]->WaitForNotification();
      EXPECT_EQ(batches_[i]->status, absl::OkStatus());
    }
  }

 private:
  std::vector<Batch*> batches_;
  std::vector<std::unique_ptr<absl::Notification>> dones_;
};

constexpr size_t kFirstParts = 8;
constexpr size_t kStays = 70'000;  // bytes; what is smaller travels with each batch

// Operands that the first batch brings and the second, on another stream, needs as well: the last
// one of many, a large one, of which the last elements are read.
Bytes Staying(Device* device, const TandemLibraryV1& library) {
  Rng rng(8);
  const size_t few = kStays / sizeof(float), many = size_t{4} << 20;
  const int64_t tasks = 100;
  std::vector<float> large(many);
  std::iota(large.begin(), large.end(), 0.5f);
  std::vector<std::vector<float>> x, z;
  Batch first, second;
  std::vector<Args> args;
  const auto add = [&](Batch* batch, std::vector<float>* values, uint64_t content) {
    const auto n = static_cast<int64_t>(values->size());
    Args& made = args.emplace_back();
    made.Add(3.0f).Buffer(*values).Known(content).Buffer(*values).Known(content);
    z.emplace_back(values->size());
    made.Buffer(z.back(), true).Add(n).Add(int64_t{0});
    batch->parts.push_back(made.Part({n - tasks, n - tasks}, tasks));
  };
  for (size_t i = 0; i < kFirstParts; ++i) x.push_back(Floats(&rng, few, -9, 9));
  // A first launch takes longer than the copies.
  Batch warm;
  warm.kernel = &FindKernel(library, "saxpy");
  add(&warm, &x[0], 0);
  EXPECT_EQ(RunOn(device, &warm), absl::OkStatus());
  for (size_t i = 0; i < kFirstParts; ++i) add(&first, &x[i], i + 1);
  add(&first, &large, 99);
  add(&second, &large, 99);
  Together both;
  for (Batch* batch : {&first, &second}) {
    batch->kernel = &FindKernel(library, "saxpy");
    both.Submit(device, batch);
  }
  both.Wait();
  Bytes bytes;
  for (const std::vector<float>& result : z) {
    Append(&bytes, result.data() + result.size() - tasks, tasks * sizeof(float));
  }
  return bytes;
}

// A partial that stays on the device and begins there with the first batch, behind all that this
// one brings; the second one adds to it, too.
Bytes Words(Device* device, const TandemLibraryV1& library) {
  Rng rng(9);
  const TandemKernelV1& kernel = FindKernel(library, "kmer_count");
  const int32_t k = 8;
  std::vector<Bytes> bases;
  for (size_t i = 0; i <= kFirstParts; ++i) {
    bases.emplace_back(kStays);
    for (uint8_t& base : bases.back()) base = "ACGT"[rng.Below(4)];
  }
  std::vector<Args> args;
  for (Bytes& base : bases) {
    args.emplace_back().Buffer(base).Known(args.size()).Add(k).Add(uint8_t{0});
    args.back().Add(static_cast<int64_t>(base.size()) - k + 1).Add(int64_t{0});
  }
  const auto accumulator = device->NewAccumulator(&kernel, args.front().data());
  Batch first, second;
  for (size_t i = 0; i < args.size(); ++i) {
    Batch& batch = i < kFirstParts ? first : second;
    batch.parts.push_back(args[i].Part({0, 0}, 200));
    batch.parts.back().accumulator = accumulator.get();
  }
  Together both;
  for (Batch* batch : {&first, &second}) {
    batch->kernel = &kernel;
    both.Submit(device, batch);
  }
  both.Wait();
  return Collected(device, accumulator.get(), kernel, args.front());
}

int32_t Collect(void* context, const void* bytes, int64_t size) {
  Append(static_cast<Bytes*>(context), bytes, static_cast<size_t>(size));
  return 0;
}

// Host stages around a grid; one item is no picture.
Bytes Edges(Device* device, const TandemLibraryV1& library) {
  Rng rng(5);
  std::vector<Bytes> files;
  for (const auto& [width, height] :
       std::vector<std::pair<int32_t, int32_t>>{{1, 1}, {33, 17}, {20, 41}}) {
    Bytes pixels(static_cast<size_t>(3 * width * height));
    for (uint8_t& p : pixels) p = static_cast<uint8_t>(rng.Below(256));
    files.emplace_back();
    EXPECT_EQ(tandem_image_encode_png(pixels.data(), width, height, 3, &Collect, &files.back()),
              TANDEM_IMAGE_OK);
  }
  files.push_back({'n', 'o', 'n', 'e'});
  std::vector<Bytes> results(files.size());
  std::vector<TandemBytes> images;
  std::vector<TandemSink> sinks;
  for (size_t i = 0; i < files.size(); ++i) {
    images.push_back({files[i].data(), static_cast<int64_t>(files[i].size())});
    sinks.push_back({&Collect, &results[i]});
  }
  const auto n = static_cast<int64_t>(files.size());
  std::vector<uint8_t> fault(files.size());
  Args args;
  args.Buffer(images, false, true).Buffer(sinks, true, true).Add(n).Add(int64_t{0});
  Batch batch;
  batch.kernel = &FindKernel(library, "image_sobel");
  batch.parts = {args.Part({0, 0}, n, &fault)};
  EXPECT_EQ(RunOn(device, &batch), absl::OkStatus());
  EXPECT_EQ(batch.parts[0].failed, 1);
  Bytes bytes;
  for (const Bytes& result : results) Append(&bytes, result);
  Append(&bytes, fault);
  return bytes;
}

class GpuCudaTest : public CudaProcessTest {
 protected:
  static std::unique_ptr<GpuDevice> Make(StartLog* log, GpuEngineOptions engine = {}) {
    GpuDeviceOptions options;
    options.cores = TwoThreads();
    options.engine = engine;
    options.engine.pinned_bytes = uint64_t{64} << 20;
    options.engine.extent_bytes = uint64_t{4} << 20;
    return Must(GpuDevice::Make(Must(CudaRuntime::Open(uuid_)), options, log));
  }
};
class ScriptedGpuCudaTest : public GpuCudaTest {
 protected:
  void SetUp() override {
    if (!OnSoftcuda()) GTEST_SKIP() << "skipped: it needs faults by script, which softcuda has";
  }
};

TEST_F(GpuCudaTest, EveryFormGivesTheCpusBytes) {
  const std::string stats = testing::TempDir() + "/gpu_cuda_test.stats";
  const std::vector<std::pair<const char*, Form>> forms = {
      {"options", &Options}, {"paths", &Paths},     {"counts", &Counts}, {"sums", &Sums},
      {"edges", &Edges},     {"staying", &Staying}, {"words", &Words}};
  for (const auto& [name, form] : forms) {
    // Late operations show a wait that is missing; blocks that are copied, and that are not.
    for (const auto& [delay, mapped] :
         std::vector<std::pair<const char*, uint64_t>>{{"0", 0}, {"300", 0}, {"300", 64 << 10}}) {
      SCOPED_TRACE(name);
      const Settings settings = {{"SOFTCUDA_DELAY_US", delay}, {"SOFTCUDA_STATS", stats}};
      InChild(settings, [&, form = form, mapped = mapped] {
        GridLog log, cpu_log;
        CpuDevice cpu({TwoThreads()}, MachineInfo{"test", 1}, &cpu_log);
        const Bytes expected = form(&cpu, *tandem_builtin_kernels());
        {
          const auto gpu = Make(&log, {.mapped_bytes_max = mapped});
          EXPECT_TRUE(form(gpu.get(), *tandem_builtin_cuda_kernels()) == expected);
          EXPECT_EQ(gpu->health(), absl::OkStatus());
        }
        EXPECT_TRUE(log.running().empty());
      });
      if (!OnSoftcuda()) continue;
      std::ifstream file(stats);
      std::stringstream text;
      text << file.rdbuf();
      EXPECT_THAT(text.str(), AllOf(HasSubstr("device 0 unfreed_allocations 0\n"),
                                    HasSubstr("host unfreed_allocations 0\n")));
    }
  }
}

// cuBLAS, which sums in another order, behind the kernel's own launcher.
TEST_F(GpuCudaTest, AnOwnLauncherHasItsWorkspace) {
  InChild({}, [&] {
    GridLog log;
    const auto gpu = Make(&log, {.extent_bytes = uint64_t{64} << 20});
    Rng rng(6);
    const int64_t n = 9, m = 13, k = 40;
    auto x = Floats(&rng, n * k, -1, 1), w = Floats(&rng, m * k, -1, 1), b = Floats(&rng, m, -1, 1);
    std::vector<float> y(n * m);
    Args args;
    args.Buffer(x).Buffer(w).Buffer(b).Buffer(y, true).Add(n).Add(m).Add(k).Add(int64_t{0});
    Batch batch;
    batch.kernel = &FindKernel(*tandem_builtin_cuda_kernels(), "linear");
    batch.parts = {args.Part({0, 0}, n)};
    ASSERT_EQ(RunOn(gpu.get(), &batch), absl::OkStatus());
    for (int64_t i = 0; i < n * m; ++i) {
      double expected = b[i % m];
      for (int64_t j = 0; j < k; ++j) expected += double{x[i / m * k + j]} * w[i % m * k + j];
      EXPECT_NEAR(y[i], expected, batch.kernel->tolerance * static_cast<double>(1 + k)) << i;
    }
  });
}

// Many batches at once, on all streams, in memory that holds a few of them.
TEST_F(GpuCudaTest, BatchesShareStreamsAndMemory) {
  InChild({{"SOFTCUDA_DELAY_US", "50"}}, [&] {
    GridLog log;
    const auto gpu = Make(&log, {.memory_bytes = uint64_t{1} << 20, .extent_bytes = 256 << 10});
    constexpr size_t kTasks = 5000, kBatches = 60;
    struct Job {
      std::vector<float> x, y, z;
      Args args;
      Batch batch;
      absl::Notification done;
    };
    std::vector<std::unique_ptr<Job>> jobs;
    for (size_t i = 0; i < kBatches; ++i) {
      jobs.push_back(std::make_unique<Job>());
      Job& job = *jobs.back();
      job.x.resize(kTasks);
      job.y.assign(kTasks, static_cast<float>(i));
      job.z.resize(kTasks);
      std::iota(job.x.begin(), job.x.end(), 0.0f);
      job.args.Add(static_cast<float>(i + 1)).Buffer(job.x).Buffer(job.y).Buffer(job.z, true);
      job.args.Add(int64_t{kTasks}).Add(int64_t{0});
      job.batch.kernel = &FindKernel(*tandem_builtin_cuda_kernels(), "saxpy");
      job.batch.parts = {job.args.Part({0, 0}, kTasks)};
      job.batch.done = [&job](Batch*) { job.done.Notify(); };
      gpu->Submit(0, &job.batch);
    }
    for (size_t i = 0; i < kBatches; ++i) {
      jobs[i]->done.WaitForNotification();
      ASSERT_EQ(jobs[i]->batch.status, absl::OkStatus());
      for (size_t t = 0; t < kTasks; ++t) {
        ASSERT_EQ(jobs[i]->z[t], static_cast<float>((i + 1) * t + i)) << i << " " << t;
      }
    }
    EXPECT_EQ(gpu->counters().launches, kBatches);
  });
}

// A saxpy of so many tasks in a part each; what the device counted.
GpuCounters SaxpyIn(GpuDevice* gpu, const std::vector<size_t>& parts, bool shared = false) {
  struct Part {
    std::vector<float> x, y, z;
    Args args;
  };
  std::vector<Part> made(parts.size());
  Batch batch;
  batch.kernel = &FindKernel(*tandem_builtin_cuda_kernels(), "saxpy");
  for (size_t i = 0; i < parts.size(); ++i) {
    Part& part = made[i];
    part.x.resize(parts[i]);
    part.y.assign(parts[i], static_cast<float>(i));
    part.z.resize(parts[i]);
    std::iota(part.x.begin(), part.x.end(), 0.0f);
    part.args.Add(3.0f).Buffer(part.x, false, false, shared).Buffer(part.y).Buffer(part.z, true);
    part.args.Add(static_cast<int64_t>(parts[i])).Add(int64_t{0});
    batch.parts.push_back(part.args.Part({0, 0}, static_cast<int64_t>(parts[i])));
  }
  EXPECT_EQ(RunOn(gpu, &batch), absl::OkStatus());
  for (size_t i = 0; i < parts.size(); ++i) {
    for (size_t t = 0; t < parts[i]; ++t) {
      EXPECT_EQ(made[i].z[t], static_cast<float>(3 * t + i)) << i << " " << t;
    }
  }
  return gpu->counters();
}

// What is small is not copied: grids reach it in pinned memory, also while the device is slow.
TEST_F(GpuCudaTest, SmallOperandsAreNotCopied) {
  InChild({{"SOFTCUDA_DELAY_US", "200"}}, [&] {
    GridLog log;
    const auto gpu = Make(&log);
    // Copies since it was last asked.
    auto counted = [before = uint64_t{0}](const GpuCounters& now) mutable {
      const uint64_t copies = now.copies_up + now.copies_down;
      return copies - std::exchange(before, copies);
    };
    EXPECT_EQ(counted(SaxpyIn(gpu.get(), {1})), 0u);
    EXPECT_EQ(counted(SaxpyIn(gpu.get(), {5000})), 0u);
    EXPECT_EQ(counted(SaxpyIn(gpu.get(), {17, 1, 300})), 0u);
    EXPECT_EQ(counted(SaxpyIn(gpu.get(), {6000})), 2u);                      // over 64 KiB
    EXPECT_EQ(counted(SaxpyIn(gpu.get(), std::vector<size_t>(9, 10))), 2u);  // many parts
    EXPECT_EQ(counted(SaxpyIn(gpu.get(), {1000}, /*shared=*/true)), 2u);
    EXPECT_EQ(gpu->counters().mapped, 3u);
  });
  InChild({}, [&] {
    GridLog log;
    const auto gpu = Make(&log, {.mapped_bytes_max = 0});
    EXPECT_EQ(SaxpyIn(gpu.get(), {1}).mapped, 0u);
    EXPECT_EQ(gpu->counters().copies_up, 1u);
  });
}

// By softcuda's own trace: a launch, whatever the number of parts; a copy up and one down, or none.
TEST_F(ScriptedGpuCudaTest, ItsTraceShowsOneGridOfManyPartsAndNoCopyOfSmallOnes) {
  const std::string trace = testing::TempDir() + "/gpu_cuda_test.trace";
  struct Case {
    std::vector<size_t> parts;
    uint64_t mapped;
    size_t copies;
  };
  for (const auto& [parts, mapped, copies] : {Case{{100}, 64 << 10, 0}, Case{{100}, 0, 2},
                                              Case{std::vector<size_t>(3000, 1), 64 << 10, 2}}) {
    InChild({{"SOFTCUDA_TRACE", trace}}, [&, parts = parts, mapped = mapped] {
      GridLog log;
      SaxpyIn(Make(&log, {.mapped_bytes_max = mapped}).get(), parts);
    });
    std::ifstream file(trace);
    size_t launches = 0, memcpies = 0;
    for (std::string line; std::getline(file, line);) {
      launches += line.find("cudaLaunchKernel") != std::string::npos;
      memcpies += line.find("cudaMemcpyAsync") != std::string::npos;
    }
    EXPECT_EQ(launches, 1u);
    EXPECT_EQ(memcpies, copies);
    std::filesystem::remove(trace);
  }
}

TEST_F(ScriptedGpuCudaTest, AnErrorOfCudasIsTheDevicesEndAndNamesWhatRan) {
  constexpr auto kInternal = absl::StatusCode::kInternal;
  for (const auto& [fault, code] : std::vector<std::pair<std::string, absl::StatusCode>>{
           {"launch:2=illegal_address", kInternal},
           {"launch:2=launch_failure", kInternal},
           {"launch:2=lost", absl::StatusCode::kUnavailable},
           {"memcpy:3=ecc", absl::StatusCode::kUnavailable}}) {
    SCOPED_TRACE(fault);
    InChild({{"SOFTCUDA_FAULTS", fault}}, [&, code = code] {
      GridLog log;
      const auto gpu = Make(&log, {.mapped_bytes_max = 0});
      absl::Status status;
      for (int i = 0; i < 3 && status.ok(); ++i) {
        std::vector<uint64_t> value(1000);
        Args args;
        args.Add(uint64_t{4}).Buffer(value, true).Add(int64_t{1000}).Add(int64_t{0});
        Batch batch;
        batch.kernel = &FindKernel(*tandem_builtin_cuda_kernels(), "noop");
        batch.parts = {args.Part({0, 0}, 1000)};
        status = RunOn(gpu.get(), &batch);
      }
      EXPECT_EQ(status.code(), code) << status;
      EXPECT_EQ(gpu->health(), status);
    });
  }
}

TEST_F(ScriptedGpuCudaTest, MoreThanTheDeviceHasFailsAloneWithTheNeed) {
  InChild({{"SOFTCUDA_MEMORY", "16MiB"}}, [&] {
    GridLog log;
    const auto gpu = Make(&log);
    const auto run = [&](size_t tasks) {
      std::vector<uint64_t> value(tasks);
      const auto n = static_cast<int64_t>(tasks);
      Args args;
      args.Add(uint64_t{4}).Buffer(value, true).Add(n).Add(int64_t{0});
      Batch batch;
      batch.kernel = &FindKernel(*tandem_builtin_cuda_kernels(), "noop");
      batch.parts = {args.Part({0, 0}, n)};
      return RunOn(gpu.get(), &batch);
    };
    const absl::Status status = run(4 << 20);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(ReasonOf(status), reason::kGpuOom);
    EXPECT_EQ(run(1000), absl::OkStatus());
    EXPECT_EQ(gpu->health(), absl::OkStatus());
  });
}

}  // namespace
}  // namespace tandem::worker
