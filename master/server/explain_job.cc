#include "master/server/explain_job.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/base/strings.h"
#include "common/wire/usage.h"
#include "master/server/explain_devices.h"
#include "master/server/explain_leases.h"

namespace tandem::master {
namespace {

std::string Percent(double share) {
  return StrCat(static_cast<int>(std::round(100 * std::clamp(share, 0.0, 1.0))), "%");
}
std::string Count(uint64_t n, std::string_view one, std::string_view many) {
  return StrCat(n, " ", n == 1 ? one : many);
}

// Sums over the job's workers, and what follows from them.
struct Totals {
  v1::Usage usage;
  double wall_ns = 0;
  double running_ns = 0;
  double capacity_ns = 0;  // Core groups' time from a worker's first grant to the end of running.
  double busy_ns = 0;
  double other_ns = 0;
  uint64_t groups = 0;
  uint64_t workers = 0;
  uint64_t leases = 0;
  uint64_t returned = 0;

  double Of(double ns) const { return capacity_ns > 0 ? std::min(1.0, ns / capacity_ns) : 0; }
  double Wall(double ns) const { return wall_ns > 0 ? std::min(1.0, ns / wall_ns) : 0; }
  double idle_ns() const {
    return std::max(0.0, capacity_ns - busy_ns - other_ns - static_cast<double>(usage.stall_ns()));
  }
};

Totals Sum(const v1::JobAccount& account) {
  Totals totals;
  totals.running_ns = static_cast<double>(account.running_ns());
  totals.wall_ns = totals.running_ns + static_cast<double>(account.pending_ns()) +
                   static_cast<double>(account.merging_ns());
  const uint64_t run_end = account.pending_ns() + account.running_ns();
  absl::flat_hash_set<uint64_t> workers;  // Each has a line a kind of device.
  for (const v1::WorkerUsage& worker : account.workers()) {
    wire::AddUsage(worker.usage(), &totals.usage);
    const uint64_t groups = std::max<uint64_t>(1, worker.groups());
    const uint64_t window = run_end - std::min(run_end, worker.first_ns());
    totals.capacity_ns += static_cast<double>(groups) * static_cast<double>(window);
    totals.groups += groups;
    totals.busy_ns += static_cast<double>(wire::BusyNanos(worker.usage()));
    totals.other_ns += static_cast<double>(worker.other_ns());
    totals.leases += worker.leases();
    totals.returned += worker.returned_leaves();
    workers.insert(worker.worker());
  }
  totals.workers = workers.size();
  return totals;
}

class Rules {
 public:
  Rules(const JobFacts& job, const ExplainLimits& limits)
      : job_(job), limits_(limits), totals_(Sum(job.account)) {}

  std::vector<v1::Finding> Run() {
    State();
    if (totals_.wall_ns > 0 && totals_.wall_ns < static_cast<double>(limits_.short_ns)) {
      Short();
    } else {
      Waits();
      Operands();
      HostStages();
      Idleness();
      Tail();
      Merging();
      Committing();
      Shared();
      Returned();
      Computing();
    }
    Retries();
    const auto first = findings_.begin() + static_cast<std::ptrdiff_t>(leading_);
    std::stable_sort(first, findings_.end(), [](const v1::Finding& a, const v1::Finding& b) {
      return a.share() > b.share();
    });
    if (findings_.size() == leading_ && !Waiting()) Nothing();
    std::ranges::move(ExplainLeases(job_.leases), std::back_inserter(findings_));
    return std::move(findings_);
  }

 private:
  void Add(std::string_view token, double share, std::string what, std::string advice) {
    v1::Finding& finding = findings_.emplace_back();
    finding.set_token(std::string(token));
    finding.set_share(share);
    finding.set_what(std::move(what));
    finding.set_advice(std::move(advice));
  }

  bool Waiting() const {
    return job_.state == v1::FAILED || job_.wait_reason != v1::WAIT_REASON_UNSPECIFIED;
  }

  // What is so now and who had it, before any share of the past.
  void State() {
    if (job_.state == v1::FAILED) {
      Add("FAILED", 0, StrCat("it failed: ", job_.reason),
          "`tandem job failures` lists the tasks; --retries and --allow-failed let single ones be");
    } else if (job_.wait_reason != v1::WAIT_REASON_UNSPECIFIED) {
      const WaitText text = ExplainWait(job_.wait_reason);
      Add(v1::WaitReason_Name(job_.wait_reason), 0,
          StrCat("it waits now: ", text.what, OtherBuilds(), job_.reason.empty() ? "" : "; ",
                 job_.reason),
          text.advice);
    }
    findings_.insert(findings_.end(), job_.late.begin(), job_.late.end());
    if (auto devices = ExplainDevices(job_, limits_)) findings_.push_back(*std::move(devices));
    leading_ = findings_.size();
  }

  // A job keeps to the build that it was accepted for; that there are others is worth knowing.
  std::string OtherBuilds() const {
    if (job_.wait_reason != v1::NO_KERNEL || job_.other_builds.empty()) return "";
    return StrCat(": it was accepted for ", job_.kernel, ", and workers have ",
                  absl::StrJoin(job_.other_builds, ", "),
                  "; cancel it and submit it again to run with that build");
  }

  void Short() {
    Add("SHORT", 1,
        StrCat("the whole job took ", ThreeDigits(totals_.wall_ns), ", of which ",
               ThreeDigits(totals_.busy_ns),
               " in executors: what one sees are the fixed costs of "
               "accepting it durably, handing it out and making its end durable"),
        "put more work into one job; many small ones side by side cost less than one after "
        "another");
  }

  void Waits() {
    for (const v1::WaitTime& wait : job_.account.waits()) {
      const double share = totals_.Wall(static_cast<double>(wait.ns()));
      if (share < limits_.wait_share) continue;
      const WaitText text = ExplainWait(wait.reason());
      Add(v1::WaitReason_Name(wait.reason()), share,
          StrCat("for ", ThreeDigits(static_cast<double>(wait.ns())), " (", Percent(share),
                 " of its time) nobody had work of it: ", text.what),
          text.advice);
    }
  }

  void Operands() {
    const double stall = static_cast<double>(totals_.usage.stall_ns());
    const double share = totals_.Of(stall);
    if (share < limits_.stall_share) return;
    const v1::Usage& usage = totals_.usage;
    Add("OPERAND_FETCH", share,
        StrCat("core groups stood still for ", ThreeDigits(stall), " (", Percent(share),
               " of their time) because operands were on their way: ",
               HumanSize(usage.fetched_bytes()), " over the network, ",
               HumanSize(usage.path_bytes()), " from shared files, ",
               HumanSize(usage.mapped_bytes()), " mapped"),
        usage.fetched_bytes() > usage.path_bytes()
            ? "workers keep what they fetched: the next job with the same operands finds it there; "
              "or put the data on a file system that workers share and name it path:FILE"
            : "the shared file system is what bounds it: put the data on a faster one, or upload "
              "it "
              "with @FILE, so that workers keep it");
  }

  void HostStages() {
    if (totals_.busy_ns <= 0) return;
    const double host = static_cast<double>(totals_.usage.host_ns());
    const double share = host / totals_.busy_ns;
    if (share < limits_.host_share) return;
    Add("HOST_STAGES", totals_.Of(host),
        StrCat("host stages (decoding, generating, laying out) took ", ThreeDigits(host), ", ",
               Percent(share), " of what executors worked; the kernel's body ",
               ThreeDigits(static_cast<double>(totals_.usage.body_ns()))),
        "more cores help, a faster device for the body does not; operands in a form that needs no "
        "decoding save it");
  }

  // Core groups had nothing to do though the job ran: why?
  void Idleness() {
    const double share = totals_.Of(totals_.idle_ns());
    if (totals_.capacity_ns <= 0 || share < limits_.idle_share) return;
    const uint64_t pieces = totals_.usage.pieces();
    const double piece = pieces == 0 ? 0 : totals_.busy_ns / static_cast<double>(pieces);
    const double push = totals_.running_ns > 0
                            ? static_cast<double>(totals_.usage.push_ns()) / totals_.running_ns
                            : 0;
    const std::string idle =
        StrCat("core groups had nothing to do for ", Percent(share), " of their time");
    if (job_.state == v1::RUNNING && pieces == 0) {
      Add("UNREPORTED", share,
          StrCat("nothing of it has been reported yet: pieces that run now are counted when they "
                 "end, and work of other jobs may be before it at its ",
                 totals_.workers == 1 ? "worker" : "workers"),
          "`tandem worker explain` says what a worker has of each job");
    } else if (job_.leaf_count < 2 * totals_.groups) {
      Add("FEW_LEAVES", share,
          StrCat(idle, ": ", Count(job_.leaf_count, "leaf", "leaves"), " of ",
                 Count(job_.grain, "task", "tasks"), " cannot keep ",
                 Count(totals_.groups, "core group", "core groups"), " busy"),
          StrCat("give a smaller --grain: ", SmallerGrain(), " would make ", 8 * totals_.groups,
                 " leaves"));
    } else if (push >= limits_.push_overlap) {
      Add("OUTPUT_PUSH", share,
          StrCat(idle, " while outputs were under way to the master: ",
                 HumanSize(totals_.usage.pushed_output_bytes()), " in ",
                 Count(totals_.usage.pushes(), "push", "pushes"), ", ",
                 ThreeDigits(static_cast<double>(totals_.usage.push_ns())), " in all"),
          "a faster network or disk at the master helps; so does a kernel that reduces its output, "
          "or a narrower element type");
    } else if (piece < static_cast<double>(limits_.piece_ns) && pieces > 10 * totals_.groups) {
      Add("SMALL_PIECES", share,
          StrCat(idle, ": the ", pieces, " pieces took ", ThreeDigits(piece),
                 " each, less than handing one out costs"),
          job_.max_lease_leaves > 0
              ? StrCat("let leases grow: --max-lease ", job_.max_lease_leaves, " keeps them small")
              : "give a larger --grain, so that a leaf is at least a millisecond of work");
    } else if (const std::string lost = Unreported(piece); !lost.empty()) {
      Add("UNREPORTED", share,
          StrCat("nothing has been reported for ", Percent(share), " of core groups' time: ", lost),
          job_.account.crashes() > 0
              ? "`tandem job failures` names tasks that were given up; the workers' logs say what "
                "ended executors"
              : "");
    } else {
      Add("IDLE", share,
          StrCat(idle, ", and neither operands, outputs nor the size of pieces say why"),
          "`tandem worker explain` says what each worker would be given next");
    }
  }
  // Work shows in the account when it is reported: what of it never was, or is not yet; "" if none.
  std::string Unreported(double piece) const {
    if (job_.account.crashes() > 0) {
      return StrCat("what ran in executors that ended (",
                    Count(job_.account.crashes(), "run", "runs"),
                    " of leaves lost that way) is not counted, nor is starting new ones");
    }
    if (job_.state == v1::CANCELLED) {
      return "what ran when the job was cancelled was ended, and is not counted";
    }
    const bool long_pieces = piece * static_cast<double>(totals_.groups) >= totals_.idle_ns();
    if (job_.state == v1::RUNNING && long_pieces) {
      return "pieces that run now are counted when they end";
    }
    return "";
  }
  uint64_t SmallerGrain() const {
    return std::max<uint64_t>(1, job_.task_count / std::max<uint64_t>(1, 8 * totals_.groups));
  }

  // One worker that works on when half of them have done their part.
  void Tail() {
    std::map<uint64_t, std::pair<uint64_t, const v1::WorkerUsage*>> last;  // Of its devices.
    for (const v1::WorkerUsage& worker : job_.account.workers()) {
      if (worker.usage().tasks() == 0) continue;
      auto& end = last[worker.worker()];
      end = std::max(end, {worker.last_ns(), &worker});
    }
    std::vector<std::pair<uint64_t, const v1::WorkerUsage*>> ends;
    for (const auto& [worker, end] : last) ends.push_back(end);
    if (ends.size() < 2 || totals_.running_ns <= 0) return;
    std::ranges::sort(ends, {}, [](const auto& end) { return end.first; });
    const double tail = static_cast<double>(ends.back().first - ends[(ends.size() - 1) / 2].first);
    const double share = tail / totals_.running_ns;
    if (share < limits_.tail_share) return;
    Add("STRAGGLER", share,
        StrCat("worker ", ends.back().second->name(), " worked for ", ThreeDigits(tail),
               " more after half of the workers had done their part"),
        "give a smaller --grain, so that what is left can be taken from a slow worker; look at it "
        "with `tandem worker show`");
  }

  void Merging() {
    const double share = totals_.Wall(static_cast<double>(job_.account.merging_ns()));
    if (share < limits_.merge_share) return;
    Add("MERGING", share,
        StrCat("after the last task ", ThreeDigits(static_cast<double>(job_.account.merging_ns())),
               " went into merging partials (", Count(totals_.usage.merges(), "merge", "merges"),
               ", ", Count(totals_.usage.partials(), "accumulator", "accumulators"), ", ",
               HumanSize(totals_.usage.pushed_output_bytes()), " pushed)"),
        "a larger --grain makes fewer partials of float sums; workers on the master's host merge "
        "without the network");
  }

  void Committing() {
    const auto longest = static_cast<double>(job_.account.commit_wait_max_ns());
    const double share = totals_.Wall(longest);
    if (share < limits_.commit_share || job_.account.commits() == 0) return;
    Add("COMMIT", share,
        StrCat("results waited up to ", ThreeDigits(longest), " until they were durable (",
               ThreeDigits(static_cast<double>(job_.account.commit_wait_ns()) /
                           static_cast<double>(job_.account.commits())),
               " in the mean over ", Count(job_.account.commits(), "commit", "commits"), ")"),
        "the disk under the master's --dir is slow to sync: `tandem doctor` measures it; a drive "
        "with a protected write cache helps");
  }

  void Shared() {
    const double share = totals_.Of(totals_.other_ns);
    if (share < limits_.other_share) return;
    Add("SHARED_WORKERS", share,
        StrCat("its workers spent ", Percent(share), " of their time (",
               ThreeDigits(totals_.other_ns), ") on other jobs"),
        "give it a larger --priority, or add workers");
  }

  void Returned() {
    if (job_.leaf_count == 0) return;
    const double share =
        static_cast<double>(totals_.returned) / static_cast<double>(job_.leaf_count);
    if (share < limits_.returned_share) return;
    Add("RECALLED", 0,
        StrCat(Count(totals_.returned, "leaf", "leaves"), " of ", job_.leaf_count,
               " were taken back unstarted: for a job of larger priority, a drain, or to even out "
               "its end"),
        "");
  }

  void Computing() {
    const double body = static_cast<double>(totals_.usage.body_ns());
    const double share = totals_.Of(body);
    if (share < limits_.compute_share) return;
    const double one_more =
        static_cast<double>(totals_.groups) / static_cast<double>(totals_.groups + PerWorker());
    Add("COMPUTE", share,
        StrCat(Count(totals_.groups, "core group", "core groups"), " of ",
               Count(totals_.workers, "worker", "workers"), " spent ", Percent(share),
               " of their time (", ThreeDigits(body), ") in the body of ", job_.kernel),
        StrCat("this is what it should be; one more worker like these would bring ",
               ThreeDigits(totals_.running_ns), " of running down to about ",
               ThreeDigits(totals_.running_ns * one_more)));
  }
  uint64_t PerWorker() const {
    return std::max<uint64_t>(1, totals_.groups / std::max<uint64_t>(1, totals_.workers));
  }

  void Retries() {
    const double all = static_cast<double>(job_.task_count + job_.retried_tasks);
    const double share = all > 0 ? static_cast<double>(job_.retried_tasks) / all : 0;
    if (share < limits_.retry_share && job_.account.crashes() == 0) return;
    Add("RETRIES", share,
        StrCat(Count(job_.retried_tasks, "task", "tasks"), " ran again, after ",
               Count(job_.account.crashes(), "crash", "crashes"),
               " of an executor, lost workers, or tasks' own failures"),
        "`tandem job failures` names tasks that failed; the workers' logs say what ended "
        "executors");
  }

  void Nothing() {
    if (job_.account.workers().empty()) {
      Add("NOT_STARTED", 0, "no worker has had any of it", "");
      return;
    }
    Add("BALANCED", 0,
        StrCat("nothing stands out: of core groups' time ",
               Percent(totals_.Of(static_cast<double>(totals_.usage.body_ns()))),
               " went into the body, ",
               Percent(totals_.Of(static_cast<double>(totals_.usage.host_ns()))),
               " into host stages, ", Percent(totals_.Of(totals_.idle_ns())), " was idle"),
        "more workers, or more cores, make it faster");
  }

  const JobFacts& job_;
  const ExplainLimits& limits_;
  const Totals totals_;
  std::vector<v1::Finding> findings_;
  size_t leading_ = 0;
};

}  // namespace

WaitText ExplainWait(v1::WaitReason reason) {
  switch (reason) {
    case v1::NO_WORKER:
      return {"no worker is attached",
              "start one with `tandem worker start`, or a whole cluster "
              "with `tandem up`"};
    case v1::NO_KERNEL:
      return {"no worker that is attached has its kernel",
              "start a worker with the library that holds it (--kernel-path); `tandem kernel ls` "
              "shows what workers have"};
    case v1::RESOURCES:
      return {
          "no worker that is attached has a device of the kind, and with the memory, that it "
          "asks for",
          "add one that has, or submit it with --device auto"};
    case v1::DEPENDENCY:
      return {"jobs that it comes after have not succeeded yet",
              "look at them with `tandem job "
              "show`"};
    case v1::QUOTA:
      return {"its owner's quota is used up", "wait for other jobs, or cancel some"};
    case v1::PRIORITY:
      return {"workers were busy with jobs that come before it",
              "give it a larger --priority, cancel others, or add workers"};
    case v1::UNSATISFIABLE:
      return {"every worker that could run it has said that it cannot",
              "`tandem worker explain` says why; mend that, or cancel the job"};
    case v1::DRAINED:
      return {"every worker that could run it is drained",
              "let one work again with `tandem worker resume NAME`, or start another"};
    default:
      return {"it had work outstanding", ""};
  }
}

std::vector<v1::Finding> ExplainJob(const JobFacts& job, const ExplainLimits& limits) {
  return Rules(job, limits).Run();
}

std::string ThreeDigits(double ns) {
  double unit = 1;
  while (unit * 1000 <= ns) unit *= 10;
  return HumanDuration(absl::Nanoseconds(std::round(ns / unit) * unit));
}

}  // namespace tandem::master
