// A whole master in this process: what becomes of jobs over their time, from the room for their
// results to their deletion, and over restarts.
#include "absl/status/status.h"
#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tandem/v1/jobs.grpc.pb.h"
#include "tests/master/server/fake_worker.h"
#include "tests/master/server/master_fixture.h"

namespace tandem::master {
namespace {

using ::testing::HasSubstr;

TEST_F(MasterTest, ResultsThatTheDiskHasNoRoomForAreRefused) {
  const v1::SubmitJobRequest large = Noop(uint64_t{1} << 50, "large", 1 << 20);
  v1::SubmitJobRequest planned = large;
  planned.clear_request_id();
  for (const absl::Status& refused :
       {Submit(large).status(),
        Call<v1::SubmitJobRequest, v1::JobPlan>(&v1::Jobs::Stub::PlanJob, planned, "ada")
            .status()}) {
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(ReasonOf(refused), reason::kDiskFull);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("would take 8PiB, and"));
    EXPECT_THAT(std::string(refused.message()), HasSubstr("tandem job rm"));
  }
  EXPECT_EQ(List({})->jobs_size(), 0);
  // A request that may be known is not held to account twice.
  const auto known =
      Call<v1::SubmitJobRequest, v1::JobPlan>(&v1::Jobs::Stub::PlanJob, large, "ada");
  EXPECT_TRUE(known.ok()) << known.status();
  // What is reduced is as large for any number of tasks.
  v1::SubmitJobRequest reduced = large;
  reduced.mutable_spec()->set_kernel("monte_carlo_pi");
  const absl::StatusOr<v1::Job> accepted = Submit(reduced);
  EXPECT_TRUE(accepted.ok()) << accepted.status();
}

TEST_F(MasterTest, ADeletedJobHasNoResultsAndStaysInHistory) {
  uint64_t job = 0;
  {
    FakeWorker worker(master_->address(), "w");
    ASSERT_TRUE(worker.Attach().ok());
    job = Submit(Noop(30, "r"))->id();
    const absl::Status early = Delete(job).status();
    EXPECT_EQ(early.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(ReasonOf(early), reason::kResultNotReady);
    EXPECT_THAT(std::string(early.message()), HasSubstr(StrCat("tandem job cancel ", job)));
    RunNoop(&worker, 30);
    ASSERT_TRUE(Watch(job).ok());
  }
  EXPECT_TRUE(absl::IsNotFound(Delete(job, "eve").status()));
  EXPECT_TRUE(absl::IsNotFound(Delete(job + 1).status()));
  EXPECT_EQ(*ReadOutput(job, "value"), NoopBytes(0, 30));
  for (int i = 0; i < 3; ++i) {
    const absl::StatusOr<v1::Job> deleted = Delete(job);
    ASSERT_TRUE(deleted.ok()) << deleted.status();
    EXPECT_EQ(deleted->id(), job);
    EXPECT_EQ(deleted->state(), v1::SUCCEEDED);
    EXPECT_EQ(ReasonOf(ReadOutput(job, "value").status()), reason::kJobDeleted);
    EXPECT_EQ(List({})->jobs_size(), 1);
    EXPECT_TRUE(absl::IsNotFound(Delete(job, "eve").status()));
    if (i == 1) Restart();
  }
  EXPECT_NE(Submit(Noop(30, "r"))->id(), job);  // The request is forgotten with it.
}

TEST_F(MasterTest, WhenAJobBeganIsKnownAfterARestart) {
  uint64_t running = 0, ended = 0;
  {
    FakeWorker worker(master_->address(), "w");
    ASSERT_TRUE(worker.Attach().ok());
    ended = Submit(Noop(5, "ended"))->id();
    RunNoop(&worker, 5);
    ASSERT_TRUE(Watch(ended).ok());
    running = Submit(Noop(500, "running"))->id();
    const Grant grant = worker.NextGrant();
    const uint64_t count = grant.count << grant.level;
    const auto outputs = Inline(NoopBytes(grant.first_leaf, count));
    ASSERT_TRUE(worker.WaitForAck(worker.Commit(grant, outputs)));
  }
  v1::SubmitJobRequest for_gpus = Noop(5, "waiting");  // there is none
  for_gpus.mutable_spec()->set_device(v1::GPU);
  const uint64_t waiting = Submit(for_gpus)->id();
  const google::protobuf::Timestamp began = Get(running)->started();
  const google::protobuf::Timestamp ended_began = Get(ended)->started();
  ASSERT_GT(began.seconds(), 0);
  for (int i = 0; i < 2; ++i) {
    Restart();
    EXPECT_EQ(Get(running)->started().SerializeAsString(), began.SerializeAsString());
    EXPECT_EQ(Get(ended)->started().SerializeAsString(), ended_began.SerializeAsString());
    EXPECT_FALSE(Get(waiting)->has_started());
  }
  FakeWorker worker(master_->address(), "w");
  ASSERT_TRUE(worker.Attach().ok());
  ASSERT_TRUE(worker.NextGrant().job.valid());
  EXPECT_EQ(Get(running)->started().SerializeAsString(), began.SerializeAsString());
}

}  // namespace
}  // namespace tandem::master
