// A worker's core in a world that fails in every way it knows of, from many seeds: whatever
// happens, each leaf is done exactly once, with the right outputs, and nothing is left behind.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/worker/core/fake_executors.h"
#include "tests/worker/core/fake_master.h"
#include "tests/worker/core/split_oracle.h"
#include "worker/core/worker_core.h"

namespace tandem::worker {
namespace {

struct Faults {
  double crash = 0;
  double disconnect = 0;
  double restart = 0;  // of the master, at a disconnect
  double recall = 0;
  double push_fails = 0;
  double merge = 0;
  double drain = 0;
  double pause = 0;    // of the worker itself, for longer than its leases live
  double trouble = 0;  // of a device besides the CPU: out of service, and back
  int devices = 0;     // besides the CPU
};

class World {
 public:
  World(uint64_t seed, const Faults& faults)
      : rng_(seed),
        faults_(faults),
        groups_(static_cast<uint32_t>(rng_.Between(1, 3))),
        core_(OptionsOf(seed), seed),
        master_(&rng_, &jobs_),
        executors_(&rng_, &jobs_, groups_, seed % 2 == 0 ? 2 : 256) {
    for (uint64_t id = 1; id <= 6; ++id) AddJob(id);
    for (int i = 0; i < faults.devices; ++i) {
      events_.push_back(DeviceFound{NameOf(i), DeviceKind::kEmulated, {"kernel@0"}});
    }
  }

  // Lets everything happen for a while; then no more faults, until all is done.
  void Run() {
    for (int step = 0; step < 600; ++step) Round(faults_);
    for (int step = 0; step < 60'000 && !Finished(); ++step) Round(Faults{});
    for (int step = 0; step < 200; ++step) Round(Faults{});  // what is on its way arrives
  }
  bool Finished() const {
    return master_.AllDone() && executors_.idle() && master_.merges_open() == 0;
  }

  FakeMaster& master() { return master_; }
  FakeExecutors& executors() { return executors_; }
  const SplitOracle& splits() const { return splits_; }
  WorkerCore& core() { return core_; }
  uint64_t trace() const { return trace_; }

 private:
  // Every other world has no room for small pieces beyond two.
  static CoreOptions OptionsOf(uint64_t seed) {
    CoreOptions options;
    // Every lease is told.
    options.notes.job = options.notes.worker = {.burst = 1e9, .per_second = 1e9};
    if (seed % 2 == 0) {
      options.pull.merge_window = options.pull.device_window = absl::ZeroDuration();
    }
    return options;
  }

  static std::string NameOf(int device) { return "emulated:" + std::to_string(device); }

  void Trouble(const Faults& faults, std::vector<Event>* events) {
    for (int i = 0; i < faults_.devices; ++i) {
      const bool ends = troubled_.contains(i) && (rng_.Chance(0.1) || faults.trouble == 0);
      if (ends) {
        troubled_.erase(i);
        events->push_back(DeviceTroubled{NameOf(i), ""});
      } else if (rng_.Chance(faults.trouble)) {
        troubled_.insert(i);
        events->push_back(DeviceTroubled{NameOf(i), "Xid 79"});
      }
    }
  }

  void AddJob(uint64_t id) {
    FakeJob job;
    job.leaf_count = rng_.Between(1, 400);
    job.staged = id % 2 == 0;
    job.described.job = JobId(id);
    job.described.owner = id <= 4 ? "ada" : "bob";
    job.described.kernel = "kernel@0";
    job.described.task_count = job.leaf_count;
    job.described.grain = 1;
    job.described.reduces = id >= 3;
    job.described.accumulates = id == 3 || id == 4 || id == 6;
    job.described.appends = id == 1;
    job.described.partial_bytes = 8;
    job.described.cost_ns_per_task = rng_.Chance(0.5) ? 1000 : 0;
    if (faults_.devices > 0 && id == 5) job.described.device = DeviceChoice::kGpu;
    if (faults_.devices > 0 && id == 6) job.described.device = DeviceChoice::kCpu;
    jobs_[job.described.job] = job;
  }

  void Round(const Faults& faults) {
    now_ = now_ + absl::Microseconds(rng_.Between(1, 3000));
    if (rng_.Chance(faults.pause)) now_ = now_ + absl::Seconds(6);
    std::vector<Event> events = std::exchange(events_, {});
    if (connected_ && !down_) {
      if (rng_.Chance(faults.disconnect)) {
        if (rng_.Chance(faults.restart)) master_.Restart();
        down_ = true;
        acks_.clear();
        events.push_back(Disconnected{});
      } else {
        if (rng_.Chance(0.3)) master_.GrantSome(&events);
        if (rng_.Chance(faults.recall)) master_.RecallSome(&events);
        if (rng_.Chance(faults.merge)) master_.GrantMerge(&events);
        if (rng_.Chance(faults.drain)) events.push_back(DrainSaid{draining_ = !draining_});
        if (faults.drain == 0 && draining_) events.push_back(DrainSaid{draining_ = false});
        if (rng_.Chance(0.3)) master_.AckAll(&events);
      }
    } else if (rng_.Chance(0.2)) {
      connected_ = true;
      down_ = false;
      draining_ = false;
      events.push_back(Connected{});
    }
    if (rng_.Chance(faults.crash)) executors_.Crash(&events);
    for (int i = 0; i < 3; ++i) executors_.Advance(&events);
    AnswerPushes(faults, &events);
    Trouble(faults, &events);
    Step(std::move(events));
  }

  void AnswerPushes(const Faults& faults, std::vector<Event>* events) {
    while (!pushes_.empty() && rng_.Chance(0.5)) {
      const PushRegion push = pushes_.back();
      pushes_.pop_back();
      if (rng_.Chance(faults.push_fails)) {
        events->push_back(PushFailed{push.push});
      } else {
        events->push_back(
            PushDone{push.push, master_.Store(executors_.Staged(push.executor, push.offset))});
      }
    }
  }

  void Step(std::vector<Event> events) {
    Effects effects;
    for (Event& event : events) {
      splits_.See(event);
      core_.Step(std::move(event), now_, &effects);
      core_.CheckInvariants();
    }
    core_.Settle(now_, &effects);
    core_.CheckInvariants();
    trace_ = Mix64(trace_ ^ effects.to_executors.size() ^ (effects.reports.size() << 20) ^
                   (effects.pushes.size() << 40) ^ static_cast<uint64_t>(now_.nanos()));
    splits_.See(effects);
    executors_.Apply(effects, &events_);
    if (effects.hello.has_value()) master_.Attach(*effects.hello, &events_);
    for (const Report& report : effects.reports) master_.Take(report);
    pushes_.insert(pushes_.end(), effects.pushes.begin(), effects.pushes.end());
    if (effects.reconnect) {
      down_ = true;
      events_.clear();
    }
  }

  Rng rng_;
  const Faults faults_;
  const uint32_t groups_;
  std::map<JobId, FakeJob> jobs_;
  WorkerCore core_;
  FakeMaster master_;
  FakeExecutors executors_;
  SplitOracle splits_;
  MonoTime now_ = MonoTime::FromNanos(1'000'000'000);
  std::vector<Event> events_;
  std::vector<PushRegion> pushes_;
  std::vector<uint64_t> acks_;
  std::set<int> troubled_;
  bool connected_ = false, down_ = false, draining_ = false;
  uint64_t trace_ = 0;
};

void ExpectSound(uint64_t first_seed, int seeds, const Faults& faults) {
  for (uint64_t seed = first_seed; seed < first_seed + static_cast<uint64_t>(seeds); ++seed) {
    World world(seed, faults);
    world.Run();
    EXPECT_TRUE(world.Finished()) << "seed " << seed << ": held " << world.master().held();
    EXPECT_EQ(world.executors().bytes_staged(), 0u) << "seed " << seed << ": staging is kept";
    EXPECT_EQ(world.core().Held().size(), 0u) << "seed " << seed;
    for (const std::string& text : world.master().complaints()) {
      ADD_FAILURE() << "seed " << seed << ": " << text;
      break;
    }
    for (const std::string& text : world.executors().complaints()) {
      ADD_FAILURE() << "seed " << seed << ": " << text;
      break;
    }
    if (testing::Test::HasFailure()) return;
  }
}

TEST(WorkerWorldTest, WithoutFaultsEveryLeafIsDoneOnce) { ExpectSound(1, 60, {}); }

TEST(WorkerWorldTest, CrashesOfExecutorsLoseNothing) { ExpectSound(100, 60, {.crash = 0.02}); }

TEST(WorkerWorldTest, LostStreamsLoseNothing) { ExpectSound(200, 60, {.disconnect = 0.03}); }

TEST(WorkerWorldTest, RestartsOfTheMasterLoseNothing) {
  ExpectSound(300, 60, {.disconnect = 0.03, .restart = 0.7});
}

TEST(WorkerWorldTest, RecallsAndDrainsAndFailedPushesLoseNothing) {
  ExpectSound(400, 60, {.recall = 0.1, .push_fails = 0.3, .merge = 0.05, .drain = 0.01});
}

TEST(WorkerWorldTest, EverythingAtOnceLosesNothing) {
  ExpectSound(500, 150,
              {.crash = 0.01,
               .disconnect = 0.02,
               .restart = 0.3,
               .recall = 0.05,
               .push_fails = 0.2,
               .merge = 0.05,
               .drain = 0.005,
               .pause = 0.003});
}

TEST(WorkerWorldTest, SeveralDevicesOnOneLeaseRunEachLeafOnce) {
  ExpectSound(700, 60, {.devices = 2});
}

TEST(WorkerWorldTest, DevicesThatDieOrGoOutOfServiceLoseNothing) {
  ExpectSound(800, 100, {.crash = 0.02, .recall = 0.05, .trouble = 0.005, .devices = 2});
}

TEST(WorkerWorldTest, EverythingAtOnceOnSeveralDevicesLosesNothing) {
  ExpectSound(1000, 150,
              {.crash = 0.01,
               .disconnect = 0.02,
               .restart = 0.3,
               .recall = 0.05,
               .push_fails = 0.2,
               .merge = 0.05,
               .drain = 0.005,
               .pause = 0.003,
               .trouble = 0.003,
               .devices = 3});
}

TEST(WorkerWorldTest, OtherDevicesRunTheirPartAndGiveBackWhatOthersWouldDoSooner) {
  uint64_t elsewhere = 0, shrunk = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    World world(seed, {.devices = 2});
    world.Run();
    elsewhere += world.executors().leaves_elsewhere();
    shrunk += world.executors().leaves_shrunk();
  }
  EXPECT_GT(elsewhere, 1000u);
  EXPECT_GT(shrunk, 0u);
}

TEST(WorkerWorldTest, WhatIsToldOfLeasesIsWhatRanWhere) {
  uint64_t told = 0, shared = 0, in_part = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    World world(seed,
                {.crash = 0.01, .recall = 0.05, .drain = 0.005, .trouble = 0.003, .devices = 2});
    world.Run();
    for (const std::string& text : world.splits().complaints()) {
      ADD_FAILURE() << "seed " << seed << ": " << text;
      return;
    }
    told += world.splits().told;
    shared += world.splits().shared;
    in_part += world.splits().in_part;
  }
  EXPECT_GT(told, 1000u);
  EXPECT_GT(shared, 100u);
  EXPECT_GT(in_part, 20u);
}

TEST(WorkerWorldTest, EqualSeedsGiveEqualTraces) {
  const Faults faults{.crash = 0.01, .disconnect = 0.02, .recall = 0.05, .push_fails = 0.2};
  World first(42, faults), second(42, faults), other(43, faults);
  first.Run();
  second.Run();
  other.Run();
  EXPECT_EQ(first.trace(), second.trace());
  EXPECT_NE(first.trace(), other.trace());
}

}  // namespace
}  // namespace tandem::worker
