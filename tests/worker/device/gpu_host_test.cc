// What the host adds to grids: partials, ragged items, work before and after.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_kernels.h"
#include "tests/worker/device/gpu_fixture.h"

namespace tandem::worker {
namespace {

using ::tandem::testing::FakeKernel;
using ::testing::ElementsAre;

struct StepArgs {
  int32_t step;
};
struct alignas(64) TallyPartial {
  uint64_t count[4];
  alignas(64) uint64_t seen;
};

TEST_F(GpuDeviceTest, AccumulatorsGatherAcrossBatchesAndStreams) {
  // `wide` is tally with a partial that is too large to travel.
  TandemKernelV1 wide = *FakeKernel("tally");
  constexpr int64_t kWide = kTravellingPartialBytesMax + 64;
  wide.partial_bytes = [](const void*, int64_t) { return kWide; };
  wide.partial_init = [](const void*, void* partial) { std::memset(partial, 0, kWide); };
  for (const TandemKernelV1* kernel : {FakeKernel("tally"), &std::as_const(wide)}) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      EmulatedOptions emulated;
      emulated.seed = seed;
      emulated.memory_bytes = 1 << 20;
      Make(emulated);
      Rng rng(seed);
      std::vector<StepArgs> args(4);
      std::vector<std::unique_ptr<Accumulator>> accumulators;
      std::vector<TallyPartial> expected(args.size());
      for (size_t job = 0; job < args.size(); ++job) {
        args[job].step = static_cast<int32_t>(job) + 1;
        accumulators.push_back(device_->NewAccumulator(kernel, &args[job]));
        expected[job] = {};
      }
      std::vector<std::unique_ptr<WaitedBatch>> batches;
      for (int b = 0; b < 20; ++b) {
        batches.push_back(std::make_unique<WaitedBatch>());
        Batch& batch = batches.back()->batch;
        batch.kernel = kernel;
        for (uint64_t i = rng.Between(1, 6); i > 0; --i) {
          const size_t job = rng.Below(args.size());
          BatchPart part;
          part.args = &args[job];
          part.first.id = static_cast<int64_t>(rng.Below(1000));
          part.tasks = static_cast<int64_t>(rng.Below(5000));
          part.accumulator = accumulators[job].get();
          for (int64_t t = part.first.id; t < part.first.id + part.tasks; ++t) {
            expected[job].count[t % 4] += job + 1;
            ++expected[job].seen;
          }
          batch.parts.push_back(part);
        }
        device_->Submit(0, &batch);
      }
      for (auto& waited : batches) {
        waited->done.WaitForNotification();
        ASSERT_TRUE(waited->batch.status.ok()) << waited->batch.status;
      }
      for (size_t job = 0; job < args.size(); ++job) {
        std::vector<uint64_t> into(kWide / sizeof(uint64_t));
        ASSERT_TRUE(CollectFrom(device_.get(), accumulators[job].get(), into.data()).ok());
        TallyPartial gathered;
        std::memcpy(&gathered, into.data(), sizeof(gathered));
        EXPECT_THAT(gathered.count, ::testing::ElementsAreArray(expected[job].count));
        EXPECT_EQ(gathered.seen, expected[job].seen);
      }
      // What the wide ones held is free again, or the next round would have no room.
      accumulators.clear();
    }
  }
}

TEST_F(GpuDeviceTest, AnAccumulatorThatGatheredNothingIsTheIdentity) {
  Make();
  const StepArgs args = {1};
  const auto accumulator = device_->NewAccumulator(FakeKernel("tally"), &args);
  TallyPartial into;
  std::memset(&into, 0xff, sizeof(into));
  ASSERT_TRUE(CollectFrom(device_.get(), accumulator.get(), &into).ok());
  EXPECT_EQ(into.count[2], 0u);
  EXPECT_EQ(into.seen, 0u);
}

// Folds are the CPU's, byte for byte, however many tasks are left out or under suspicion.
TEST_F(GpuDeviceTest, FoldsHaveTheBytesOfTheCpu) {
  Make();
  Rng rng(3);
  for (const char* name : {"float_sum", "listed"}) {
    const TandemKernelV1* kernel = FakeKernel(name);
    for (int round = 0; round < 40; ++round) {
      const size_t tasks = rng.Between(1, 200);
      const size_t grain = rng.Between(1, 20);
      std::vector<uint32_t> x(tasks);  // of either type
      for (uint32_t& value : x) {
        const float real = static_cast<float>(rng.Below(1000)) * 0.37f;
        if (kernel == FakeKernel("float_sum")) {
          std::memcpy(&value, &real, sizeof(value));
        } else {
          value = static_cast<uint32_t>(rng.Below(100)) - 20;
        }
      }
      std::vector<uint64_t> skip;
      const uint64_t first = grain * rng.Below(10) * 64;
      for (size_t i = 0; i < tasks; ++i) {
        if (rng.Chance(0.1)) skip.push_back(first + i);
      }
      const void* args = x.data();  // the only argument is a pointer
      const PartBuffer buffer = {0, x.data(), tasks * sizeof(uint32_t), false, false, 0};
      const auto bytes =
          static_cast<size_t>(kernel->partial_bytes(&args, static_cast<int64_t>(tasks)));
      std::vector<uint8_t> partial[2], fault[2];
      const bool suspect = rng.Chance(0.3);
      int64_t failed[2];
      for (int device = 0; device < 2; ++device) {
        partial[device].assign(bytes + 64, 0);
        fault[device].assign(tasks, 0);
        Batch batch;
        batch.kernel = kernel;
        BatchPart part;
        part.args = &args;
        part.first = {static_cast<int64_t>(first), 0};
        part.tasks = static_cast<int64_t>(tasks);
        part.fault = fault[device].data();
        part.buffers = absl::MakeConstSpan(&buffer, 1);
        part.partial = partial[device].data();
        part.grain = grain;
        part.suspect = suspect;
        part.skip = skip;
        batch.parts.push_back(part);
        Device* const on = device == 0 ? static_cast<Device*>(cpu()) : device_.get();
        ASSERT_TRUE(RunOn(on, &batch).ok()) << batch.status;
        failed[device] = batch.parts[0].failed;
      }
      EXPECT_EQ(partial[0], partial[1]) << name << " round " << round;
      EXPECT_EQ(fault[0], fault[1]);
      EXPECT_EQ(failed[0], failed[1]);
    }
  }
}

struct Heard {
  std::string text;
  static int32_t Write(void* context, const void* bytes, int64_t size) {
    static_cast<Heard*>(context)->text.append(static_cast<const char*>(bytes),
                                              static_cast<size_t>(size));
    return 0;
  }
};

TEST_F(GpuDeviceTest, ItemsOfAllPartsAreOneGridBetweenTheirHostStages) {
  struct Args {
    const TandemBytes* text;
    const TandemSink* loud;
  };
  for (const bool suspect : {false, true}) {
    Make();
    Rng rng(9);
    constexpr size_t kParts = 6, kItems = 40;
    std::vector<std::string> texts;
    std::vector<TandemBytes> bytes;
    std::vector<Heard> heard(kParts * kItems);
    std::vector<TandemSink> sinks;
    for (size_t i = 0; i < heard.size(); ++i) {
      texts.push_back(std::string(rng.Chance(0.1) ? 0 : rng.Below(3000), 'a'));
    }
    for (size_t i = 0; i < heard.size(); ++i) {
      bytes.push_back({reinterpret_cast<const uint8_t*>(texts[i].data()),
                       static_cast<int64_t>(texts[i].size())});
      sinks.push_back({&Heard::Write, &heard[i]});
    }
    std::vector<Args> args(kParts);
    std::vector<std::array<PartBuffer, 2>> buffers(kParts);
    std::vector<uint8_t> fault(heard.size());
    const uint64_t skip[] = {3, 4};
    Batch batch;
    batch.kernel = FakeKernel("shout");
    for (size_t p = 0; p < kParts; ++p) {
      args[p] = {&bytes[p * kItems], &sinks[p * kItems]};
      buffers[p] = {{{0, &bytes[p * kItems], kItems * sizeof(TandemBytes), false, true, 0},
                     {8, &sinks[p * kItems], kItems * sizeof(TandemSink), true, true, 0}}};
      BatchPart part;
      part.args = &args[p];
      part.tasks = kItems;
      part.fault = &fault[p * kItems];
      part.buffers = buffers[p];
      part.grain = 8;
      part.suspect = suspect;
      part.skip = skip;
      batch.parts.push_back(part);
    }
    ASSERT_TRUE(Run(&batch).ok()) << batch.status;
    uint64_t items = 0;
    for (size_t i = 0; i < heard.size(); ++i) {
      const bool skipped = i % kItems == 3 || i % kItems == 4;
      EXPECT_EQ(heard[i].text, skipped ? "" : std::string(texts[i].size(), 'A')) << i;
      EXPECT_EQ(fault[i], !skipped && texts[i].empty() ? 1 : 0);
      items += !skipped && !texts[i].empty();
    }
    EXPECT_EQ(gpu_->counters().launches, suspect ? items : 1u);
    EXPECT_EQ(gpu_->counters().copies_up, 1u);
    EXPECT_EQ(gpu_->counters().copies_down, 1u);
    EXPECT_GT(batch.host_ns, 0);
    EXPECT_TRUE(log_.running().empty());
  }
}

// What could not be prepared has a place in the grid, with nothing of an earlier batch in it.
TEST_F(GpuDeviceTest, ItemsThatCannotBePreparedFailAlone) {
  static const TandemKernelV1* const shout = FakeKernel("shout");
  TandemKernelV1 picky = *shout;
  picky.prepare = [](const void* args, TandemTask task, const void* shape, const TandemStage* stage,
                     void* work) -> int32_t {
    const auto* text = *static_cast<const TandemBytes* const*>(args);
    if (text[task.row].data[0] == '?') return 1;
    return shout->prepare(args, task, shape, stage, work);
  };
  struct Args {
    const TandemBytes* text;
    const TandemSink* loud;
  };
  Make();
  constexpr size_t kItems = 30;
  for (size_t round = 0; round < 20; ++round) {
    const std::string bad = "?no", good(500, 'a');
    std::vector<Heard> heard(kItems);
    std::vector<TandemBytes> bytes;
    std::vector<TandemSink> sinks;
    const auto is_bad = [round](size_t i) { return (i + round) % 3 != 0; };
    for (size_t i = 0; i < kItems; ++i) {
      const std::string& text = is_bad(i) ? bad : good;
      bytes.push_back(
          {reinterpret_cast<const uint8_t*>(text.data()), static_cast<int64_t>(text.size())});
      sinks.push_back({&Heard::Write, &heard[i]});
    }
    Args args = {bytes.data(), sinks.data()};
    const std::array<PartBuffer, 2> buffers = {
        {{0, bytes.data(), kItems * sizeof(TandemBytes), false, true, 0},
         {8, sinks.data(), kItems * sizeof(TandemSink), true, true, 0}}};
    std::vector<uint8_t> fault(kItems);
    Batch batch;
    batch.kernel = &picky;
    BatchPart part;
    part.args = &args;
    part.tasks = kItems;
    part.fault = fault.data();
    part.buffers = buffers;
    part.grain = 8;
    batch.parts.push_back(part);
    ASSERT_TRUE(Run(&batch).ok()) << batch.status;
    for (size_t i = 0; i < kItems; ++i) {
      EXPECT_EQ(fault[i], is_bad(i) ? 1 : 0) << i;
      EXPECT_EQ(heard[i].text, is_bad(i) ? "" : std::string(500, 'A')) << i;
    }
  }
}

// A kernel that reads items on the device: the table and what it points to are copied.
struct LengthArgs {
  const TandemBytes* text;
  uint64_t* sum;
};
int64_t SumItems(const TandemPart* parts, int32_t count, void*) {
  for (int32_t p = 0; p < count; ++p) {
    const auto* args = static_cast<const LengthArgs*>(parts[p].args);
    for (int64_t i = parts[p].first.row; i < parts[p].first.row + parts[p].tasks; ++i) {
      args->sum[i] = 0;
      for (int64_t j = 0; j < args->text[i].size; ++j) args->sum[i] += args->text[i].data[j];
    }
  }
  return 0;
}

TEST_F(GpuDeviceTest, ItemsCanBeReadByTheGridItself) {
  Make();
  TandemKernelV1 kernel = *FakeKernel("double_it");
  kernel.fault_count = 1;
  kernel.range = &SumItems;
  const std::vector<std::string> texts = {"", "abc", std::string(5000, '\1')};
  std::vector<TandemBytes> bytes;
  for (const std::string& text : texts) {
    bytes.push_back(
        {reinterpret_cast<const uint8_t*>(text.data()), static_cast<int64_t>(text.size())});
  }
  std::vector<uint64_t> sum(3, 1);
  const LengthArgs args = {bytes.data(), sum.data()};
  const PartBuffer buffers[] = {{0, bytes.data(), 3 * sizeof(TandemBytes), false, true, 0},
                                {8, sum.data(), 3 * sizeof(uint64_t), true, false, 0}};
  Batch batch;
  batch.kernel = &kernel;
  BatchPart part;
  part.args = &args;
  part.tasks = 3;
  part.buffers = buffers;
  batch.parts.push_back(part);
  ASSERT_TRUE(Run(&batch).ok()) << batch.status;
  EXPECT_THAT(sum, ElementsAre(0, 'a' + 'b' + 'c', 5000));
}

TEST_F(GpuDeviceTest, HostWorkStandsAroundTheGrid) {
  Make();
  DoublePart data(3000);
  std::fill(data.x.begin(), data.x.end(), 0);
  Batch batch;
  batch.kernel = FakeKernel("double_it");
  batch.parts.push_back(data.Part());
  float last = 0;
  batch.before = [&](HostCrew& crew) {
    crew.ParallelFor(3000, 10, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) data.x[static_cast<size_t>(i)] = 3;
    });
  };
  batch.after = [&](HostCrew&) { last = data.y[2999]; };
  ASSERT_TRUE(Run(&batch).ok());
  EXPECT_EQ(last, 6);
}

}  // namespace
}  // namespace tandem::worker
