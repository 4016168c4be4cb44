// Records of the log and what the store appends for them.
#include "master/server/records.h"

#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/rng.h"
#include "google/protobuf/stubs/logging.h"
#include "gtest/gtest.h"
#include "master/server/commit_builder.h"
#include "tests/master/server/bind.h"

namespace tandem::master {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

OutputsHandle Outputs(std::vector<OutputPiece> pieces) {
  return std::make_shared<const CommitOutputs>(std::move(pieces));
}

std::vector<DecodedRecord> Travel(const std::vector<Record>& records) {
  RecordEncoder encoder;
  for (const Record& record : records) encoder.Add(record, kNow);
  std::vector<DecodedRecord> decoded;
  const absl::Status status = DecodeRecords(encoder.Take(), [&decoded](DecodedRecord record) {
    decoded.push_back(std::move(record));
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(encoder.empty());
  return decoded;
}

template <class R>
R TravelOne(const R& record) {
  std::vector<DecodedRecord> decoded = Travel({record});
  EXPECT_EQ(decoded.size(), 1u);
  return std::get<R>(decoded.at(0).record);
}

TEST(Records, AnAcceptedJobIsBoundAgainToTheSame) {
  const auto sent = AcceptedJob(7, "axis n, axis m -> y[n,m]:f32", {{"n", 10}, {"m", 6}}, 4, "m");
  const JobAccepted got = TravelOne(*sent);
  EXPECT_EQ(*got.bound, *sent->bound);
  EXPECT_EQ(got.request_id, "r");
  EXPECT_EQ(got.request_hash, 7u);
  EXPECT_EQ(got.submitted, sent->submitted);
  JobAccepted from_history;
  ASSERT_TRUE(DecodeJobSpec(EncodeJobSpec(*sent), &from_history).ok());
  EXPECT_EQ(*from_history.bound, *sent->bound);
}

TEST(Records, EveryOtherKindArrivesAsItWasSent) {
  LeavesDone done;
  done.job = JobId(3);
  done.leaves = {{4, 2}, {9, 1}};
  done.tasks_failed = 2;
  done.partial_id = 5;
  done.partial_tasks = 30;
  done.busy_ns = 77;
  done.outputs = Outputs({{0, std::string("abc")}, {1, Region{SegmentId(2), 64, 9, 8}}});
  const LeavesDone got = TravelOne(done);
  EXPECT_EQ(got.leaves, done.leaves);
  EXPECT_EQ(got.tasks_failed, 2u);
  EXPECT_EQ(got.partial_id, 5u);
  EXPECT_EQ(got.partial_tasks, 30u);
  EXPECT_EQ(got.busy_ns, 77u);
  EXPECT_EQ(*got.outputs, *done.outputs);

  PartialsMerged merged{JobId(3), {1, 2}, {6, {{0, 8}}, done.outputs, 60, 1}};
  const PartialsMerged got_merged = TravelOne(merged);
  EXPECT_EQ(got_merged.consumed, merged.consumed);
  EXPECT_EQ(got_merged.result.id, 6u);
  EXPECT_EQ(got_merged.result.leaves, merged.result.leaves);
  EXPECT_EQ(*got_merged.result.outputs, *done.outputs);
  EXPECT_EQ(got_merged.result.tasks, 60u);

  const LeavesRetried retried{JobId(3), {5, 1}, 2, 1, 3, true, 17, true, 44, 2};
  const LeavesRetried got_retried = TravelOne(retried);
  EXPECT_EQ(got_retried.leaves, retried.leaves);
  EXPECT_EQ(got_retried.attempt, 2u);
  EXPECT_EQ(got_retried.failures, 1u);
  EXPECT_EQ(got_retried.strikes, 3u);
  EXPECT_TRUE(got_retried.suspect);
  EXPECT_EQ(got_retried.level, 17);
  EXPECT_TRUE(got_retried.task_known);
  EXPECT_EQ(got_retried.task, 44u);
  EXPECT_EQ(got_retried.task_strikes, 2u);

  EXPECT_EQ(TravelOne(JobCancelled{JobId(3)}).job, JobId(3));
  EXPECT_EQ(TravelOne(JobDeleted{JobId(4)}).job, JobId(4));
  EXPECT_EQ(TravelOne(WorkerKnown{WorkerId(1), "w"}).name, "w");
  EXPECT_EQ(TravelOne(WorkerForgotten{WorkerId(2)}).worker, WorkerId(2));
  EXPECT_EQ(TravelOne(IdsIssued{JobId(9), WorkerId(8)}).worker, WorkerId(8));
  const auto kernel = std::make_shared<const KernelInfo>(KernelOf("axis n -> v[n]:u64"));
  EXPECT_EQ(*TravelOne(KernelAnnounced{kernel}).kernel, *kernel);

  const std::vector<DecodedRecord> ended =
      Travel({JobEnded{JobId(3), static_cast<uint8_t>(JobState::kFailed), "why"}});
  EXPECT_EQ(std::get<JobEnded>(ended[0].record).state, static_cast<uint8_t>(JobState::kFailed));
  EXPECT_EQ(std::get<JobEnded>(ended[0].record).reason, "why");
  EXPECT_EQ(ended[0].ended, kNow);
}

LeavesDone Done(uint64_t job, LeafInterval leaves, OutputsHandle outputs = nullptr) {
  LeavesDone done;
  done.job = JobId(job);
  done.leaves = {leaves};
  done.covered = {leaves};
  done.outputs = std::move(outputs);
  done.busy_ns = 10;
  return done;
}

TEST(Records, CommitsOfOneJobBecomeOneRecord) {
  std::vector<Record> records;
  for (uint64_t leaf = 0; leaf < 1000; ++leaf) records.push_back(Done(1, {leaf, 1}));
  records.push_back(Done(1, {2000, 5}));
  records.push_back(Done(2, {0, 1}));
  records.push_back(Done(2, {5, 1}));
  records.push_back(Done(2, {3, 1}));  // Goes back: a record of its own.
  const std::vector<DecodedRecord> got = Travel(records);
  ASSERT_EQ(got.size(), 3u);
  EXPECT_EQ(std::get<LeavesDone>(got[0].record).leaves, (LeafIntervals{{0, 1000}, {2000, 5}}));
  EXPECT_EQ(std::get<LeavesDone>(got[0].record).busy_ns, 10'010u);
  EXPECT_EQ(std::get<LeavesDone>(got[1].record).leaves, (LeafIntervals{{0, 1}, {5, 1}}));
  EXPECT_EQ(std::get<LeavesDone>(got[2].record).leaves, (LeafIntervals{{3, 1}}));
}

TEST(Records, DamageAndNewerFormatsAreToldApart) {
  RecordEncoder encoder;
  encoder.Add(JobCancelled{JobId(1)}, kNow);
  const std::string good = encoder.Take();
  const auto ignore = [](DecodedRecord) { return absl::OkStatus(); };
  EXPECT_EQ(ReasonOf(DecodeRecords("\xff\xff", ignore)), reason::kStoreCorrupt);
  journal::v1::Records records;
  ASSERT_TRUE(records.ParseFromString(good));
  records.set_format_major(2);
  EXPECT_EQ(ReasonOf(DecodeRecords(records.SerializeAsString(), ignore)), reason::kVersionSkew);
  records.set_format_major(1);
  records.add_records();
  EXPECT_EQ(ReasonOf(DecodeRecords(records.SerializeAsString(), ignore)), reason::kStoreCorrupt);
}

TEST(Records, RandomDamageDoesNoHarm) {
  google::protobuf::LogSilencer quiet;
  RecordEncoder encoder;
  encoder.Add(*AcceptedJob(1, "axis n -> v[n]:u64", {{"n", 100}}, 1), kNow);
  encoder.Add(Done(1, {3, 4}), kNow);
  const std::string good = encoder.Take();
  Rng rng(3);
  for (int round = 0; round < 3000; ++round) {
    std::string bad = good;
    bad[rng.Below(bad.size())] = static_cast<char>(rng.Next());
    (void)DecodeRecords(bad, [](DecodedRecord) { return absl::OkStatus(); });
  }
}

class CommitBuilderTest : public ::testing::Test {
 protected:
  void Accept(std::shared_ptr<const JobAccepted> job) { board_.Accept(std::move(job)); }
  JobBoard board_;
  CommitBuilder builder_{&board_};
};

std::string U64s(std::vector<uint64_t> values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * 8);
}

TEST_F(CommitBuilderTest, AThousandLeasesAreOneRow) {
  Accept(AcceptedJob(1, "axis n -> v[n]:u64", {{"n", 5000}}, 1));
  std::string expected;
  for (uint64_t leaf = 0; leaf < 1000; ++leaf) {
    builder_.Add(Done(1, {leaf, 1}, Outputs({{0, U64s({leaf * 3})}})), kNow);
    expected += U64s({leaf * 3});
  }
  const CommitBuilder::Commit commit = builder_.Take();
  ASSERT_EQ(commit.batch.outputs.size(), 1u);
  EXPECT_EQ(commit.batch.outputs[0].task_count, 1000u);
  EXPECT_EQ(std::get<std::string>(commit.batch.outputs[0].where), expected);
  EXPECT_EQ(commit.batch.records.size(), 1u);
  EXPECT_TRUE(commit.dirty.empty());
  EXPECT_TRUE(builder_.empty());
}

TEST_F(CommitBuilderTest, RowsThatDoNotAdjoinStayApart) {
  Accept(AcceptedJob(1, "axis n -> v[n]:u64, w[n]:u64", {{"n", 100}}, 2));
  builder_.Add(Done(1, {0, 1}, Outputs({{0, U64s({1, 2})}, {1, U64s({3, 4})}})), kNow);
  builder_.Add(Done(1, {1, 1}, Outputs({{0, U64s({5, 6})}, {1, U64s({7, 8})}})), kNow);
  builder_.Add(Done(1, {9, 1}, Outputs({{0, U64s({9, 9})}, {1, U64s({9, 9})}})), kNow);
  const CommitBuilder::Commit commit = builder_.Take();
  ASSERT_EQ(commit.batch.outputs.size(), 4u);
  EXPECT_EQ(std::get<std::string>(commit.batch.outputs[0].where), U64s({1, 2, 5, 6}));
  EXPECT_EQ(std::get<std::string>(commit.batch.outputs[1].where), U64s({3, 4, 7, 8}));
  EXPECT_EQ(commit.batch.outputs[2].first_task, 18u);
}

TEST_F(CommitBuilderTest, OnlyWhatBecameDoneIsIndexed) {
  Accept(AcceptedJob(1, "axis n -> v[n]:u64", {{"n", 100}}, 2));
  LeavesDone done = Done(1, {0, 4}, Outputs({{0, U64s({0, 1, 2, 3, 4, 5, 6, 7})}}));
  done.leaves = {{1, 1}, {3, 1}};  // Leaves 0 and 2 run again.
  builder_.Add(done, kNow);
  const Region region{SegmentId(5), 128, 64, 1};
  LeavesDone large = Done(1, {8, 4}, Outputs({{0, region}}));
  large.leaves = {{10, 2}};
  builder_.Add(large, kNow);
  const CommitBuilder::Commit commit = builder_.Take();
  ASSERT_EQ(commit.batch.outputs.size(), 3u);
  EXPECT_EQ(commit.batch.outputs[0].first_task, 2u);
  EXPECT_EQ(std::get<std::string>(commit.batch.outputs[0].where), U64s({2, 3}));
  EXPECT_EQ(std::get<std::string>(commit.batch.outputs[1].where), U64s({6, 7}));
  EXPECT_EQ(commit.batch.outputs[2].first_task, 20u);
  EXPECT_EQ(commit.batch.outputs[2].skip_tasks, 4u);
  EXPECT_EQ(commit.batch.outputs[2].piece_tasks, 8u);
  EXPECT_EQ(std::get<Region>(commit.batch.outputs[2].where), region);
  EXPECT_EQ(commit.dirty, (std::vector<SegmentExtent>{{SegmentId(5), 192}}));
}

TEST_F(CommitBuilderTest, AResultIsIndexedOnceItsJobSucceeds) {
  Accept(AcceptedJob(1, "axis n, seed:u64 = 0 -> hits:u64 : sum", {{"n", 100}}, 10));
  LeavesDone done = Done(1, {0, 10}, Outputs({{0, U64s({42})}}));
  done.partial_id = 1;
  builder_.Add(done, kNow);
  EXPECT_TRUE(builder_.Take().batch.outputs.empty());
  JobStatus status;
  status.job = JobId(1);
  status.state = JobState::kSucceeded;
  status.result = Outputs({{0, U64s({42})}});
  builder_.AddResult(status);  // Said again after a restart: its row is there already.
  EXPECT_TRUE(builder_.Take().batch.outputs.empty());
  builder_.Add(JobEnded{JobId(1), static_cast<uint8_t>(JobState::kSucceeded), ""}, kNow);
  builder_.AddResult(status);
  const CommitBuilder::Commit commit = builder_.Take();
  ASSERT_EQ(commit.batch.outputs.size(), 1u);
  EXPECT_EQ(std::get<std::string>(commit.batch.outputs[0].where), U64s({42}));
}

TEST_F(CommitBuilderTest, FailuresAndForgottenJobsGoAlong) {
  Accept(AcceptedJob(1, "axis n -> v[n]:u64", {{"n", 100}}, 2));
  LeavesDone done = Done(1, {0, 1}, Outputs({{0, U64s({0, 0})}}));
  done.failures = {{1, 0, "truncated"}};
  done.tasks_failed = 1;
  builder_.Add(done, kNow);
  builder_.Add(JobDeleted{JobId(9)}, kNow);
  const CommitBuilder::Commit commit = builder_.Take();
  ASSERT_EQ(commit.batch.failures.size(), 1u);
  EXPECT_EQ(commit.batch.failures[0].failure.reason, "truncated");
  EXPECT_EQ(commit.batch.forgotten, (std::vector<JobId>{JobId(9)}));
}

}  // namespace
}  // namespace tandem::master
