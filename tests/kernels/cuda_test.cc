// The CUDA half against the CPU: the same bytes from exact and bitwise kernels. Skipped where there
// is no device.
#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/kernels/harness.h"
#include "tests/kernels/library.h"

namespace tandem {
namespace {

#define CUDA_OK(call) ASSERT_EQ((call), cudaSuccess) << #call

// Device memory with a copy of host memory, fetched back on demand.
class OnDevice {
 public:
  OnDevice(const void* bytes, size_t size) : size_(size) {
    EXPECT_EQ(cudaMalloc(&p_, size + 1), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(p_, bytes, size, cudaMemcpyHostToDevice), cudaSuccess);
  }
  ~OnDevice() { cudaFree(p_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  void* data() const { return p_; }
  void Fetch(void* bytes) const {
    EXPECT_EQ(cudaMemcpy(bytes, p_, size_, cudaMemcpyDeviceToHost), cudaSuccess);
  }

 private:
  void* p_ = nullptr;
  size_t size_;
};

// One buffer of a job: operands are copied in, outputs compared.
struct Buffer {
  std::vector<uint8_t> bytes;
  bool output = false;
};
template <class T>
Buffer Operand(const std::vector<T>& v) {
  const auto* p = reinterpret_cast<const uint8_t*>(v.data());
  return {std::vector<uint8_t>(p, p + v.size() * sizeof(T)), false};
}
Buffer Output(int64_t bytes) { return {std::vector<uint8_t>(bytes, 0xee), true}; }

// Builds args from the addresses of the buffers, wherever they are.
using MakeArgs = std::function<PackedArgs(const std::vector<const void*>&)>;

struct Result {
  std::vector<std::vector<uint8_t>> outputs;
  std::vector<uint8_t> fault, partial;
};

class CudaTest : public testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    const cudaError_t error = cudaGetDeviceCount(&devices);
    if (error != cudaSuccess || devices == 0) {
      GTEST_SKIP() << "skipped: no CUDA device: " << cudaGetErrorString(error);
    }
  }

  // As ExpectSame, for a kernel of class tolerant with one output of floats of about 1.
  static void ExpectNear(const char* name, int64_t n, std::vector<Buffer> buffers,
                         const MakeArgs& make, const std::vector<int64_t>& cuts, float tolerance) {
    const Result a = OnCpu(FindKernel(*tandem_builtin_kernels(), name), n, buffers, make, cuts);
    const Result b =
        OnCuda(FindKernel(*tandem_builtin_cuda_kernels(), name), n, buffers, make, cuts);
    ASSERT_EQ(a.outputs[0].size(), b.outputs[0].size());
    const auto* x = reinterpret_cast<const float*>(a.outputs[0].data());
    const auto* y = reinterpret_cast<const float*>(b.outputs[0].data());
    for (size_t i = 0; i < a.outputs[0].size() / sizeof(float); ++i) {
      ASSERT_NEAR(x[i], y[i], tolerance) << i;
    }
  }

  // Runs the tasks [0, n) as parts that begin at `cuts`, in one launch; a part with a partial has
  // its own.
  static void ExpectSame(const char* name, int64_t n, std::vector<Buffer> buffers,
                         const MakeArgs& make, const std::vector<int64_t>& cuts) {
    const TandemKernelV1& cpu = FindKernel(*tandem_builtin_kernels(), name);
    const TandemKernelV1& cuda = FindKernel(*tandem_builtin_cuda_kernels(), name);
    EXPECT_EQ(cpu.content_hash, cuda.content_hash);
    EXPECT_EQ(cpu.flags, cuda.flags);
    const Result a = OnCpu(cpu, n, buffers, make, cuts), b = OnCuda(cuda, n, buffers, make, cuts);
    EXPECT_EQ(a.fault, b.fault);
    EXPECT_EQ(a.partial, b.partial);
    ASSERT_EQ(a.outputs.size(), b.outputs.size());
    for (size_t i = 0; i < a.outputs.size(); ++i)
      EXPECT_EQ(a.outputs[i], b.outputs[i]) << "output " << i;
  }

 private:
  static std::vector<TandemPart> Parts(const TandemKernelV1& kernel, int64_t n,
                                       const std::vector<int64_t>& cuts, const void* args,
                                       uint8_t* fault, uint8_t* partial, int64_t partial_bytes) {
    std::vector<TandemPart> parts;
    for (size_t i = 0; i < cuts.size(); ++i) {
      const int64_t begin = cuts[i], end = i + 1 < cuts.size() ? cuts[i + 1] : n;
      parts.push_back({args,
                       {begin + 7, begin},
                       end - begin,
                       fault + begin,
                       kernel.merge != nullptr ? partial + i * partial_bytes : nullptr});
    }
    return parts;
  }

  static int64_t PartialBytes(const TandemKernelV1& kernel, const PackedArgs& args) {
    return kernel.partial_bytes == nullptr ? 0
                                           : (kernel.partial_bytes(args.data(), 0) + 63) / 64 * 64;
  }
  static std::vector<uint8_t> InitialPartials(const TandemKernelV1& kernel, const PackedArgs& args,
                                              size_t parts) {
    const int64_t bytes = PartialBytes(kernel, args);
    std::vector<uint8_t> partial(bytes * parts);
    for (size_t i = 0; bytes > 0 && i < parts; ++i)
      kernel.partial_init(args.data(), partial.data() + i * bytes);
    return partial;
  }

  static Result OnCpu(const TandemKernelV1& kernel, int64_t n, std::vector<Buffer>& buffers,
                      const MakeArgs& make, const std::vector<int64_t>& cuts) {
    std::vector<std::vector<uint8_t>> memory;
    std::vector<const void*> at;
    for (const Buffer& b : buffers) memory.push_back(b.bytes);
    for (auto& m : memory) at.push_back(m.data());
    const PackedArgs args = make(at);
    Result r;
    r.fault.assign(n, 0);
    r.partial = InitialPartials(kernel, args, cuts.size());
    const auto parts = Parts(kernel, n, cuts, args.data(), r.fault.data(), r.partial.data(),
                             PartialBytes(kernel, args));
    AlignedBytes scratch(kernel.scratch_bytes(args.data()));
    kernel.range(parts.data(), static_cast<int32_t>(parts.size()), scratch.data());
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (buffers[i].output) r.outputs.push_back(memory[i]);
    }
    return r;
  }

  static Result OnCuda(const TandemKernelV1& kernel, int64_t n, std::vector<Buffer>& buffers,
                       const MakeArgs& make, const std::vector<int64_t>& cuts) {
    std::vector<std::unique_ptr<OnDevice>> memory;
    std::vector<const void*> at;
    for (const Buffer& b : buffers) {
      memory.push_back(std::make_unique<OnDevice>(b.bytes.data(), b.bytes.size()));
      at.push_back(memory.back()->data());
    }
    const PackedArgs args = make(at);
    Result r;
    r.fault.assign(n, 0);
    r.partial = InitialPartials(kernel, args, cuts.size());
    const OnDevice fault(r.fault.data(), r.fault.size()),
        partial(r.partial.data(), r.partial.size());
    const auto parts = Parts(kernel, n, cuts, args.data(), static_cast<uint8_t*>(fault.data()),
                             static_cast<uint8_t*>(partial.data()), PartialBytes(kernel, args));
    const int32_t count = static_cast<int32_t>(parts.size());
    const std::vector<uint8_t> empty(kernel.workspace_bytes(parts.data(), count), 0xcb);
    const OnDevice workspace(empty.data(), empty.size());
    std::vector<uint8_t> slab(kernel.part_bytes * count + 1);
    if (kernel.pack_parts != nullptr)
      kernel.pack_parts(parts.data(), count, slab.data(), workspace.data());
    const OnDevice device_slab(slab.data(), slab.size());
    EXPECT_EQ(kernel.launch(parts.data(), device_slab.data(), count, n, workspace.data(), nullptr),
              cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    fault.Fetch(r.fault.data());
    partial.Fetch(r.partial.data());
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (!buffers[i].output) continue;
      r.outputs.emplace_back(buffers[i].bytes.size());
      memory[i]->Fetch(r.outputs.back().data());
    }
    return r;
  }
};

std::vector<float> Floats(int64_t n, float low, float high, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> value(low, high);
  std::vector<float> x(n);
  for (float& v : x) v = value(random);
  return x;
}

TEST_F(CudaTest, Saxpy) {
  const int64_t n = 1000;
  ExpectSame("saxpy", n,
             {Operand(Floats(n, -9, 9, 1)), Operand(Floats(n, -9, 9, 2)), Output(4 * n)},
             [&](const std::vector<const void*>& at) {
               PackedArgs args;
               args.Add(1.3f);
               for (const void* p : at) args.Add(p);
               args.Axes({n}, 0);
               return args;
             },
             {0, 1, 500, 500, 777});
}

TEST_F(CudaTest, BlackScholesWithItsFaults) {
  const int64_t n = 1500;
  auto years = Floats(n, -0.5f, 5, 3);
  years[4] = std::numeric_limits<float>::quiet_NaN();
  ExpectSame("black_scholes", n,
             {Operand(Floats(n, 10, 200, 1)), Operand(Floats(n, 10, 200, 2)), Operand(years),
              Output(4 * n), Output(4 * n)},
             [&](const std::vector<const void*>& at) {
               PackedArgs args;
               for (int i = 0; i < 3; ++i) args.Add(at[i]);
               args.Add(0.03f);
               args.Add(0.25f);
               args.Add(at[3]);
               args.Add(at[4]);
               args.Axes({n}, 0);
               return args;
             },
             {0, 700});
}

TEST_F(CudaTest, AsianOptionABlockATask) {
  const int64_t n = 5;
  ExpectSame("asian_option", n,
             {Operand(Floats(n, 90, 110, 1)), Operand(Floats(n, 90, 110, 2)),
              Operand(Floats(n, 0.5f, 2, 3)), Output(4 * n)},
             [&](const std::vector<const void*>& at) {
               PackedArgs args;
               for (int i = 0; i < 3; ++i) args.Add(at[i]);
               args.Add(0.03f);
               args.Add(0.25f);
               args.Add(int32_t{6});
               args.Add(int32_t{70});
               args.Add(uint64_t{9});
               args.Add(at[3]);
               args.Axes({n}, 0);
               return args;
             },
             {0, 3});
}

TEST_F(CudaTest, MonteCarloPi) {
  ExpectSame("monte_carlo_pi", 5000, {},
             [](const std::vector<const void*>&) {
               PackedArgs args;
               args.Add(uint64_t{77});
               args.Axes({5000}, 0);
               return args;
             },
             {0, 1, 1234});
}

TEST_F(CudaTest, HistogramAndKmerCount) {
  const int64_t n = 3000;
  const int32_t k = 4;
  std::mt19937 random(1);
  std::vector<uint8_t> base(n + k - 1);
  for (auto& b : base) b = static_cast<uint8_t>("ACGTacgtN"[random() % 9]);
  ExpectSame("histogram", n, {Operand(base)},
             [&](const std::vector<const void*>& at) {
               PackedArgs args;
               args.Add(at[0]);
               args.Axes({n}, 0);
               return args;
             },
             {0, 100});
  for (uint8_t canonical : {0, 1}) {
    ExpectSame("kmer_count", n, {Operand(base)},
               [&](const std::vector<const void*>& at) {
                 PackedArgs args;
                 args.Add(at[0]);
                 args.Add(k);
                 args.Add(canonical);
                 args.Axes({n}, 0);
                 return args;
               },
               {0, 100});
  }
}

TEST_F(CudaTest, GradientInLanes) {
  const int64_t n = 300, d = 21;
  std::vector<float> label(n);
  for (int64_t i = 0; i < n; ++i) label[i] = i % 40 == 7 ? 0.5f : static_cast<float>(i % 2);
  ExpectSame("gradient", n,
             {Operand(Floats(n * d, -1, 1, 1)), Operand(label), Operand(Floats(d, -1, 1, 2))},
             [&](const std::vector<const void*>& at) {
               PackedArgs args;
               for (const void* p : at) args.Add(p);
               args.Axes({n, d}, 0);
               return args;
             },
             {0, 5, 64, 128});
}

TEST_F(CudaTest, LinearAlongEitherAxis) {
  const int64_t n = 9, m = 13, k = 40;
  for (const int64_t split : {0, 1}) {
    ExpectNear(
        "linear", split == 0 ? n : m,
        {Operand(Floats(n * k, -1, 1, 1)), Operand(Floats(m * k, -1, 1, 2)),
         Operand(Floats(m, -1, 1, 3)), Output(4 * n * m)},
        [&](const std::vector<const void*>& at) {
          PackedArgs args;
          for (const void* p : at) args.Add(p);
          args.Axes({n, m, k}, split);
          return args;
        },
        {0, 4}, 1e-5f * k);
  }
}

TEST_F(CudaTest, NoopAndSpin) {
  const int64_t n = 400;
  ExpectSame("noop", n, {Output(8 * n)},
             [&](const std::vector<const void*>& at) {
               PackedArgs args;
               args.Add(uint64_t{4});
               args.Add(at[0]);
               args.Axes({n}, 0);
               return args;
             },
             {0, 3});
  std::vector<uint32_t> work(n);
  for (int64_t i = 0; i < n; ++i) work[i] = static_cast<uint32_t>(i % 50);
  ExpectSame("spin", n, {Operand(work), Output(8 * n)},
             [&](const std::vector<const void*>& at) {
               PackedArgs args;
               args.Add(at[0]);
               args.Add(uint64_t{4});
               args.Add(at[1]);
               args.Axes({n}, 0);
               return args;
             },
             {0, 3});
}

}  // namespace
}  // namespace tandem
