// A whole master in this process, with scripted workers: what is submitted, leased, reported and
// durable is what is seen and read; and all of it again after a restart.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/rng.h"
#include "common/base/strings.h"
#include "common/data/data_client.h"
#include "common/data/region_pusher.h"
#include "common/data/sha256.h"
#include "common/rpc/channel.h"
#include "common/rpc/owner.h"
#include "common/rpc/status.h"
#include "common/wire/job_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "master/server/server.h"
#include "tandem/v1/cluster.grpc.pb.h"
#include "tandem/v1/jobs.grpc.pb.h"
#include "tests/master/server/fake_worker.h"
#include "tests/master/server/master_fixture.h"

namespace tandem::master {
namespace {

using ::testing::HasSubstr;

TEST_F(MasterTest, AJobGoesFromSubmitToItsResult) {
  FakeWorker worker(master_->address(), "w");
  ASSERT_TRUE(worker.Attach().ok());
  const absl::StatusOr<v1::Job> job = Submit(Noop(300, "r1"));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_TRUE(job->state() == v1::PENDING || job->state() == v1::RUNNING);
  EXPECT_EQ(job->task_count(), 300u);
  EXPECT_EQ(job->spec().owner(), "ada");
  EXPECT_NE(job->spec().kernel_hash(), 0u);
  ASSERT_EQ(job->outputs_size(), 1);
  EXPECT_EQ(job->outputs(0).name(), "value");
  RunNoop(&worker, 300);
  EXPECT_TRUE(worker.described().contains(job->id()));
  const absl::StatusOr<std::vector<v1::Job>> states = Watch(job->id());
  ASSERT_TRUE(states.ok()) << states.status();
  EXPECT_EQ(states->back().state(), v1::SUCCEEDED);
  EXPECT_EQ(states->back().tasks_done(), 300u);
  EXPECT_TRUE(states->back().has_ended());
  EXPECT_EQ(*ReadOutput(job->id(), "value"), NoopBytes(0, 300));
  EXPECT_EQ(*ReadOutput(job->id(), "value", 17, 100), NoopBytes(17, 100));
  EXPECT_TRUE(worker.ReadUntil([&] { return worker.dropped().contains(job->id()); }));
}

TEST_F(MasterTest, WhatIsDoneCanBeReadWhileTheRestRuns) {
  FakeWorker worker(master_->address(), "w");
  ASSERT_TRUE(worker.Attach().ok());
  const uint64_t job = Submit(Noop(100, "r1"))->id();
  const Grant grant = worker.NextGrant();
  ASSERT_EQ(grant.first_leaf, 0u);
  const uint64_t done = grant.count << grant.level;
  ASSERT_LT(done, 100u);
  ASSERT_TRUE(worker.WaitForAck(worker.Commit(grant, Inline(NoopBytes(0, done)))));
  EXPECT_EQ(*ReadOutput(job, "value", 0, done), NoopBytes(0, done));
  const absl::Status rest = ReadOutput(job, "value").status();
  EXPECT_EQ(rest.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(rest), reason::kResultNotReady);
  EXPECT_EQ(ReasonOf(ReadOutput(job, "valve").status()), reason::kOutputNotFound);
  EXPECT_EQ(ReadOutput(job, "value", 90, 11).status().code(), absl::StatusCode::kOutOfRange);
  RunNoop(&worker, 100 - done);
  EXPECT_EQ(*ReadOutput(job, "value"), NoopBytes(0, 100));
}

TEST_F(MasterTest, SubmittingAgainNamesTheSameJob) {
  const uint64_t first = Submit(Noop(10, "same"))->id();
  EXPECT_EQ(Submit(Noop(10, "same"))->id(), first);
  const absl::Status other = Submit(Noop(11, "same")).status();
  EXPECT_EQ(other.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReasonOf(other), reason::kRequestIdReused);
  EXPECT_NE(Submit(Noop(11, "same"), "bob")->id(), first);
  Restart();
  EXPECT_EQ(Submit(Noop(10, "same"))->id(), first);
}

TEST_F(MasterTest, BadSpecsAreRefusedWithTheirField) {
  const auto refused = [this](void (*spoil)(v1::SubmitJobRequest*)) {
    v1::SubmitJobRequest request = Noop(10, "r");
    spoil(&request);
    return Submit(request).status();
  };
  absl::Status status = refused([](auto* r) { r->mutable_spec()->set_kernel("noopp"); });
  EXPECT_EQ(ReasonOf(status), reason::kUnknownKernel);
  EXPECT_EQ(FieldOf(status), "spec.kernel");
  EXPECT_THAT(std::string(status.message()), HasSubstr("noop"));
  status = refused([](auto* r) { r->clear_request_id(); });
  EXPECT_EQ(FieldOf(status), "request_id");
  status = refused([](auto* r) { r->mutable_spec()->clear_axis_extents(); });
  EXPECT_EQ(ReasonOf(status), reason::kMissingAxisExtent);
  status = refused([](auto* r) { r->mutable_spec()->mutable_command()->add_argv("/bin/true"); });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(ReasonOf(status), reason::kNotYetHonoured);
  status = refused([](auto* r) { r->mutable_spec()->set_name("a\x01"); });
  EXPECT_EQ(ReasonOf(status), reason::kBadSpec);
  EXPECT_EQ(FieldOf(status), "spec.name");
  for (const size_t length : {257, 100'000}) {
    v1::SubmitJobRequest request = Noop(10, "r");
    request.mutable_spec()->set_name(std::string(length, 'x'));
    status = Submit(request).status();
    EXPECT_EQ(ReasonOf(status), reason::kLimitExceeded);
    EXPECT_EQ(FieldOf(status), "spec.name");
  }
  status = refused([](auto* r) { r->set_request_id("a\x1b"); });
  EXPECT_EQ(ReasonOf(status), reason::kBadSpec);
  EXPECT_EQ(FieldOf(status), "request_id");
  status = refused([](auto* r) { r->mutable_spec()->set_name(std::string(5 << 20, 'x')); });
  EXPECT_FALSE(status.ok());
}

v1::SubmitJobRequest Saxpy(const BlobLocator& x, uint64_t n) {
  v1::SubmitJobRequest request;
  request.set_request_id("saxpy");
  request.mutable_spec()->set_kernel("saxpy");
  v1::Scalar* scale = request.mutable_spec()->add_scalars();
  scale->set_name("scale");
  scale->set_d(2);
  for (const char* name : {"x", "y"}) {
    v1::Operand* operand = request.mutable_spec()->add_operands();
    operand->set_name(name);
    operand->mutable_tensor()->set_dtype(v1::F32);
    operand->mutable_tensor()->add_shape(n);
    wire::Encode(x, operand->mutable_locator()->mutable_blob());
  }
  return request;
}

TEST_F(MasterTest, BlobsMustBeTheOwnersOwn) {
  const std::string bytes(400, '\0');
  BlobLocator blob;
  blob.id = Sha256Of(bytes);
  blob.size = bytes.size();
  const absl::Status missing = Submit(Saxpy(blob, 100)).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReasonOf(missing), reason::kBlobNotFound);
  EXPECT_EQ(FieldOf(missing), "spec.operands.x.locator");
  DataClient bob(rpc::Connect(master_->address(), rpc::Traffic::kBulk), "bob");
  ASSERT_TRUE(bob.PutBlob(blob, bytes).ok());
  EXPECT_EQ(ReasonOf(Submit(Saxpy(blob, 100)).status()), reason::kBlobNotFound);
  EXPECT_TRUE(Submit(Saxpy(blob, 100), "bob").ok());
}

TEST_F(MasterTest, AnothersJobIsNotFound) {
  const uint64_t job = Submit(Noop(10, "r"))->id();
  EXPECT_TRUE(absl::IsNotFound(Get(job, "eve").status()));
  EXPECT_TRUE(absl::IsNotFound(Cancel(job, "eve").status()));
  EXPECT_TRUE(absl::IsNotFound(ReadOutput(job, "value", 0, 0, false, "eve").status()));
  EXPECT_TRUE(absl::IsNotFound(Get(job + 1).status()));
  EXPECT_EQ(List({}, "eve")->jobs_size(), 0);
  v1::ListJobsRequest all;
  all.set_all_owners(true);
  EXPECT_EQ(List(all, "eve")->jobs_size(), 1);
}

TEST_F(MasterTest, CancellingEndsAJobForGood) {
  const uint64_t job = Submit(Noop(10, "r"))->id();
  EXPECT_EQ(Cancel(job)->state(), v1::CANCELLED);
  EXPECT_EQ(Cancel(job)->state(), v1::CANCELLED);
  Restart();
  EXPECT_EQ(Get(job)->state(), v1::CANCELLED);
  EXPECT_TRUE(Get(job)->has_ended());
}

TEST_F(MasterTest, FinishedLeavesStayFinishedAfterARestart) {
  uint64_t job = 0;
  uint64_t done = 0;
  {
    FakeWorker worker(master_->address(), "w");
    ASSERT_TRUE(worker.Attach().ok());
    job = Submit(Noop(200, "r"))->id();
    const Grant grant = worker.NextGrant();
    done = grant.count << grant.level;
    ASSERT_LT(done, 200u);
    ASSERT_TRUE(worker.WaitForAck(worker.Commit(grant, Inline(NoopBytes(0, done)))));
  }
  const uint64_t sequence = Get(job)->sequence();
  const Epoch before = master_->epoch();
  Restart();
  EXPECT_GT(master_->epoch(), before);
  EXPECT_EQ(Get(job)->tasks_done(), done);
  EXPECT_GT(Get(job)->sequence(), sequence);
  EXPECT_EQ(*ReadOutput(job, "value", 0, done), NoopBytes(0, done));
  FakeWorker worker(master_->address(), "w");
  const absl::StatusOr<wire::WorkerWelcome> welcome = worker.Attach({}, before.value());
  ASSERT_TRUE(welcome.ok()) << welcome.status();
  EXPECT_EQ(welcome->epoch, master_->epoch());
  RunNoop(&worker, 200 - done);  // Exactly the rest.
  EXPECT_EQ(Watch(job)->back().state(), v1::SUCCEEDED);
  EXPECT_EQ(*ReadOutput(job, "value"), NoopBytes(0, 200));
}

TEST_F(MasterTest, ARestartedMasterAdoptsWhatItsWorkersHold) {
  Grant grant;
  uint64_t job = 0;
  Epoch epoch = master_->epoch();
  {
    FakeWorker worker(master_->address(), "w");
    ASSERT_TRUE(worker.Attach().ok());
    job = Submit(Noop(50, "r"))->id();
    grant = worker.NextGrant();
  }
  Restart();
  FakeWorker worker(master_->address(), "w");
  const uint64_t count = grant.count << grant.level;
  const absl::StatusOr<wire::WorkerWelcome> welcome = worker.Attach(
      {{JobId(job), {grant.first_leaf, count}, grant.attempt, LeaseId{epoch, grant.first_n}}});
  ASSERT_TRUE(welcome.ok()) << welcome.status();
  ASSERT_FALSE(welcome->adopted.empty());
  EXPECT_EQ(welcome->adopted[0].first_leaf, grant.first_leaf);
  ASSERT_EQ(welcome->jobs.size(), 1u);
  EXPECT_EQ(welcome->jobs[0].job, JobId(job));
  uint64_t adopted = 0;
  for (const Grant& again : welcome->adopted) {
    const uint64_t leaves = again.count << again.level;
    adopted += leaves;
    ASSERT_TRUE(
        worker.WaitForAck(worker.Commit(again, Inline(NoopBytes(again.first_leaf, leaves)))));
  }
  EXPECT_EQ(adopted, count);
  RunNoop(&worker, 50 - count);
  EXPECT_EQ(*ReadOutput(job, "value"), NoopBytes(0, 50));
}

TEST_F(MasterTest, ASnapshotIsAsGoodAsTheWholeLog) {
  options_.loop.snapshot_every = 3;
  Restart();
  uint64_t job = 0;
  {
    FakeWorker worker(master_->address(), "w");
    ASSERT_TRUE(worker.Attach().ok());
    job = Submit(Noop(500, "r"))->id();
    RunNoop(&worker, 300);
  }
  const uint64_t ended = Submit(Noop(1, "ended"))->id();
  ASSERT_TRUE(Cancel(ended).ok());
  const google::protobuf::Timestamp end = Get(ended)->ended();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(Submit(Noop(1, StrCat("more", i))).ok());
  Restart();
  Restart();
  EXPECT_EQ(Get(job)->tasks_done(), 300u);
  EXPECT_EQ(Get(ended)->ended().seconds(), end.seconds());
  EXPECT_EQ(Get(ended)->ended().nanos(), end.nanos());
  EXPECT_EQ(*ReadOutput(job, "value", 0, 300), NoopBytes(0, 300));
}

TEST_F(MasterTest, LostWorkersLeasesGoToOthers) {
  options_.loop.core.lease_ttl = absl::Seconds(1);
  options_.loop.core.heartbeat = absl::Milliseconds(250);
  Restart();
  FakeWorker first(master_->address(), "first");
  ASSERT_TRUE(first.Attach().ok());
  const uint64_t job = Submit(Noop(64, "r"))->id();
  ASSERT_TRUE(first.NextGrant().job.valid());
  first.Vanish();
  FakeWorker second(master_->address(), "second");
  ASSERT_TRUE(second.Attach().ok());
  RunNoop(&second, 64);
  EXPECT_EQ(*ReadOutput(job, "value"), NoopBytes(0, 64));
}

TEST_F(MasterTest, FailedTasksAreListedAndReadOverOnlyWhenAsked) {
  FakeWorker worker(master_->address(), "w");
  ASSERT_TRUE(worker.Attach().ok());
  v1::SubmitJobRequest request = Noop(8, "r", 8);
  request.mutable_spec()->set_allow_failed(true);
  const uint64_t job = Submit(request)->id();
  const Grant grant = worker.NextGrant();
  std::string bytes = NoopBytes(0, 8);
  bytes.replace(24, 8, std::string(8, '\0'));
  ASSERT_TRUE(
      worker.WaitForAck(worker.Commit(grant, Inline(bytes), {{3, 0, "the sun was in its eyes"}})));
  EXPECT_EQ(Watch(job)->back().tasks_failed(), 1u);
  v1::ListFailuresRequest list;
  list.set_id(job);
  const auto failures = Call<v1::ListFailuresRequest, v1::ListFailuresResponse>(
      &v1::Jobs::Stub::ListFailures, list, "ada");
  ASSERT_TRUE(failures.ok()) << failures.status();
  ASSERT_EQ(failures->failures_size(), 1);
  EXPECT_EQ(failures->failures(0).task(), 3u);
  EXPECT_EQ(failures->failures(0).reason(), "the sun was in its eyes");
  const absl::Status read = ReadOutput(job, "value").status();
  EXPECT_EQ(ReasonOf(read), reason::kTaskFailed);
  EXPECT_THAT(std::string(read.message()), HasSubstr("task 3"));
  EXPECT_EQ(*ReadOutput(job, "value", 0, 3), bytes.substr(0, 24));
  EXPECT_EQ(*ReadOutput(job, "value", 0, 0, true), bytes);
}

// Failed tasks are zeros for who asks; tasks that no one ran are zeros for nobody.
TEST_F(MasterTest, WhatNeverRanIsNotReadAsZeros) {
  FakeWorker worker(master_->address(), "w");
  ASSERT_TRUE(worker.Attach().ok());
  v1::SubmitJobRequest request = Noop(100, "r", 2);
  request.mutable_spec()->set_allow_failed(true);
  const uint64_t job = Submit(request)->id();
  const Grant grant = worker.NextGrant();
  const uint64_t done = 2 * (grant.count << grant.level);
  ASSERT_LT(done, 100u);
  std::string bytes = NoopBytes(0, done);
  bytes.replace(8, 8, std::string(8, '\0'));
  ASSERT_TRUE(worker.WaitForAck(worker.Commit(grant, Inline(bytes), {{1, 0, "tired"}})));
  ASSERT_EQ(Cancel(job)->state(), v1::CANCELLED);
  EXPECT_EQ(*ReadOutput(job, "value", 0, done, true), bytes);
  EXPECT_EQ(ReasonOf(ReadOutput(job, "value", 0, done).status()), reason::kTaskFailed);
  for (const bool zeros : {false, true}) {
    const absl::Status rest = ReadOutput(job, "value", done, 0, zeros).status();
    EXPECT_EQ(rest.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(ReasonOf(rest), reason::kJobCancelled);
    EXPECT_THAT(std::string(rest.message()), HasSubstr(StrCat("--tasks 0-", done - 1)));
  }
  Restart();
  EXPECT_EQ(ReasonOf(ReadOutput(job, "value", 0, 0, true).status()), reason::kJobCancelled);
}

TEST_F(MasterTest, PushedRegionsBecomeTheResult) {
  FakeWorker worker(master_->address(), "w");
  ASSERT_TRUE(worker.Attach().ok());
  const uint64_t job = Submit(Noop(100'000, "r", 100'000))->id();
  const Grant grant = worker.NextGrant();
  ASSERT_EQ(grant.count, 1u);
  const std::string bytes = NoopBytes(0, 100'000);
  Region region;
  absl::Notification over;
  auto pusher = RegionPusher::Start(
      rpc::ConnectForCallbacks(master_->address(), rpc::Traffic::kBulk), "ada",
      {[&region](std::vector<PushedPiece> pieces) { region = pieces.at(0).region; },
       [&over](const absl::Status&) { over.Notify(); }});
  pusher->Push(1, bytes, nullptr);
  pusher->Close();
  over.WaitForNotification();
  ASSERT_EQ(region.length, bytes.size());
  ASSERT_TRUE(worker.WaitForAck(
      worker.Commit(grant, std::make_shared<const CommitOutputs>(CommitOutputs{{0, region}}))));
  EXPECT_EQ(*ReadOutput(job, "value"), bytes);
  Restart();
  EXPECT_EQ(*ReadOutput(job, "value", 99'999, 1), NoopBytes(99'999, 1));
}

TEST_F(MasterTest, WorkersAgainstTheProtocolAreCutOff) {
  {
    FakeWorker silent(master_->address(), "w");
    worker::v1::WorkerMessage message;
    message.set_heartbeat(true);
    silent.Send(message);
    EXPECT_EQ(FieldOf(silent.End()), "hello");
  }
  {
    FakeWorker other(master_->address(), "w");
    wire::WorkerHello hello = other.MakeHello();
    hello.protocol = 9000;
    const absl::Status status = other.AttachAs(hello).status();
    EXPECT_EQ(ReasonOf(status), reason::kVersionSkew);
  }
  {
    FakeWorker ahead(master_->address(), "w");
    EXPECT_EQ(ReasonOf(ahead.Attach({}, 1000).status()), reason::kStaleEpoch);
  }
  FakeWorker liar(master_->address(), "w");
  ASSERT_TRUE(liar.Attach().ok());
  const uint64_t job = Submit(Noop(10, "r"))->id();
  const Grant grant = liar.NextGrant();
  liar.Commit(grant, Inline("too short"));
  while (liar.ReadUntil([] { return false; })) {
  }
  EXPECT_EQ(FieldOf(liar.End()), "reports[0].commits[0].outputs[0].where");
  EXPECT_EQ(Get(job)->tasks_done(), 0u);
}

// The committer stops when it cannot sync a segment, so no such record may reach it.
TEST_F(MasterTest, AWorkerThatNamesBytesThatAreNotThereIsCutOffAndTheMasterGoesOn) {
  const uint64_t job = Submit(Noop(100'000, "r", 100'000))->id();
  FakeWorker liar(master_->address(), "w");
  ASSERT_TRUE(liar.Attach().ok());
  const Region nowhere{SegmentId(77), 64, 800'000, 1};
  liar.Commit(liar.NextGrant(), std::make_shared<const CommitOutputs>(CommitOutputs{{0, nowhere}}));
  while (liar.ReadUntil([] { return false; })) {
  }
  const absl::Status status = liar.End();
  EXPECT_EQ(FieldOf(status), "reports[0].commits[0].where");
  EXPECT_THAT(std::string(status.message()), HasSubstr("segment 77"));
  FakeWorker honest(master_->address(), "other");
  ASSERT_TRUE(honest.Attach().ok());
  const uint64_t next = Submit(Noop(10, "r2"))->id();
  EXPECT_EQ(Get(job)->tasks_done(), 0u);
  EXPECT_EQ(Get(next)->tasks_done(), 0u);
}

TEST_F(MasterTest, ListsComeInPagesNewestFirstAndByFilter) {
  for (int i = 0; i < 7; ++i) {
    v1::SubmitJobRequest request = Noop(1, StrCat("r", i));
    request.mutable_spec()->set_name(i % 2 == 0 ? "even" : "odd");
    (*request.mutable_spec()->mutable_labels())["i"] = std::to_string(i);
    ASSERT_TRUE(Submit(request).ok());
  }
  ASSERT_TRUE(Cancel(3).ok());
  for (const bool restarted : {false, true}) {
    if (restarted) Restart();
    v1::ListJobsRequest request;
    request.set_page_size(3);
    std::vector<uint64_t> ids;
    do {
      const absl::StatusOr<v1::ListJobsResponse> page = List(request);
      ASSERT_TRUE(page.ok()) << page.status();
      EXPECT_LE(page->jobs_size(), 3);
      for (const v1::Job& job : page->jobs()) ids.push_back(job.id());
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty());
    EXPECT_EQ(ids, (std::vector<uint64_t>{7, 6, 5, 4, 3, 2, 1}));
    v1::ListJobsRequest cancelled;
    cancelled.add_states(v1::CANCELLED);
    EXPECT_EQ(List(cancelled)->jobs_size(), 1);
    EXPECT_EQ(List(cancelled)->jobs(0).id(), 3u);
    v1::ListJobsRequest named;
    named.set_name_prefix("ev");
    EXPECT_EQ(List(named)->jobs_size(), 4);
    v1::ListJobsRequest labelled;
    (*labelled.mutable_labels())["i"] = "5";
    EXPECT_EQ(List(labelled)->jobs(0).id(), 6u);
  }
  v1::ListJobsRequest bad;
  bad.set_page_token("never given");
  EXPECT_EQ(ReasonOf(List(bad).status()), reason::kBadPageToken);
  bad.clear_page_token();
  bad.set_page_size(5000);
  EXPECT_EQ(FieldOf(List(bad).status()), "page_size");
}

TEST_F(MasterTest, OldJobsLoseTheirResultsButNotTheirHistory) {
  options_.loop.ended_jobs_kept = 2;
  Restart();
  FakeWorker worker(master_->address(), "w");
  ASSERT_TRUE(worker.Attach().ok());
  for (int i = 0; i < 4; ++i) {
    const uint64_t job = Submit(Noop(1, StrCat("r", i)))->id();
    RunNoop(&worker, 1);
    ASSERT_EQ(Watch(job)->back().state(), v1::SUCCEEDED);
  }
  Restart();
  EXPECT_EQ(Get(1)->state(), v1::SUCCEEDED);
  EXPECT_EQ(List({})->jobs_size(), 4);
  EXPECT_FALSE(ReadOutput(1, "value").ok());
  EXPECT_EQ(*ReadOutput(4, "value"), NoopBytes(0, 1));
}

TEST_F(MasterTest, AWatcherSeesSequencesGrowAndTheEnd) {
  FakeWorker worker(master_->address(), "w");
  ASSERT_TRUE(worker.Attach().ok());
  const absl::StatusOr<v1::Job> job = Submit(Noop(2000, "r"));
  std::vector<v1::Job> states;
  std::thread watcher([&] {
    const absl::StatusOr<std::vector<v1::Job>> seen = Watch(job->id());
    if (seen.ok()) states = *seen;
  });
  RunNoop(&worker, 2000);
  watcher.join();
  ASSERT_FALSE(states.empty());
  for (size_t i = 1; i < states.size(); ++i) {
    EXPECT_GT(states[i].sequence(), states[i - 1].sequence());
    EXPECT_GE(states[i].tasks_done(), states[i - 1].tasks_done());
  }
  EXPECT_EQ(states.back().state(), v1::SUCCEEDED);
  // A watcher that has seen all is still told the end.
  EXPECT_EQ(Watch(job->id(), states.back().sequence())->back().state(), v1::SUCCEEDED);
  EXPECT_TRUE(absl::IsNotFound(Watch(job->id() + 1).status()));
}

TEST_F(MasterTest, TellsAboutItselfItsWorkersAndKernels) {
  FakeWorker worker(master_->address(), "w");
  ASSERT_TRUE(worker.Attach().ok());
  ASSERT_TRUE(Submit(Noop(10, "r")).ok());
  RunNoop(&worker, 10);
  const auto stub = v1::Cluster::NewStub(channel_);
  {
    grpc::ClientContext context;
    v1::MasterInfo info;
    ASSERT_TRUE(stub->GetMaster(&context, {}, &info).ok());
    EXPECT_EQ(info.epoch(), master_->epoch().value());
    EXPECT_EQ(info.cluster_id(), master_->cluster_id());
    EXPECT_EQ(info.workers(), 1u);
    EXPECT_GT(info.counters().at("commits_total"), 0u);
    EXPECT_GT(info.counters().at("leases_total"), 0u);
  }
  {
    grpc::ClientContext context;
    v1::ListWorkersResponse workers;
    ASSERT_TRUE(stub->ListWorkers(&context, {}, &workers).ok());
    ASSERT_EQ(workers.workers_size(), 1);
    EXPECT_EQ(workers.workers(0).name(), "w");
    EXPECT_EQ(workers.workers(0).state(), v1::ATTACHED);
    EXPECT_EQ(workers.workers(0).leaves_done(), 10u);
  }
  grpc::ClientContext context;
  v1::ListKernelsRequest request;
  request.set_page_size(1);
  v1::ListKernelsResponse kernels;
  ASSERT_TRUE(stub->ListKernels(&context, request, &kernels).ok());
  ASSERT_EQ(kernels.kernels_size(), 1);
  EXPECT_TRUE(kernels.kernels(0).builtin());
  EXPECT_NE(kernels.next_page_token(), "");
}

TEST_F(MasterTest, TwoMastersNeverShareADirectory) {
  const absl::Status second = Master::Start(options_, [](const absl::Status&) {}).status();
  EXPECT_EQ(ReasonOf(second), reason::kStoreLocked);
}

}  // namespace
}  // namespace tandem::master
