// How leases were shared out, in words: each case against a sentence written by hand.
#include "master/server/explain_leases.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "master/server/explain_job.h"

namespace tandem::master {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr uint64_t kMicro = 1'000;

v1::LeaseSplit Lease(uint64_t begin, uint64_t end) {
  v1::LeaseSplit lease;
  lease.set_worker_name("w1");
  lease.mutable_granted()->set_begin(begin);
  lease.mutable_granted()->set_end(end);
  *lease.add_kept() = lease.granted();
  return lease;
}

void Share(v1::LeaseSplit* lease, v1::DeviceKind device, uint64_t tasks, uint64_t begin_us,
           uint64_t end_us, const std::string& bound_by) {
  v1::LeaseShare* share = lease->add_shares();
  share->set_device(device);
  share->set_tasks(tasks);
  share->set_begin_ns(begin_us * kMicro);
  share->set_end_ns(end_us * kMicro);
  share->set_bound_by(bound_by);
}

TEST(LeaseSentence, TellsWhatEachKindHadHowLongItTookAndWhatBindsTheDevice) {
  v1::LeaseSplit lease = Lease(4096, 8192);
  Share(&lease, v1::DEVICE_CPU, 856, 100, 2000, "cpu");
  Share(&lease, v1::DEVICE_GPU, 3240, 0, 1900, "copy up");
  EXPECT_EQ(
      LeaseSentence(lease),
      "tasks [4096,8192) at w1: gpu 3,240 in 1.9ms, cpu 856 in 1.9ms; gpu is bound by copy up");
}

TEST(LeaseSentence, OneDeviceThatHadAllOfItIsSaidToBeAlone) {
  v1::LeaseSplit lease = Lease(0, 4096);
  Share(&lease, v1::DEVICE_CPU, 4096, 0, 8000, "cpu");
  EXPECT_EQ(LeaseSentence(lease),
            "tasks [0,4096) at w1: cpu alone, 4,096 in 8ms; bound by the CPU");
  lease.clear_shares();
  Share(&lease, v1::DEVICE_EMULATED, 4096, 0, 8000, "grid");
  EXPECT_EQ(LeaseSentence(lease),
            "tasks [0,4096) at w1: emulated alone, 4,096 in 8ms; bound by its grids");
  lease.mutable_shares(0)->set_bound_by("host stages");
  EXPECT_THAT(LeaseSentence(lease), HasSubstr("; bound by host stages"));
}

TEST(LeaseSentence, SeveralDevicesOfAKindAreOneWithTheStageOfTheOneThatHadMost) {
  v1::LeaseSplit lease = Lease(0, 1000);
  Share(&lease, v1::DEVICE_CPU, 100, 0, 900, "cpu");
  Share(&lease, v1::DEVICE_EMULATED, 300, 50, 800, "grid");
  Share(&lease, v1::DEVICE_EMULATED, 600, 0, 950, "copy down");
  EXPECT_EQ(
      LeaseSentence(lease),
      "tasks [0,1000) at w1: emulated (2 devices) 900 in 950us, cpu 100 in 900us; emulated is "
      "bound by copy down");
}

TEST(LeaseSentence, WhatWentElsewhereIsNotInTheRange) {
  v1::LeaseSplit lease = Lease(0, 1000);
  lease.mutable_kept(0)->set_end(300);
  v1::TaskSpan* more = lease.add_kept();
  more->set_begin(600);
  more->set_end(1000);
  Share(&lease, v1::DEVICE_CPU, 700, 0, 900, "cpu");
  EXPECT_EQ(LeaseSentence(lease),
            "tasks [0,300) and [600,1000) of [0,1000), the rest went elsewhere, at w1: cpu alone, "
            "700 in 900us; bound by the CPU");
}

TEST(ExplainLeases, AnEmulatedDeviceIsNeverCalledAGpu) {
  v1::LeaseSplit lease = Lease(0, 10);
  Share(&lease, v1::DEVICE_EMULATED, 10, 0, 5, "grid");
  EXPECT_THAT(LeaseSentence(lease), Not(HasSubstr("gpu")));
}

TEST(ExplainLeases, OfCpusAloneNothingIsSaid) {
  std::vector<v1::LeaseSplit> leases = {Lease(0, 10)};
  Share(&leases[0], v1::DEVICE_CPU, 10, 0, 5, "cpu");
  EXPECT_THAT(ExplainLeases(leases), IsEmpty());
}

TEST(ExplainLeases, ThoseThatTookTheLongestAreToldInTheOrderInWhichTheyEnded) {
  std::vector<v1::LeaseSplit> leases;
  for (const uint64_t took : {70, 10, 90, 20, 80, 30, 60}) {
    leases.push_back(Lease(took, took + 1));
    Share(&leases.back(), v1::DEVICE_EMULATED, 1, 0, took, "grid");
  }
  std::vector<std::string> begins;
  for (const v1::Finding& finding : ExplainLeases(leases)) {
    EXPECT_EQ(finding.token(), "LEASE");
    begins.push_back(finding.what().substr(0, 9));
  }
  EXPECT_THAT(begins, ElementsAre("tasks [70", "tasks [90", "tasks [80", "tasks [60"));
  // They are the last of an explanation, behind what weighs more.
  JobFacts job;
  job.leases = leases;
  EXPECT_THAT(ExplainJob(job).front().token(), Not("LEASE"));
  EXPECT_EQ(ExplainJob(job).back().token(), "LEASE");
}

}  // namespace
}  // namespace tandem::master
