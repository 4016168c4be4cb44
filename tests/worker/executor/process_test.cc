// tandem-executor as a process: how it starts, what it leaves behind when it dies, how it ends.
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/strings.h"
#include "common/model/bound_job.h"
#include "common/probe/device_report.h"
#include "common/probe/probe_process.h"
#include "common/wire/session.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tandem/executor/v1/executor.pb.h"
#include "tests/support/fake_kernels.h"
#include "worker/executor/kernel_table.h"
#include "worker/ring/channel.h"
#include "worker/ring/launch.h"
#include "worker/ring/staging.h"
#include "worker/ring/start_page.h"

namespace tandem::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kFirstFd = 100;

std::vector<uint32_t> AllowedCores() {
  cpu_set_t mask;
  CHECK(sched_getaffinity(0, sizeof(mask), &mask) == 0);
  std::vector<uint32_t> cores;
  for (uint32_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &mask)) cores.push_back(cpu);
  }
  return cores;
}

class ProcessTest : public ::testing::Test {
 protected:
  ProcessTest() : folder_(StrCat(::testing::TempDir(), "/executor-process-", getpid())) {
    std::filesystem::create_directories(folder_);
    auto pair = MakeChannel();
    CHECK_OK(pair);
    channel_ = std::move(pair->supervisor);
    fds_ = std::move(pair->executor_fds);
    auto staging = StagingFile::Create();
    CHECK_OK(staging);
    staging_ = *std::move(staging);
    launch_.channel = StrCat(kFirstFd, ",", kFirstFd + 1, ",", kFirstFd + 2);
    launch_.staging_fd = kFirstFd + 3;
    launch_.start_page = folder_ + "/start";
    launch_.owner = "ada";
    launch_.directory = folder_;
    launch_.cores = AllowedCores();
    launch_.kernel_libraries = {FAKE_LIBRARY};
    launch_.parent_pid = getpid();
    auto page =
        StartPage::Create(launch_.start_page, StartSlots(launch_.cores.size()) + kGridSlots);
    CHECK_OK(page);
    page_ = *std::move(page);
  }
  ~ProcessTest() override {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
    std::filesystem::remove_all(folder_);
  }

  // Replaces the calling process, which was forked for this.
  [[noreturn]] void Exec(const std::vector<std::string>& arguments) {
    const int from[] = {fds_.memory.get(), fds_.own_wake.get(), fds_.peer_wake.get(),
                        staging_->fd()};
    for (int i = 0; i < 4; ++i) {
      if (dup2(from[i], kFirstFd + i) < 0) _exit(99);
    }
    std::vector<char*> argv = {const_cast<char*>(EXECUTOR_PROGRAM)};
    for (const std::string& argument : arguments)
      argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(99);
  }
  void Start() {
    const std::vector<std::string> arguments = ToArguments(launch_);
    child_ = fork();
    if (child_ == 0) Exec(arguments);
    Until([&] { return last_.has_ready(); });
  }
  // Receives until the condition holds of the last message, or the child's end of the ring breaks.
  void Until(const std::function<bool()>& condition) {
    while (!condition()) {
      auto received = channel_->Receive(&last_);
      CHECK_OK(received);
      if (*received) continue;
      auto may_sleep = channel_->PrepareToSleep();
      CHECK_OK(may_sleep);
      if (*may_sleep) {
        pollfd fd = {channel_->wake_fd(), POLLIN, 0};
        CHECK_MSG(poll(&fd, 1, 60'000) > 0, "the executor says nothing");
      }
      CHECK_OK(channel_->Awake());
    }
  }
  int WaitForExit() {
    int status = 0;
    CHECK(waitpid(child_, &status, 0) == child_);
    child_ = 0;
    return status;
  }
  void SetUpJob(uint64_t job, JobSpec spec) {
    wire::JobDescription description;
    description.job = JobId(job);
    const auto kernel = DescribeKernel(*tandem::testing::FakeKernel(spec.kernel));
    CHECK_OK(kernel);
    spec.owner = "ada";
    const auto bound = ValidateAndBind(std::move(spec), *kernel);
    CHECK_OK(bound);
    description.spec = bound->spec;
    description.kernel = *kernel;
    executor::v1::ToExecutor message;
    wire::Encode(description, message.add_setups()->mutable_description());
    CHECK_OK(channel_->Send(message));
  }
  void Send(uint64_t piece, uint64_t job, uint64_t first_leaf, uint64_t leaves, bool suspect) {
    executor::v1::ToExecutor message;
    executor::v1::RunPiece* run = message.add_runs();
    run->set_piece(piece);
    run->set_job(job);
    run->set_first_leaf(first_leaf);
    run->set_leaf_count(leaves);
    run->set_suspect(suspect);
    CHECK_OK(channel_->Send(message));
  }
  // A job whose process dies at one task, or at none.
  static constexpr int64_t kNever = -2;
  void SetUpDeath(uint64_t job, int64_t tasks, uint64_t grain, int64_t at) {
    JobSpec spec;
    spec.kernel = "die_at";
    spec.axis_extents["n"] = tasks;
    spec.scalars["at"] = Scalar::I64(at);
    spec.grain = grain;
    SetUpJob(job, spec);
  }

  const std::string folder_;
  std::unique_ptr<Channel> channel_;
  ChannelFds fds_;
  std::unique_ptr<StagingFile> staging_;
  std::unique_ptr<StartPage> page_;
  ExecutorLaunch launch_;
  pid_t child_ = 0;
  executor::v1::FromExecutor last_;
};

TEST_F(ProcessTest, ItLoadsLibrariesBesideTheBuiltInKernelsAndSaysAll) {
  Start();
  bool built_in = false;
  bool loaded = false;
  for (const auto& kernel : last_.ready().kernels()) {
    built_in |= kernel.name() == "noop";
    loaded |= kernel.name() == "die_at";
  }
  EXPECT_TRUE(built_in);
  EXPECT_TRUE(loaded);
  EXPECT_EQ(last_.ready().device().cores(), launch_.cores.size());
}

TEST_F(ProcessTest, ACrashNamesTheLeavesThatHadStarted) {
  Start();
  SetUpDeath(7, 1000, 10, 503);
  Send(1, 7, 50, 1, false);
  const int status = WaitForExit();
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGABRT);
  const std::vector<Started> running = page_->Running();
  ASSERT_EQ(running.size(), 1u);
  EXPECT_EQ(running[0].job, 7u);
  EXPECT_EQ(running[0].first_leaf, 50u);
  EXPECT_EQ(running[0].leaf_count, 1u);
  EXPECT_FALSE(running[0].task.has_value());
}

TEST_F(ProcessTest, ASuspectsCrashNamesTheTask) {
  Start();
  SetUpDeath(7, 1000, 10, 503);
  Send(1, 7, 48, 4, true);
  WaitForExit();
  const std::vector<Started> running = page_->Running();
  ASSERT_EQ(running.size(), 1u);
  EXPECT_EQ(running[0].first_leaf, 50u);
  EXPECT_EQ(running[0].task, 503u);
}

TEST_F(ProcessTest, AfterAPieceNothingIsSuspectAndItsOutputsOutliveTheProcess) {
  Start();
  SetUpDeath(7, 100'000, 1000, kNever);
  Send(1, 7, 0, 100, false);
  Until([&] { return last_.done_size() > 0; });
  const tandem::v1::Region region = last_.done(0).outputs(0).region();
  kill(child_, SIGKILL);
  WaitForExit();
  EXPECT_THAT(page_->Running(), IsEmpty());
  const auto bytes = staging_->Read(region.offset(), region.length());
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(std::string(*bytes), std::string(100'000, '\1'));
}

TEST_F(ProcessTest, AnEmulatedDeviceIsNamedAndItsStickyErrorNamesWhatRan) {
  launch_.device = "emulated:E-1;memory=10000000;cores=8;faults=sticky@2";
  Start();
  const tandem::v1::Device device = last_.ready().device();
  EXPECT_EQ(device.kind(), tandem::v1::DEVICE_EMULATED);
  EXPECT_EQ(device.uuid(), "E-1");
  EXPECT_EQ(device.groups(), 1u);
  EXPECT_EQ(device.memory_bytes(), 10'000'000u);
  EXPECT_EQ(device.budget_bytes(), 9'000'000u);
  EXPECT_TRUE(last_.ready().shrinks());
  SetUpDeath(7, 1000, 10, kNever);
  Send(1, 7, 0, 4, false);
  Until([&] { return last_.done_size() > 0; });
  EXPECT_GT(last_.done(0).grid_ns(), 0u);
  EXPECT_GT(last_.done(0).down_ns(), 0u);
  EXPECT_TRUE(last_.done(0).first_launch());
  EXPECT_THAT(page_->Running(), IsEmpty());
  Send(2, 7, 8, 4, false);
  const int status = WaitForExit();
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 70);
  const std::vector<Started> running = page_->Running();
  ASSERT_EQ(running.size(), 1u);
  EXPECT_EQ(running[0].job, 7u);
  EXPECT_EQ(running[0].first_leaf, 8u);
  EXPECT_EQ(running[0].leaf_count, 4u);
}

TEST_F(ProcessTest, ASuspectOnADeviceIsFoundTaskByTask) {
  launch_.device = "emulated:E-1;clock=exact";
  Start();
  SetUpDeath(7, 1000, 10, 503);
  Send(1, 7, 48, 4, true);
  WaitForExit();
  const std::vector<Started> running = page_->Running();
  ASSERT_EQ(running.size(), 1u);
  EXPECT_EQ(running[0].first_leaf, 50u);
  EXPECT_EQ(running[0].task, 503u);
}

TEST_F(ProcessTest, ShutdownEndsItAndThreadsStayOnTheCoresItWasGiven) {
  launch_.cores.resize(1);
  Start();
  EXPECT_EQ(last_.ready().device().cores(), 1u);
  SetUpDeath(7, 100'000, 1000, kNever);
  Send(1, 7, 0, 100, false);
  Until([&] { return last_.done_size() > 0; });
  int threads = 0;
  for (const auto& entry : std::filesystem::directory_iterator(StrCat("/proc/", child_, "/task"))) {
    cpu_set_t mask;
    const pid_t thread = std::stoi(entry.path().filename().string());
    ASSERT_EQ(sched_getaffinity(thread, sizeof(mask), &mask), 0);
    EXPECT_EQ(CPU_COUNT(&mask), 1);
    EXPECT_TRUE(CPU_ISSET(launch_.cores[0], &mask));
    ++threads;
  }
  EXPECT_GE(threads, 2);
  executor::v1::ToExecutor message;
  message.set_shutdown(true);
  CHECK_OK(channel_->Send(message));
  const int status = WaitForExit();
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(ProcessTest, ItDiesWithTheProcessThatStartedIt) {
  // The executor holds the pipe's only other end: it reads as closed once the executor is gone.
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    close(pipe_fds[0]);
    launch_.parent_pid = getpid();
    const std::vector<std::string> arguments = ToArguments(launch_);
    const pid_t child = fork();
    if (child == 0) Exec(arguments);
    close(pipe_fds[1]);
    pause();
    _exit(0);
  }
  close(pipe_fds[1]);
  Until([&] { return last_.has_ready(); });
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  char byte = 0;
  pollfd fd = {pipe_fds[0], POLLIN, 0};
  ASSERT_GT(poll(&fd, 1, 60'000), 0);
  EXPECT_EQ(read(pipe_fds[0], &byte, 1), 0);
  close(pipe_fds[0]);
}

TEST_F(ProcessTest, WhatAStartTakesIsSaidInItsParts) {
  const std::map<std::string, std::vector<std::string>> expected = {
      {"cpu", {"spawn", "device", "kernels", "first_launch"}},
      {"emulated:E-1", {"spawn", "device", "kernels", "slab", "first_launch"}}};
  for (const auto& [device, names] : expected) {
    const auto text = RunProbe({EXECUTOR_PROGRAM, StrCat("--start=", device),
                                StrCat("--since=", Clock::Real()->Now().nanos())},
                               absl::Minutes(1));
    ASSERT_TRUE(text.ok()) << text.status();
    const auto report = ParseStartReport(*text);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_TRUE(report->error.ok()) << report->error;
    EXPECT_EQ(report->device, device);
    std::vector<std::string> parts;
    double seconds = 0;
    for (const auto& [name, took] : report->parts) {
      parts.push_back(name);
      EXPECT_GT(took, 0) << name;
      seconds += took;
    }
    EXPECT_EQ(parts, names);
    EXPECT_NEAR(seconds, report->seconds, 1e-6);
  }
}

TEST_F(ProcessTest, AWrongStartIsAUsageError) {
  child_ = fork();
  if (child_ == 0) Exec({"--owner=ada"});
  int status = WaitForExit();
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 2);
}

}  // namespace
}  // namespace tandem::worker
