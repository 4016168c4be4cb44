// tandem-worker as a process, between a scripted master and an executor made for tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "common/base/strings.h"
#include "common/model/former_life.h"
#include "tests/worker/server/scripted_master.h"

namespace tandem::worker {
namespace {

using ::testing::SizeIs;

constexpr uint64_t kPlain = 7, kCrashes = 13, kHangs = 14, kStages = 15, kLies = 16, kRefuses = 17;

class SupervisorTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = StrCat(testing::TempDir(), "/supervisor-", ::getpid());
    std::filesystem::remove_all(directory_);
  }
  void TearDown() override {
    worker_ = nullptr;  // it would write there still
    std::filesystem::remove_all(directory_);
  }

  // A worker that is attached and knows the job.
  void Attach(uint64_t job, std::vector<std::string> flags = {}) {
    worker_ = std::make_unique<WorkerProcess>(master_.address(), directory_, std::move(flags));
    hello_ = master_.NextHello();
    master_.Welcome(1, {job});
  }
  static worker::v1::Grant GrantOf(uint64_t job, uint64_t n, uint64_t first, uint64_t count) {
    worker::v1::Grant grant;
    grant.set_job(job);
    grant.set_first_n(n);
    grant.set_first_leaf(first);
    grant.set_count(count);
    grant.set_attempt(1);
    return grant;
  }
  void Give(uint64_t job, uint64_t n, uint64_t first, uint64_t count) {
    worker::v1::MasterMessage message;
    *message.add_grants() = GrantOf(job, n, first, count);
    master_.Send(message);
  }
  worker::v1::WorkerNotes NextNotes() {
    const worker::v1::WorkerMessage message =
        master_.NextWith([](const worker::v1::WorkerMessage& m) { return m.notes_size() > 0; });
    return *message.notes().rbegin();
  }
  static std::multiset<std::string> TokensOf(const worker::v1::WorkerNotes& notes) {
    std::multiset<std::string> tokens;
    for (const tandem::v1::Finding& finding : notes.findings()) tokens.insert(finding.token());
    return tokens;
  }
  // The leaves of commits, until so many have come. Acknowledges each report.
  uint64_t CollectCommits(uint64_t leaves) {
    uint64_t got = 0;
    while (got < leaves) {
      const worker::v1::Report report = master_.NextReport();
      for (const worker::v1::Commit& commit : report.commits()) {
        for (const worker::v1::LeafRun& run : commit.runs()) got += run.leaf_count();
      }
      master_.Ack(report.number());
    }
    return got;
  }

  std::string directory_;
  ScriptedMaster master_;
  std::unique_ptr<WorkerProcess> worker_;
  worker::v1::Hello hello_;
};

TEST_F(SupervisorTest, AWorkerSaysWhatItIsAndWhatItCan) {
  Attach(kPlain);
  EXPECT_FALSE(hello_.name().empty());
  EXPECT_NE(hello_.incarnation(), 0u);
  EXPECT_EQ(hello_.max_leases(), 2048u);
  ASSERT_THAT(hello_.devices(), SizeIs(1));
  EXPECT_EQ(hello_.devices(0).groups(), 1u);
  ASSERT_THAT(hello_.kernels(), SizeIs(1));
  EXPECT_EQ(hello_.kernels(0).name(), "fake");
  EXPECT_THAT(hello_.held(), SizeIs(0));
}

TEST_F(SupervisorTest, EmulatedDevicesAreSaidAndRunWhatIsForAGpu) {
  Attach(kGpuJob, {"--emulated-gpus", "2"});
  ASSERT_THAT(hello_.devices(), SizeIs(3));
  EXPECT_EQ(hello_.devices(0).kind(), tandem::v1::DEVICE_CPU);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(hello_.devices(i + 1).kind(), tandem::v1::DEVICE_EMULATED);
    EXPECT_EQ(hello_.devices(i + 1).uuid(), StrCat("EMULATED-", i));
  }
  Give(kGpuJob, 1, 0, 100);
  EXPECT_EQ(CollectCommits(100), 100u);
}

TEST_F(SupervisorTest, WhatIsForAGpuComesBackFromAWorkerThatHasNone) {
  Attach(kGpuJob);
  Give(kGpuJob, 1, 0, 100);
  const worker::v1::Report report = master_.NextReport();
  ASSERT_THAT(report.job_faults(), SizeIs(testing::Ge(1)));
  EXPECT_THAT(report.job_faults(0).reason(), testing::StartsWith("NO_GPU: "));
  ASSERT_THAT(report.returns(), SizeIs(1));
  EXPECT_EQ(report.returns(0).run().leaf_count(), 100u);
}

TEST_F(SupervisorTest, AWorkerWhoseEmulatedDevicesCannotBeHadGoesOnWithItsCpu) {
  ::setenv("NO_EMULATED_DEVICES", "1", 1);
  Attach(kPlain, {"--emulated-gpus", "2"});
  ::unsetenv("NO_EMULATED_DEVICES");
  EXPECT_THAT(hello_.devices(), SizeIs(1));
  const worker::v1::WorkerNotes notes = NextNotes();
  EXPECT_THAT(TokensOf(notes), testing::ElementsAre("EMULATED_LEFT_OUT", "EMULATED_LEFT_OUT"));
  EXPECT_THAT(notes.findings(0).what(), testing::HasSubstr("as its test wants it"));
  Give(kPlain, 1, 0, 10);
  EXPECT_EQ(CollectCommits(10), 10u);
}

class CudaTest : public SupervisorTest {
 protected:
  // The probe finds three; of these one works. Each executor sees its own device alone.
  CudaTest() : fake_(std::getenv("TANDEM_FAKE_EXECUTOR")) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    std::filesystem::create_symlink(fake_, folder_ + "/executor");
    std::ofstream(folder_ + "/executor-cuda") << R"(#!/bin/sh
if [ "$*" = --probe ]; then
  device() { printf '{"uuid": "GPU-%s", "model": "m", "memory_bytes": 1, "multiprocessors": 1}' $1; }
  echo "{\"version\": 1, \"kind\": \"devices\", \"devices\": [$(device a), $(device fake-1), $(device c)]}"
  exit
fi
[ "$CUDA_VISIBLE_DEVICES" = GPU-fake-1 ] || exit 70
case " $* " in *" --device=cuda:$CUDA_VISIBLE_DEVICES "*) exec )"
                                              << fake_ << R"( "$@" ;; esac
)";
    std::filesystem::permissions(folder_ + "/executor-cuda", std::filesystem::perms::owner_all);
    ::setenv("TANDEM_FAKE_EXECUTOR", (folder_ + "/executor").c_str(), 1);
  }
  ~CudaTest() override {
    ::setenv("TANDEM_FAKE_EXECUTOR", fake_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }

  const std::string folder_ = StrCat(testing::TempDir(), "/supervisor-programs-", ::getpid());
  const std::string fake_;
};

TEST_F(CudaTest, DevicesAreThoseWhoseExecutorsStart) {
  Attach(kGpuJob);
  ASSERT_THAT(hello_.devices(), SizeIs(2));
  EXPECT_EQ(hello_.devices(1).kind(), tandem::v1::DEVICE_GPU);
  EXPECT_EQ(hello_.devices(1).uuid(), "GPU-fake-1");
  Give(kGpuJob, 1, 0, 100);
  EXPECT_EQ(CollectCommits(100), 100u);
}

TEST_F(CudaTest, ThoseThatAreLeftOutAreNoted) {
  Attach(kGpuJob, {"--nvml", std::getenv("TANDEM_FAKE_NVML")});
  const worker::v1::WorkerNotes notes = NextNotes();
  EXPECT_EQ(TokensOf(notes), (std::multiset<std::string>{"GPU_LEFT_OUT", "GPU_LEFT_OUT"}));
  EXPECT_THAT(notes.findings(0).what(), testing::StartsWith("cuda:GPU-a (m): "));
  EXPECT_THAT(notes.findings(0).what(), testing::HasSubstr("exit 70"));
}

TEST_F(CudaTest, WithoutNvmlTheGpusAreUsedAndThatIsNoted) {
  Attach(kGpuJob, {"--nvml", "/none/nvml.so"});
  Give(kGpuJob, 1, 0, 100);
  while (!TokensOf(NextNotes()).contains("NVML")) {
  }
}

TEST_F(CudaTest, WhatNvmlSaysOfItsGpusComesWithHeartbeats) {
  Attach(kGpuJob, {"--nvml", std::getenv("TANDEM_FAKE_NVML")});
  const worker::v1::WorkerMessage message = master_.NextWith(
      [](const worker::v1::WorkerMessage& said) { return said.readings_size() > 0; });
  EXPECT_TRUE(message.heartbeat());
  // Of the library's two GPUs the one that is the worker's.
  for (const tandem::v1::DeviceReading& reading : message.readings()) {
    EXPECT_EQ(reading.uuid(), "GPU-fake-1");
    EXPECT_DOUBLE_EQ(reading.utilization(), 0.37);
    EXPECT_DOUBLE_EQ(reading.memory_utilization(), 0.12);
    EXPECT_EQ(reading.memory_used_bytes(), 400u);
    EXPECT_EQ(reading.temperature_celsius(), 41);
    EXPECT_DOUBLE_EQ(reading.power_watts(), 123.5);
    EXPECT_EQ(reading.ecc_corrected(), 5u);
    EXPECT_EQ(reading.ecc_uncorrected(), 0u);
    EXPECT_FALSE(reading.has_power_limit_watts()) << "it does not say";
  }
}

TEST_F(CudaTest, AnNvmlThatHangsHoldsNothingUpAndIsNoted) {
  ::setenv("FAKE_NVML_HANGS", "1", 1);
  Attach(kGpuJob, {"--nvml", std::getenv("TANDEM_FAKE_NVML")});
  ::unsetenv("FAKE_NVML_HANGS");
  Give(kGpuJob, 1, 0, 100);
  EXPECT_EQ(CollectCommits(100), 100u);
  worker::v1::WorkerNotes notes;
  do {
    notes = NextNotes();
  } while (!TokensOf(notes).contains("NVML"));
  EXPECT_THAT(notes.ShortDebugString(), testing::HasSubstr("NVML hangs"));
}

TEST_F(SupervisorTest, AllDevicesShareAJobThatMayRunAnywhere) {
  Attach(kPlain, {"--emulated-gpus", "2"});
  Give(kPlain, 1, 0, 1000);
  EXPECT_EQ(CollectCommits(1000), 1000u);
}

TEST_F(SupervisorTest, AThousandOneTaskLeasesComeBackWithTheirOutputs) {
  Attach(kPlain);
  Give(kPlain, 1, 0, 1000);
  std::string bytes;
  uint64_t leaves = 0, commits = 0;
  while (leaves < 1000) {
    const worker::v1::Report report = master_.NextReport();
    for (const worker::v1::Commit& commit : report.commits()) {
      ASSERT_THAT(commit.runs(), SizeIs(1));
      EXPECT_EQ(commit.runs(0).first_leaf(), leaves);
      EXPECT_EQ(commit.runs(0).n(), 1 + leaves);
      leaves += commit.runs(0).leaf_count();
      bytes += commit.outputs(0).inline_();
      ++commits;
    }
    master_.Ack(report.number());
  }
  ASSERT_EQ(bytes.size(), 8000u);
  for (uint64_t leaf = 0; leaf < 1000; ++leaf) {
    uint64_t value = 0;
    bytes.copy(reinterpret_cast<char*>(&value), 8, leaf * 8);
    ASSERT_EQ(value, leaf);
  }
  EXPECT_LT(commits, 60u);
}

TEST_F(SupervisorTest, TheGrantsThatComeWithTheWordToWorkAgainAreKept) {
  Attach(kPlain);
  worker::v1::MasterMessage drain;
  drain.set_drain(true);
  *drain.add_grants() = GrantOf(kPlain, 1, 0, 3);
  master_.Send(drain);
  uint64_t returned = 0;
  while (returned < 3) {
    const worker::v1::Report report = master_.NextReport();
    for (const worker::v1::Return& back : report.returns()) returned += back.run().leaf_count();
    EXPECT_THAT(report.commits(), SizeIs(0));
    master_.Ack(report.number());
  }
  worker::v1::MasterMessage resume;
  *resume.add_grants() = GrantOf(kPlain, 4, 0, 10);
  master_.Send(resume);
  uint64_t done = 0;
  while (done < 10) {
    const worker::v1::Report report = master_.NextReport();
    ASSERT_THAT(report.returns(), SizeIs(0)) << report.ShortDebugString();
    for (const worker::v1::Commit& commit : report.commits()) {
      for (const worker::v1::LeafRun& run : commit.runs()) done += run.leaf_count();
    }
    master_.Ack(report.number());
  }
}

TEST_F(SupervisorTest, LargeOutputsReachTheMastersSegments) {
  Attach(kStages);
  Give(kStages, 1, 0, 3);
  uint64_t leaves = 0;
  while (leaves < 3) {
    const worker::v1::Report report = master_.NextReport();
    for (const worker::v1::Commit& commit : report.commits()) {
      ASSERT_TRUE(commit.outputs(0).has_region());
      leaves += commit.runs(0).leaf_count();
    }
    master_.Ack(report.number());
  }
  EXPECT_THAT(master_.pushed(), SizeIs(24));
}

TEST_F(SupervisorTest, ACrashOfTheExecutorNamesItsSuspectAndIsSurvived) {
  Attach(kCrashes);
  Give(kCrashes, 5, 40, 4);
  worker::v1::Report report = master_.NextReport();
  while (report.crashes_size() == 0) report = master_.NextReport();
  EXPECT_EQ(report.crashes(0).run().first_leaf(), 40u);
  EXPECT_EQ(report.crashes(0).run().leaf_count(), 1u);
  EXPECT_EQ(report.crashes(0).run().n(), 5u);
  EXPECT_EQ(report.crashes(0).signal(), "SIGSEGV");
}

TEST_F(SupervisorTest, WhatRunsLongerThanItsTimeLimitIsEndedAndSaidToBeOverdue) {
  Attach(kLimitedJob);
  Give(kLimitedJob, 5, 40, 1);
  worker::v1::Report report = master_.NextReport();
  while (report.crashes_size() == 0) report = master_.NextReport();
  EXPECT_EQ(report.crashes(0).run().first_leaf(), 40u);
  EXPECT_EQ(report.crashes(0).signal(), "TIME_LIMIT");
}

TEST_F(SupervisorTest, WhatRunsLateIsNamedWithItsDeviceAndForHowLong) {
  Attach(kHangs, {"--late-after", "100ms"});
  Give(kHangs, 5, 40, 1);
  worker::v1::WorkerNotes notes;
  do {
    notes = NextNotes();
  } while (notes.late().empty());
  EXPECT_EQ(notes.late(0).job(), kHangs);
  EXPECT_EQ(notes.late(0).first_leaf(), 40u);
  EXPECT_EQ(notes.late(0).leaf_count(), 1u);
  EXPECT_EQ(notes.late(0).device(), "cpu");
  EXPECT_GE(notes.late(0).running_ns(), 100'000'000);
  // It is told again, as it goes on.
  EXPECT_GT(NextNotes().late(0).running_ns(), notes.late(0).running_ns());
  worker::v1::MasterMessage drop;
  drop.add_drop_jobs(kHangs);
  master_.Send(drop);
  while (!NextNotes().late().empty()) {
  }
}

TEST_F(SupervisorTest, WhatADeadWorkerWasRunningIsSaidByItsNextLifeUntilItIsAcknowledged) {
  Attach(kHangs);
  Give(kHangs, 1, 10, 1);
  master_.NextWith([](const worker::v1::WorkerMessage& m) {
    return m.counters().find("pieces") != m.counters().end();
  });
  const auto next_life = [&] {
    worker_->Signal(SIGKILL);
    worker_->Wait();
    Attach(kPlain);
    EXPECT_THAT(hello_.held(), SizeIs(0));
  };
  worker::v1::Report report;
  for (int life = 0; life < 2; ++life) {
    next_life();
    report = master_.NextReport();
    ASSERT_THAT(report.crashes(), SizeIs(1)) << "life " << life;
    EXPECT_EQ(report.crashes(0).job(), kHangs);
    EXPECT_EQ(report.crashes(0).run().first_leaf(), 10u);
    EXPECT_EQ(report.crashes(0).run().n(), kFormerLife);
  }
  master_.Ack(report.number());
  Give(kPlain, 1, 0, 10);
  CollectCommits(10);
  next_life();
  Give(kPlain, 1, 0, 10);
  report = master_.NextReport();
  EXPECT_THAT(report.crashes(), SizeIs(0));
}

TEST_F(SupervisorTest, AnExecutorThatSaysTheImpossibleIsReplaced) {
  Attach(kLies);
  Give(kLies, 1, 0, 1);
  worker::v1::WorkerMessage message;
  do {
    message = master_.Next();
  } while (message.counters().find("executors_lost") == message.counters().end());
  EXPECT_GE(message.counters().at("executors_lost"), 1u);
}

TEST_F(SupervisorTest, AJobThatTheExecutorRefusesIsReported) {
  Attach(kRefuses);
  Give(kRefuses, 1, 0, 2);
  worker::v1::Report report = master_.NextReport();
  while (report.job_faults_size() == 0) report = master_.NextReport();
  EXPECT_EQ(report.job_faults(0).reason(), "PATH_CHANGED: for a test");
  EXPECT_TRUE(report.job_faults(0).fatal());
}

TEST_F(SupervisorTest, AfterALostStreamItSaysWhatItHoldsAndGoesOn) {
  Attach(kHangs);
  Give(kHangs, 1, 10, 5);
  // Its heartbeat shows that the pieces are out.
  worker::v1::WorkerMessage message;
  do {
    message = master_.Next();
  } while (message.counters().find("pieces") == message.counters().end());
  master_.HangUp();
  const worker::v1::Hello again = master_.NextHello();
  EXPECT_EQ(again.incarnation(), hello_.incarnation());
  EXPECT_EQ(again.max_epoch(), 1u);
  uint64_t held = 0;
  for (const worker::v1::HeldLeaves& leaves : again.held()) held += leaves.leaf_count();
  EXPECT_EQ(held, 5u);
  master_.Welcome(2, {kPlain});
  Give(kPlain, 50, 0, 10);
  worker::v1::MasterMessage drop;
  drop.add_drop_jobs(kHangs);
  master_.Send(drop);
  EXPECT_EQ(worker_->Children().size(), 1u);
}

TEST_F(SupervisorTest, AMasterThatComesBackOnItsPortIsFound) {
  const int port = master_.port();
  auto second = std::make_unique<ScriptedMaster>();
  const int other = second->port();
  second.reset();
  worker_ = std::make_unique<WorkerProcess>(StrCat("127.0.0.1:", other), directory_);
  ScriptedMaster late(other);
  EXPECT_FALSE(late.NextHello().name().empty());
  EXPECT_NE(port, other);
}

TEST_F(SupervisorTest, TermReturnsWhatHasNotRunAndLeavesNothingBehind) {
  Attach(kPlain);
  Give(kPlain, 1, 0, 100);
  CollectCommits(100);
  const std::vector<pid_t> children = worker_->Children();
  ASSERT_THAT(children, SizeIs(1));
  worker_->Signal(SIGTERM);
  const worker::v1::WorkerMessage goodbye =
      master_.NextWith([](const worker::v1::WorkerMessage& m) { return m.leaving(); });
  EXPECT_TRUE(goodbye.leaving());
  EXPECT_EQ(worker_->Wait(), 0);
  EXPECT_TRUE(WaitUntilGone(children[0]));
}

TEST_F(SupervisorTest, AKilledWorkerLeavesNoExecutorBehind) {
  Attach(kHangs);
  Give(kHangs, 1, 0, 1);
  std::vector<pid_t> children;
  while (children.empty()) {
    master_.Next();
    children = worker_->Children();
  }
  worker_->Signal(SIGKILL);
  EXPECT_EQ(worker_->Wait(), 128 + SIGKILL);
  for (const pid_t child : children) EXPECT_TRUE(WaitUntilGone(child));
}

TEST_F(SupervisorTest, ItsFolderKeepsItsNameAndAdmitsOneWorker) {
  Attach(kPlain);
  WorkerProcess intruder(master_.address(), directory_);
  EXPECT_EQ(intruder.Wait(), 5);
  worker_->Signal(SIGTERM);
  EXPECT_EQ(worker_->Wait(), 0);
  const std::string name = hello_.name();
  Attach(kPlain);
  EXPECT_EQ(hello_.name(), name);
}

TEST_F(SupervisorTest, APulseIsEchoed) {
  Attach(kPlain);
  worker::v1::MasterMessage message;
  message.set_pulse(4711);
  master_.Send(message);
  EXPECT_EQ(
      master_.NextWith([](const worker::v1::WorkerMessage& m) { return m.pulse() != 0; }).pulse(),
      4711u);
}

TEST_F(SupervisorTest, SettingsThatFitNoEmulatedDeviceAreRefused) {
  for (const char* junk : {"junk", "cores=much", "EMULATED-2;cores=3", "memory=1e30"}) {
    ::setenv("TANDEM_EMULATED", junk, 1);
    WorkerProcess worker(master_.address(), directory_, {"--emulated-gpus", "2"});
    ::unsetenv("TANDEM_EMULATED");
    EXPECT_EQ(worker.Wait(), 2) << junk;
  }
}

TEST_F(SupervisorTest, WrongFlagsAreRefusedWithTwo) {
  WorkerProcess wrong(master_.address(), directory_, {"--cores", "9-7"});
  EXPECT_EQ(wrong.Wait(), 2);
  WorkerProcess missing(master_.address(), directory_, {"--cores", "4095"});
  EXPECT_EQ(missing.Wait(), 2);
}

}  // namespace
}  // namespace tandem::worker
