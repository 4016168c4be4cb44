// Golden traces of a few exchanges: what the core says, word by word, to whom and in which order.
#include <gtest/gtest.h>

#include "tests/master/core/harness.h"
#include "tests/master/core/trace.h"

namespace tandem::master {
namespace {

class GoldenTest : public testing::Test {
 protected:
  void Say(const std::string& what, const Effects& effects) {
    trace_ += what + "\n" + TraceOf(effects);
  }
  WorkerAttach AttachOf(const std::string& name, std::vector<HeldLeaves> held = {}) {
    WorkerAttach attach;
    attach.token = ++token_;
    attach.name = name;
    attach.incarnation = 1;
    attach.kernels = {KernelFor(TestKernel::kMap), KernelFor(TestKernel::kExactSum)};
    attach.held = std::move(held);
    attach.max_leases = 4;
    return attach;
  }
  SubmitJob SubmitOf(const JobBuilder& builder) {
    return {++token_, builder.Build(), "", 1, absl::UnixEpoch()};
  }
  CoreHarness h_;
  RequestToken token_ = 0;
  std::string trace_;
};

TEST_F(GoldenTest, AMapOfThreeTasks) {
  Say("attach", h_.Step(AttachOf("w")));
  Say("submit", h_.Step(SubmitOf({.tasks = 3, .max_lease_leaves = 1})));
  Say("its acceptance is durable", h_.Step(JobDurable{JobId(1)}));
  Say("commit leaf 0", h_.CommitRun(WorkerId(1), JobId(1), {1, {0, 1}}));
  Say("commit leaf 1", h_.CommitRun(WorkerId(1), JobId(1), {2, {1, 1}}));
  Say("commit leaf 1 again", h_.CommitRun(WorkerId(1), JobId(1), {2, {1, 1}}));
  Say("commit leaf 2", h_.CommitRun(WorkerId(1), JobId(1), {3, {2, 1}}));
  EXPECT_EQ(trace_, R"(attach
  log WorkerKnown 1 w
  log KernelAnnounced map
  log KernelAnnounced count
  -> 1 Welcome epoch 1
submit
  log JobAccepted job 1
  log IdsIssued
  durable reply job 1
its acceptance is durable
  -> 1 Describe job 1
  -> 1 Grant job 1 n 1 leaf 0 level 0 x2 attempt 1
  -> 1 Outlook job 1 1
commit leaf 0
  log LeavesDone job 1 [0,1)
  -> 1 Grant job 1 n 3 leaf 2 level 0 x1 attempt 1
  -> 1 Outlook job 1 0
  durable -> 1 Ack 1
commit leaf 1
  log LeavesDone job 1 [1,2)
  durable -> 1 Ack 2
commit leaf 1 again
  durable -> 1 Ack 3
commit leaf 2
  log LeavesDone job 1 [2,3)
  log JobEnded job 1 SUCCEEDED
  durable -> 1 Drop job 1
  durable -> 1 Ack 4
)");
}

TEST_F(GoldenTest, ACrashALostWorkerAndARestart) {
  Say("attach", h_.Step(AttachOf("w")));
  Say("submit", h_.Step(SubmitOf({.tasks = 2, .crash_limit = 2, .max_lease_leaves = 1})));
  Say("its acceptance is durable", h_.Step(JobDurable{JobId(1)}));
  Say("leaf 0 crashes", h_.Crash(WorkerId(1), JobId(1), {1, {0, 1}}));
  Say("the stream breaks", h_.Step(WorkerDetached{WorkerId(1), /*stream=*/1}));
  Say("a second later", h_.Advance(absl::Seconds(1)));
  Say("attach again", h_.Step(AttachOf("w")));
  h_.Restart();
  Say("the master restarts; attach, holding leaf 1",
      h_.Step(AttachOf("w", {{JobId(1), {1, 1}, 2, {Epoch(1), 5}}})));
  EXPECT_EQ(trace_, R"(attach
  log WorkerKnown 1 w
  log KernelAnnounced map
  log KernelAnnounced count
  -> 1 Welcome epoch 1
submit
  log JobAccepted job 1
  log IdsIssued
  durable reply job 1
its acceptance is durable
  -> 1 Describe job 1
  -> 1 Grant job 1 n 1 leaf 0 level 0 x2 attempt 1
  -> 1 Outlook job 1 0
leaf 0 crashes
  log LeavesRetried job 1 [0,1) attempt 2 task 0 strikes 1 suspect
  -> 1 Grant job 1 n 3 leaf 0 level 0 x1 attempt 2 suspect
  durable -> 1 Ack 1
the stream breaks
a second later
  log LeavesRetried job 1 [0,1) attempt 3 suspect
  log LeavesRetried job 1 [1,2) attempt 2
  log WorkerForgotten 1
attach again
  log WorkerKnown 1 w
  -> 1 Describe job 1
  -> 1 Welcome epoch 1
  -> 1 Grant job 1 n 4 leaf 0 level 0 x1 attempt 3 suspect
  -> 1 Grant job 1 n 5 leaf 1 level 0 x1 attempt 2
  -> 1 Outlook job 1 0
the master restarts; attach, holding leaf 1
  -> 1 Welcome epoch 2; adopted job 1 n 1 leaf 1 level 0 x1 attempt 2
  -> 1 Grant job 1 n 2 leaf 0 level 0 x1 attempt 3 suspect
  -> 1 Outlook job 1 0
)");
}

TEST_F(GoldenTest, ASumOfTwoPartials) {
  Say("attach", h_.Step(AttachOf("w")));
  Say("submit",
      h_.Step(SubmitOf({.kernel = TestKernel::kExactSum, .tasks = 2, .max_lease_leaves = 1})));
  Say("its acceptance is durable", h_.Step(JobDurable{JobId(1)}));
  Say("partial of leaf 0", h_.CommitRun(WorkerId(1), JobId(1), {1, {0, 1}}));
  Say("partial of leaf 1", h_.CommitRun(WorkerId(1), JobId(1), {2, {1, 1}}));
  Report report;
  MergeCommit merged;
  merged.job = JobId(1);
  merged.n = 3;
  merged.outputs = OutputOf(2);
  merged.tasks = 2;
  report.merges.push_back(merged);
  Say("merged", h_.Report(WorkerId(1), report));
  EXPECT_EQ(trace_, R"(attach
  log WorkerKnown 1 w
  log KernelAnnounced map
  log KernelAnnounced count
  -> 1 Welcome epoch 1
submit
  log JobAccepted job 1
  log IdsIssued
  durable reply job 1
its acceptance is durable
  -> 1 Describe job 1
  -> 1 Grant job 1 n 1 leaf 0 level 0 x2 attempt 1
  -> 1 Outlook job 1 0
partial of leaf 0
  log LeavesDone job 1 [0,1) partial 1
  durable -> 1 Ack 1
partial of leaf 1
  log LeavesDone job 1 [1,2) partial 2
  -> 1 MergeGrant job 1 n 3 of 2
  durable -> 1 Ack 2
merged
  log PartialsMerged job 1 2 into 3
  log JobEnded job 1 SUCCEEDED
  durable -> 1 Drop job 1
  durable -> 1 Ack 3
)");
}

}  // namespace
}  // namespace tandem::master
