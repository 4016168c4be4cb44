#include "tests/kernels/cuda_harness.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "tests/kernels/library.h"

namespace tandem {
namespace {

// [0, tasks) in pieces: leaves where parts are leaves, else at random.
std::vector<std::pair<int64_t, int64_t>> CutOf(const Job& job, std::mt19937_64* random) {
  if (job.leaf == 0) return kernel_test::RandomCut(job.tasks, *random);
  std::vector<std::pair<int64_t, int64_t>> pieces;
  for (int64_t begin = 0; begin < job.tasks; begin += job.leaf) {
    pieces.emplace_back(begin, std::min(job.tasks, begin + job.leaf));
  }
  return pieces;
}

int64_t PartialBytes(const TandemKernelV1& kernel, const PackedArgs& args) {
  if (kernel.partial_bytes == nullptr) return 0;
  return (kernel.partial_bytes(args.data(), 0) + TANDEM_PARTIAL_ALIGN - 1) / TANDEM_PARTIAL_ALIGN *
         TANDEM_PARTIAL_ALIGN;
}

// `count` partials, one behind the other.
std::vector<uint8_t> FreshPartials(const TandemKernelV1& kernel, const PackedArgs& args,
                                   size_t count) {
  const auto bytes = static_cast<size_t>(PartialBytes(kernel, args));
  std::vector<uint8_t> partials(bytes * count);
  for (size_t i = 0; bytes > 0 && i < count; ++i) {
    kernel.partial_init(args.data(), partials.data() + i * bytes);
  }
  return partials;
}

// A job's memory on the device while its parts run.
class JobOnDevice {
 public:
  static constexpr size_t kPartials = 2;

  JobOnDevice(const TandemKernelV1& kernel, const Job& job, std::mt19937_64* random)
      : kernel_(kernel), job_(job) {
    for (const Buffer& buffer : job.buffers) {
      memory_.push_back(std::make_unique<OnDevice>(buffer.bytes.data(), buffer.bytes.size()));
    }
    const auto pieces = CutOf(job, random);
    const PackedArgs whole = ArgsFrom(0, job.tasks);
    partial_bytes_ = PartialBytes(kernel, whole);
    const auto partials = FreshPartials(kernel, whole, job.leaf == 0 ? kPartials : pieces.size());
    partials_ = std::make_unique<OnDevice>(partials.data(), partials.size());
    // Of a kernel that can fail every byte is to be written.
    const uint8_t before = kernel.fault_count > 1 ? 0xa5 : TANDEM_OK;
    const std::vector<uint8_t> faults(static_cast<size_t>(job.tasks), before);
    faults_ = std::make_unique<OnDevice>(faults.data(), faults.size());
    for (const auto& [begin, end] : pieces) {
      const bool slice = job.sliceable && (*random)() % 2 == 0;
      args_.push_back(slice ? ArgsFrom(begin, end - begin) : whole);
      pieces_.push_back({begin, end - begin, slice});
    }
  }

  void AddParts(std::vector<TandemPart>* parts) const {
    for (size_t i = 0; i < pieces_.size(); ++i) {
      const Piece& piece = pieces_[i];
      const size_t partial = job_.leaf == 0 ? i % kPartials : i;
      parts->push_back({args_[i].data(),
                        {job_.first_id + piece.begin, piece.slice ? 0 : piece.begin},
                        piece.tasks,
                        faults_->data() + piece.begin,
                        partial_bytes_ == 0
                            ? nullptr
                            : partials_->data() + partial * static_cast<size_t>(partial_bytes_)});
    }
  }

  Result Fetch() const {
    Result result;
    result.fault = faults_->Fetch();
    for (size_t i = 0; i < job_.buffers.size(); ++i) {
      if (job_.buffers[i].output) result.outputs.push_back(memory_[i]->Fetch());
    }
    result.partial = partials_->Fetch();
    if (job_.leaf == 0 && partial_bytes_ > 0) {
      EXPECT_EQ(kernel_.merge(ArgsFrom(0, job_.tasks).data(), result.partial.data(), 0,
                              result.partial.data() + partial_bytes_, 0),
                0);
      result.partial.resize(static_cast<size_t>(partial_bytes_));
    }
    return result;
  }

 private:
  struct Piece {
    int64_t begin, tasks;
    bool slice;
  };

  PackedArgs ArgsFrom(int64_t row, int64_t rows) const {
    std::vector<const void*> at;
    for (size_t i = 0; i < memory_.size(); ++i) {
      at.push_back(memory_[i]->data() + row * job_.buffers[i].row_bytes);
    }
    return job_.make(at, rows);
  }

  const TandemKernelV1& kernel_;
  const Job& job_;
  std::vector<std::unique_ptr<OnDevice>> memory_;
  std::unique_ptr<OnDevice> faults_, partials_;
  int64_t partial_bytes_ = 0;
  std::vector<PackedArgs> args_;
  std::vector<Piece> pieces_;
};

}  // namespace

Buffer Output(int64_t row_bytes, int64_t rows) {
  return {std::vector<uint8_t>(static_cast<size_t>(row_bytes * rows), 0xee), row_bytes, true};
}

OnDevice::OnDevice(const void* bytes, size_t size) : size_(size) {
  EXPECT_EQ(cudaMalloc(&p_, size + 1), cudaSuccess);  // of nothing too
  if (size > 0) {
    EXPECT_EQ(cudaMemcpy(p_, bytes, size, cudaMemcpyHostToDevice), cudaSuccess);
  }
}

OnDevice::~OnDevice() { cudaFree(p_); }

std::vector<uint8_t> OnDevice::Fetch() const {
  std::vector<uint8_t> bytes(size_);
  if (size_ > 0) {
    EXPECT_EQ(cudaMemcpy(bytes.data(), p_, size_, cudaMemcpyDeviceToHost), cudaSuccess);
  }
  return bytes;
}

void LaunchAndWait(const TandemKernelV1& kernel, const std::vector<TandemPart>& parts) {
  const auto count = static_cast<int32_t>(parts.size());
  int64_t tasks = 0;
  for (const TandemPart& part : parts) tasks += part.tasks;
  const std::vector<uint8_t> empty(static_cast<size_t>(kernel.workspace_bytes(parts.data(), count)),
                                   0xcb);
  const OnDevice workspace(empty.data(), empty.size());
  std::vector<uint8_t> slab(static_cast<size_t>(kernel.part_bytes * count));
  if (kernel.pack_parts != nullptr) {
    kernel.pack_parts(parts.data(), count, slab.data(), workspace.data());
  }
  const OnDevice on_device(slab.data(), slab.size());
  EXPECT_EQ(kernel.launch(parts.data(), on_device.data(), count, tasks, workspace.data(), nullptr),
            cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

Result OnCpu(const char* name, const Job& job) {
  const TandemKernelV1& kernel = FindKernel(*tandem_builtin_kernels(), name);
  Result result;
  std::vector<std::vector<uint8_t>> memory;
  std::vector<const void*> at;
  for (const Buffer& buffer : job.buffers) memory.push_back(buffer.bytes);
  for (const auto& m : memory) at.push_back(m.data());
  const PackedArgs args = job.make(at, job.tasks);
  result.fault.assign(static_cast<size_t>(job.tasks), 0);
  std::vector<std::pair<int64_t, int64_t>> pieces = {{0, job.tasks}};
  if (job.leaf > 0) pieces = CutOf(job, nullptr);
  result.partial = FreshPartials(kernel, args, pieces.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto [begin, end] = pieces[i];
    kernel_test::RunPart(kernel, args, {job.first_id + begin, begin}, end - begin,
                         result.fault.data() + begin,
                         result.partial.data() + i * result.partial.size() / pieces.size());
  }
  for (size_t i = 0; i < memory.size(); ++i) {
    if (job.buffers[i].output) result.outputs.push_back(std::move(memory[i]));
  }
  return result;
}

std::vector<Result> OnCuda(const char* name, const std::vector<Job>& jobs,
                           std::mt19937_64* random) {
  return OnCuda(FindKernel(*tandem_builtin_cuda_kernels(), name), jobs, random);
}

std::vector<Result> OnCuda(const TandemKernelV1& kernel, const std::vector<Job>& jobs,
                           std::mt19937_64* random) {
  std::vector<std::unique_ptr<JobOnDevice>> on_device;
  std::vector<TandemPart> parts;
  for (const Job& job : jobs) {
    on_device.push_back(std::make_unique<JobOnDevice>(kernel, job, random));
    on_device.back()->AddParts(&parts);
  }
  std::shuffle(parts.begin(), parts.end(), *random);
  LaunchAndWait(kernel, parts);
  std::vector<Result> results;
  for (const auto& job : on_device) results.push_back(job->Fetch());
  return results;
}

void CudaTest::SetUp() {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess || devices == 0) {
    GTEST_SKIP() << "skipped: no CUDA device: " << cudaGetErrorString(error);
  }
}

}  // namespace tandem
