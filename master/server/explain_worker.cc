#include "master/server/explain_worker.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/time/time.h"
#include "common/base/strings.h"

namespace tandem::master {
namespace {

using Fit = JobAtWorkerView::Fit;

v1::Finding Make(std::string_view token, std::string what, std::string advice) {
  v1::Finding finding;
  finding.set_token(std::string(token));
  finding.set_what(std::move(what));
  finding.set_advice(std::move(advice));
  return finding;
}

std::string Jobs(uint64_t count) { return StrCat(count, count == 1 ? " job" : " jobs"); }

v1::Finding Away(const WorkerView& worker) {
  switch (worker.phase) {
    case WorkerView::Phase::kExpected:
      return Make("EXPECTED",
                  "it was attached before the master was restarted and has not come back yet",
                  "what it held waits for it until its lease time is over");
    case WorkerView::Phase::kDetached:
      return Make("DETACHED", "its connection broke a moment ago; its leases wait for it",
                  "it comes back by itself if it and the network are well");
    default:
      return Make("LOST",
                  "it was not heard of for longer than its leases live; others have its "
                  "work now",
                  "look whether the server and the network are up; it attaches by itself");
  }
}

v1::Finding Holding(const WorkerView& worker) {
  return Make(worker.draining ? "FINISHING" : "WORKING",
              StrCat("it holds ", worker.leases, worker.leases == 1 ? " lease of " : " leases of ",
                     Jobs(worker.jobs.size()), ", predicted to take ",
                     HumanDuration(absl::Milliseconds(
                         static_cast<int64_t>(std::max(0.0, worker.queued_seconds) * 1000 + 0.5))),
                     "; a round trip takes ",
                     HumanDuration(absl::Microseconds(
                         static_cast<int64_t>(worker.latency_seconds * 1e6 + 0.5)))),
              "");
}

}  // namespace

std::vector<v1::Finding> ExplainWorkerState(const WorkerView& worker,
                                            const std::vector<JobAtWorkerView>& jobs) {
  if (worker.phase != WorkerView::Phase::kAttached) return {Away(worker)};
  std::vector<v1::Finding> findings;
  if (worker.draining) {
    findings.push_back(Make("DRAINED",
                            "it is drained: it gets no more leases, and has handed back "
                            "what it had not started",
                            StrCat("`tandem worker resume ", worker.name, "` lets it work again")));
  }
  if (worker.leases > 0) findings.push_back(Holding(worker));
  const auto count = [&jobs](Fit fit, bool free_only) {
    return static_cast<uint64_t>(std::ranges::count_if(jobs, [&](const JobAtWorkerView& job) {
      return job.fit == fit && (!free_only || job.free_leaves > 0);
    }));
  };
  const auto say = [&](Fit fit, std::string_view token, std::string_view why,
                       std::string_view advice) {
    const uint64_t n = count(fit, false);
    if (n > 0) {
      findings.push_back(Make(token, StrCat(Jobs(n), " ", why), std::string(advice)));
    }
  };
  say(Fit::kNoKernel, "NO_KERNEL", "cannot run here: the worker does not have the kernel",
      "start it with the library that holds the kernel (--kernel-path)");
  say(Fit::kNoDevice, "NO_DEVICE", "cannot run here: the worker has no device of the kind",
      "submit with --device auto, or add a worker that has one");
  say(Fit::kRefused, "REFUSED", "cannot run here: the worker said so",
      "the list of jobs below says why");
  if (worker.leases == 0 && !worker.draining) {
    const uint64_t waiting = count(Fit::kFits, true);
    if (waiting == 0) {
      findings.push_back(
          Make("NO_WORK",
               "there is nothing for it: no unfinished job that it can run has leaves "
               "that nobody has",
               jobs.empty() ? "submit a job" : "others hold what there is"));
    } else {
      findings.push_back(Make("NEXT", StrCat(Jobs(waiting), " could be given to it next"), ""));
    }
  }
  if (findings.empty()) findings.push_back(Holding(worker));
  return findings;
}

}  // namespace tandem::master
