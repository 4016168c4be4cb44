// Under the `tsan` preset: work that absl's locks order is not reported as a race. (That a true
// race is reported is what tsan_race_test checks.) Elsewhere it is a plain test of the same
// exchange.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace tandem {
namespace {

TEST(TsanAbslTest, AMutexOrdersItsFields) {
  absl::Mutex mu;
  int64_t sum = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 1000; ++j) {
        absl::MutexLock lock(&mu);
        ++sum;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(sum, 4000);
}

TEST(TsanAbslTest, AwaitedConditionsAreOrderedInBothDirections) {
  absl::Mutex mu;
  int turn = 0;
  auto play = [&](int me) {
    for (int i = 0; i < 200; ++i) {
      auto mine = [&] { return turn % 2 == me; };
      absl::MutexLock lock(&mu);
      mu.Await(absl::Condition(&mine));
      ++turn;
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
  EXPECT_EQ(turn, 400);
}

TEST(TsanAbslTest, CondVarsNotificationsAndCountersOrderWhatTheyAnnounce) {
  absl::Mutex mu;
  absl::CondVar changed;
  absl::Notification done;
  absl::BlockingCounter left(2);
  bool ready = false;
  int plain = 0, parts[2] = {0, 0};
  std::thread waiter([&] {
    absl::MutexLock lock(&mu);
    while (!ready) changed.WaitWithTimeout(&mu, absl::Seconds(10));
    plain = 1;
    done.Notify();
  });
  {
    absl::MutexLock lock(&mu);
    ready = true;
    changed.SignalAll();
  }
  done.WaitForNotification();
  EXPECT_EQ(plain, 1);
  std::thread first([&] { parts[0] = 1, left.DecrementCount(); });
  std::thread second([&] { parts[1] = 1, left.DecrementCount(); });
  left.Wait();
  EXPECT_EQ(parts[0] + parts[1], 2);
  waiter.join(), first.join(), second.join();
}

}  // namespace
}  // namespace tandem
