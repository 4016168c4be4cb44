#include "worker/ring/ring.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "common/base/rng.h"

namespace tandem::worker {
namespace {

constexpr size_t kCapacity = 256;

struct Ring {
  RingControl control = {};
  std::vector<char> data = std::vector<char>(kCapacity);
  RingWriter writer{&control, data.data(), kCapacity};
  RingReader reader{&control, data.data(), kCapacity};
};

TEST(RingTest, BytesComeOutInTheOrderTheyWentInForAnySizes) {
  Ring ring;
  Rng rng(7);
  std::deque<char> model;
  char next = 0;
  for (int step = 0; step < 20'000; ++step) {
    if (rng.Chance(0.5)) {
      std::string bytes(rng.Between(0, *ring.writer.Free()), ' ');
      for (char& c : bytes) c = next++;
      model.insert(model.end(), bytes.begin(), bytes.end());
      ring.writer.Append(bytes.data(), bytes.size());
      ring.writer.Publish();
    } else {
      const size_t available = *ring.reader.Available();
      ASSERT_EQ(available, model.size());
      std::string bytes(rng.Between(0, available), ' ');
      ring.reader.Copy(0, bytes.size(), bytes.data());
      ring.reader.Consume(bytes.size());
      ASSERT_EQ(bytes, std::string(model.begin(), model.begin() + bytes.size()));
      model.erase(model.begin(), model.begin() + bytes.size());
    }
    ASSERT_EQ(*ring.writer.Free(), kCapacity - model.size());
  }
}

TEST(RingTest, NothingIsSeenBeforeItIsPublished) {
  Ring ring;
  ring.writer.Append("abc", 3);
  EXPECT_EQ(*ring.reader.Available(), 0u);
  ring.writer.Publish();
  EXPECT_EQ(*ring.reader.Available(), 3u);
}

TEST(RingTest, AnImpossiblePositionOfTheOtherSideIsAnErrorOnBothSides) {
  Ring ring;
  ring.control.tail.store(kCapacity + 1);
  EXPECT_EQ(ring.reader.Available().status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ring.reader.PrepareToSleep().status().code(), absl::StatusCode::kDataLoss);
  ring.control.head.store(1);  // beyond what was written
  EXPECT_EQ(ring.writer.Free().status().code(), absl::StatusCode::kDataLoss);
}

TEST(RingTest, OnlyASleepingReaderIsWokenAndOnlyOnce) {
  Ring ring;
  ring.writer.Append("a", 1);
  ring.writer.Publish();
  EXPECT_FALSE(ring.writer.TakeSleeper());
  EXPECT_FALSE(*ring.reader.PrepareToSleep());  // something is there: stays awake
  EXPECT_FALSE(ring.writer.TakeSleeper());
  ring.reader.Consume(1);
  EXPECT_TRUE(*ring.reader.PrepareToSleep());
  ring.writer.Append("b", 1);
  ring.writer.Publish();
  EXPECT_TRUE(ring.writer.TakeSleeper());
  EXPECT_FALSE(ring.writer.TakeSleeper());
}

TEST(RingTest, AWriterWithoutSpaceIsWokenOnceThereIsSome) {
  Ring ring;
  const std::string full(kCapacity, 'x');
  ring.writer.Append(full.data(), full.size());
  ring.writer.Publish();
  EXPECT_TRUE(*ring.writer.PrepareToWait());
  ring.reader.Consume(1);
  EXPECT_TRUE(ring.reader.TakeWaiter());
  EXPECT_FALSE(ring.reader.TakeWaiter());
  EXPECT_FALSE(*ring.writer.PrepareToWait());
}

TEST(RingTest, TwoThreadsPassAMillionNumbersWithoutLossOrTear) {
  Ring ring;
  constexpr uint64_t kNumbers = 1'000'000;
  std::thread writer([&ring] {
    for (uint64_t i = 0; i < kNumbers;) {
      if (*ring.writer.Free() < sizeof(i)) {
        std::this_thread::yield();
        continue;
      }
      ring.writer.Append(reinterpret_cast<const char*>(&i), sizeof(i));
      ring.writer.Publish();
      ++i;
    }
  });
  bool in_order = true;
  for (uint64_t i = 0; i < kNumbers;) {
    if (*ring.reader.Available() < sizeof(i)) {
      std::this_thread::yield();
      continue;
    }
    uint64_t number = 0;
    ring.reader.Copy(0, sizeof(number), reinterpret_cast<char*>(&number));
    ring.reader.Consume(sizeof(number));
    in_order = in_order && number == i;
    ++i;
  }
  writer.join();
  EXPECT_TRUE(in_order);
}

}  // namespace
}  // namespace tandem::worker
