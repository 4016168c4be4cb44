// What one report costs the master's processor, by parts: decoding, checking, the core, the record
// and rows, the store. 1,024 one-task leases with an output of 8 bytes each, either as one run (as
// a worker reports neighbours) or as 1,024 commits of their own (the worst that can be said).
//
// The store takes reports in groups of eight, as under load.
//
//   master_report_bench [DIR]
//
// Output: one JSON line a form; microseconds of CPU time a report.
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/wire/lease_messages.h"
#include "master/core/core.h"
#include "master/server/commit_builder.h"
#include "master/server/commit_check.h"
#include "master/server/kernel_book.h"
#include "master/store/sqlite_store.h"
#include "tandem/worker/v1/worker.pb.h"

namespace tandem::master {
namespace {

constexpr uint64_t kLeases = 1024;
// Batches that the committer finds queued when the disk is free, at full rate.
constexpr size_t kGroup = 8;

double CpuMicros() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) * 1e-3;
}

struct Parts {
  double decode = 0, check = 0, core = 0, encode = 0, store = 0;
  uint64_t leases = 0;
};

class Bench {
 public:
  Bench(const std::string& dir, bool one_run) : one_run_(one_run), core_(MakeOptions()) {
    SqliteStoreOptions options;
    options.directory = dir;
    store_ = *SqliteStore::Open(options);
    epoch_ = *store_->RaiseEpoch();
    core_.Recovered(epoch_, Now());
    Submit();
    Attach();
  }

  Parts Run(uint64_t reports) {
    Parts parts;
    while (number_ < reports) {
      const Grant grant = NextGrant();
      worker::v1::Report message;
      wire::Encode(MakeReport(grant), &message);
      Handle(&message, &parts);
      parts.leases += grant.count;
    }
    return parts;
  }

 private:
  static Options MakeOptions() {
    Options options;
    options.limits.leases_per_worker_max = kLeases;
    return options;
  }
  MonoTime Now() { return MonoTime::FromNanos(nanos_ += 100'000); }

  void Submit() {
    JobSpec spec;
    spec.owner = "bench";
    spec.kernel = "noop";
    spec.axis_extents = {{"n", 1'000'000'000}};
    spec.grain = 1;
    spec.max_lease_leaves = 1;
    absl::StatusOr<BoundJob> bound = ValidateAndBind(std::move(spec), **kernels_.Find("noop"));
    CHECK_OK(bound);
    SubmitJob submit;
    submit.bound = std::make_shared<const BoundJob>(*std::move(bound));
    Step(submit);
    Step(JobDurable{JobId(1)});  // Before that nothing of it is granted.
  }
  void Attach() {
    WorkerAttach attach;
    attach.token = 1;
    attach.name = "w";
    attach.incarnation = 1;
    attach.devices = {{DeviceKind::kCpu, "cpu", "", 2, 0, 1}};
    attach.kernels = {**kernels_.Find("noop")};
    attach.max_leases = kLeases;
    Step(attach);
    WorkerReported rates{WorkerId(1), {}};
    rates.report.number = ++number_;
    rates.report.rates = {{"noop", DeviceKind::kCpu, 1e9, 0}};
    Step(rates);
  }
  // Outside of what is timed.
  void Step(const Event& event) {
    core_.Step(event, Now(), &effects_);
    TakeEffects();
  }
  void TakeEffects() {
    for (const Record& record : effects_.records) {
      if (const auto* accepted = std::get_if<JobAccepted>(&record)) {
        board_.Accept(std::make_shared<const JobAccepted>(*accepted));
      }
    }
    for (const ToWorker& message : effects_.to_workers) {
      if (const auto* grant = std::get_if<Grant>(&message.what)) grants_.push_back(*grant);
    }
    effects_ = Effects();
  }
  Grant NextGrant() {
    CHECK(!grants_.empty());
    const Grant grant = grants_.front();
    grants_.erase(grants_.begin());
    return grant;
  }
  Report MakeReport(const Grant& grant) {
    Report report;
    report.number = ++number_;
    const auto commit = [&](uint64_t first, uint64_t count) {
      Commit& one = report.commits.emplace_back();
      one.job = grant.job;
      one.runs = {{grant.first_n + first, {grant.first_leaf + first, count}}};
      one.outputs =
          std::make_shared<const CommitOutputs>(CommitOutputs{{0, std::string(count * 8, 'x')}});
      one.busy_ns = 1000;
    };
    if (one_run_) {
      commit(0, grant.count);
    } else {
      for (uint64_t i = 0; i < grant.count; ++i) commit(i, 1);
    }
    return report;
  }

  void Handle(worker::v1::Report* message, Parts* parts) {
    const double begin = CpuMicros();
    WorkerReported reported{WorkerId(1), {}};
    CHECK_OK(wire::Decode(message, &reported.report));
    const double decoded = CpuMicros();
    const std::shared_ptr<const JobAccepted> job = board_.FindAccepted(JobId(1));
    for (const Commit& commit : reported.report.commits) {
      CHECK_OK(CheckCommit(*job->bound, commit));
    }
    const double checked = CpuMicros();
    core_.Step(reported, Now(), &effects_);
    const double stepped = CpuMicros();
    for (const Record& record : effects_.records) builder_.Add(record, absl::UnixEpoch());
    group_.push_back(builder_.Take().batch);
    const double encoded = CpuMicros();
    if (group_.size() == kGroup) {
      CHECK_OK(store_->Append(epoch_, group_));
      group_.clear();
    }
    const double stored = CpuMicros();
    TakeEffects();
    parts->decode += decoded - begin;
    parts->check += checked - decoded;
    parts->core += stepped - checked;
    parts->encode += encoded - stepped;
    parts->store += stored - encoded;
  }

  const bool one_run_;
  int64_t nanos_ = 1'000'000'000;
  KernelBook kernels_;
  JobBoard board_;
  CommitBuilder builder_{&board_};
  MasterCore core_;
  std::unique_ptr<SqliteStore> store_;
  Epoch epoch_;
  Effects effects_;
  std::vector<Grant> grants_;
  std::vector<AppendBatch> group_;
  uint64_t number_ = 0;
};

int Main(int argc, char** argv) {
  const std::string dir = argc > 1 ? argv[1] : "/tmp/tandem_master_report_bench";
  for (const bool one_run : {true, false}) {
    std::filesystem::remove_all(dir);
    std::filesystem::create_directories(dir);
    Bench bench(dir, one_run);
    bench.Run(50);
    const Parts parts = bench.Run(550);
    const double scale = static_cast<double>(kLeases) / static_cast<double>(parts.leases);
    std::printf(
        "{\"form\":\"%s\",\"leases\":%llu,\"decode_us\":%.1f,\"check_us\":%.1f,\"core_us\":%.1f,"
        "\"encode_us\":%.1f,\"store_us\":%.1f,\"total_us\":%.1f}\n",
        one_run ? "one run" : "a commit each", static_cast<unsigned long long>(kLeases),
        parts.decode * scale, parts.check * scale, parts.core * scale, parts.encode * scale,
        parts.store * scale,
        (parts.decode + parts.check + parts.core + parts.encode + parts.store) * scale);
  }
  std::filesystem::remove_all(dir);
  return 0;
}

}  // namespace
}  // namespace tandem::master

int main(int argc, char** argv) { return tandem::master::Main(argc, argv); }
