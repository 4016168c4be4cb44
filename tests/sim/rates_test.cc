// Jobs of one kernel whose tasks cost what their data makes them cost: the real cores of a master
// and of workers in virtual time, without faults. How long until an urgent job runs, and does a
// worker that comes late get its share?
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/strings.h"
#include "tests/master/core/harness.h"
#include "tests/sim/event_queue.h"
#include "worker/core/worker_core.h"

namespace tandem::sim {
namespace {

constexpr absl::Duration kWire = absl::Microseconds(200);
constexpr absl::Duration kSync = absl::Milliseconds(1);
constexpr uint64_t kCores = 2;  // Of a worker: one group, so that a task takes it half its cost.

class Cluster;

// A worker's core and an executor that runs a piece at a time. What runs cannot be cancelled.
class FakeWorker {
 public:
  FakeWorker(Cluster* cluster, std::string name) : name(std::move(name)), cluster_(cluster) {
    Do(worker::Connected{});
  }
  void Do(worker::Event event);

  const std::string name;
  WorkerId id;
  std::map<JobId, uint64_t> tasks_done;

 private:
  void Act(worker::Effects effects);
  void StartNext();

  Cluster* const cluster_;
  worker::WorkerCore core_{{}, 1};
  std::deque<worker::RunPiece> queue_;  // The first one runs.
  MonoTime timer_ = MonoTime::InfiniteFuture();
};

class Cluster {
 public:
  Cluster() { core_.Recovered(Epoch(1), now()); }

  FakeWorker& StartWorker() {
    workers_.push_back(std::make_unique<FakeWorker>(this, StrCat("w", workers_.size())));
    return *workers_.back();
  }
  // A job of the one kernel there is, hinted at a microsecond a task.
  JobId Submit(uint64_t tasks, absl::Duration task, int32_t priority = 0) {
    master::JobBuilder builder;
    builder.tasks = tasks;
    builder.grain = 128;
    builder.priority = priority;
    builder.ns_per_task = 1000;
    const auto bound = builder.Build();
    const JobId job(++last_job_);
    jobs_[job] = {bound, task, now(), MonoTime::InfiniteFuture()};
    Step(master::SubmitJob{last_job_ + 1000, bound, "", 1, absl::UnixEpoch()});
    return job;
  }
  bool Ended(JobId job) const { return jobs_.at(job).ended < MonoTime::InfiniteFuture(); }
  absl::Duration TimeOf(JobId job) const { return jobs_.at(job).ended - jobs_.at(job).submitted; }
  void RunUntilEnded(JobId job, absl::Duration patience = absl::Minutes(10)) {
    const MonoTime end = now() + patience;
    while (!Ended(job) && queue.RunNext(end)) {
    }
    ASSERT_TRUE(Ended(job));
  }
  void RunFor(absl::Duration time) {
    const MonoTime end = now() + time;
    while (queue.RunNext(end)) {
    }
  }
  MonoTime now() const { return queue.now(); }
  absl::Duration TaskTime(JobId job) const { return jobs_.at(job).task; }
  const BoundJob& bound(JobId job) const { return *jobs_.at(job).bound; }
  std::vector<std::unique_ptr<FakeWorker>>& workers() { return workers_; }

  void Step(master::Event event) {
    master::Effects effects;
    core_.Step(event, now(), &effects);
    core_.CheckInvariants();
    Act(std::move(effects));
  }
  EventQueue queue;

 private:
  struct Job {
    std::shared_ptr<const BoundJob> bound;
    absl::Duration task;
    MonoTime submitted;
    MonoTime ended;
  };
  FakeWorker* Find(WorkerId id) {
    for (auto& worker : workers_) {
      if (worker->id == id) return worker.get();
    }
    return nullptr;
  }
  void Send(WorkerId to, worker::Event event) {
    queue.After(kWire, [worker = Find(to), event = std::move(event)] { worker->Do(event); });
  }
  worker::JobDescribed Described(JobId id) const {
    worker::JobDescribed described;
    described.job = id;
    described.owner = "ann";
    described.kernel = "map";
    described.task_count = bound(id).task_count();
    described.grain = bound(id).grain();
    described.appends = true;
    described.cost_ns_per_task = bound(id).ns_per_task;
    return described;
  }
  void Act(master::Effects effects) {
    for (const master::ToWorker& message : effects.to_workers) {
      if (const auto* welcome = std::get_if<master::WelcomeWorker>(&message.what)) {
        workers_.at(welcome->stream - 1)->id = welcome->worker;
        Send(welcome->worker,
             worker::Welcomed{
                 welcome->worker, welcome->epoch, welcome->lease_ttl, welcome->heartbeat, {}});
      }
    }
    for (const auto& d : effects.describes) Send(d.worker, Described(d.job));
    for (const master::ToWorker& message : effects.to_workers) {
      if (const auto* grant = std::get_if<Grant>(&message.what)) {
        Send(message.worker, worker::Granted{*grant});
      } else if (const auto* recall = std::get_if<Recall>(&message.what)) {
        Send(message.worker, worker::Recalled{*recall});
      } else if (const auto* outlook = std::get_if<Outlook>(&message.what)) {
        Send(message.worker, worker::OutlookSaid{*outlook});
      }
    }
    timer_ = effects.next_deadline;
    if (timer_ < MonoTime::InfiniteFuture()) {
      queue.At(timer_, [this, at = timer_] {
        if (timer_ == at) Step(master::Tick{});
      });
    }
    queue.After(kSync, [this, effects = std::move(effects)] { Durable(effects); });
  }
  void Durable(const master::Effects& effects) {
    for (const master::Record& record : effects.records) {
      const auto* accepted = std::get_if<master::JobAccepted>(&record);
      if (accepted != nullptr) Step(master::JobDurable{accepted->job});
    }
    for (const auto& drop : effects.drops) Send(drop.worker, worker::JobDropped{drop.job});
    for (const auto& ack : effects.acks) Send(ack.worker, worker::ReportAcked{ack.number});
    for (const master::JobStatus& status : effects.statuses) {
      if (status.state == master::JobState::kSucceeded) jobs_.at(status.job).ended = now();
    }
  }

  master::MasterCore core_{master::Options()};
  std::map<JobId, Job> jobs_;
  std::vector<std::unique_ptr<FakeWorker>> workers_;
  uint64_t last_job_ = 0;
  MonoTime timer_ = MonoTime::InfiniteFuture();
};

void FakeWorker::Do(worker::Event event) {
  worker::Effects effects;
  core_.Step(std::move(event), cluster_->now(), &effects);
  core_.Settle(cluster_->now(), &effects);
  core_.CheckInvariants();
  Act(std::move(effects));
}

void FakeWorker::Act(worker::Effects effects) {
  EventQueue& queue = cluster_->queue;
  if (effects.hello.has_value()) {
    master::WorkerAttach attach;
    attach.name = name;
    attach.incarnation = 1;
    attach.max_leases = 2048;
    DeviceInfo cpu;
    cpu.kind = DeviceKind::kCpu;
    cpu.cores = kCores;
    attach.devices.push_back(cpu);
    attach.kernels.push_back(master::KernelFor(master::TestKernel::kMap));
    queue.After(kWire, [this, attach]() mutable {
      attach.token = static_cast<uint64_t>(name[1] - '0') + 1;  // Its place among the workers.
      cluster_->Step(attach);
    });
  }
  for (const auto& effect : effects.to_executors) {
    if (const auto* start = std::get_if<worker::StartExecutor>(&effect)) {
      queue.After(absl::Milliseconds(20), [this, id = start->executor] {
        Do(worker::ExecutorReady{id, 1, kCores, DeviceKind::kCpu});
      });
    } else if (const auto* run = std::get_if<worker::RunPiece>(&effect)) {
      queue_.push_back(*run);
      if (queue_.size() == 1) StartNext();
    } else if (const auto* cancel = std::get_if<worker::CancelPiece>(&effect)) {
      for (size_t i = 1; i < queue_.size(); ++i) {
        if (queue_[i].piece != cancel->piece) continue;
        const worker::PieceReturned returned{queue_[i].executor, queue_[i].piece};
        queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(i));
        queue.After(absl::ZeroDuration(), [this, returned] { Do(returned); });
        break;
      }
    }
  }
  for (Report& report : effects.reports) {
    queue.After(kWire, [this, report = std::move(report)] {
      cluster_->Step(master::WorkerReported{id, report});
    });
  }
  if (effects.heartbeat) {
    queue.After(kWire, [this] { cluster_->Step(master::WorkerPulsed{id, 2 * kWire}); });
  }
  timer_ = effects.next_deadline;
  if (timer_ == MonoTime::InfiniteFuture()) return;
  queue.At(timer_, [this, at = timer_] {
    if (timer_ == at) Do(worker::Tick{});
  });
}

void FakeWorker::StartNext() {
  if (queue_.empty()) return;
  const worker::RunPiece& run = queue_.front();
  const auto tasks = static_cast<double>(run.leaves.count * cluster_->bound(run.job).grain());
  const absl::Duration time =
      absl::Microseconds(30) + cluster_->TaskTime(run.job) * tasks / static_cast<double>(kCores);
  cluster_->queue.After(time, [this, time] {
    const worker::RunPiece done = std::move(queue_.front());
    queue_.pop_front();
    StartNext();
    const RangeTree& tree = cluster_->bound(done.job).tree;
    const uint64_t count =
        tree.Tasks(LeafRange{done.leaves.first, done.leaves.first + done.leaves.count}).size();
    tasks_done[done.job] += count;
    worker::PieceFinished finished{done.executor, done.piece, time, {}, false, {}, {}, count};
    finished.outputs.push_back({0, "x", 0, 0});
    Do(std::move(finished));
  });
}

constexpr absl::Duration kCheap = absl::Nanoseconds(1);
constexpr absl::Duration kDear = absl::Microseconds(250);

TEST(RatesTest, AnUrgentJobRunsWithinASecondOfADearJobOfACheapKernel) {
  Cluster cluster;
  cluster.StartWorker();
  cluster.RunUntilEnded(cluster.Submit(10'000'000, kCheap));
  const JobId dear = cluster.Submit(400'000, kDear);  // 50 s.
  for (const absl::Duration after :
       {absl::Milliseconds(2), absl::Milliseconds(300), absl::Seconds(1), absl::Seconds(7)}) {
    cluster.RunFor(after);
    const JobId urgent = cluster.Submit(1, kCheap, 5);
    cluster.RunUntilEnded(urgent);
    EXPECT_LE(cluster.TimeOf(urgent), absl::Seconds(1)) << after << " later";
    ASSERT_FALSE(cluster.Ended(dear));
  }
  cluster.RunUntilEnded(dear);
  EXPECT_LE(cluster.TimeOf(dear), absl::Seconds(53)) << "6 % more than the work itself";
}

TEST(RatesTest, AWorkerThatComesLateGetsItsShare) {
  Cluster cluster;
  FakeWorker& first = cluster.StartWorker();
  cluster.RunUntilEnded(cluster.Submit(10'000'000, kCheap));
  const JobId dear = cluster.Submit(100'000, kDear);  // 12.5 s.
  cluster.RunFor(absl::Seconds(2));
  FakeWorker& late = cluster.StartWorker();
  cluster.RunUntilEnded(dear);
  EXPECT_LE(cluster.TimeOf(dear), absl::Seconds(8)) << "7.3 s at best";
  EXPECT_GE(late.tasks_done[dear], 30'000u);
  EXPECT_GE(first.tasks_done[dear], 40'000u);
}

// One leaf alone takes half a minute: nothing is committed for long.
TEST(RatesTest, AWorkerThatComesLateGetsWorkThoughNothingHasFinishedYet) {
  Cluster cluster;
  cluster.StartWorker();
  cluster.RunUntilEnded(cluster.Submit(10'000'000, kCheap));
  const JobId dear = cluster.Submit(1280, absl::Milliseconds(500));  // 10 leaves.
  cluster.RunFor(absl::Seconds(2));
  FakeWorker& late = cluster.StartWorker();
  cluster.RunFor(absl::Seconds(60));
  EXPECT_GE(late.tasks_done[dear], 128u);
}

TEST(RatesTest, ACheapJobOfADearKernelCostsLittleMoreThanItsWork) {
  Cluster cluster;
  cluster.StartWorker();
  cluster.RunUntilEnded(cluster.Submit(40'000, kDear));
  const JobId cheap = cluster.Submit(1'000'000'000, kCheap);  // 0.5 s.
  cluster.RunUntilEnded(cheap);
  EXPECT_LE(cluster.TimeOf(cheap), absl::Milliseconds(600));
}

TEST(RatesTest, CheapAndDearJobsOfEqualPriorityShareAWorker) {
  Cluster cluster;
  cluster.StartWorker();
  cluster.RunUntilEnded(cluster.Submit(10'000'000, kCheap));
  const JobId dear = cluster.Submit(400'000, kDear);
  cluster.RunFor(absl::Seconds(1));
  const JobId cheap = cluster.Submit(1'000'000'000, kCheap);
  cluster.RunUntilEnded(cheap);
  EXPECT_LE(cluster.TimeOf(cheap), absl::Seconds(5)) << "0.5 s of work, behind a queue of two";
  EXPECT_FALSE(cluster.Ended(dear));
}

}  // namespace
}  // namespace tandem::sim
