// A test's emulated device, with one stream.
#ifndef TANDEM_TESTS_WORKER_DEVICE_EMULATED_FIXTURE_H_
#define TANDEM_TESTS_WORKER_DEVICE_EMULATED_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "worker/device/emulated/emulated_gpu.h"

namespace tandem::worker {

template <class T>
T Must(absl::StatusOr<T> value) {
  EXPECT_TRUE(value.ok()) << value.status();
  return *std::move(value);
}

class EmulatedGpuTest : public ::testing::Test {
 protected:
  void Make(EmulatedOptions options = {}, const std::string& faults = "") {
    options.faults = Must(FaultScript::Parse(faults));
    gpu_ = std::make_unique<EmulatedGpu>(options);
    stream_ = Must(gpu_->NewStream());
  }
  template <class T>
  T* Pinned(size_t count) {
    return static_cast<T*>(Must(gpu_->AllocateHost(count * sizeof(T))));
  }
  // Waits until the stream has passed all there is.
  absl::Status Drain(StreamId stream) {
    absl::Notification passed;
    absl::Status result;
    const absl::Status called = gpu_->Call(stream, [&](const absl::Status& status) {
      result = status;
      passed.Notify();
    });
    if (!called.ok()) return called;
    passed.WaitForNotification();
    return result;
  }
  absl::Status Drain() { return Drain(stream_); }

  std::unique_ptr<EmulatedGpu> gpu_;
  StreamId stream_ = 0;
};

}  // namespace tandem::worker

#endif  // TANDEM_TESTS_WORKER_DEVICE_EMULATED_FIXTURE_H_
