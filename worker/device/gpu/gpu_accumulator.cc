#include "worker/device/gpu/gpu_accumulator.h"

#include <cstring>

#include "common/base/error.h"
#include "common/base/strings.h"

namespace tandem::worker {
namespace {

std::vector<uint64_t> CopyArgs(const TandemKernelV1* kernel, const void* args) {
  std::vector<uint64_t> copy((kernel->args_bytes + 7) / 8 + 1);
  if (kernel->args_bytes > 0) std::memcpy(copy.data(), args, kernel->args_bytes);
  return copy;
}

}  // namespace

GatheredPartial::GatheredPartial(const TandemKernelV1* kernel, const void* args)
    : kernel_(kernel),
      args_(CopyArgs(kernel, args)),
      bytes_(static_cast<uint64_t>(kernel->partial_bytes(args_.data(), 0))) {}

absl::Status GatheredPartial::Add(const void* partial, int64_t tasks) {
  absl::MutexLock lock(&mu_);
  if (!used_) {
    if (value_.Ensure(bytes_ + 1) == nullptr) {
      return Error(absl::StatusCode::kResourceExhausted, reason::kOutOfMemory,
                   StrCat("no memory for a partial of kernel ", kernel_->name,
                          "; give the worker more memory"));
    }
    std::memcpy(value_.data(), partial, bytes_);
    used_ = true;
    tasks_ = tasks;
    return absl::OkStatus();
  }
  const int32_t code = kernel_->merge(args_.data(), value_.data(), tasks_, partial, tasks);
  tasks_ += tasks;
  if (code == 0) return absl::OkStatus();
  return Error(absl::StatusCode::kInternal, reason::kDeviceFault,
               StrCat("the merge of kernel ", kernel_->name, " failed with code ", code));
}

void GatheredPartial::CopyTo(void* into) {
  absl::MutexLock lock(&mu_);
  if (used_) {
    std::memcpy(into, value_.data(), bytes_);
  } else {
    kernel_->partial_init(args_.data(), into);
  }
}

}  // namespace tandem::worker
