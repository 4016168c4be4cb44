// Cluster: a master and workers as processes, with folders of their own, and a client to it.
//
//   Cluster cluster(settings, {.worker_flags = {"--max-leases", "256"}});
//   const JobInfo job = cluster.Run(cluster.Prepare("noop", {}, {{"n", "1000"}}));
//
// What cannot be started or does not succeed ends the benchmark with words (Must).
//
// Thread-safety: client() is safe from any thread, all else is for one.
// Ownership: owns the processes, which end with it.
#ifndef TANDEM_BENCH_SUPPORT_CLUSTER_H_
#define TANDEM_BENCH_SUPPORT_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/support/measure.h"
#include "bench/support/settings.h"
#include "client/cli/child_process.h"
#include "client/lib/client.h"
#include "common/base/strings.h"

namespace tandem::bench {

struct ClusterOptions {
  int workers = 1;
  std::vector<std::string> master_flags, worker_flags;
};

// CPU seconds of each kind of process.
struct CpuUse {
  double master = 0, workers = 0, executors = 0, client = 0;
  double all() const { return master + workers + executors + client; }
  CpuUse operator-(const CpuUse& before) const;
};

class Cluster {
 public:
  Cluster(const Settings& settings, const ClusterOptions& options);
  ~Cluster();

  client::Client& client() { return *client_; }
  const std::string& folder() const { return folder_.path(); }
  pid_t master_pid() const { return master_->pid(); }
  std::vector<pid_t> worker_pids() const;
  // The folder of the worker of this number, from 1 on.
  std::string worker_folder(int number) const { return StrCat(folder(), "/w", number); }
  // Ends all workers, calls `between`, and starts them again on the same folders.
  void RestartWorkers(const std::function<void()>& between);

  // The spec of a job, its operands uploaded.
  JobSpec Prepare(const std::string& kernel, JobSpec spec,
                  const std::vector<client::Argument>& arguments);
  // Submits and waits; the job has succeeded.
  client::JobInfo Run(const JobSpec& spec);
  // All bytes of a dense output.
  std::string Read(JobId job, const std::string& output, const client::TaskSelection& tasks = {});

  CpuUse Cpu() const;
  std::map<std::string, uint64_t> Counters();

 private:
  void StartMaster();
  void StartWorkers();
  void EndWorkers();

  const Settings settings_;
  const ClusterOptions options_;
  ScratchFolder folder_;
  std::string address_;
  std::optional<cli::ChildProcess> master_;
  std::vector<cli::ChildProcess> workers_;
  std::unique_ptr<client::Client> client_;
};

}  // namespace tandem::bench

#endif  // TANDEM_BENCH_SUPPORT_CLUSTER_H_
