// Light maps of more tasks than the device has threads, whose threads take several at a time: the
// bytes are those of one at a time, wherever the parts begin and however they are aligned.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "tests/kernels/cuda_harness.h"
#include "tests/kernels/library.h"

namespace tandem {
namespace {

class CudaWideTest : public CudaTest {
 protected:
  // Four for each thread that the device runs at once, and an odd number more.
  static int64_t Many() {
    cudaDeviceProp device{};
    EXPECT_EQ(cudaGetDeviceProperties(&device, 0), cudaSuccess);
    return int64_t{4} * device.multiProcessorCount * device.maxThreadsPerMultiProcessor + 1001;
  }
  std::vector<float> Floats(int64_t n, float low, float high) {
    std::uniform_real_distribution<float> value(low, high);
    std::vector<float> x(static_cast<size_t>(n));
    for (float& v : x) v = value(random_);
    return x;
  }
  // All in one part, which has vectors of its own, and cut at random, where most have none.
  void ExpectSame(const TandemKernelV1& cpu, const TandemKernelV1& cuda, const Job& job) {
    std::vector<std::vector<uint8_t>> expected;
    std::vector<const void*> at;
    for (const Buffer& buffer : job.buffers) expected.push_back(buffer.bytes);
    for (const auto& bytes : expected) at.push_back(bytes.data());
    std::vector<uint8_t> fault(static_cast<size_t>(job.tasks));
    kernel_test::RunPart(cpu, job.make(at, job.tasks), {job.first_id, 0}, job.tasks, fault.data(),
                         nullptr);
    std::vector<std::unique_ptr<OnDevice>> whole;
    at.clear();
    for (const Buffer& buffer : job.buffers) {
      whole.push_back(std::make_unique<OnDevice>(buffer.bytes.data(), buffer.bytes.size()));
      at.push_back(whole.back()->data());
    }
    const std::vector<uint8_t> none(fault.size());
    const OnDevice faults(none.data(), none.size());
    const PackedArgs args = job.make(at, job.tasks);
    LaunchAndWait(cuda, {{args.data(), {job.first_id, 0}, job.tasks, faults.data(), nullptr}});
    EXPECT_TRUE(faults.Fetch() == fault) << cuda.name;
    const std::vector<Result> cut = OnCuda(cuda, {job, job}, &random_);
    size_t output = 0;
    for (size_t i = 0; i < job.buffers.size(); ++i) {
      if (!job.buffers[i].output) continue;
      EXPECT_TRUE(whole[i]->Fetch() == expected[i]) << cuda.name << " whole, buffer " << i;
      for (const Result& result : cut) {
        EXPECT_TRUE(result.outputs[output] == expected[i]) << cuda.name << " cut, buffer " << i;
      }
      ++output;
    }
    for (const Result& result : cut) EXPECT_TRUE(result.fault == fault) << cuda.name;
  }
  void ExpectSame(const char* name, const Job& job) {
    ExpectSame(FindKernel(*tandem_builtin_kernels(), name),
               FindKernel(*tandem_builtin_cuda_kernels(), name), job);
  }
};

TEST_F(CudaWideTest, Floats) {
  const int64_t n = Many();
  const auto x = Floats(n, -9, 9), y = Floats(n, -9, 9);
  ExpectSame("saxpy",
             {n, 0, {Operand(x), Operand(y), Output(4, n)}, [](const auto& at, int64_t rows) {
                PackedArgs args;
                args.Add(1.3f);
                for (const void* p : at) args.Add(p);
                args.Axes({rows}, 0);
                return args;
              }});
}

TEST_F(CudaWideTest, WholeNumbersOfEightBytesByTheirIds) {
  const int64_t n = Many();
  ExpectSame("noop", {n, 77, {Output(8, n)}, [](const auto& at, int64_t rows) {
                        PackedArgs args;
                        args.Add(uint64_t{3});
                        args.Add(at[0]);
                        args.Axes({rows}, 0);
                        return args;
                      }});
}

TEST_F(CudaWideTest, TasksFailEachByItself) {
  const int64_t n = Many();
  auto years = Floats(n, 0.02f, 5);
  for (size_t i = 0; i < years.size(); i += 97) years[i] = -years[i];
  ExpectSame("black_scholes", {n,
                               9,
                               {Operand(Floats(n, 10, 200)), Operand(Floats(n, 10, 200)),
                                Operand(years), Output(4, n), Output(4, n)},
                               [](const auto& at, int64_t rows) {
                                 PackedArgs args;
                                 for (int i = 0; i < 3; ++i) args.Add(at[i]);
                                 args.Add(0.04f);
                                 args.Add(0.3f);
                                 args.Add(at[3]);
                                 args.Add(at[4]);
                                 args.Axes({rows}, 0);
                                 return args;
                               }});
}

TEST_F(CudaWideTest, ElementsOfTwoBytesBesideSomeOfFour) {
  const int64_t n = Many();
  std::vector<uint16_t> x(static_cast<size_t>(n)), y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<uint16_t>(random_());
    y[i] = static_cast<uint16_t>(random_());
  }
  ExpectSame(FindKernel(LoadFor(TANDEM_PROBES, "v2"), "halve"),
             FindKernel(LoadFor(TANDEM_CUDA_PROBES, "v2"), "halve"),
             {n,
              0,
              {Operand(x), Operand(y), Output(2, n), Output(2, n), Output(4, n)},
              [](const auto& at, int64_t rows) {
                PackedArgs args;
                for (const void* p : at) args.Add(p);
                args.Axes({rows}, 0);
                return args;
              }});
}

}  // namespace
}  // namespace tandem
