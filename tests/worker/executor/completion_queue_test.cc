#include "worker/executor/completion_queue.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::worker {
namespace {

using ::testing::ElementsAre;

// What a loop sleeps on; it outlives the queue, as the executor's channel does.
class Bell {
 public:
  void Ring() {
    absl::MutexLock lock(&mu_);
    rung_ = true;
  }
  void Await() {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&rung_));
    rung_ = false;
  }

 private:
  absl::Mutex mu_;
  bool rung_ ABSL_GUARDED_BY(mu_) = false;
};

TEST(CompletionQueueTest, RunsWhatWasPushedInThatOrder) {
  int wakes = 0;
  CompletionQueue queue([&] { ++wakes; });
  std::vector<int> ran;
  EXPECT_FALSE(queue.Drain());
  for (int i = 0; i < 3; ++i) queue.Push([&ran, i] { ran.push_back(i); });
  EXPECT_TRUE(queue.Drain());
  EXPECT_THAT(ran, ElementsAre(0, 1, 2));
  EXPECT_FALSE(queue.Drain());
  EXPECT_EQ(wakes, 0);  // nobody slept
}

TEST(CompletionQueueTest, WakesASleeperOnceAndNobodyElse) {
  int wakes = 0;
  int ran = 0;
  CompletionQueue queue([&] { ++wakes; });
  queue.Push([&] { ++ran; });
  EXPECT_FALSE(queue.PrepareToSleep());  // something is there
  queue.Drain();
  EXPECT_TRUE(queue.PrepareToSleep());
  queue.Push([&] { ++ran; });
  queue.Push([&] { ++ran; });
  EXPECT_EQ(wakes, 1);
  queue.Awake();
  EXPECT_TRUE(queue.Drain());
  EXPECT_EQ(ran, 3);
  EXPECT_TRUE(queue.PrepareToSleep());
  queue.Awake();  // of itself
  queue.Push([&] { ++ran; });
  EXPECT_EQ(wakes, 1);
}

TEST(CompletionQueueTest, WhatWasNotRunIsDropped) {
  auto held = std::make_shared<int>();
  {
    CompletionQueue queue([] {});
    queue.Push([held] {});
    EXPECT_EQ(held.use_count(), 2);
  }
  EXPECT_EQ(held.use_count(), 1);
}

// The loop is done with the queue as soon as it has what was pushed, and frees it: whoever pushed
// may have to return still. ThreadSanitizer and AddressSanitizer see any use after that.
TEST(CompletionQueueTest, MayGoAsSoonAsItsLastPushWasTaken) {
  Bell bell;
  std::atomic<CompletionQueue*> next = nullptr;
  constexpr int kQueues = 300;
  std::thread pusher([&] {
    for (int i = 0; i < kQueues; ++i) {
      CompletionQueue* queue = nullptr;
      while ((queue = next.exchange(nullptr)) == nullptr) std::this_thread::yield();
      queue->Push([] {});
    }
  });
  for (int i = 0; i < kQueues; ++i) {
    auto queue = std::make_unique<CompletionQueue>([&bell] { bell.Ring(); });
    next = queue.get();
    // Half of them are asleep when it comes, as far as that can be told.
    while (!queue->Drain()) {
      if (i % 2 == 0 && queue->PrepareToSleep()) {
        bell.Await();
        queue->Awake();
      }
    }
  }
  pusher.join();
}

}  // namespace
}  // namespace tandem::worker
