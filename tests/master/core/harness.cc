#include "tests/master/core/harness.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"
#include "common/model/former_life.h"

namespace tandem::master {

KernelInfo KernelFor(TestKernel kernel) {
  KernelInfo info;
  switch (kernel) {
    case TestKernel::kMap:
      info.name = "map";
      info.output_class = OutputClass::kExact;
      break;
    case TestKernel::kExactSum:
      info.name = "count";
      info.output_class = OutputClass::kExact;
      break;
    case TestKernel::kOrderedSum:
      info.name = "sum";
      info.output_class = OutputClass::kBitwise;
      info.whole_leaf = true;
      break;
    case TestKernel::kOwnMerge:
      info.name = "merge";
      info.output_class = OutputClass::kBitwise;
      break;
  }
  info.content_hash = 17;
  return info;
}

std::shared_ptr<const BoundJob> JobBuilder::Build() const {
  auto bound = std::make_shared<BoundJob>();
  bound->kernel = KernelFor(kernel);
  bound->kernel_identity = bound->kernel.identity();
  bound->split_axis = "n";
  bound->tree = RangeTree(tasks, grain);
  bound->ns_per_task = ns_per_task;
  BoundOutput output;
  output.name = "out";
  output.output_class = bound->kernel.output_class;
  if (kernel != TestKernel::kMap) {
    const bool own = kernel == TestKernel::kOwnMerge;
    output.kind = own ? BoundOutput::Kind::kMerge : BoundOutput::Kind::kReduce;
    output.reduction = own ? Reduction::kMerge : Reduction::kSum;
  }
  bound->outputs.push_back(output);
  JobSpec& spec = bound->spec;
  spec.owner = owner;
  spec.kernel = bound->kernel_identity;
  spec.grain = grain;
  spec.priority = priority;
  spec.retries = retries;
  spec.crash_limit = crash_limit;
  spec.max_task_failures = max_task_failures;
  spec.allow_failed = allow_failed;
  spec.time_limit = time_limit;
  spec.max_lease_leaves = max_lease_leaves;
  spec.device = device;
  spec.resources.gpu_memory_bytes = gpu_memory_bytes;
  spec.fail_unsatisfiable = fail_unsatisfiable;
  return bound;
}

OutputsHandle OutputOf(uint64_t value) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &value, 8);
  CommitOutputs outputs;
  outputs.push_back({0, std::move(bytes)});
  return std::make_shared<const CommitOutputs>(std::move(outputs));
}

uint64_t ValueOf(const OutputsHandle& outputs) {
  CHECK(outputs != nullptr);
  uint64_t value = 0;
  std::memcpy(&value, std::get<std::string>(outputs->front().where).data(), 8);
  return value;
}

LeafRun RunOf(const Grant& grant, const RangeTree& tree) {
  const uint64_t end = std::min(tree.leaf_count(), grant.first_leaf + (grant.count << grant.level));
  return {grant.first_n, {grant.first_leaf, end - grant.first_leaf}};
}

CoreHarness::CoreHarness(Options options)
    : options_(options), core_(std::make_unique<MasterCore>(options)) {
  core_->Recovered(Epoch(epoch_), now_);
  Step(Tick{});
}

Effects CoreHarness::Step(Event event) {
  Effects effects;
  core_->Step(event, now_, &effects);
  core_->CheckInvariants();
  deadline_ = effects.next_deadline;
  journal_.insert(journal_.end(), effects.records.begin(), effects.records.end());
  sent_.insert(sent_.end(), effects.to_workers.begin(), effects.to_workers.end());
  if (!effects.replies.empty()) reply_ = effects.replies.back();
  MasterCore replayed(options_);
  for (const Record& record : journal_) replayed.Replay(record);
  CHECK_EQ(replayed.DurableHash(), core_->DurableHash());
  return effects;
}

Effects CoreHarness::Advance(absl::Duration d) {
  const MonoTime end = now_ + d;
  Effects last;
  while (deadline_ <= end) {
    now_ = std::max(now_, deadline_);
    last = Step(Tick{});
  }
  now_ = end;
  return last;
}

void CoreHarness::Restart(bool from_snapshot) {
  std::vector<Record> records = journal_;
  if (from_snapshot) {
    records.clear();
    core_->Snapshot(&records);
  }
  const uint64_t hash = core_->DurableHash();
  core_ = std::make_unique<MasterCore>(options_);
  for (const Record& record : records) core_->Replay(record);
  CHECK_EQ(core_->DurableHash(), hash);
  journal_ = std::move(records);
  sent_.clear();
  core_->Recovered(Epoch(++epoch_), now_);
  Step(Tick{});
}

void CoreHarness::Close() {
  Effects effects;
  core_->Close(&effects);
  journal_.insert(journal_.end(), effects.records.begin(), effects.records.end());
}

void CoreHarness::RestartFromPrefix(uint64_t lost) {
  journal_.resize(journal_.size() - std::min<size_t>(lost, journal_.size()));
  core_ = std::make_unique<MasterCore>(options_);
  for (const Record& record : journal_) core_->Replay(record);
  Restart();
}

JobId CoreHarness::Submit(const JobBuilder& job, std::string request_id) {
  const Effects effects = Step(SubmitJob{.token = next_token_++,
                                         .bound = job.Build(),
                                         .request_id = std::move(request_id),
                                         .request_hash = job.tasks,
                                         .submitted = absl::UnixEpoch()});
  CHECK_EQ(effects.replies.size(), 1u);
  CHECK_OK(effects.replies[0].result);
  const JobId id = *effects.replies[0].result;
  Step(JobDurable{id});
  return id;
}

WorkerId CoreHarness::Attach(const std::string& name, uint64_t cores, uint64_t max_leases,
                             std::vector<HeldLeaves> held, uint64_t incarnation) {
  WorkerAttach attach;
  attach.token = next_token_++;
  attach.name = name;
  attach.incarnation = incarnation;
  attach.devices.push_back({.kind = DeviceKind::kCpu,
                            .model = "",
                            .uuid = "",
                            .cores = static_cast<uint32_t>(cores),
                            .memory_bytes = 0,
                            .groups = 1});
  attach.devices.insert(attach.devices.end(), further_devices.begin(), further_devices.end());
  for (TestKernel k :
       {TestKernel::kMap, TestKernel::kExactSum, TestKernel::kOrderedSum, TestKernel::kOwnMerge}) {
    attach.kernels.push_back(KernelFor(k));
  }
  attach.held = std::move(held);
  attach.max_leases = max_leases;
  const Effects effects = Step(attach);
  for (const ToWorker& message : effects.to_workers) {
    if (const auto* welcome = std::get_if<WelcomeWorker>(&message.what)) {
      welcome_ = *welcome;
      streams_[welcome->worker] = attach.token;
      return welcome->worker;
    }
  }
  return WorkerId();
}

Effects CoreHarness::Report(WorkerId worker, tandem::Report report) {
  report.number = next_report_++;
  return Step(WorkerReported{worker, std::move(report)});
}

Effects CoreHarness::Rate(WorkerId worker, const std::string& kernel, double tasks_per_second) {
  tandem::Report report;
  report.rates.push_back({kernel, DeviceKind::kCpu, tasks_per_second, 0});
  return Report(worker, std::move(report));
}

Effects CoreHarness::Crash(WorkerId worker, JobId job, LeafRun run, std::optional<uint64_t> task,
                           bool overdue) {
  tandem::Report report;
  tandem::Crash crash;
  crash.job = job;
  crash.run = run;
  crash.task_known = task.has_value();
  crash.task = task.value_or(0);
  crash.signal = overdue ? "TIME_LIMIT" : "SIGSEGV";
  report.crashes.push_back(std::move(crash));
  return Report(worker, std::move(report));
}

void CoreHarness::TellFormerLife(WorkerId worker,
                                 std::vector<std::pair<JobId, LeafInterval>> running) {
  tandem::Report report;
  for (const auto& [job, leaves] : running) {
    tandem::Crash crash;
    crash.job = job;
    crash.run = {kFormerLife, leaves};
    crash.signal = "the end of its worker";
    report.crashes.push_back(std::move(crash));
  }
  Report(worker, std::move(report));
}

Effects CoreHarness::CommitRun(WorkerId worker, JobId job, LeafRun run,
                               std::vector<TaskFailure> failures) {
  tandem::Report report;
  Commit commit;
  commit.job = job;
  commit.runs.push_back(run);
  commit.outputs = OutputOf(run.leaves.count);
  commit.failures = std::move(failures);
  commit.busy_ns = 1000 * run.leaves.count;
  commit.tasks = run.leaves.count;
  report.commits.push_back(std::move(commit));
  return Report(worker, std::move(report));
}

}  // namespace tandem::master
