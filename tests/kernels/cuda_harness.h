// Runs jobs of one kernel on a CUDA device, real or softcuda's, as one merged launch of many parts,
// and on the CPU; for tests that compare the two.
//
//   Job job{.tasks = n, .first_id = 7, .buffers = {Operand(x, 4), Output(4, n)}, .make = …};
//   const Results device = OnCuda("saxpy", {job, other_job}, &random);   // one launch for both
//   device[0].outputs == OnCpu("saxpy", job).outputs
//
// Thread-safety: one thread. Ownership: results own their bytes.
#ifndef TANDEM_TESTS_KERNELS_CUDA_HARNESS_H_
#define TANDEM_TESTS_KERNELS_CUDA_HARNESS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "tests/kernels/harness.h"

namespace tandem {

// One tensor of a job. row_bytes: of a task's row; 0 where tasks share all of it.
struct Buffer {
  std::vector<uint8_t> bytes;
  int64_t row_bytes = 0;
  bool output = false;
};
template <class T>
Buffer Operand(const std::vector<T>& values, int64_t row_bytes = sizeof(T)) {
  Buffer buffer{std::vector<uint8_t>(values.size() * sizeof(T)), row_bytes, false};
  if (!values.empty()) std::memcpy(buffer.bytes.data(), values.data(), buffer.bytes.size());
  return buffer;
}
Buffer Output(int64_t row_bytes, int64_t rows);

struct Job {
  int64_t tasks = 0;
  int64_t first_id = 0;
  std::vector<Buffer> buffers;
  // Arguments for buffers that begin at these addresses, with room for so many rows.
  std::function<PackedArgs(const std::vector<const void*>& at, int64_t rows)> make;
  // False: the split axis is not the leading one, so a part cannot have a slice of its own.
  bool sliceable = true;
  // Of a kernel whose parts are whole leaves.
  int64_t leaf = 0;
};

struct Result {
  std::vector<std::vector<uint8_t>> outputs;
  std::vector<uint8_t> fault;
  std::vector<uint8_t> partial;  // merged; leaf by leaf where parts are leaves

  template <class T>
  std::vector<T> As(size_t output) const {
    return ValuesOf<T>(outputs[output]);
  }
  template <class T>
  std::vector<T> PartialAs() const {
    return ValuesOf<T>(partial);
  }

 private:
  template <class T>
  static std::vector<T> ValuesOf(const std::vector<uint8_t>& bytes) {
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
};

// All tasks as one part, or one a leaf.
Result OnCpu(const char* kernel, const Job& job);
// Every job cut at random, its parts in random order among the others', each with the job's buffers
// or a slice of its own, all in one launch. Parts of a reduction gather in two partials a job.
std::vector<Result> OnCuda(const TandemKernelV1& kernel, const std::vector<Job>& jobs,
                           std::mt19937_64* random);
// The same, of a built-in kernel.
std::vector<Result> OnCuda(const char* kernel, const std::vector<Job>& jobs,
                           std::mt19937_64* random);

// Device memory with a copy of host memory.
class OnDevice {
 public:
  OnDevice(const void* bytes, size_t size);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  uint8_t* data() const { return static_cast<uint8_t*>(p_); }
  std::vector<uint8_t> Fetch() const;

 private:
  void* p_ = nullptr;
  size_t size_;
};

// Packs and launches parts whose pointers are device addresses, and waits.
void LaunchAndWait(const TandemKernelV1& kernel, const std::vector<TandemPart>& parts);

// Skips where there is no device.
class CudaTest : public testing::Test {
 protected:
  void SetUp() override;
  std::mt19937_64 random_{20261130};
};

}  // namespace tandem

#endif  // TANDEM_TESTS_KERNELS_CUDA_HARNESS_H_
