// A grid of saxpy on one device, compared with the CPU's.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/synchronization/notification.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "kernels/sdk/abi.h"
#include "worker/device/cuda/cuda_runtime.h"
#include "worker/device/cuda/probe.h"

namespace tandem::worker {
namespace {

constexpr char kKernel[] = "saxpy";
constexpr int64_t kTasks = 20'000;
constexpr uint64_t kBytes = kTasks * sizeof(float);

// As abi.h lays out `scale:f32, x[n]:f32, y[n]:f32 -> z[n]:f32`.
struct Args {
  float scale;
  const void *x, *y;
  void* z;
  int64_t n, split;
};
Args ArgsAt(const void* x, const void* y, void* z) { return {1.3f, x, y, z, kTasks, 0}; }

const TandemKernelV1* Find(const TandemLibraryV1* library) {
  for (uint32_t i = 0; library != nullptr && i < library->kernel_count; ++i) {
    if (std::string_view(library->kernels[i]->name) == kKernel) return library->kernels[i];
  }
  return nullptr;
}

// One grid's memory on the device and beside it.
class GridCheck {
 public:
  explicit GridCheck(CudaRuntime* gpu)
      : gpu_(*gpu),
        cpu_(Find(tandem_builtin_kernels())),
        cuda_(Find(tandem_builtin_cuda_kernels())) {}

  // How long copies and grid took.
  absl::StatusOr<absl::Duration> Run() {
    if (cpu_ == nullptr || cuda_ == nullptr || cuda_->args_bytes != sizeof(Args)) {
      return absl::InternalError(StrCat("this program lacks the kernel ", kKernel));
    }
    RETURN_IF_ERROR(Prepare());
    RETURN_IF_ERROR(Launch());
    RETURN_IF_ERROR(Finish());
    RETURN_IF_ERROR(Compare());
    return gpu_.Between(begin_, end_);
  }

 private:
  absl::Status Prepare() {
    ASSIGN_OR_RETURN(stream_, gpu_.NewStream());
    ASSIGN_OR_RETURN(begin_, gpu_.NewEvent());
    ASSIGN_OR_RETURN(end_, gpu_.NewEvent());
    ASSIGN_OR_RETURN(x_, gpu_.Allocate(kBytes));
    ASSIGN_OR_RETURN(y_, gpu_.Allocate(kBytes));
    ASSIGN_OR_RETURN(z_, gpu_.Allocate(kBytes));
    const auto slab_bytes = static_cast<uint64_t>(cuda_->part_bytes);
    ASSIGN_OR_RETURN(slab_, gpu_.Allocate(slab_bytes));
    ASSIGN_OR_RETURN(void* const operands, gpu_.AllocateHost(2 * kBytes));
    operands_ = static_cast<float*>(operands);
    ASSIGN_OR_RETURN(packed_, gpu_.AllocateHost(slab_bytes));
    ASSIGN_OR_RETURN(void* const result, gpu_.AllocateHost(kBytes));
    result_ = static_cast<float*>(result);
    for (int64_t i = 0; i < 2 * kTasks; ++i) {
      operands_[i] = static_cast<float>(i % 1009) * 0.37f - 100;
    }
    return absl::OkStatus();
  }

  absl::Status Launch() {
    const Args args = ArgsAt(x_.ForKernel(), y_.ForKernel(), z_.ForKernel());
    const TandemPart part = {&args, {0, 0}, kTasks, nullptr, nullptr};
    cuda_->pack_parts(&part, 1, packed_, nullptr);
    RETURN_IF_ERROR(gpu_.Record(stream_, begin_));
    RETURN_IF_ERROR(gpu_.CopyUp(stream_, slab_, packed_, static_cast<uint64_t>(cuda_->part_bytes)));
    RETURN_IF_ERROR(gpu_.CopyUp(stream_, x_, operands_, kBytes));
    RETURN_IF_ERROR(gpu_.CopyUp(stream_, y_, operands_ + kTasks, kBytes));
    RETURN_IF_ERROR(gpu_.LaunchGrid(stream_, {cuda_, absl::MakeConstSpan(&part, 1), slab_, {}, 0}));
    RETURN_IF_ERROR(gpu_.CopyDown(stream_, result_, z_, kBytes));
    return gpu_.Record(stream_, end_);
  }

  absl::Status Finish() {
    absl::Notification passed;
    absl::Status result;
    RETURN_IF_ERROR(gpu_.Call(stream_, [&](const absl::Status& status) {
      result = status;
      passed.Notify();
    }));
    passed.WaitForNotification();
    return result;
  }

  absl::Status Compare() const {
    const auto expected = std::make_unique<float[]>(kTasks);
    const Args args = ArgsAt(operands_, operands_ + kTasks, expected.get());
    const TandemPart part = {&args, {0, 0}, kTasks, nullptr, nullptr};
    cpu_->range(&part, 1, nullptr);
    for (int64_t i = 0; i < kTasks; ++i) {
      if (std::memcmp(&expected[i], &result_[i], sizeof(float)) == 0) continue;
      return Error(absl::StatusCode::kDataLoss, reason::kDeviceFault,
                   StrCat("task ", i, " of ", kKernel, " gave ", result_[i], " on the device and ",
                          expected[i],
                          " on the CPU: the device computes wrongly; take it out of "
                          "service"));
    }
    return absl::OkStatus();
  }

  CudaRuntime& gpu_;
  const TandemKernelV1* const cpu_;
  const TandemKernelV1* const cuda_;
  StreamId stream_ = 0;
  EventId begin_ = 0, end_ = 0;
  DeviceAddress x_, y_, z_, slab_;
  float* operands_ = nullptr;
  float* result_ = nullptr;
  void* packed_ = nullptr;
};

}  // namespace

GridReport CheckGrid(const std::string& uuid) {
  GridReport report;
  report.uuid = uuid;
  report.kernel = kKernel;
  report.tasks = kTasks;
  const MonoTime start = Clock::Real()->Now();
  const auto gpu = CudaRuntime::Open(uuid);
  report.start_seconds = absl::ToDoubleSeconds(Clock::Real()->Now() - start);
  if (!gpu.ok()) {
    report.error = gpu.status();
    return report;
  }
  const auto took = GridCheck(gpu->get()).Run();
  report.error = took.status();
  if (took.ok()) report.grid_seconds = absl::ToDoubleSeconds(*took);
  return report;
}

}  // namespace tandem::worker
