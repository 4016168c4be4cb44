#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/error.h"
#include "tests/support/fake_kernels.h"
#include "tests/worker/device/emulated_fixture.h"

namespace tandem::worker {
namespace {

using ::tandem::testing::FakeKernel;

// A kernel that writes a byte a task, so many bytes from where it should.
struct OneArg {
  uint8_t* out;
};
template <int64_t kOff = 0>
TandemKernelV1 Writer() {
  TandemKernelV1 kernel = *FakeKernel("double_it");
  kernel.args_bytes = sizeof(OneArg);
  kernel.name = "writer";
  kernel.range = [](const TandemPart* parts, int32_t count, void*) {
    for (int32_t p = 0; p < count; ++p) {
      for (int64_t i = 0; i < parts[p].tasks; ++i) {
        static_cast<const OneArg*>(parts[p].args)->out[parts[p].first.row + i + kOff] = 1;
      }
    }
    return int64_t{0};
  };
  return kernel;
}

class EmulatedMemoryTest : public EmulatedGpuTest {
 protected:
  // Runs a kernel with one output of `bytes`, over `tasks` tasks.
  absl::Status RunWriter(const TandemKernelV1& kernel, int64_t tasks, uint8_t* out) {
    const OneArg args = {out};
    const TandemPart part = {&args, {0, 0}, tasks, nullptr, nullptr};
    absl::Status status = gpu_->LaunchGrid(stream_, {&kernel, {&part, 1}});
    return status.ok() ? Drain() : status;
  }
};

TEST_F(EmulatedMemoryTest, TheBudgetIsHard) {
  EmulatedOptions options;
  options.memory_bytes = 1000;
  Make(options);
  const DeviceAddress a = Must(gpu_->Allocate(600));
  const auto refused = gpu_->Allocate(401);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(refused.status()), "OUT_OF_MEMORY");
  EXPECT_EQ(gpu_->FreeBytes(), 400u);
  EXPECT_TRUE(gpu_->Allocate(400).ok());
  EXPECT_TRUE(gpu_->Free(a).ok());
  EXPECT_FALSE(gpu_->Free(a).ok());
  EXPECT_TRUE(gpu_->Allocate(600).ok());
  EXPECT_TRUE(gpu_->health().ok());  // none of it is sticky
}

TEST_F(EmulatedMemoryTest, TheHostCannotFollowADevicesAddress) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Make();
  const DeviceAddress address = Must(gpu_->Allocate(64));
  EXPECT_DEATH(
      {
        volatile uint8_t* inside = static_cast<uint8_t*>(address.ForKernel());
        *inside = 1;
      },
      "");
}

TEST_F(EmulatedMemoryTest, AGridThatIsGivenAHostPointerIsAStickyError) {
  Make();
  const TandemKernelV1 kernel = Writer<>();
  std::vector<uint8_t> host(100, 7);
  const absl::Status status = RunWriter(kernel, 100, host.data());
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  EXPECT_EQ(ReasonOf(status), "DEVICE_FAULT");
  EXPECT_EQ(host, std::vector<uint8_t>(100, 7));
  EXPECT_EQ(gpu_->health(), status);
  EXPECT_EQ(gpu_->Allocate(1).status(), status);
  EXPECT_EQ(gpu_->Fill(stream_, {1}, 0, 1), status);
}

TEST_F(EmulatedMemoryTest, AGridThatWritesOutOfBoundsIsAStickyError) {
  Make();
  const TandemKernelV1 far = Writer<100'000>();
  const DeviceAddress out = Must(gpu_->Allocate(100));
  EXPECT_EQ(RunWriter(far, 100, static_cast<uint8_t*>(out.ForKernel())).code(),
            absl::StatusCode::kInternal);
}

TEST_F(EmulatedMemoryTest, AByteBehindAnAllocationIsFoundToo) {
  Make();
  const TandemKernelV1 near = Writer<>();
  const DeviceAddress out = Must(gpu_->Allocate(100));
  EXPECT_EQ(RunWriter(near, 100, static_cast<uint8_t*>(out.ForKernel())), absl::OkStatus());
  EXPECT_EQ(RunWriter(near, 101, static_cast<uint8_t*>(out.ForKernel())).code(),
            absl::StatusCode::kInternal);
}

TEST_F(EmulatedMemoryTest, AGridThatUsesFreedMemoryIsAStickyError) {
  Make();
  const TandemKernelV1 kernel = Writer<>();
  const DeviceAddress out = Must(gpu_->Allocate(100));
  ASSERT_TRUE(gpu_->Free(out).ok());
  EXPECT_EQ(RunWriter(kernel, 100, static_cast<uint8_t*>(out.ForKernel())).code(),
            absl::StatusCode::kInternal);
}

TEST_F(EmulatedMemoryTest, CopiesAreCheckedWhenTheyAreAskedFor) {
  Make();
  const DeviceAddress there = Must(gpu_->Allocate(100));
  auto* pinned = Pinned<uint8_t>(100);
  std::vector<uint8_t> pageable(100);
  EXPECT_EQ(gpu_->CopyUp(stream_, there, pageable.data(), 100).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(gpu_->CopyDown(stream_, pinned + 1, there, 100).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(gpu_->CopyUp(stream_, there + 1, pinned, 100).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(gpu_->CopyUp(stream_, there, pinned, 100).ok());
  EXPECT_EQ(Drain(), absl::OkStatus());
}

}  // namespace
}  // namespace tandem::worker
