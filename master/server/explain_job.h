// Why a job took as long as it took: rules over its account, in words with numbers.
//
//   std::vector<v1::Finding> findings = ExplainJob({.state = …, .account = account, …});
//   findings[0].token() == "OPERAND_FETCH"
//
// Each rule has a token, a share of the time in question, and a threshold below which it is silent
// (ExplainLimits). What a job that waits now waits for, and why one failed, come first; the others
// by their share; how single leases were shared out (explain_leases.h) last. There is always at
// least one finding.
//
// Thread-safety: pure functions.
#ifndef TANDEM_MASTER_SERVER_EXPLAIN_JOB_H_
#define TANDEM_MASTER_SERVER_EXPLAIN_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tandem/v1/cluster.pb.h"
#include "tandem/v1/jobs.pb.h"

namespace tandem::master {

struct ExplainLimits {
  uint64_t short_ns = 100'000'000;  // Of a whole job: below this fixed costs are what one sees.
  double wait_share = 0.15;         // Of the whole time: waited for something.
  double stall_share = 0.10;        // Of core groups' time: waited for operands.
  double host_share = 0.30;         // Of their busy time: in host stages.
  double idle_share = 0.30;         // Of core groups' time: what makes idleness worth a cause.
  double device_idle_share = 0.5;   // Of its time: a device other than a CPU had nothing to run.
  double push_overlap = 0.5;        // Of the running time: some output was under way.
  uint64_t piece_ns = 200'000;      // A mean piece below this costs more to hand out than to run.
  double tail_share = 0.15;         // Of the running time: after half of the workers were done.
  double merge_share = 0.15;        // Of the whole time.
  double commit_share = 0.15;       // Of the whole time: the longest wait for the disk.
  double retry_share = 0.02;        // Of all tasks: ran again.
  double other_share = 0.20;        // Of core groups' time: for other jobs.
  double returned_share = 0.25;     // Of the leaves: handed back unstarted.
  double compute_share = 0.70;      // Of core groups' time: in the body.
};

// Everything that the rules look at.
struct JobFacts {
  v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
  v1::WaitReason wait_reason = v1::WAIT_REASON_UNSPECIFIED;  // Now.
  std::string reason;                                        // FAILED: why.
  std::string kernel;
  std::vector<std::string> other_builds;  // Of the kernel: those that workers have who take work.
  uint64_t task_count = 0;
  uint64_t leaf_count = 0;
  uint64_t grain = 1;
  uint64_t max_lease_leaves = 0;
  uint64_t retried_tasks = 0;
  uint64_t tasks_failed = 0;
  v1::JobAccount account;
  std::vector<v1::Finding> late;       // Of its tasks, that run now (explain_notes.h).
  std::vector<v1::LeaseSplit> leases;  // Some of its leases, the latest last.
};

std::vector<v1::Finding> ExplainJob(const JobFacts& job, const ExplainLimits& limits = {});

// What a wait is for, and what ends it.
struct WaitText {
  const char* what;
  const char* advice;
};
WaitText ExplainWait(v1::WaitReason reason);

// A time for people, to three digits.
std::string ThreeDigits(double ns);

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_EXPLAIN_JOB_H_
