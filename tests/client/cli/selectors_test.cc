#include "client/cli/selectors.h"

#include <gtest/gtest.h>

#include "common/base/error.h"

namespace tandem::cli {
namespace {

absl::StatusOr<std::vector<JobId>> NewestFirst() { return std::vector<JobId>{JobId(9), JobId(4)}; }

std::vector<uint64_t> Selected(std::string_view text) {
  const auto jobs = SelectJobs(text, NewestFirst);
  std::vector<uint64_t> ids;
  if (!jobs.ok()) return {0};
  for (const JobId job : *jobs) ids.push_back(job.value());
  return ids;
}

using Ids = std::vector<uint64_t>;

TEST(SelectorsTest, NamesJobsAsPeopleDo) {
  EXPECT_EQ(Selected("7"), Ids{7});
  EXPECT_EQ(Selected("1-3"), (Ids{1, 2, 3}));
  EXPECT_EQ(Selected("2-10:2"), (Ids{2, 4, 6, 8, 10}));
  EXPECT_EQ(Selected("2-9:3"), (Ids{2, 5, 8}));
  EXPECT_EQ(Selected("1,4,7-9"), (Ids{1, 4, 7, 8, 9}));
  EXPECT_EQ(Selected("last"), Ids{9});
  EXPECT_EQ(Selected("all"), (Ids{9, 4}));
  EXPECT_EQ(Selected("18446744073709551615"), Ids{~uint64_t{0}});
  EXPECT_EQ(Selected("18446744073709551614-18446744073709551615"),
            (Ids{~uint64_t{0} - 1, ~uint64_t{0}}));
}

TEST(SelectorsTest, RefusesWhatNamesNone) {
  for (const char* text : {"", "seven", "0", "-1", "3-1", "1-", "1-3:0", "1:2", "1,", "+1", "1-2-3",
                           "1-3:", "18446744073709551616", "last,1", " 1"}) {
    const auto jobs = SelectJobs(text, NewestFirst);
    ASSERT_FALSE(jobs.ok()) << text;
    EXPECT_EQ(ReasonOf(jobs.status()), "BAD_ARGUMENT") << text;
  }
}

TEST(SelectorsTest, ARangeTheWrongWayRoundIsSaidToBe) {
  const absl::Status refused = SelectJobs("1,7-3:2", NewestFirst).status();
  EXPECT_NE(refused.message().find("the end comes before the beginning; give 3-7:2"),
            absl::string_view::npos)
      << refused;
}

TEST(SelectorsTest, OneJobIsNamedByItsNumberOrAsTheLast) {
  for (const char* one : {"7", "1234", "last"}) EXPECT_TRUE(NamesOne(one)) << one;
  for (const char* many : {"1-1", "7,8", "2-10:2", "all"}) EXPECT_FALSE(NamesOne(many)) << many;
}

TEST(SelectorsTest, IsBounded) {
  const auto jobs = SelectJobs("1-100001", NewestFirst);
  EXPECT_EQ(ReasonOf(jobs.status()), "LIMIT_EXCEEDED");
  EXPECT_TRUE(SelectJobs("1-100000", NewestFirst).ok());
}

TEST(SelectorsTest, WithoutJobsThereIsNoLast) {
  const auto none = [] { return absl::StatusOr<std::vector<JobId>>(std::vector<JobId>()); };
  EXPECT_EQ(ReasonOf(SelectJobs("last", none).status()), "JOB_NOT_FOUND");
  EXPECT_TRUE(SelectJobs("all", none)->empty());
}

TEST(SelectorsTest, AsksForJobsOnlyWhereItMust) {
  const auto never = []() -> absl::StatusOr<std::vector<JobId>> {
    ADD_FAILURE() << "asked";
    return std::vector<JobId>();
  };
  EXPECT_TRUE(SelectJobs("1-3", never).ok());
}

}  // namespace
}  // namespace tandem::cli
