// What every Store promises, held against each of them.
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "master/store/memory_store.h"
#include "master/store/sqlite_store.h"
#include "master/store/store.h"
#include "tests/master/store/store_builders.h"

namespace tandem::master {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

JobRow Job(uint64_t id, const std::string& owner, const std::string& name, uint32_t state) {
  JobRow row;
  row.id = JobId(id);
  row.owner = owner;
  row.name = name;
  row.kernel = "noop";
  row.state = state;
  return row;
}

struct FilterParts {
  const char* owner = "";
  std::vector<uint32_t> states = {};
  const char* name_prefix = "";
  std::map<std::string, std::string> labels = {};
  const char* kernel = "";
  absl::Time since = absl::InfinitePast();
};
JobFilter Filter(FilterParts parts) {
  JobFilter filter;
  filter.owner = parts.owner;
  filter.states = std::move(parts.states);
  filter.name_prefix = parts.name_prefix;
  filter.labels = std::move(parts.labels);
  filter.kernel = parts.kernel;
  filter.submitted_since = parts.since;
  return filter;
}

// A store and a way to stop and start it.
class Bench {
 public:
  virtual ~Bench() = default;
  virtual Store& store() = 0;
  virtual void Restart() = 0;
};

class MemoryBench final : public Bench {
 public:
  explicit MemoryBench(StoreLimits limits) : store_(limits) {}
  Store& store() override { return store_; }
  void Restart() override { store_.Crash(); }

 private:
  MemoryStore store_;
};

class SqliteBench final : public Bench {
 public:
  explicit SqliteBench(StoreLimits limits) {
    options_.directory = directory_.path();
    options_.limits = limits;
    Restart();
  }
  Store& store() override { return *store_; }
  void Restart() override {
    store_.reset();
    auto store = SqliteStore::Open(options_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

 private:
  ScratchDirectory directory_;
  SqliteStoreOptions options_;
  std::unique_ptr<SqliteStore> store_;
};

using MakeBench = std::function<std::unique_ptr<Bench>(StoreLimits)>;
struct Kind {
  const char* name;
  MakeBench make;
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

class StoreContract : public ::testing::TestWithParam<Kind> {
 protected:
  StoreContract() {
    limits_.page_rows_max = 10;
    limits_.page_bytes_max = 1000;
    limits_.record_bytes_max = 100000;
    bench_ = GetParam().make(limits_);
    epoch_ = *store().RaiseEpoch();
  }
  Store& store() { return bench_->store(); }
  void Append(AppendBatch batch) {
    const auto seq = store().Append(epoch_, {&batch, 1});
    ASSERT_TRUE(seq.ok()) << seq.status();
  }
  absl::Status TryAppend(AppendBatch batch) { return store().Append(epoch_, {&batch, 1}).status(); }

  StoreLimits limits_;
  std::unique_ptr<Bench> bench_;
  Epoch epoch_;
};

INSTANTIATE_TEST_SUITE_P(
    Stores, StoreContract,
    ::testing::Values(
        Kind{"Memory", [](StoreLimits l) { return std::make_unique<MemoryBench>(l); }},
        Kind{"Sqlite", [](StoreLimits l) { return std::make_unique<SqliteBench>(l); }}),
    [](const auto& info) { return info.param.name; });

TEST_P(StoreContract, BatchesGetConsecutiveNumbersAcrossAppends) {
  const AppendBatch first[] = {Records({"a"}), Records({"b", "c"}), Records({})};
  EXPECT_EQ(*store().Append(epoch_, first), 3u);
  Append(Records({"d"}));
  EXPECT_EQ(store().HeadSeq(), 4u);
  EXPECT_THAT(LogOf(store()), ElementsAre("1:a", "2:b,c", "3:", "4:d"));
}

TEST_P(StoreContract, ReadingBeginsInTheMiddleOfACommit) {
  const AppendBatch batches[] = {Records({"a"}), Records({"b"}), Records({"c"})};
  ASSERT_TRUE(store().Append(epoch_, batches).ok());
  Append(Records({"d"}));
  EXPECT_THAT(LogOf(store(), 2), ElementsAre("2:b", "3:c", "4:d"));
  EXPECT_THAT(LogOf(store(), 4), ElementsAre("4:d"));
  EXPECT_THAT(LogOf(store(), 5), IsEmpty());
}

TEST_P(StoreContract, AVisitorsErrorEndsTheReadingAndComesBack) {
  Append(Records({"a"}));
  Append(Records({"b"}));
  int visits = 0;
  const absl::Status status =
      store().ReadFrom(1, [&](uint64_t, absl::Span<const std::string_view>) {
        ++visits;
        return absl::CancelledError("enough");
      });
  EXPECT_EQ(status, absl::CancelledError("enough"));
  EXPECT_EQ(visits, 1);
}

TEST_P(StoreContract, RecordsMayHoldAnyBytes) {
  const std::string odd("\0\xff\n'\";--", 8);
  const std::string large(50000, '\x80');
  Append(Records({odd, "", large}));
  bench_->Restart();
  std::vector<std::string> read;
  ASSERT_TRUE(store()
                  .ReadFrom(1,
                            [&](uint64_t, absl::Span<const std::string_view> records) {
                              for (auto record : records) read.emplace_back(record);
                              return absl::OkStatus();
                            })
                  .ok());
  EXPECT_THAT(read, ElementsAre(odd, "", large));
}

TEST_P(StoreContract, EverythingIsThereAfterARestart) {
  AppendBatch batch = Records({"a"});
  batch.outputs = {InlineRow(7, 0, 2, "xy"), SegmentRow(7, 2, 3, 5)};
  batch.failures = {{JobId(7), {4, 1, "broken"}}};
  Append(batch);
  ASSERT_TRUE(store().Project(1, {Job(7, "ada", "a", 1)}).ok());
  bench_->Restart();
  EXPECT_EQ(store().HeadSeq(), 1u);
  EXPECT_EQ(*store().CurrentEpoch(), epoch_);
  EXPECT_THAT(LogOf(store()), ElementsAre("1:a"));
  EXPECT_EQ(store().OutputsOf(JobId(7), 0, 0, 10)->rows, batch.outputs);
  EXPECT_EQ(store().FailuresOf(JobId(7), 0, "")->rows, batch.failures);
  EXPECT_EQ(store().FindJob(JobId(7))->owner, "ada");
}

TEST_P(StoreContract, EpochsGrowAndOnlyThePresentOneMayWrite) {
  const Epoch old = epoch_;
  const Epoch present = *store().RaiseEpoch();
  EXPECT_GT(present, old);
  EXPECT_EQ(*store().CurrentEpoch(), present);
  const AppendBatch batch = Records({"stale"});
  for (const Epoch epoch : {old, Epoch(0), present.next()}) {
    const absl::Status status = store().Append(epoch, {&batch, 1}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(ReasonOf(status), reason::kStaleEpoch);
    EXPECT_EQ(ReasonOf(store().SaveSnapshot(epoch, 0, "s")), reason::kStaleEpoch);
  }
  EXPECT_EQ(store().HeadSeq(), 0u);
  EXPECT_THAT(LogOf(store()), IsEmpty());
  EXPECT_EQ(*store().LoadSnapshot(), std::nullopt);
}

TEST_P(StoreContract, NothingIsWrittenBeforeAnEpochWasRaised) {
  bench_ = GetParam().make(limits_);
  const AppendBatch batch = Records({"early"});
  EXPECT_EQ(ReasonOf(store().Append(Epoch(0), {&batch, 1}).status()), reason::kStaleEpoch);
}

TEST_P(StoreContract, AnAppendIsAllOrNothing) {
  Append(Outputs({InlineRow(1, 0, 1, "a")}));
  AppendBatch again = Records({"x"});
  again.outputs = {InlineRow(1, 1, 1, "b"), InlineRow(1, 0, 1, "again")};
  EXPECT_EQ(TryAppend(again).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(store().HeadSeq(), 1u);
  EXPECT_THAT(store().OutputsOf(JobId(1), 0, 0, 9)->rows, ElementsAre(InlineRow(1, 0, 1, "a")));
  Append(Records({"next"}));
  EXPECT_THAT(LogOf(store(), 2), ElementsAre("2:next"));
}

TEST_P(StoreContract, AFailureIsRecordedOnceAnAttempt) {
  AppendBatch batch;
  batch.failures = {{JobId(1), {3, 1, "first"}}};
  Append(batch);
  EXPECT_EQ(TryAppend(batch).code(), absl::StatusCode::kAlreadyExists);
  batch.failures[0].failure.attempt = 2;
  Append(batch);
  EXPECT_EQ(store().FailuresOf(JobId(1), 0, "")->rows.size(), 2u);
}

TEST_P(StoreContract, WhatIsOverTheLimitsIsRefused) {
  EXPECT_EQ(ReasonOf(TryAppend(Records({std::string(100001, 'x')}))), reason::kTooLarge);
  EXPECT_EQ(store().Append(epoch_, {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store().HeadSeq(), 0u);
}

TEST_P(StoreContract, ASnapshotReplacesTheLogBeforeIt) {
  for (const char* text : {"a", "b", "c", "d"}) Append(Records({text}));
  ASSERT_TRUE(store().SaveSnapshot(epoch_, 3, "state of 3").ok());
  bench_->Restart();
  const auto snapshot = store().LoadSnapshot();
  ASSERT_TRUE(snapshot.ok() && snapshot->has_value());
  EXPECT_EQ((*snapshot)->seq, 3u);
  EXPECT_EQ((*snapshot)->bytes, "state of 3");
  EXPECT_THAT(LogOf(store(), 4), ElementsAre("4:d"));
  const absl::Status gone = store().ReadFrom(
      3, [](uint64_t, absl::Span<const std::string_view>) { return absl::OkStatus(); });
  EXPECT_EQ(gone.code(), absl::StatusCode::kOutOfRange);
  Append(Records({"e"}));
  EXPECT_THAT(LogOf(store(), 4), ElementsAre("4:d", "5:e"));
}

TEST_P(StoreContract, ASnapshotInTheMiddleOfACommitKeepsWhatFollows) {
  const AppendBatch batches[] = {Records({"a"}), Records({"b"}), Records({"c"})};
  ASSERT_TRUE(store().Append(epoch_, batches).ok());
  ASSERT_TRUE(store().SaveSnapshot(epoch_, 2, "ab").ok());
  bench_->Restart();
  EXPECT_THAT(LogOf(store(), 3), ElementsAre("3:c"));
  ASSERT_TRUE(store().SaveSnapshot(epoch_, 3, "abc").ok());
  EXPECT_THAT(LogOf(store(), 4), IsEmpty());
  Append(Records({"d"}));
  bench_->Restart();
  EXPECT_THAT(LogOf(store(), 4), ElementsAre("4:d"));
}

TEST_P(StoreContract, ASnapshotGoesForwardOnlyAndNotBeyondTheHead) {
  for (const char* text : {"a", "b"}) Append(Records({text}));
  EXPECT_EQ(store().SaveSnapshot(epoch_, 3, "x").code(), absl::StatusCode::kOutOfRange);
  ASSERT_TRUE(store().SaveSnapshot(epoch_, 2, "x").ok());
  EXPECT_EQ(store().SaveSnapshot(epoch_, 1, "x").code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ((*store().LoadSnapshot())->seq, 2u);
}

TEST_P(StoreContract, OutputsOverlappingTheRangeComeInOrderOfTasks) {
  Append(Outputs({InlineRow(1, 10, 5, "c"), InlineRow(1, 0, 10, "a"), InlineRow(2, 0, 99, "other"),
                  SegmentRow(1, 20, 5, 3)}));
  OutputRow second_output = InlineRow(1, 0, 30, "second");
  second_output.output = 1;
  Append(Outputs({second_output, InlineRow(1, 15, 5, "d")}));
  const auto rows = [&](uint64_t first, uint64_t count) {
    std::vector<uint64_t> firsts;
    const auto page = store().OutputsOf(JobId(1), 0, first, count);
    for (const OutputRow& row : page->rows) {
      firsts.push_back(row.first_task);
    }
    return firsts;
  };
  EXPECT_THAT(rows(0, 100), ElementsAre(0, 10, 15, 20));
  EXPECT_THAT(rows(9, 2), ElementsAre(0, 10));
  EXPECT_THAT(rows(10, 5), ElementsAre(10));
  EXPECT_THAT(rows(12, 1), ElementsAre(10));
  EXPECT_THAT(rows(24, UINT64_MAX), ElementsAre(20));
  EXPECT_THAT(rows(25, 100), IsEmpty());
  EXPECT_THAT(rows(3, 0), IsEmpty());
  EXPECT_THAT(store().OutputsOf(JobId(1), 1, 5, 1)->rows, ElementsAre(second_output));
}

TEST_P(StoreContract, ARowKeepsEveryField) {
  OutputRow row = SegmentRow(1, 5, 6, 7);
  row.output = 3;
  row.generation = 4;
  row.skip_tasks = 9;
  row.piece_tasks = 100;
  OutputRow odd = InlineRow(2, 0, 1, std::string("\0\xff", 2));
  Append(Outputs({row, odd}));
  bench_->Restart();
  EXPECT_THAT(store().OutputsOf(JobId(1), 3, 5, 1)->rows, ElementsAre(row));
  EXPECT_THAT(store().OutputsOf(JobId(2), 0, 0, 1)->rows, ElementsAre(odd));
}

// A plain model: which (generation, row) covers each task. Pages of every size must add up to it.
TEST_P(StoreContract, PagesOfOutputsAddUpToAllRows) {
  std::minstd_rand random(12345);
  AppendBatch batch;
  std::map<uint32_t, std::vector<OutputRow>> model;
  for (uint32_t generation : {0u, 2u, 3u}) {
    for (uint64_t task = random() % 5; task < 300;) {
      const uint64_t count = 1 + random() % 20;
      if (random() % 3 > 0) {
        model[generation].push_back(
            InlineRow(1, task, count, std::string(random() % 200, 'x'), generation));
      }
      task += count;
    }
    for (const OutputRow& row : model[generation]) batch.outputs.push_back(row);
  }
  Append(batch);
  for (uint64_t begin : {0u, 1u, 7u, 150u}) {
    uint64_t next = begin;
    const uint64_t end = 290;
    int pages = 0;
    while (next < end) {
      const auto page = store().OutputsOf(JobId(1), 0, next, end - next);
      ASSERT_TRUE(page.ok()) << page.status();
      ASSERT_GT(page->next_task, next);
      ASSERT_LE(page->next_task, end);
      std::vector<OutputRow> expected;
      for (const auto& [generation, rows] : model) {
        for (const OutputRow& row : rows) {
          if (row.first_task < page->next_task && row.first_task + row.task_count > next) {
            expected.push_back(row);
          }
        }
      }
      std::sort(expected.begin(), expected.end(), [](const OutputRow& a, const OutputRow& b) {
        return std::pair(a.first_task, a.generation) < std::pair(b.first_task, b.generation);
      });
      ASSERT_EQ(page->rows, expected);
      ASSERT_LE(page->rows.size(), 3u * 11);
      next = page->next_task;
      ++pages;
    }
    EXPECT_GT(pages, 1);
  }
}

TEST_P(StoreContract, FailuresComeInPagesInOrderOfTasks) {
  AppendBatch batch;
  for (uint64_t task = 25; task > 0; --task) {
    batch.failures.push_back({JobId(1), {task, 1, "reason " + std::to_string(task)}});
  }
  batch.failures.push_back({JobId(1), {7, 2, "again"}});
  batch.failures.push_back({JobId(2), {1, 1, "other job"}});
  Append(batch);
  std::vector<std::pair<uint64_t, uint32_t>> seen;
  std::string token;
  do {
    const auto page = store().FailuresOf(JobId(1), 7, token);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LE(page->rows.size(), 7u);
    for (const FailureRow& row : page->rows) {
      seen.emplace_back(row.failure.task, row.failure.attempt);
      EXPECT_EQ(row.job, JobId(1));
    }
    token = page->next_page_token;
  } while (!token.empty());
  ASSERT_EQ(seen.size(), 26u);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_EQ(seen[7], (std::pair<uint64_t, uint32_t>(7, 2)));
  EXPECT_EQ(store().FailuresOf(JobId(1), 0, "")->rows.size(), 10u);  // The limit.
  EXPECT_EQ(store().FailuresOf(JobId(1), 1, "")->rows[0].failure.reason, "reason 1");
}

TEST_P(StoreContract, AForgottenJobIsGoneAtOnceAndItsRowsGoLittleByLittle) {
  AppendBatch batch;
  for (uint64_t i = 0; i < 1200; ++i) batch.outputs.push_back(SegmentRow(1, i, 1, 100 + i % 3));
  batch.outputs.push_back(SegmentRow(2, 0, 1, 101));
  batch.failures = {{JobId(1), {0, 1, "x"}}, {JobId(2), {0, 1, "y"}}};
  Append(batch);
  AppendBatch forget;
  forget.forgotten = {JobId(1)};
  Append(forget);
  EXPECT_THAT(store().OutputsOf(JobId(1), 0, 0, 9999)->rows, IsEmpty());
  EXPECT_THAT(store().FailuresOf(JobId(1), 0, "")->rows, IsEmpty());
  EXPECT_THAT(*store().ReferencedSegments(), ElementsAre(SegmentId(101)));
  bench_->Restart();
  EXPECT_THAT(store().OutputsOf(JobId(1), 0, 0, 9999)->rows, IsEmpty());
  int calls = 0;
  while (*store().Maintain()) ASSERT_LT(++calls, 100);
  EXPECT_EQ(store().Verify()->output_rows, 1u);
  EXPECT_EQ(store().OutputsOf(JobId(2), 0, 0, 9)->rows.size(), 1u);
  EXPECT_EQ(store().FailuresOf(JobId(2), 0, "")->rows.size(), 1u);
}

TEST_P(StoreContract, ReferencedSegmentsAreThoseOfAllRows) {
  Append(Outputs({SegmentRow(1, 0, 1, 9), InlineRow(1, 1, 1, "x"), SegmentRow(1, 2, 1, 4)}));
  Append(Outputs({SegmentRow(2, 0, 1, 9)}));
  EXPECT_THAT(*store().ReferencedSegments(), ElementsAre(SegmentId(4), SegmentId(9)));
}

TEST_P(StoreContract, HistoryKeepsEveryField) {
  JobRow row = Job(7, "ada", "näme", 3);
  row.priority = -5;
  row.task_count = 1000000000000000;
  row.done = 5;
  row.failed = 2;
  row.reason = "TASK_FAILED";
  row.submitted = absl::FromUnixNanos(1'700'000'000'123'456'789);
  row.started = row.submitted + absl::Seconds(1);
  row.labels = {{"team", "risk"}, {"odd key", "it's \"quoted\""}};
  row.spec = std::string("spec\0bytes", 10);
  ASSERT_TRUE(store().Project(0, {row}).ok());
  bench_->Restart();
  EXPECT_EQ(*store().FindJob(JobId(7)), row);
  EXPECT_EQ(store().FindJob(JobId(7))->ended, absl::InfiniteFuture());
  EXPECT_EQ(ReasonOf(store().FindJob(JobId(8)).status()), reason::kJobNotFound);
}

TEST_P(StoreContract, HistoryThatABatchBringsIsThereWithIt) {
  JobRow row = Job(7, "ada", "a", 3);
  row.spec = "the spec";
  row.labels = {{"team", "risk"}};
  AppendBatch batch;
  batch.forgotten = {JobId(7)};
  batch.history = {row};
  Append(batch);
  EXPECT_EQ(*store().FindJob(JobId(7)), row);
  bench_->Restart();
  EXPECT_EQ(*store().FindJob(JobId(7)), row);
  // What was queued for the same job before, and is written now, says the same or less.
  ASSERT_TRUE(store().Project(1, {row}).ok());
  EXPECT_EQ(*store().FindJob(JobId(7)), row);
}

TEST_P(StoreContract, AnUpdateWithoutASpecKeepsTheOldOneAndReplacesTheRest) {
  JobRow row = Job(1, "ada", "a", 1);
  row.spec = "the spec";
  row.labels = {{"old", "1"}};
  ASSERT_TRUE(store().Project(1, {row}).ok());
  row.spec.reset();
  row.state = 2;
  row.labels = {{"new", "2"}};
  ASSERT_TRUE(store().Project(2, {row}).ok());
  row.spec = "the spec";
  EXPECT_EQ(*store().FindJob(JobId(1)), row);
}

TEST_P(StoreContract, ProjectingTheSameAgainChangesNothingAndTheOldIsIgnored) {
  ASSERT_TRUE(store().Project(5, {Job(1, "ada", "a", 2)}).ok());
  ASSERT_TRUE(store().Project(5, {Job(1, "ada", "a", 2)}).ok());
  ASSERT_TRUE(store().Project(4, {Job(1, "ada", "a", 1), Job(2, "ada", "b", 1)}).ok());
  EXPECT_EQ(store().FindJob(JobId(1))->state, 2u);
  EXPECT_FALSE(store().FindJob(JobId(2)).ok());
  EXPECT_EQ(*store().ProjectedSeq(), 5u);
}

TEST_P(StoreContract, JobsAreListedNewestFirstByEveryFilter) {
  std::vector<JobRow> rows = {Job(1, "ada", "sim-1", 1), Job(2, "bob", "sim-2", 1),
                              Job(3, "ada", "fit", 2), Job(4, "ada", "sim%", 3)};
  rows[0].labels = {{"team", "x"}, {"year", "1"}};
  rows[3].labels = {{"team", "x"}};
  rows[1].kernel = "spin@00000000deadbeef";
  rows[2].kernel = "spinner";
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].submitted = absl::FromUnixSeconds(1000 + static_cast<int64_t>(i));
  }
  ASSERT_TRUE(store().Project(1, rows).ok());
  const auto ids = [&](FilterParts filter) {
    std::vector<uint64_t> result;
    const auto page = store().ListJobs(Filter(filter), 0, "");
    for (const JobRow& row : page->rows) {
      result.push_back(row.id.value());
    }
    return result;
  };
  EXPECT_THAT(ids({}), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(ids({.owner = "ada"}), ElementsAre(4, 3, 1));
  EXPECT_THAT(ids({.states = {1, 3}}), ElementsAre(4, 2, 1));
  EXPECT_THAT(ids({.name_prefix = "sim"}), ElementsAre(4, 2, 1));
  EXPECT_THAT(ids({.name_prefix = "sim%"}), ElementsAre(4));
  EXPECT_THAT(ids({.name_prefix = "SIM"}), IsEmpty());
  EXPECT_THAT(ids({.labels = {{"team", "x"}}}), ElementsAre(4, 1));
  EXPECT_THAT(ids({.labels = {{"team", "x"}, {"year", "1"}}}), ElementsAre(1));
  EXPECT_THAT(ids({.labels = {{"team", "y"}}}), IsEmpty());
  EXPECT_THAT(ids({.kernel = "noop"}), ElementsAre(4, 1));
  EXPECT_THAT(ids({.kernel = "spin"}), ElementsAre(2));
  EXPECT_THAT(ids({.kernel = "spin@"}), IsEmpty());
  EXPECT_THAT(ids({.since = absl::FromUnixSeconds(1002)}), ElementsAre(4, 3));
  EXPECT_THAT(ids({.since = absl::FromUnixSeconds(1004)}), IsEmpty());
  EXPECT_THAT(ids({.owner = "ada", .kernel = "noop", .since = absl::FromUnixSeconds(1001)}),
              ElementsAre(4));
  EXPECT_THAT(ids({.owner = "ada", .states = {1}, .name_prefix = "sim"}), ElementsAre(1));
  EXPECT_EQ(store().ListJobs(Filter({.labels = {{"year", "1"}}}), 0, "")->rows[0].labels,
            rows[0].labels);
}

TEST_P(StoreContract, JobPagesAreStableWhileNewJobsArrive) {
  std::vector<JobRow> rows;
  for (uint64_t id = 1; id <= 25; ++id) rows.push_back(Job(id, id % 2 ? "ada" : "bob", "j", 1));
  ASSERT_TRUE(store().Project(1, rows).ok());
  std::vector<uint64_t> seen;
  std::string token;
  uint64_t fresh = 100;
  do {
    const auto page = store().ListJobs(Filter({.owner = "ada"}), 4, token);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LE(page->rows.size(), 4u);
    for (const JobRow& row : page->rows) seen.push_back(row.id.value());
    ASSERT_TRUE(store().Project(2, {Job(fresh++, "ada", "new", 1)}).ok());
    token = page->next_page_token;
  } while (!token.empty());
  EXPECT_THAT(seen, ElementsAre(25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1));
}

TEST_P(StoreContract, ABadPageTokenIsNamed) {
  for (const char* token : {"x", "-1", " 1", "99999999999999999999", "1.", ".1", "1.-1"}) {
    EXPECT_EQ(ReasonOf(store().FailuresOf(JobId(1), 0, token).status()), reason::kBadPageToken)
        << token;
  }
  for (const char* token : {"x", "-1", "1.2", "99999999999999999999"}) {
    EXPECT_EQ(ReasonOf(store().ListJobs({}, 0, token).status()), reason::kBadPageToken) << token;
  }
}

TEST_P(StoreContract, AnErasedJobLeavesHistory) {
  JobRow row = Job(1, "ada", "a", 1);
  row.labels = {{"k", "v"}};
  row.spec = "s";
  ASSERT_TRUE(store().Project(1, {row}).ok());
  ASSERT_TRUE(store().EraseJob(JobId(1)).ok());
  ASSERT_TRUE(store().EraseJob(JobId(1)).ok());
  EXPECT_FALSE(store().FindJob(JobId(1)).ok());
  EXPECT_THAT(store().ListJobs(Filter({.labels = {{"k", "v"}}}), 0, "")->rows, IsEmpty());
}

TEST_P(StoreContract, AWholeStoreVerifies) {
  AppendBatch batch = Records({"a"});
  batch.outputs = {InlineRow(1, 0, 1, "x"), SegmentRow(1, 1, 1, 1)};
  Append(batch);
  Append(Records({"b"}));
  const auto report = store().Verify();
  ASSERT_TRUE(report.ok());
  EXPECT_THAT(report->problems, IsEmpty());
  EXPECT_EQ(report->commits, 2u);
  EXPECT_EQ(report->output_rows, 2u);
}

TEST(MemoryStoreTest, ALyingDiskLosesWhatWasAppendedSince) {
  MemoryStore store;
  const Epoch epoch = *store.RaiseEpoch();
  const AppendBatch kept = Records({"kept"});
  const AppendBatch lost = Records({"lost"});
  ASSERT_TRUE(store.Append(epoch, {&kept, 1}).ok());
  store.set_lying(true);
  ASSERT_TRUE(store.Append(epoch, {&lost, 1}).ok());
  EXPECT_EQ(store.HeadSeq(), 2u);
  store.Crash();
  EXPECT_THAT(LogOf(store), ElementsAre("1:kept"));
  store.set_lying(false);
  ASSERT_TRUE(store.Append(epoch, {&lost, 1}).ok());
  store.Crash();
  EXPECT_THAT(LogOf(store), ElementsAre("1:kept", "2:lost"));
}

TEST(MemoryStoreTest, AFlippedByteIsNamedBySequence) {
  MemoryStore store;
  const Epoch epoch = *store.RaiseEpoch();
  const AppendBatch batches[] = {Records({"a"}), Records({"b"})};
  ASSERT_TRUE(store.Append(epoch, {&batches[0], 1}).ok());
  ASSERT_TRUE(store.Append(epoch, {&batches[1], 1}).ok());
  store.FlipLogByte(2);
  const std::vector<std::string> log = LogOf(store);
  ASSERT_EQ(log.size(), 1u);
  EXPECT_THAT(log[0], ::testing::HasSubstr("sequence 2"));
  EXPECT_EQ(store.Verify()->problems.size(), 1u);
}

}  // namespace
}  // namespace tandem::master
