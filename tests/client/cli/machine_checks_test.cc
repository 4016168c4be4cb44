#include "client/cli/machine_checks.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "client/cli/cluster_checks.h"
#include "client/cli/disk_check.h"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;
using Verdict = Finding::Verdict;

class MachineTest : public ::testing::Test {
 protected:
  MachineTest() {
    std::string name = (fs::temp_directory_path() / "tandem-machine-XXXXXX").string();
    root_ = mkdtemp(name.data());
  }
  ~MachineTest() override { fs::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) const {
    const fs::path whole = fs::path(root_) / path;
    fs::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }
  std::string root_;
};

TEST_F(MachineTest, CgroupVersion2LimitsAreTheLeastUpwards) {
  Write("proc/self/cgroup", "0::/a/b\n");
  Write("sys/fs/cgroup/cpu.max", "max 100000\n");
  Write("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  Write("sys/fs/cgroup/a/b/cpu.max", "400000 100000\n");
  Write("sys/fs/cgroup/a/memory.max", "1073741824\n");
  Write("sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(ReadCgroupLimits(root_), (CgroupLimits{1.5, uint64_t{1} << 30}));
}

TEST_F(MachineTest, InAContainerTheMountIsTheGroup) {
  Write("proc/self/cgroup", "0::/docker/0123\n");
  Write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(ReadCgroupLimits(root_).cpus, 2.0);
}

TEST_F(MachineTest, CgroupVersion1IsReadToo) {
  Write("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/y\n1:name=systemd:/\n");
  Write("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "50000\n");
  Write("sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
  Write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  Write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  Write("sys/fs/cgroup/memory/y/memory.limit_in_bytes", "9223372036854771712\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "4096\n");
  EXPECT_EQ(ReadCgroupLimits(root_), (CgroupLimits{0.5, 4096}));
}

TEST_F(MachineTest, WithoutGroupsThereAreNoLimits) {
  EXPECT_EQ(ReadCgroupLimits(root_), CgroupLimits());
}

TEST_F(MachineTest, ReadsMemoryAndNodes) {
  Write("proc/meminfo", "MemTotal:  2048 kB\nMemFree: 1 kB\nMemAvailable:   1024 kB\n");
  EXPECT_EQ(ReadMemory(root_).total_bytes, 2048u << 10);
  EXPECT_EQ(ReadMemory(root_).available_bytes, 1024u << 10);
  Write("sys/devices/system/node/node10/cpulist", "8-15\n");
  Write("sys/devices/system/node/node2/cpulist", "0-7\n");
  Write("sys/devices/system/node/online", "2,10\n");
  EXPECT_EQ(ReadNumaNodes(root_), (std::vector<std::string>{"0-7", "8-15"}));
}

TEST_F(MachineTest, MissingProgramsFailWithAMend) {
  for (const char* name : {"tandem-master", "tandem-worker"}) {
    Write(name, "");
    chmod((root_ + "/" + name).c_str(), 0755);
  }
  const Finding finding = CheckPrograms(root_);
  EXPECT_EQ(finding.verdict, Verdict::kFailure);
  EXPECT_NE(finding.found.find("no tandem-executor"), std::string::npos);
  EXPECT_EQ(ReasonOf(finding.error), "PATH_UNREADABLE");
  EXPECT_NE(finding.mend, "");
}

TEST(CoresTest, AQuotaBelowTheCoresIsAWarning) {
  EXPECT_EQ(CheckCores(4, 8, {}).verdict, Verdict::kOk);
  EXPECT_EQ(CheckCores(4, 8, {4.0, {}}).verdict, Verdict::kOk);
  const Finding finding = CheckCores(4, 8, {1.5, {}});
  EXPECT_EQ(finding.verdict, Verdict::kWarning);
  EXPECT_NE(finding.mend.find("--cores-max 1,"), std::string::npos);
}

TEST(MemoryTest, TheGroupsLimitCounts) {
  const Memory memory{uint64_t{8} << 30, uint64_t{4} << 30};
  EXPECT_EQ(CheckMemory(memory, {}).verdict, Verdict::kOk);
  EXPECT_EQ(CheckMemory(memory, {{}, uint64_t{1} << 20}).verdict, Verdict::kWarning);
}

TEST(OpenFilesTest, FewAreAFailureAndRaisable) {
  EXPECT_EQ(CheckOpenFiles(100, 100).verdict, Verdict::kFailure);
  EXPECT_EQ(ReasonOf(CheckOpenFiles(100, 100).error), "LIMIT_TOO_LOW");
  EXPECT_EQ(CheckOpenFiles(1024, RLIM_INFINITY).verdict, Verdict::kWarning);
  EXPECT_NE(CheckOpenFiles(1024, RLIM_INFINITY).mend.find("ulimit -n 8192"), std::string::npos);
  EXPECT_EQ(CheckOpenFiles(1 << 20, 1 << 20).verdict, Verdict::kOk);
}

TEST(SharedMemoryTest, WorksHere) { EXPECT_EQ(CheckSharedMemory().verdict, Verdict::kOk); }

TEST(DiskTest, EachTroubleHasItsMend) {
  DiskFacts good;
  good.free_bytes = good.total_bytes = uint64_t{1} << 40;
  good.sync = absl::Milliseconds(1);
  EXPECT_EQ(CheckDisk("/d", good).verdict, Verdict::kOk);
  DiskFacts full = good, low = good, slow = good, memory = good, network = good;
  full.free_bytes = 4096;
  low.free_bytes = uint64_t{1} << 30;
  slow.sync = absl::Milliseconds(100);
  memory.in_memory = true;
  network.on_network = true;
  EXPECT_EQ(CheckDisk("/d", full).verdict, Verdict::kFailure);
  EXPECT_EQ(ReasonOf(CheckDisk("/d", full).error), "DISK_FULL");
  for (const DiskFacts& facts : {low, slow, memory, network}) {
    EXPECT_EQ(CheckDisk("/d", facts).verdict, Verdict::kWarning);
    EXPECT_NE(CheckDisk("/d", facts).mend, "");
  }
}

TEST(DiskTest, AFolderThatIsNotThereIsAFailure) {
  const Finding finding = CheckDisk("/none/of/it", MeasureDisk("/none/of/it"));
  EXPECT_EQ(finding.verdict, Verdict::kFailure);
  EXPECT_EQ(ReasonOf(finding.error), "PATH_UNWRITABLE");
}

TEST(DiskTest, MeasuringLeavesNothingBehind) {
  std::string folder = (fs::temp_directory_path() / "tandem-disk-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const auto facts = MeasureDisk(folder);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_GT(facts->sync, absl::ZeroDuration());
  EXPECT_TRUE(fs::is_empty(folder));
  fs::remove_all(folder);
}

MasterAnswer Answer(std::string version, absl::Duration ahead) {
  MasterAnswer answer;
  answer.asked = absl::FromUnixSeconds(1000);
  answer.answered = answer.asked + absl::Milliseconds(10);
  client::MasterSummary master;
  master.version = std::move(version);
  master.workers = 1;
  master.now = answer.asked + ahead;
  answer.master = master;
  return answer;
}

TEST(VersionsTest, AnotherVersionIsSkew) {
  EXPECT_EQ(CheckVersions("1", Answer("1", {})).verdict, Verdict::kOk);
  EXPECT_EQ(ReasonOf(CheckVersions("1", Answer("2", {})).error), "VERSION_SKEW");
  MasterAnswer worker = Answer("1", {});
  worker.workers.push_back({.name = "w1", .version = "0"});
  EXPECT_NE(CheckVersions("1", worker).found.find("w1 is 0"), std::string::npos);
}

TEST(ClockTest, IsComparedWithTheMasters) {
  EXPECT_EQ(CheckClock(true, Answer("1", absl::Milliseconds(5))).verdict, Verdict::kOk);
  const Finding behind = CheckClock(true, Answer("1", absl::Seconds(90)));
  EXPECT_EQ(behind.verdict, Verdict::kWarning);
  EXPECT_EQ(ReasonOf(behind.error), "CLOCK_SKEW");
  EXPECT_NE(behind.found.find("1m30s before the master's"), std::string::npos) << behind.found;
  EXPECT_EQ(CheckClock(false, MasterAnswer()).verdict, Verdict::kWarning);
}

TEST(MasterTest, AMasterThatSomebodyNamedMustBeThere) {
  EXPECT_EQ(CheckMaster("a:1", MasterAnswer(), false).verdict, Verdict::kWarning);
  EXPECT_EQ(CheckMaster("a:1", MasterAnswer(), true).verdict, Verdict::kFailure);
  EXPECT_EQ(CheckMaster("a:1", Answer("1", {}), true).verdict, Verdict::kOk);
}

}  // namespace
}  // namespace tandem::cli
