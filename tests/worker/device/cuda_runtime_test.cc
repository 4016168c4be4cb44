// CudaRuntime against the contract of GpuRuntime, on softcuda and on a real device.
#include "worker/device/cuda/cuda_runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "common/base/error.h"
#include "kernels/sdk/abi.h"
#include "tests/kernels/harness.h"
#include "tests/worker/device/cuda_process.h"

namespace tandem::worker {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

template <class T>
T Must(absl::StatusOr<T> value) {
  EXPECT_TRUE(value.ok()) << value.status();
  return *std::move(value);
}

// A device with one stream.
class Device {
 public:
  explicit Device(const std::string& uuid) : gpu_(Must(CudaRuntime::Open(uuid))) {
    stream_ = Must(gpu_->NewStream());
  }
  CudaRuntime* operator->() { return gpu_.get(); }
  StreamId stream() const { return stream_; }

  template <class T>
  T* Pinned(size_t count) {
    return static_cast<T*>(Must(gpu_->AllocateHost(count * sizeof(T))));
  }
  // Waits until a stream has passed all there is.
  absl::Status Drain(StreamId stream) {
    absl::Notification passed;
    absl::Status result;
    absl::Status called = gpu_->Call(stream, [&](const absl::Status& status) {
      result = status;
      passed.Notify();
    });
    if (!called.ok()) return called;
    passed.WaitForNotification();
    return result;
  }
  absl::Status Drain() { return Drain(stream_); }

  // Launches noop's grid over `tasks` tasks, writing to `value`.
  absl::Status Launch(StreamId stream, DeviceAddress value, int64_t tasks) {
    const TandemKernelV1& kernel = kernel_test::FindKernel(*tandem_builtin_cuda_kernels(), "noop");
    PackedArgs args;
    args.Add(uint64_t{4});
    args.Add(value.ForKernel());
    args.Axes({tasks}, 0);
    const TandemPart part{args.data(), {0, 0}, tasks, nullptr, nullptr};
    if (!slab_.valid()) slab_ = Must(gpu_->Allocate(static_cast<uint64_t>(kernel.part_bytes)));
    auto* packed = Pinned<uint8_t>(static_cast<size_t>(kernel.part_bytes));
    kernel.pack_parts(&part, 1, packed, nullptr);
    absl::Status copied =
        gpu_->CopyUp(stream, slab_, packed, static_cast<uint64_t>(kernel.part_bytes));
    if (!copied.ok()) return copied;
    return gpu_->LaunchGrid(stream, {&kernel, absl::MakeConstSpan(&part, 1), slab_, {}, 0});
  }

 private:
  std::unique_ptr<CudaRuntime> gpu_;
  StreamId stream_ = 0;
  DeviceAddress slab_;
};

using CudaRuntimeTest = CudaProcessTest;
using ScriptedCudaRuntimeTest = SoftcudaTest;

TEST_F(CudaRuntimeTest, SaysWhatTheDeviceIs) {
  InChild({}, [&] {
    Device device(uuid_);
    EXPECT_EQ(device->properties().uuid, uuid_);
    EXPECT_NE(device->properties().model, "");
    EXPECT_GT(device->properties().memory_bytes, 0u);
    EXPECT_GT(device->properties().multiprocessors, 0u);
    EXPECT_GE(device->properties().threads_a_multiprocessor, 1024u);
    EXPECT_STREQ(getenv("CUDA_VISIBLE_DEVICES"), uuid_.c_str());
  });
}

TEST_F(CudaRuntimeTest, CopiesUpFillsAndCopiesDownInTheStreamsOrder) {
  InChild({{"SOFTCUDA_DELAY_US", "200"}}, [&] {
    Device device(uuid_);
    constexpr size_t kBytes = 100'003;
    auto* up = device.Pinned<uint8_t>(kBytes);
    auto* down = device.Pinned<uint8_t>(kBytes);
    std::iota(up, up + kBytes, uint8_t{3});
    std::memset(down, 0xee, kBytes);
    const DeviceAddress memory = Must(device->Allocate(kBytes));
    EXPECT_EQ(memory.value % 256, 0u);
    ASSERT_TRUE(device->CopyUp(device.stream(), memory, up, kBytes).ok());
    ASSERT_TRUE(device->Fill(device.stream(), memory + 10, 0x5a, 7).ok());
    ASSERT_TRUE(device->CopyDown(device.stream(), down, memory, kBytes).ok());
    EXPECT_EQ(device.Drain(), absl::OkStatus());
    std::vector<uint8_t> expected(up, up + kBytes);
    std::fill_n(expected.begin() + 10, 7, 0x5a);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), down));
  });
}

TEST_F(CudaRuntimeTest, MoreThanThereIsHarmsNothing) {
  InChild({}, [&] {
    Device device(uuid_);
    const auto refused = device->Allocate(device->properties().memory_bytes * 2);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(ReasonOf(refused.status()), reason::kOutOfMemory);
    EXPECT_THAT(std::string(refused.status().message()),
                AllOf(HasSubstr("cudaMalloc"), HasSubstr(uuid_)));
    EXPECT_EQ(device->health(), absl::OkStatus());
    const uint64_t free = device->FreeBytes();
    constexpr uint64_t kSome = 32 << 20;
    const DeviceAddress memory = Must(device->Allocate(kSome));
    EXPECT_LE(device->FreeBytes() + kSome, free);
    EXPECT_EQ(device.Launch(device.stream(), memory, 100), absl::OkStatus());
    EXPECT_EQ(device.Drain(), absl::OkStatus());
    EXPECT_EQ(device->Free(memory), absl::OkStatus());
    EXPECT_EQ(device->Free(memory).code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_GE(device->FreeBytes() + (2 << 20), free);
  });
}

TEST_F(CudaRuntimeTest, RefusesWhatWouldWaitAndWhatThereIsNot) {
  InChild({}, [&] {
    Device device(uuid_);
    const DeviceAddress memory = Must(device->Allocate(64));
    uint8_t pageable[64] = {};
    constexpr auto kRefused = absl::StatusCode::kFailedPrecondition;
    EXPECT_EQ(device->CopyUp(device.stream(), memory, pageable, 64).code(), kRefused);
    EXPECT_EQ(device->CopyDown(device.stream(), pageable, memory, 64).code(), kRefused);
    auto* pinned = device.Pinned<uint8_t>(64);
    EXPECT_EQ(device->CopyUp(device.stream(), memory, pinned + 1, 64).code(), kRefused);
    EXPECT_EQ(device->CopyUp(99, memory, pinned, 64).code(), kRefused);
    EXPECT_EQ(device->Record(device.stream(), 99).code(), kRefused);
    const TandemKernelV1& cpu = kernel_test::FindKernel(*tandem_builtin_kernels(), "noop");
    EXPECT_EQ(device->LaunchGrid(device.stream(), {&cpu, {}, memory, {}, 0}).code(), kRefused);
    const TandemKernelV1& cuda = kernel_test::FindKernel(*tandem_builtin_cuda_kernels(), "noop");
    EXPECT_EQ(device->LaunchGrid(device.stream(), {&cuda, {}, {}, {}, 0}).code(), kRefused);
    EXPECT_EQ(device->FreeHost(pageable).code(), kRefused);
    EXPECT_EQ(device->FreeHost(pinned), absl::OkStatus());
    EXPECT_EQ(device->health(), absl::OkStatus());
    EXPECT_EQ(device.Drain(), absl::OkStatus());
  });
}

// One stream's grid writes; another's copy reads it, and waits for it or not.
std::vector<uint64_t> ReadAcrossStreams(const std::string& uuid, bool wait) {
  Device device(uuid);
  constexpr int64_t kTasks = 4096;
  const StreamId other = Must(device->NewStream());
  const EventId written = Must(device->NewEvent());
  const DeviceAddress value = Must(device->Allocate(kTasks * 8));
  auto* down = device.Pinned<uint64_t>(kTasks);
  EXPECT_EQ(device->Fill(device.stream(), value, 0, kTasks * 8), absl::OkStatus());
  EXPECT_EQ(device.Drain(), absl::OkStatus());
  EXPECT_EQ(device.Launch(device.stream(), value, kTasks), absl::OkStatus());
  EXPECT_EQ(device->Record(device.stream(), written), absl::OkStatus());
  if (wait) {
    EXPECT_EQ(device->Wait(other, written), absl::OkStatus());
  }
  EXPECT_EQ(device->CopyDown(other, down, value, kTasks * 8), absl::OkStatus());
  EXPECT_EQ(device.Drain(other), absl::OkStatus());
  EXPECT_EQ(device.Drain(), absl::OkStatus());
  return {down, down + kTasks};
}

TEST_F(CudaRuntimeTest, WhatWaitsForAnEventSeesWhatWasDoneBefore) {
  InChild({{"SOFTCUDA_DELAY_US", "5000"}}, [&] {
    const std::vector<uint64_t> read = ReadAcrossStreams(uuid_, true);
    EXPECT_EQ(std::count(read.begin(), read.end(), 0u), 0);
  });
}

TEST_F(ScriptedCudaRuntimeTest, AMissingWaitShows) {
  // The grid comes behind a copy in its stream, the other copy first in its own.
  InChild({{"SOFTCUDA_DELAY_US", "100000"}},
          [&] { EXPECT_THAT(ReadAcrossStreams(uuid_, false), Each(0u)); });
}

TEST_F(CudaRuntimeTest, EventsAreReachedAndTimed) {
  InChild({}, [&] {
    Device device(uuid_);
    const EventId begin = Must(device->NewEvent()), end = Must(device->NewEvent());
    EXPECT_FALSE(Must(device->Reached(begin)));
    EXPECT_EQ(device->Wait(device.stream(), begin), absl::OkStatus()) << "never recorded";
    EXPECT_EQ(device->Between(begin, end).status().code(), absl::StatusCode::kFailedPrecondition);
    const DeviceAddress memory = Must(device->Allocate(8000));
    ASSERT_EQ(device->Record(device.stream(), begin), absl::OkStatus());
    ASSERT_EQ(device.Launch(device.stream(), memory, 1000), absl::OkStatus());
    ASSERT_EQ(device->Record(device.stream(), end), absl::OkStatus());
    EXPECT_EQ(device.Drain(), absl::OkStatus());
    EXPECT_TRUE(Must(device->Reached(begin)));
    EXPECT_TRUE(Must(device->Reached(end)));
    EXPECT_GT(Must(device->Between(begin, end)), absl::ZeroDuration());
  });
}

TEST_F(CudaRuntimeTest, CallbacksComeInOrderOnOneThread) {
  InChild({}, [&] {
    Device device(uuid_);
    const StreamId other = Must(device->NewStream());
    std::vector<int> order;  // by one thread alone, or ThreadSanitizer and luck would tell
    std::atomic<int> inside = 0;
    constexpr int kCalls = 200;
    for (int i = 0; i < kCalls; ++i) {
      ASSERT_EQ(device->Call(i % 2 == 0 ? device.stream() : other,
                             [&, i](const absl::Status& status) {
                               EXPECT_EQ(++inside, 1);
                               EXPECT_TRUE(status.ok());
                               order.push_back(i);
                               --inside;
                             }),
                absl::OkStatus());
    }
    EXPECT_EQ(device.Drain(), absl::OkStatus());
    EXPECT_EQ(device.Drain(other), absl::OkStatus());
    ASSERT_EQ(order.size(), size_t{kCalls});
    std::vector<int> even, odd;
    for (const int i : order) (i % 2 == 0 ? even : odd).push_back(i);
    EXPECT_TRUE(std::is_sorted(even.begin(), even.end()));
    EXPECT_TRUE(std::is_sorted(odd.begin(), odd.end()));
  });
}

// Parts of jobs with different scalars, packed and launched as one grid.
TEST_F(CudaRuntimeTest, OneGridRunsPartsOfDifferentScalars) {
  InChild({}, [&] {
    Device device(uuid_);
    const TandemKernelV1& saxpy = kernel_test::FindKernel(*tandem_builtin_cuda_kernels(), "saxpy");
    constexpr int64_t kTasks = 1000;
    auto* host = device.Pinned<float>(2 * kTasks);
    std::iota(host, host + kTasks, 1.0f);
    std::fill_n(host + kTasks, kTasks, 0.5f);
    const DeviceAddress x = Must(device->Allocate(4 * kTasks)),
                        y = Must(device->Allocate(4 * kTasks)),
                        z = Must(device->Allocate(4 * kTasks));
    const auto args_of = [&](float scale) {
      PackedArgs args;
      args.Add(scale);
      for (const DeviceAddress p : {x, y, z}) args.Add(p.ForKernel());
      args.Axes({kTasks}, 0);
      return args;
    };
    const PackedArgs args[2] = {args_of(2.0f), args_of(-3.0f)};
    const TandemPart parts[2] = {{args[0].data(), {0, 0}, 300, nullptr, nullptr},
                                 {args[1].data(), {300, 300}, kTasks - 300, nullptr, nullptr}};
    const auto bytes = static_cast<uint64_t>(2 * saxpy.part_bytes);
    auto* packed = device.Pinned<uint8_t>(bytes);
    saxpy.pack_parts(parts, 2, packed, nullptr);
    const DeviceAddress slab = Must(device->Allocate(bytes));
    ASSERT_EQ(device->CopyUp(device.stream(), slab, packed, bytes), absl::OkStatus());
    ASSERT_EQ(device->CopyUp(device.stream(), x, host, 4 * kTasks), absl::OkStatus());
    ASSERT_EQ(device->CopyUp(device.stream(), y, host + kTasks, 4 * kTasks), absl::OkStatus());
    ASSERT_EQ(device->LaunchGrid(device.stream(), {&saxpy, parts, slab, {}, 0}), absl::OkStatus());
    auto* down = device.Pinned<float>(kTasks);
    ASSERT_EQ(device->CopyDown(device.stream(), down, z, 4 * kTasks), absl::OkStatus());
    ASSERT_EQ(device.Drain(), absl::OkStatus());
    for (int64_t i = 0; i < kTasks; ++i) {
      EXPECT_EQ(down[i], (i < 300 ? 2.0f : -3.0f) * static_cast<float>(i + 1) + 0.5f) << i;
    }
  });
}

TEST_F(CudaRuntimeTest, AnIllegalAddressStaysAndIsToldToCallbacks) {
  InChild({}, [&] {
    Device device(uuid_);
    const StreamId other = Must(device->NewStream());
    ASSERT_EQ(device.Launch(device.stream(), DeviceAddress{uint64_t{1} << 46}, 1000),
              absl::OkStatus());
    const absl::Status told = device.Drain();
    EXPECT_EQ(told.code(), absl::StatusCode::kInternal);
    EXPECT_EQ(ReasonOf(told), reason::kDeviceFault);
    EXPECT_THAT(std::string(told.message()), AllOf(HasSubstr(uuid_), HasSubstr("illegal")));
    EXPECT_EQ(device->health(), told);
    EXPECT_EQ(device->Allocate(64).status(), told);
    EXPECT_EQ(device->NewStream().status(), told);
    EXPECT_EQ(device.Drain(other), told);
  });
  InChild({}, [&] {  // the next process finds the device well
    Device device(uuid_);
    EXPECT_EQ(device.Launch(device.stream(), Must(device->Allocate(8000)), 1000), absl::OkStatus());
    EXPECT_EQ(device.Drain(), absl::OkStatus());
  });
}

TEST_F(CudaRuntimeTest, ADeviceThatThereIsNotIsNotFound) {
  InChild({}, [&] {
    const auto none = CudaRuntime::Open("GPU-00000000-1111-2222-3333-444444444444");
    EXPECT_EQ(none.status().code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(none.status().message()), HasSubstr("GPU-00000000-1111"));
  });
  InChild({}, [&] {  // the beginning of a UUID is not it
    EXPECT_EQ(CudaRuntime::Open(uuid_.substr(0, 12)).status().code(), absl::StatusCode::kNotFound);
  });
  InChild({}, [&] {
    for (const char* junk : {"", "0", "0-3", "NoDevFiles"}) {
      EXPECT_EQ(ReasonOf(CudaRuntime::Open(junk).status()), reason::kBadArgument) << junk;
    }
  });
}

TEST_F(ScriptedCudaRuntimeTest, ScriptedFaultsEndAsTheyShould) {
  constexpr auto kInternal = absl::StatusCode::kInternal;
  constexpr auto kUnavailable = absl::StatusCode::kUnavailable;
  const std::vector<std::pair<std::string, absl::StatusCode>> faults = {
      {"launch:1=launch_failure", kInternal},
      {"launch:1=assert", kInternal},
      {"launch:1=timeout", kInternal},
      {"launch:1=misaligned", kInternal},
      {"launch:1=illegal_instruction", kInternal},
      {"launch:1=lost", kUnavailable},
      {"memcpy:1=ecc", kUnavailable}};
  for (const auto& [script, code] : faults) {
    SCOPED_TRACE(script);
    InChild({{"SOFTCUDA_FAULTS", script}}, [&, code = code] {
      Device device(uuid_);
      const DeviceAddress memory = Must(device->Allocate(8000));
      absl::Status status = device.Launch(device.stream(), memory, 1000);
      if (status.ok()) status = device.Drain();
      EXPECT_EQ(status.code(), code) << status;
      EXPECT_EQ(device->health(), status);
      EXPECT_EQ(device->Fill(device.stream(), memory, 1, 1), status);
    });
  }
}

TEST_F(ScriptedCudaRuntimeTest, OneAllocationOrLaunchThatFailsIsItsOwn) {
  InChild({{"SOFTCUDA_FAULTS", "malloc:2=oom;hostalloc:2=oom;launch:1=out_of_resources"}}, [&] {
    Device device(uuid_);
    const DeviceAddress first = Must(device->Allocate(8000));
    EXPECT_EQ(ReasonOf(device->Allocate(8000).status()), reason::kOutOfMemory);
    (void)device.Pinned<uint8_t>(64);
    EXPECT_EQ(ReasonOf(device->AllocateHost(64).status()), reason::kOutOfMemory);
    EXPECT_EQ(device.Launch(device.stream(), first, 1000).code(),
              absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(device.Launch(device.stream(), first, 1000), absl::OkStatus());
    EXPECT_EQ(device.Drain(), absl::OkStatus());
  });
}

TEST_F(ScriptedCudaRuntimeTest, AHungGridHoldsUpItsStreamAloneAndNobodyElse) {
  InChild({{"SOFTCUDA_FAULTS", "launch:1=hang"}}, [&] {
    absl::Notification never;
    {
      Device device(uuid_);
      const StreamId other = Must(device->NewStream());
      const EventId after = Must(device->NewEvent());
      const DeviceAddress memory = Must(device->Allocate(8000));
      ASSERT_EQ(device.Launch(device.stream(), memory, 1000), absl::OkStatus());
      ASSERT_EQ(device->Record(device.stream(), after), absl::OkStatus());
      ASSERT_EQ(device->Call(device.stream(), [&](const absl::Status&) { never.Notify(); }),
                absl::OkStatus());
      EXPECT_EQ(device->Fill(other, memory, 1, 100), absl::OkStatus());
      EXPECT_EQ(device.Drain(other), absl::OkStatus());
      EXPECT_FALSE(Must(device->Reached(after)));
    }  // does not wait
    EXPECT_FALSE(never.HasBeenNotified());
  });
}

TEST_F(ScriptedCudaRuntimeTest, DevicesAreApart) {
  const std::string first = "GPU-00000000-0000-0000-0000-00000000000a",
                    second = "GPU-00000000-0000-0000-0000-00000000000b";
  const Settings two = {
      {"SOFTCUDA_DEVICES", "2"},         {"SOFTCUDA_UUID_0", first},
      {"SOFTCUDA_UUID_1", second},       {"SOFTCUDA_MEMORY_1", "64MiB"},
      {"SOFTCUDA_NAME_1", "the second"}, {"SOFTCUDA_FAULTS", "device:0@launch=lost"}};
  InChild(two, [&] {
    Device device(second);
    EXPECT_EQ(device->properties().model, "the second");
    EXPECT_EQ(device->properties().memory_bytes, uint64_t{64} << 20);
    EXPECT_EQ(device.Launch(device.stream(), Must(device->Allocate(8000)), 1000), absl::OkStatus());
    EXPECT_EQ(device.Drain(), absl::OkStatus());
  });
  InChild(two, [&] {
    Device device(first);
    EXPECT_EQ(device->properties().memory_bytes, uint64_t{1} << 30);
    (void)device.Launch(device.stream(), Must(device->Allocate(8000)), 1000);
    EXPECT_EQ(device.Drain().code(), absl::StatusCode::kUnavailable);
  });
}

TEST_F(ScriptedCudaRuntimeTest, WithoutADriverItSaysSo) {
  InChild({{"SOFTCUDA_FAULTS", "init=no_driver"}}, [&] {
    const auto none = CudaRuntime::Open(uuid_).status();
    EXPECT_THAT(std::string(none.message()), HasSubstr("driver is not there"));
  });
  InChild({{"SOFTCUDA_FAULTS", "init=insufficient_driver"}}, [&] {
    const auto old = CudaRuntime::Open(uuid_).status();
    EXPECT_EQ(ReasonOf(old), reason::kVersionSkew);
    EXPECT_THAT(std::string(old.message()), HasSubstr("too old"));
  });
}

TEST_F(ScriptedCudaRuntimeTest, LeavesNothingBehind) {
  const std::string path = testing::TempDir() + "/cuda_runtime_test.stats";
  InChild({{"SOFTCUDA_STATS", path}}, [&] {
    Device device(uuid_);
    const DeviceAddress memory = Must(device->Allocate(8000));
    ASSERT_EQ(device.Launch(device.stream(), memory, 1000), absl::OkStatus());
    (void)Must(device->NewEvent());
    EXPECT_EQ(device.Drain(), absl::OkStatus());
  });
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_THAT(text.str(), AllOf(HasSubstr("device 0 launches 1\n"),
                                HasSubstr("device 0 unfreed_allocations 0\n"),
                                HasSubstr("host unfreed_allocations 0\n")));
}

}  // namespace
}  // namespace tandem::worker
