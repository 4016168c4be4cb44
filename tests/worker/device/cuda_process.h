// Tests of what uses CUDA: each in a process of its own, since CUDA starts once a process and an
// error may stay. On softcuda (tests/softcuda) with settings of its own, or on a real device.
//
//   InChild({{"SOFTCUDA_FAULTS", "malloc:1=oom"}}, [] { EXPECT_FALSE(…); });
//
// Thread-safety: one thread, which itself must not use CUDA.
#ifndef TANDEM_TESTS_WORKER_DEVICE_CUDA_PROCESS_H_
#define TANDEM_TESTS_WORKER_DEVICE_CUDA_PROCESS_H_

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "worker/device/cuda/device_list.h"

namespace tandem::worker {

using Settings = std::vector<std::pair<std::string, std::string>>;

inline bool OnSoftcuda() { return std::getenv("TANDEM_TEST_SOFTCUDA") != nullptr; }

// Runs body in a child with these variables of the environment; its failures are the test's.
inline void InChild(const Settings& settings, const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (const auto& [name, value] : settings) setenv(name.c_str(), value.c_str(), 1);
    body();
    std::fflush(nullptr);
    std::exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
      << "the test's process failed: status " << status;
}

// The first device's UUID, or "" where there is none.
inline std::string FirstUuid() {
  int ends[2];
  if (pipe(ends) != 0) return "";
  const pid_t child = fork();
  if (child == 0) {
    const auto devices = ListCudaDevices("");
    const std::string uuid = devices.ok() && !devices->empty() ? devices->front().uuid : "";
    _exit(write(ends[1], uuid.data(), uuid.size()) == static_cast<ssize_t>(uuid.size()) ? 0 : 1);
  }
  close(ends[1]);
  char text[64];
  const ssize_t size = read(ends[0], text, sizeof text);
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return size > 0 ? std::string(text, static_cast<size_t>(size)) : "";
}

// A test that needs a device, real or not.
class CudaProcessTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { uuid_ = FirstUuid(); }
  void SetUp() override {
    if (uuid_.empty()) GTEST_SKIP() << "skipped: no CUDA device";
  }

  inline static std::string uuid_;
};

// A test that needs a script of faults, which only softcuda follows.
class SoftcudaTest : public CudaProcessTest {
 protected:
  void SetUp() override {
    if (!OnSoftcuda()) GTEST_SKIP() << "skipped: it needs faults by script, which softcuda has";
  }
};

}  // namespace tandem::worker

#endif  // TANDEM_TESTS_WORKER_DEVICE_CUDA_PROCESS_H_
