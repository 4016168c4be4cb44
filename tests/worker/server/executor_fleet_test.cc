// Executors that do not die: a debugger holds them, as a driver would, on their way out.
#include "worker/server/executor_fleet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/strings.h"

namespace tandem::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kGpu[] = "emulated:E-0";

class UndyingTest : public testing::Test {
 protected:
  UndyingTest()
      : folder_(StrCat(testing::TempDir(), "/fleet-", ::getpid())),
        fleet_(Options(), Own(), &clock_) {}
  ~UndyingTest() override { std::filesystem::remove_all(folder_); }

  static FleetOptions Options() {
    FleetOptions options;
    options.program = std::getenv("TANDEM_FAKE_EXECUTOR");
    options.launch.cores = {0};
    return options;
  }
  const Identity* Own() {
    std::filesystem::remove_all(folder_);
    auto claimed = Identity::Claim(folder_, "w");
    CHECK_OK(claimed);
    identity_ = *std::move(claimed);
    return &*identity_;
  }

  template <class Effect>
  void Apply(Effect effect) {
    Effects effects;
    effects.to_executors.push_back(std::move(effect));
    fleet_.Apply(&effects, {}, &events_);
  }
  // An executor that is ready and will come to its end, but no further: its process. 0: this
  // machine lets nobody hold one.
  pid_t StartHeld(ExecutorId id) {
    const std::set<pid_t> before = Children();
    Apply(StartExecutor{id, StrCat("owner", id), kGpu});
    while (fleet_.TakeReady().empty()) Step();
    std::set<pid_t> children = Children();
    for (const pid_t other : before) children.erase(other);
    CHECK(children.size() == 1);
    const pid_t pid = *children.begin();
    return ::ptrace(PTRACE_SEIZE, pid, nullptr, PTRACE_O_TRACEEXIT) == 0 ? pid : 0;
  }
  static std::set<pid_t> Children() {
    std::ifstream file(StrCat("/proc/self/task/", ::gettid(), "/children"));
    return {std::istream_iterator<pid_t>(file), {}};
  }
  // Killed, and given up.
  void GiveUpOn(ExecutorId id, pid_t pid) {
    Apply(KillExecutor{id});
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, __WALL), pid);
    ASSERT_EQ(status >> 16, PTRACE_EVENT_EXIT);
    fleet_.Collect(&events_);
    EXPECT_EQ(fleet_.size(), 1u) << "it may still end";
    clock_.Advance(Options().die_max);
    fleet_.Collect(&events_);
    EXPECT_EQ(fleet_.size(), 0u);
  }
  // It ends at last; nothing is returned before the fleet has seen it.
  void LetDie(pid_t pid) {
    ASSERT_EQ(::ptrace(PTRACE_CONT, pid, nullptr, 0), 0);
    while (fleet_.Held(kGpu) && ::kill(pid, 0) == 0) Step();
  }
  // What was said of the device since the last call.
  std::vector<std::string> Troubles() {
    std::vector<std::string> troubles;
    for (const Event& event : std::exchange(events_, {})) {
      const auto* troubled = std::get_if<DeviceTroubled>(&event);
      if (troubled == nullptr) continue;
      EXPECT_EQ(troubled->device, kGpu);
      troubles.push_back(troubled->trouble);
    }
    return troubles;
  }
  void Step() {
    if (fleet_.Collect(&events_)) return;
    if (fleet_.PrepareToSleep()) {
      std::vector<pollfd> fds;
      fleet_.AddPollFds(&fds);
      CHECK_MSG(::poll(fds.data(), fds.size(), 60'000) > 0, "nothing happens");
    }
    fleet_.Awake();
  }

  const std::string folder_;
  std::optional<Identity> identity_;
  FakeClock clock_;
  std::vector<Event> events_;
  ExecutorFleet fleet_;
};

constexpr char kNoHold[] = "this machine lets nobody hold a process";

TEST_F(UndyingTest, ItsDeviceIsUsedAgainOnceItHasDied) {
  const pid_t pid = StartHeld(1);
  if (pid == 0) GTEST_SKIP() << kNoHold;
  GiveUpOn(1, pid);
  EXPECT_THAT(Troubles(), ElementsAre(HasSubstr(StrCat("(process ", pid, ") was killed"))));
  EXPECT_TRUE(fleet_.Held(kGpu));
  EXPECT_FALSE(fleet_.Collect(&events_));
  EXPECT_THAT(Troubles(), IsEmpty()) << "it is still there";
  LetDie(pid);
  EXPECT_THAT(Troubles(), ElementsAre(""));
  EXPECT_FALSE(fleet_.Held(kGpu));
}

TEST_F(UndyingTest, TheLastOfTwoCounts) {
  const pid_t first = StartHeld(1);
  if (first == 0) GTEST_SKIP() << kNoHold;
  GiveUpOn(1, first);
  const pid_t second = StartHeld(2);
  GiveUpOn(2, second);
  EXPECT_THAT(Troubles(), SizeIs(2));
  LetDie(second);
  EXPECT_THAT(Troubles(), IsEmpty());
  LetDie(first);
  EXPECT_THAT(Troubles(), ElementsAre(""));
}

TEST_F(UndyingTest, ADeviceThatIsOutOfServiceAnywayStaysOut) {
  const pid_t pid = StartHeld(1);
  if (pid == 0) GTEST_SKIP() << kNoHold;
  fleet_.Condemn(kGpu, "Xid 79");
  GiveUpOn(1, pid);
  Troubles();
  LetDie(pid);
  EXPECT_THAT(Troubles(), ElementsAre("Xid 79"));
}

}  // namespace
}  // namespace tandem::worker
