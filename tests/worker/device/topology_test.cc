#include "worker/device/cpu/topology.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/rng.h"
#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::worker {
namespace {

using ::testing::ElementsAre;

int Threads(const std::vector<CoreGroup>& groups) {
  int threads = 0;
  for (const CoreGroup& group : groups) threads += group.threads;
  return threads;
}

TEST(DivideCoresTest, AGroupALastLevelCacheByDefault) {
  const auto groups = DivideCores({{0, 1, 2, 3}, {4, 5, 6, 7}}, {}, 0);
  ASSERT_TRUE(groups.ok());
  EXPECT_THAT(*groups, ElementsAre(CoreGroup{{0, 1, 2, 3}, 4}, CoreGroup{{4, 5, 6, 7}, 4}));
}

TEST(DivideCoresTest, MoreGroupsSplitTheLargestCache) {
  const auto groups = DivideCores({{0, 1, 2, 3}, {4, 5}}, {.groups = 3}, 0);
  ASSERT_TRUE(groups.ok());
  EXPECT_THAT(*groups,
              ElementsAre(CoreGroup{{0, 1}, 2}, CoreGroup{{2, 3}, 2}, CoreGroup{{4, 5}, 2}));
}

TEST(DivideCoresTest, FewerGroupsJoinNeighbours) {
  const auto groups = DivideCores({{0, 1, 2, 3}, {4}, {5}}, {.groups = 2}, 0);
  ASSERT_TRUE(groups.ok());
  EXPECT_THAT(*groups, ElementsAre(CoreGroup{{0, 1, 2, 3}, 4}, CoreGroup{{4, 5}, 2}));
}

TEST(DivideCoresTest, AQuotaAndTheOptionBoundThreadsNotTheCoresTheyMayUse) {
  const auto quota = DivideCores({{0, 1, 2, 3, 4, 5, 6, 7}}, {}, 3);
  ASSERT_TRUE(quota.ok());
  EXPECT_THAT(*quota, ElementsAre(CoreGroup{{0, 1, 2, 3, 4, 5, 6, 7}, 3}));
  const auto option = DivideCores({{0, 1, 2, 3, 4, 5, 6, 7}}, {.cores = 2}, 3);
  ASSERT_TRUE(option.ok());
  EXPECT_EQ(Threads(*option), 2);
}

TEST(DivideCoresTest, MoreGroupsThanCoresAreRefusedWithTheNumber) {
  const auto groups = DivideCores({{0, 1}}, {.groups = 3}, 0);
  EXPECT_EQ(ReasonOf(groups.status()), "BAD_RESOURCES");
  EXPECT_NE(std::string(groups.status().message()).find("at most 2"), std::string::npos);
  EXPECT_FALSE(DivideCores({{}}, {}, 0).ok());
  EXPECT_FALSE(DivideCores({{0}}, {.cores = -1}, 0).ok());
}

TEST(DivideCoresTest, AnyMachineIsDividedWithoutLossOrEmptyGroups) {
  Rng rng(20261130);
  for (int round = 0; round < 2000; ++round) {
    std::vector<CacheDomain> domains;
    int cpus = 0;
    for (uint64_t i = rng.Between(1, 6); i > 0; --i) {
      CacheDomain domain(rng.Between(1, 9));
      std::iota(domain.begin(), domain.end(), cpus);
      cpus += static_cast<int>(domain.size());
      domains.push_back(domain);
    }
    const int quota = static_cast<int>(rng.Below(20));
    const CpuOptions options = {.cores = static_cast<int>(rng.Below(20)), .groups = 0};
    int allowed = cpus;
    if (quota > 0) allowed = std::min(allowed, quota);
    if (options.cores > 0) allowed = std::min(allowed, options.cores);
    CpuOptions asked = options;
    asked.groups = static_cast<int>(rng.Below(static_cast<uint64_t>(allowed) + 1));
    const auto groups = DivideCores(domains, asked, quota);
    ASSERT_TRUE(groups.ok()) << groups.status();
    EXPECT_EQ(Threads(*groups), allowed);
    if (asked.groups > 0) {
      EXPECT_EQ(groups->size(), static_cast<size_t>(asked.groups));
    }
    std::set<int> seen;
    for (const CoreGroup& group : *groups) {
      EXPECT_GE(group.threads, 1);
      EXPECT_LE(group.threads, static_cast<int>(group.cpus.size()));
      for (const int cpu : group.cpus) EXPECT_TRUE(seen.insert(cpu).second) << "cpu twice";
    }
    EXPECT_EQ(seen.size(), static_cast<size_t>(cpus));
  }
}

class CgroupTest : public ::testing::Test {
 protected:
  CgroupTest() : root_(StrCat(::testing::TempDir(), "/cgroup-", getpid())) {}
  ~CgroupTest() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + "/" + path).parent_path());
    std::ofstream(root_ + "/" + path) << text << "\n";
  }
  const std::string root_;
};

TEST_F(CgroupTest, TheTightestLimitOnTheWayUpCounts) {
  Write("cpu.max", "max 100000");
  Write("slice/cpu.max", "250000 100000");
  Write("slice/job/cpu.max", "max 100000");
  Write("slice/memory.max", "1073741824");
  Write("slice/job/memory.max", "max");
  EXPECT_EQ(CgroupQuotaCores(root_, "0::/slice/job\n"), 3);  // 2.5, rounded up
  EXPECT_EQ(CgroupMemoryLimit(root_, "0::/slice/job\n"), 1073741824u);
  EXPECT_EQ(CgroupQuotaCores(root_, "0::/\n"), 0);
  EXPECT_EQ(CgroupQuotaCores(root_, ""), 0);
}

TEST_F(CgroupTest, TheFirstVersionsFilesAreReadToo) {
  Write("cpu/app/cpu.cfs_quota_us", "400000");
  Write("cpu/app/cpu.cfs_period_us", "100000");
  Write("cpu/cpu.cfs_quota_us", "-1");
  Write("cpu/cpu.cfs_period_us", "100000");
  Write("memory/app/memory.limit_in_bytes", "4096");
  const std::string self = "7:memory:/app\n4:cpu:/app\n0::/\n";
  EXPECT_EQ(CgroupQuotaCores(root_, self), 4);
  EXPECT_EQ(CgroupMemoryLimit(root_, self), 4096u);
}

TEST(MachineTest, TheDomainsAreTheAllowedCores) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  const auto domains = ReadCacheDomains();
  ASSERT_TRUE(domains.ok());
  int cpus = 0;
  for (const CacheDomain& domain : *domains) {
    for (const int cpu : domain) EXPECT_TRUE(CPU_ISSET(static_cast<size_t>(cpu), &allowed));
    cpus += static_cast<int>(domain.size());
  }
  EXPECT_EQ(cpus, CPU_COUNT(&allowed));
  EXPECT_GT(ReadMachineInfo().memory_bytes, 0u);
}

TEST(MachineTest, ANarrowerAffinityMaskNarrowsTheDomains) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  int first = 0;
  while (!CPU_ISSET(static_cast<size_t>(first), &allowed)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(first), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  const auto domains = ReadCacheDomains();
  ASSERT_EQ(sched_setaffinity(0, sizeof(allowed), &allowed), 0);
  ASSERT_TRUE(domains.ok());
  EXPECT_THAT(*domains, ElementsAre(CacheDomain{first}));
}

}  // namespace
}  // namespace tandem::worker
