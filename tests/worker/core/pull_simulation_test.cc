// Do devices that pull end together? The real Puller in virtual time, against the ideal.
#include "tests/worker/core/pull_simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "common/base/rng.h"

namespace tandem::worker {
namespace {

constexpr double kMessageSeconds = 20e-6;

double Normal(Rng* rng) {
  const double radius = std::sqrt(-2 * std::log(1 - rng->NextDouble()));
  return radius * std::cos(2 * 3.14159265358979 * rng->NextDouble());
}

enum class Costs { kEven, kUniform, kLogNormal, kClustered };

// Work of each leaf, in any unit.
std::vector<double> MakeCosts(Costs kind, uint64_t leaves, Rng* rng) {
  std::vector<double> costs(leaves, 1);
  double walk = 0;
  for (double& cost : costs) {
    if (kind == Costs::kUniform) cost = 0.25 + 1.5 * rng->NextDouble();
    if (kind == Costs::kLogNormal) cost = std::exp(0.5 * Normal(rng));
    if (kind == Costs::kClustered) {  // neighbours are alike, over some fifty leaves
      walk = 0.98 * walk + 0.2 * Normal(rng);
      cost = std::exp(0.7 * walk);
    }
  }
  return costs;
}

SimulatedDevice Gpu(double speed) {
  SimulatedDevice device;
  device.speed = speed;
  device.fixed_seconds = 40e-6;
  device.first_extra_seconds = 2e-3;
  device.told.end = PoolEnd::kFront;
  return device;
}

SimulatedDevice CpuGroup() {
  SimulatedDevice device;
  device.fixed_seconds = 15e-6;
  device.told.gives_back = true;
  return device;
}

double Sum(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

// Scales the devices so that the ideal is `seconds`, and tells the puller what they can do, wrong
// by each device's `error`.
void Prepare(const std::vector<double>& costs, double seconds, std::vector<double> errors,
             std::vector<SimulatedDevice>* devices) {
  double speed = 0;
  for (const SimulatedDevice& device : *devices) speed += device.speed;
  errors.resize(devices->size(), errors.back());
  for (size_t i = 0; i < devices->size(); ++i) {
    SimulatedDevice& device = (*devices)[i];
    device.speed *= Sum(costs) / speed / seconds;
    device.told.fixed_seconds = device.fixed_seconds + 2 * kMessageSeconds;
    device.told.seconds_per_leaf =
        errors[i] * Sum(costs) / static_cast<double>(costs.size()) / device.speed;
  }
}

struct Server {
  std::vector<double> costs;
  std::vector<SimulatedDevice> devices;
};

// Two core groups and eight GPUs, each 1 to 20 times as fast as a group.
Server LargeServer(uint64_t seed) {
  Rng rng(seed);
  const Costs kinds[] = {Costs::kUniform, Costs::kLogNormal, Costs::kClustered};
  Server server;
  const uint64_t leaves = 1000 + rng.Below(seed % 2 == 0 ? 1000 : 20'000);
  server.costs = MakeCosts(kinds[seed % 3], leaves, &rng);
  for (int i = 0; i < 2; ++i) server.devices.push_back(CpuGroup());
  for (int i = 0; i < 8; ++i) server.devices.push_back(Gpu(1 + 19 * rng.NextDouble()));
  Prepare(server.costs, 1 + 2 * rng.NextDouble(), {1}, &server.devices);
  return server;
}

double Ratio(const Server& server, const SimulationOptions& options = {}) {
  PullSimulation simulation(server.costs, server.devices, options);
  EXPECT_TRUE(simulation.Run()) << "nothing moves any more";
  EXPECT_TRUE(simulation.once());
  return simulation.seconds() / simulation.ideal();
}

struct Summary {
  double median = 0, worst = 0;
  uint64_t worst_seed = 0;
};

// `change` is done to each server before it runs.
template <class Change>
Summary OverSeeds(uint64_t seeds, const SimulationOptions& options, Change change) {
  std::vector<double> ratios;
  Summary summary;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    Server server = LargeServer(seed);
    change(&server);
    ratios.push_back(Ratio(server, options));
    if (ratios.back() > summary.worst) summary.worst_seed = seed;
    summary.worst = std::max(summary.worst, ratios.back());
  }
  std::sort(ratios.begin(), ratios.end());
  summary.median = ratios[ratios.size() / 2];
  const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
  testing::Test::RecordProperty(name + "_median", std::to_string(summary.median));
  testing::Test::RecordProperty(name + "_worst", std::to_string(summary.worst));
  std::printf("%s: median %.4f worst %.4f (seed %d)\n", name.c_str(), summary.median, summary.worst,
              static_cast<int>(summary.worst_seed));
  return summary;
}

constexpr auto kAsIs = [](Server*) {};

TEST(PullSimulationTest, TwoCoreGroupsAndEightGpusEndTogether) {
  const Summary summary = OverSeeds(100, {}, kAsIs);
  EXPECT_LE(summary.median, 1.02);
  EXPECT_LE(summary.worst, 1.10) << "seed " << summary.worst_seed;
}

TEST(PullSimulationTest, TheyDoWhenLeasesComeOneByOne) {
  SimulationOptions options;
  options.lease_leaves = 100;
  const Summary summary = OverSeeds(100, options, kAsIs);
  EXPECT_LE(summary.median, 1.03);
  EXPECT_LE(summary.worst, 1.10) << "seed " << summary.worst_seed;
}

TEST(PullSimulationTest, FirstSizesWrongTwentyfoldCostLittle) {
  const Summary slow = OverSeeds(100, {}, [](Server* server) {
    for (auto& device : server->devices) device.told.seconds_per_leaf *= 20;
  });
  EXPECT_LE(slow.median, 1.03);
  EXPECT_LE(slow.worst, 1.10) << "seed " << slow.worst_seed;
  const Summary mixed = OverSeeds(100, {}, [](Server* server) {
    for (size_t i = 0; i < server->devices.size(); ++i) {
      server->devices[i].told.seconds_per_leaf *= i % 2 == 0 ? 20 : 0.05;
    }
  });
  EXPECT_LE(mixed.median, 1.03);
  EXPECT_LE(mixed.worst, 1.10) << "seed " << mixed.worst_seed;
}

// A core group and a GPU of 1, 4 and 20 times its speed: the set-up of the hybrid benchmark.
TEST(PullSimulationTest, ACpuAndAGpuComeWithinTwoPercentOrFiveWhenUneven) {
  for (const double speed : {1.0, 4.0, 20.0}) {
    for (const double error : {1.0, 20.0, 0.05}) {
      for (const Costs kind : {Costs::kEven, Costs::kLogNormal, Costs::kClustered}) {
        Rng rng(17);
        Server server;
        server.costs = MakeCosts(kind, 4096, &rng);
        server.devices = {CpuGroup(), Gpu(speed)};
        Prepare(server.costs, 1.0, {1 / error, error}, &server.devices);
        const bool even = kind == Costs::kEven && error == 1;
        EXPECT_LE(Ratio(server), even ? 1.02 : 1.05)
            << "speed " << speed << " error " << error << " costs " << static_cast<int>(kind);
      }
    }
  }
}

TEST(PullSimulationTest, AGpuThatIsThrottledIsNoticedByItsPulls) {
  const Summary summary = OverSeeds(100, {}, [](Server* server) {
    server->devices[4].changes = {{0.5, 0.25}};
    server->devices[6].changes = {{0.3, 0.5}, {0.8, 1}};
  });
  EXPECT_LE(summary.worst, 1.10) << "seed " << summary.worst_seed;
  EXPECT_LE(summary.median, 1.03);
}

TEST(PullSimulationTest, WhatAGpuHeldWhenItDiedIsRunByTheOthers) {
  const Summary summary = OverSeeds(100, {}, [](Server* server) {
    server->devices[3].dies_at = 0.5;
    server->devices[8].dies_at = 0.2;
  });
  EXPECT_LE(summary.worst, 1.10) << "seed " << summary.worst_seed;
  EXPECT_LE(summary.median, 1.03);
}

TEST(PullSimulationTest, NothingButItsOwnPieceWaitsForAGpuThatStandsStill) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Server server = LargeServer(seed);
    constexpr double kStill = 0.5, kAgain = 20;
    server.devices[5].changes = {{kStill, 0}, {kAgain, 1}};
    PullSimulation simulation(server.costs, server.devices, {});
    ASSERT_TRUE(simulation.Run());
    EXPECT_TRUE(simulation.once());
    // The piece that it stood still in is the last; all the others ended soon after the ideal.
    EXPECT_LE(simulation.seconds_without(5), 1.10 * simulation.ideal()) << "seed " << seed;
    EXPECT_LE(simulation.seconds(), kAgain + 0.1) << "seed " << seed;
  }
}

// The oracle of this test is a schedule that anyone can check: one device alone loses nothing but
// its fixed costs.
TEST(PullSimulationTest, OneDeviceAloneIsNeverIdle) {
  Rng rng(3);
  Server server;
  server.costs = MakeCosts(Costs::kLogNormal, 2000, &rng);
  server.devices = {CpuGroup()};
  Prepare(server.costs, 1.0, {1}, &server.devices);
  PullSimulation simulation(server.costs, server.devices, {});
  ASSERT_TRUE(simulation.Run());
  const double fixed = static_cast<double>(simulation.pulls()) * 15e-6;
  EXPECT_LE(simulation.seconds(), 1.0 + fixed + 10 * kMessageSeconds);
}

}  // namespace
}  // namespace tandem::worker
