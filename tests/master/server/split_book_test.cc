// The book of how leases were shared out: it keeps the latest, and no more than its bounds.
#include "master/server/split_book.h"

#include "gtest/gtest.h"

namespace tandem::master {
namespace {

void Note(SplitBook* book, uint64_t job, uint64_t lease) {
  SplitBook::Noted noted;
  noted.worker = WorkerId(3);
  noted.split.job = JobId(job);
  noted.split.lease = lease;
  book->Add(noted);
}

TEST(SplitBook, KeepsTheLatestOfAJobInOrder) {
  SplitBook book;
  for (uint64_t lease = 1; lease <= SplitBook::kOfJobMax + 5; ++lease) Note(&book, 7, lease);
  const auto noted = book.Find(JobId(7));
  ASSERT_EQ(noted.size(), SplitBook::kOfJobMax);
  for (size_t i = 0; i < noted.size(); ++i) EXPECT_EQ(noted[i].split.lease, i + 6);
  book.Forget(JobId(7));
  EXPECT_TRUE(book.Find(JobId(7)).empty());
  book.Forget(JobId(8));
}

TEST(SplitBook, TheJobOfWhichNothingCameForTheLongestMakesRoom) {
  SplitBook book;
  for (uint64_t job = 1; job <= SplitBook::kJobsMax; ++job) Note(&book, job, 1);
  Note(&book, 1, 2);
  Note(&book, SplitBook::kJobsMax + 1, 1);
  EXPECT_TRUE(book.Find(JobId(2)).empty());
  EXPECT_EQ(book.Find(JobId(1)).size(), 2u);
  EXPECT_EQ(book.Find(JobId(3)).size(), 1u);
  EXPECT_EQ(book.Find(JobId(SplitBook::kJobsMax + 1)).size(), 1u);
}

}  // namespace
}  // namespace tandem::master
