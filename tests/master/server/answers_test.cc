// Answers: in order, on a thread of their own, and none is lost at the end.
#include "master/server/answers.h"

#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace tandem::master {
namespace {

TEST(AnswersTest, AreGivenInOrderAndAllOfThemBeforeTheEnd) {
  constexpr int kAnswers = 1000;
  std::vector<int> given;
  {
    Answers answers;
    for (int i = 0; i < kAnswers; i += 2) {
      answers.Give({[&given, i] { given.push_back(i); }, [&given, i] { given.push_back(i + 1); }});
    }
  }
  ASSERT_EQ(given.size(), static_cast<size_t>(kAnswers));
  for (int i = 0; i < kAnswers; ++i) EXPECT_EQ(given[i], i);
}

TEST(AnswersTest, WhoGivesThemDoesNotWaitForThem) {
  absl::Notification go, over;
  std::thread::id by;
  Answers answers;
  answers.Give({});
  answers.Give({[&] {
    go.WaitForNotification();
    by = std::this_thread::get_id();
    over.Notify();
  }});
  go.Notify();  // Reached while the answer is being given.
  over.WaitForNotification();
  EXPECT_NE(by, std::this_thread::get_id());
}

}  // namespace
}  // namespace tandem::master
