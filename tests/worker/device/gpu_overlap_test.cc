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

class OverlapTest : public ::testing::Test {
 protected:
  static constexpr double kBytesPerSecond = 1e6;
  static constexpr double kCores = 10;

  // The time that all of them take, submitted at once. `loaded`: what the lines had to do, from the
  // bytes that were copied; `said`: what batches say that they took.
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
    struct Data {
      std::vector<float> x, y;
      DoubleArgs args;
      PartBuffer buffers[2];
      Batch batch;
    };
    std::vector<std::unique_ptr<Data>> all;
    size_t done = 0;
    TandemKernelV1 kernel = *FakeKernel("double_it");
    kernel.fault_count = 1;
    for (const Load& load : loads) {
      all.push_back(std::make_unique<Data>());
      Data& data = *all.back();
      data.x.resize(static_cast<size_t>(load.up * kBytesPerSecond / sizeof(float)));
      data.y.resize(static_cast<size_t>(load.down * kBytesPerSecond / sizeof(float)));
      data.args = {data.x.data(), data.y.data()};
      data.buffers[0] = {0, data.x.data(), data.x.size() * sizeof(float), false, false, 0};
      data.buffers[1] = {8, data.y.data(), data.y.size() * sizeof(float), true, false, 0};
      data.batch.kernel = &kernel;
      data.batch.expected_ns = load.grid * kCores * 1e9;
      BatchPart part;
      part.args = &data.args;
      part.tasks = 1;
      part.buffers = data.buffers;
      data.batch.parts.push_back(part);
      data.batch.done = [&](Batch* batch) {
        EXPECT_TRUE(batch->status.ok()) << batch->status;
        ++done;
      };
      engine.Submit(&data.batch);
    }
    double now = 0;
    while (done < loads.size()) {
      while (!inbox.empty()) {
        const std::function<void()> f = std::move(inbox.front());
        inbox.pop_front();
        f();
      }
      if (done == loads.size()) break;
      now = gpu.next();
      if (now == Timeline::kNever) {
        ADD_FAILURE() << "it stands still";
        break;
      }
      gpu.AdvanceTo(now);
    }
    for (const auto& data : all) {
      const EmulatedSpeed& speed = options.speed;
      loaded->up += speed.copy_fixed_seconds +
                    static_cast<double>(data->batch.bytes_up) / speed.copy_bytes_per_second;
      loaded->grid += speed.launch_seconds + data->batch.expected_ns * 1e-9 / speed.cores;
      loaded->down += speed.copy_fixed_seconds +
                      static_cast<double>(data->batch.bytes_down) / speed.copy_bytes_per_second;
      said->up += static_cast<double>(data->batch.up_ns) * 1e-9;
      said->grid += static_cast<double>(data->batch.grid_ns) * 1e-9;
      said->down += static_cast<double>(data->batch.down_ns) * 1e-9;
    }
    return now;
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
