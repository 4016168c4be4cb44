// What the engine makes of a device's three lines, in virtual time.
#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "common/base/rng.h"
#include "gtest/gtest.h"
#include "tests/support/fake_kernels.h"
#include "tests/worker/device/gpu_fixture.h"
#include "worker/device/gpu/gpu_engine.h"

namespace tandem::worker {
namespace {

using ::tandem::testing::FakeKernel;

// Seconds of one batch on each line.
struct Load {
  double up, grid, down;
};

constexpr double kBytesPerSecond = 1e6;
constexpr double kCores = 10;

// A batch of one task that is a load, and its memory.
struct LoadedBatch {
  LoadedBatch(const Load& load, const TandemKernelV1* kernel)
      : x(static_cast<size_t>(load.up * kBytesPerSecond / sizeof(float))),
        y(static_cast<size_t>(load.down * kBytesPerSecond / sizeof(float))),
        args{x.data(), y.data()} {
    buffers[0] = {0, x.data(), x.size() * sizeof(float), false, false, 0};
    buffers[1] = {8, y.data(), y.size() * sizeof(float), true, false, 0};
    batch.kernel = kernel;
    batch.expected_ns = load.grid * kCores * 1e9;
    BatchPart part;
    part.args = &args;
    part.tasks = 1;
    part.buffers = buffers;
    batch.parts.push_back(part);
  }

  std::vector<float> x, y;
  DoubleArgs args;
  PartBuffer buffers[2];
  Batch batch;
};

// What the lines had to do, from the bytes that were copied.
void AddLoaded(const EmulatedSpeed& speed, const Batch& batch, Load* loaded) {
  loaded->up +=
      speed.copy_fixed_seconds + static_cast<double>(batch.bytes_up) / speed.copy_bytes_per_second;
  loaded->grid += speed.launch_seconds + batch.expected_ns * 1e-9 / speed.cores;
  loaded->down += speed.copy_fixed_seconds +
                  static_cast<double>(batch.bytes_down) / speed.copy_bytes_per_second;
}

// What the batch says that it took.
void AddSaid(const Batch& batch, Load* said) {
  said->up += static_cast<double>(batch.up_ns) * 1e-9;
  said->grid += static_cast<double>(batch.grid_ns) * 1e-9;
  said->down += static_cast<double>(batch.down_ns) * 1e-9;
}

class OverlapTest : public ::testing::Test {
 protected:
  // The time that all of them take, submitted at once.
  double Run(const std::vector<Load>& loads, uint64_t seed, Load* loaded, Load* said) {
    EmulatedOptions options;
    options.clock = EmulatedClock::kVirtual;
    options.seed = seed;
    options.speed.cores = kCores;
    options.speed.copy_bytes_per_second = kBytesPerSecond;
    EmulatedGpu gpu(options);
    SoloCrew crew(0);
    std::deque<std::function<void()>> inbox;  // one thread: virtual time moves when we say
    GridLog log;
    GpuEngineOptions small;
    small.extent_bytes = 1 << 20;
    GpuEngine engine(
        &gpu, small, &log, [&](std::function<void()> f) { inbox.push_back(std::move(f)); },
        [&](const std::function<void(Crew&)>& f) { f(crew); });
    EXPECT_TRUE(engine.Start().ok());
    std::vector<std::unique_ptr<LoadedBatch>> all;
    size_t done = 0;
    TandemKernelV1 kernel = *FakeKernel("double_it");
    kernel.fault_count = 1;
    for (const Load& load : loads) {
      all.push_back(std::make_unique<LoadedBatch>(load, &kernel));
      all.back()->batch.done = [&](Batch* batch) {
        EXPECT_TRUE(batch->status.ok()) << batch->status;
        ++done;
      };
      engine.Submit(&all.back()->batch);
    }
    const double end = Drive(&gpu, &inbox, [&] { return done == loads.size(); });
    for (const auto& loaded_batch : all) {
      AddLoaded(options.speed, loaded_batch->batch, loaded);
      AddSaid(loaded_batch->batch, said);
    }
    return end;
  }

  // Lets time go on until all is done; returns it.
  static double Drive(EmulatedGpu* gpu, std::deque<std::function<void()>>* inbox,
                      const std::function<bool()>& all_done) {
    double now = 0;
    while (true) {
      while (!inbox->empty()) {
        const std::function<void()> f = std::move(inbox->front());
        inbox->pop_front();
        f();
      }
      if (all_done()) return now;
      now = gpu->next();
      if (now == Timeline::kNever) {
        ADD_FAILURE() << "it stands still";
        return now;
      }
      gpu->AdvanceTo(now);
    }
  }

  // Longest line over time taken.
  double Overlap(const std::vector<Load>& loads, uint64_t seed) {
    Load sum = {0, 0, 0}, said = {0, 0, 0};
    const double took = Run(loads, seed, &sum, &said);
    // Batches say what their lines did, without what they waited for each other.
    EXPECT_NEAR(said.up / sum.up, 1, 0.03);
    EXPECT_NEAR(said.grid / sum.grid, 1, 0.03);
    EXPECT_NEAR(said.down / sum.down, 1, 0.03);
    return std::max({sum.up, sum.grid, sum.down}) / took;
  }
};

TEST_F(OverlapTest, CopiesAndGridsOfDifferentBatchesOverlap) {
  const Load loads[] = {{5e-3, 5e-3, 5e-3}, {9e-3, 2e-3, 1e-3}, {1e-3, 9e-3, 1e-3},
                        {1e-3, 2e-3, 9e-3}, {5e-3, 6e-3, 1e-3}, {5e-3, 1e-3, 5e-3}};
  for (const Load& load : loads) {
    EXPECT_GE(Overlap(std::vector<Load>(400, load), 1), 0.98)
        << load.up << " " << load.grid << " " << load.down;
  }
}

TEST_F(OverlapTest, UnevenBatchesToo) {
  double worst = 1;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Rng rng(seed);
    // A line that binds, and batches that are up to three times as long as others.
    const double up = 1e-3 * static_cast<double>(rng.Between(1, 9));
    const double grid = 1e-3 * static_cast<double>(rng.Between(1, 9));
    const double down = 1e-3 * static_cast<double>(rng.Between(1, 9));
    std::vector<Load> loads;
    for (int i = 0; i < 300; ++i) {
      const double size = 0.5 + static_cast<double>(rng.Below(1000)) / 1000;
      loads.push_back({up * size, grid * size, down * size});
    }
    worst = std::min(worst, Overlap(loads, seed));
  }
  RecordProperty("worst", std::to_string(worst));
  std::printf("overlap, worst of 40 seeds: %.3f\n", worst);
  EXPECT_GE(worst, 0.98);
}

}  // namespace
}  // namespace tandem::worker
