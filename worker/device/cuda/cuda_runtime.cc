#include "worker/device/cuda/cuda_runtime.h"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <iterator>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "worker/device/cuda/cuda_error.h"
#include "worker/device/cuda/device_list.h"

namespace tandem::worker {
namespace {

constexpr int kDevice = 0;  // the only one that CUDA sees
// How long the destructor gives streams to end: a callback may have been called a moment before its
// stream counts as idle.
constexpr absl::Duration kEndingMax = absl::Milliseconds(100);
constexpr absl::Duration kPollEvery = absl::Microseconds(100);

absl::Status Misused(std::string_view what) {
  return Error(absl::StatusCode::kFailedPrecondition, reason::kBadArgument, what);
}

void* PointerTo(DeviceAddress address) { return address.ForKernel(); }

}  // namespace

absl::StatusOr<std::unique_ptr<CudaRuntime>> CudaRuntime::Open(const std::string& uuid) {
  const bool slice = uuid.starts_with("MIG-");
  if (!slice && !uuid.starts_with("GPU-")) {
    return InvalidError(reason::kBadArgument, StrCat("'", uuid,
                                                     "' is no device's UUID (GPU-… or "
                                                     "MIG-…; nvidia-smi -L lists them)"));
  }
  setenv("CUDA_VISIBLE_DEVICES", uuid.c_str(), 1);
  setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
  const std::string sought = StrCat("none is ", uuid, " (nvidia-smi -L lists them)");
  int count = 0;
  const MonoTime begin = Clock::Real()->Now();
  RETURN_IF_ERROR(CudaStartStatus(cudaGetDeviceCount(&count), sought));
  const MonoTime driver = Clock::Real()->Now();
  cudaDeviceProp found{};
  if (count > 0) RETURN_IF_ERROR(CudaStartStatus(cudaGetDeviceProperties(&found, kDevice), sought));
  // CUDA takes the first digits of a UUID for the whole. What it says of a slice is its parent's.
  if (count != 1 || (!slice && StrCat("GPU-", UuidDigits(found.uuid.bytes)) != uuid)) {
    return CudaStartStatus(cudaErrorNoDevice, sought);
  }
  RETURN_IF_ERROR(CudaStartStatus(cudaSetDevice(kDevice), sought));
  RETURN_IF_ERROR(CudaStartStatus(cudaFree(nullptr), sought));  // starts the context here
  GpuProperties properties;
  properties.driver_start = driver - begin;
  properties.context_start = Clock::Real()->Now() - driver;
  properties.model = found.name;
  properties.uuid = uuid;
  properties.memory_bytes = found.totalGlobalMem;
  properties.multiprocessors = static_cast<uint32_t>(found.multiProcessorCount);
  properties.threads_a_multiprocessor = static_cast<uint32_t>(found.maxThreadsPerMultiProcessor);
  return std::unique_ptr<CudaRuntime>(new CudaRuntime(std::move(properties)));
}

CudaRuntime::CudaRuntime(GpuProperties properties)
    : properties_(std::move(properties)),
      callbacks_(std::make_unique<CallbackThread>([this](void* stream) {
        const cudaError_t state = cudaStreamQuery(static_cast<cudaStream_t>(stream));
        return state == cudaErrorNotReady ? health() : Check(state, "cudaStreamQuery");
      })) {}

CudaRuntime::~CudaRuntime() {
  callbacks_.reset();
  const absl::Time give_up = absl::Now() + kEndingMax;
  while (!Idle()) {
    if (!health().ok() || absl::Now() >= give_up) return;
    absl::SleepFor(kPollEvery);
  }
  for (CUstream_st* stream : streams_) cudaStreamDestroy(stream);
  for (const Event& event : events_) cudaEventDestroy(event.handle);
  for (const DeviceAddress address : allocated_) cudaFree(PointerTo(address));
  for (const auto& [begin, bytes] : pinned_) cudaFreeHost(reinterpret_cast<void*>(begin));
}

bool CudaRuntime::Idle() const {
  if (!health().ok()) return false;
  for (CUstream_st* stream : streams_) {
    if (cudaStreamQuery(stream) != cudaSuccess) return false;
  }
  return true;
}

absl::Status CudaRuntime::Check(int error, std::string_view call) const {
  if (error == cudaSuccess) return absl::OkStatus();
  absl::Status status = CudaStatus(error, call, properties_.uuid);
  if (!IsSticky(status)) {
    (void)cudaGetLastError();  // or the next launch would be told of it
    return status;
  }
  absl::MutexLock lock(&mu_);
  if (health_.ok()) health_ = std::move(status);
  return health_;
}

absl::Status CudaRuntime::health() const {
  absl::MutexLock lock(&mu_);
  return health_;
}

// ---- memory ----

absl::StatusOr<DeviceAddress> CudaRuntime::Allocate(uint64_t bytes) {
  RETURN_IF_ERROR(health());
  void* memory = nullptr;
  RETURN_IF_ERROR(Check(cudaMalloc(&memory, bytes), StrCat("cudaMalloc of ", bytes, " bytes")));
  const DeviceAddress address{reinterpret_cast<uint64_t>(memory)};
  allocated_.insert(address);
  return address;
}

absl::Status CudaRuntime::Free(DeviceAddress address) {
  if (allocated_.erase(address) == 0) return Misused("Free of what Allocate did not return");
  return Check(cudaFree(PointerTo(address)), "cudaFree");
}

uint64_t CudaRuntime::FreeBytes() const {
  size_t free = 0, total = 0;
  return Check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo").ok() ? free : 0;
}

absl::StatusOr<void*> CudaRuntime::AllocateHost(uint64_t bytes) {
  RETURN_IF_ERROR(health());
  void* memory = nullptr;
  RETURN_IF_ERROR(Check(cudaHostAlloc(&memory, bytes, cudaHostAllocMapped),
                        StrCat("cudaHostAlloc of ", bytes, " bytes")));
  pinned_[reinterpret_cast<uint64_t>(memory)] = bytes;
  return memory;
}

absl::Status CudaRuntime::FreeHost(void* memory) {
  if (pinned_.erase(reinterpret_cast<uint64_t>(memory)) == 0) {
    return Misused("FreeHost of what AllocateHost did not return");
  }
  return Check(cudaFreeHost(memory), "cudaFreeHost");
}

DeviceAddress CudaRuntime::Mapped(void* memory) const {
  if (!CheckPinned(memory, 0).ok()) return {};
  void* address = nullptr;
  const absl::Status found =
      Check(cudaHostGetDevicePointer(&address, memory, 0), "cudaHostGetDevicePointer");
  return found.ok() ? DeviceAddress{reinterpret_cast<uint64_t>(address)} : DeviceAddress{};
}

absl::Status CudaRuntime::CheckPinned(const void* memory, uint64_t bytes) const {
  const auto address = reinterpret_cast<uint64_t>(memory);
  const auto next = pinned_.upper_bound(address);
  if (next != pinned_.begin()) {
    const auto& [begin, size] = *std::prev(next);
    if (address - begin <= size && bytes <= size - (address - begin)) return absl::OkStatus();
  }
  return Misused("a copy from or to host memory that is not pinned would wait for the device");
}

// ---- streams ----

absl::StatusOr<StreamId> CudaRuntime::NewStream() {
  RETURN_IF_ERROR(health());
  cudaStream_t stream = nullptr;
  RETURN_IF_ERROR(Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                        "cudaStreamCreateWithFlags"));
  streams_.push_back(stream);
  return static_cast<StreamId>(streams_.size() - 1);
}

absl::StatusOr<EventId> CudaRuntime::NewEvent() {
  RETURN_IF_ERROR(health());
  cudaEvent_t event = nullptr;
  RETURN_IF_ERROR(Check(cudaEventCreate(&event), "cudaEventCreate"));
  events_.push_back({event, false});
  return static_cast<EventId>(events_.size() - 1);
}

absl::StatusOr<CUstream_st*> CudaRuntime::StreamOf(StreamId stream) const {
  RETURN_IF_ERROR(health());
  if (stream >= streams_.size()) return Misused("no such stream");
  return streams_[stream];
}

absl::Status CudaRuntime::CopyUp(StreamId stream, DeviceAddress to, const void* from,
                                 uint64_t bytes) {
  ASSIGN_OR_RETURN(CUstream_st* const s, StreamOf(stream));
  RETURN_IF_ERROR(CheckPinned(from, bytes));
  return Check(cudaMemcpyAsync(PointerTo(to), from, bytes, cudaMemcpyHostToDevice, s),
               "cudaMemcpyAsync to the device");
}

absl::Status CudaRuntime::CopyDown(StreamId stream, void* to, DeviceAddress from, uint64_t bytes) {
  ASSIGN_OR_RETURN(CUstream_st* const s, StreamOf(stream));
  RETURN_IF_ERROR(CheckPinned(to, bytes));
  return Check(cudaMemcpyAsync(to, PointerTo(from), bytes, cudaMemcpyDeviceToHost, s),
               "cudaMemcpyAsync from the device");
}

absl::Status CudaRuntime::Fill(StreamId stream, DeviceAddress to, uint8_t value, uint64_t bytes) {
  ASSIGN_OR_RETURN(CUstream_st* const s, StreamOf(stream));
  return Check(cudaMemsetAsync(PointerTo(to), value, bytes, s), "cudaMemsetAsync");
}

absl::Status CudaRuntime::LaunchGrid(StreamId stream, const GridLaunch& launch) {
  ASSIGN_OR_RETURN(CUstream_st* const s, StreamOf(stream));
  const TandemKernelV1& kernel = *launch.kernel;
  if (kernel.launch == nullptr) {
    return Misused(StrCat("kernel ", kernel.name, " has no CUDA form in this library"));
  }
  if (kernel.pack_parts != nullptr && !launch.slab.valid()) {
    return Misused(
        StrCat("kernel ", kernel.name, " reads its parts from a slab, and none is given"));
  }
  int64_t tasks = 0;
  for (const TandemPart& part : launch.parts) tasks += part.tasks;
  return Check(kernel.launch(launch.parts.data(), PointerTo(launch.slab),
                             static_cast<int32_t>(launch.parts.size()), tasks,
                             PointerTo(launch.workspace), s),
               StrCat("launch of kernel ", kernel.name));
}

absl::Status CudaRuntime::Call(StreamId stream, Callback callback) {
  ASSIGN_OR_RETURN(CUstream_st* const s, StreamOf(stream));
  void* const ticket = callbacks_->Add(s, std::move(callback));
  absl::Status status =
      Check(cudaLaunchHostFunc(s, &CallbackThread::Passed, ticket), "cudaLaunchHostFunc");
  if (!status.ok()) CallbackThread::Withdraw(ticket);
  return status;
}

// ---- events ----

absl::Status CudaRuntime::CheckEvent(EventId event) const {
  RETURN_IF_ERROR(health());
  return event < events_.size() ? absl::OkStatus() : Misused("no such event");
}

absl::Status CudaRuntime::Record(StreamId stream, EventId event) {
  ASSIGN_OR_RETURN(CUstream_st* const s, StreamOf(stream));
  RETURN_IF_ERROR(CheckEvent(event));
  events_[event].recorded = true;
  return Check(cudaEventRecord(events_[event].handle, s), "cudaEventRecord");
}

absl::Status CudaRuntime::Wait(StreamId stream, EventId event) {
  ASSIGN_OR_RETURN(CUstream_st* const s, StreamOf(stream));
  RETURN_IF_ERROR(CheckEvent(event));
  return Check(cudaStreamWaitEvent(s, events_[event].handle, 0), "cudaStreamWaitEvent");
}

absl::StatusOr<bool> CudaRuntime::Reached(EventId event) const {
  RETURN_IF_ERROR(CheckEvent(event));
  if (!events_[event].recorded) return false;
  const cudaError_t state = cudaEventQuery(events_[event].handle);
  if (state == cudaErrorNotReady) return false;
  RETURN_IF_ERROR(Check(state, "cudaEventQuery"));
  return true;
}

absl::StatusOr<absl::Duration> CudaRuntime::Between(EventId from, EventId to) const {
  ASSIGN_OR_RETURN(const bool begun, Reached(from));
  ASSIGN_OR_RETURN(const bool ended, Reached(to));
  if (!begun || !ended) return Misused("the time between events that are not both reached");
  float milliseconds = 0;
  RETURN_IF_ERROR(
      Check(cudaEventElapsedTime(&milliseconds, events_[from].handle, events_[to].handle),
            "cudaEventElapsedTime"));
  return absl::Milliseconds(milliseconds);
}

}  // namespace tandem::worker
