#include "bench/support/cluster.h"

#include <fstream>

#include "absl/time/clock.h"
#include "bench/support/process_stat.h"
#include "common/base/strings.h"

namespace tandem::bench {
namespace {

constexpr absl::Duration kStartPatience = absl::Seconds(30);
constexpr absl::Duration kStopPatience = absl::Seconds(10);
constexpr absl::Duration kPoll = absl::Milliseconds(5);

std::vector<std::string> With(std::vector<std::string> argv, const std::vector<std::string>& more) {
  argv.insert(argv.end(), more.begin(), more.end());
  return argv;
}

}  // namespace

CpuUse CpuUse::operator-(const CpuUse& before) const {
  return {master - before.master, workers - before.workers, executors - before.executors,
          client - before.client};
}

Cluster::Cluster(const Settings& settings, const ClusterOptions& options)
    : settings_(settings), options_(options), folder_(settings.out) {
  StartMaster();
  client_ =
      Must(client::Client::Connect(
               {.address = address_, .patience = kStartPatience, .watch_patience = kStartPatience}),
           "connect");
  StartWorkers();
}

Cluster::~Cluster() {
  EndWorkers();
  master_->Terminate();
  master_->Wait(kStopPatience);
}

void Cluster::StartMaster() {
  const std::string port_file = folder() + "/port";
  master_ = Must(cli::ChildProcess::Start(
                     With({settings_.bin + "/tandem-master", "--dir", folder() + "/master",
                           "--listen", "127.0.0.1:0", "--port-file", port_file},
                          options_.master_flags)),
                 "start the master");
  const absl::Time give_up = absl::Now() + kStartPatience;
  int port = 0;
  while (!(std::ifstream(port_file) >> port)) {
    if (const auto ended = master_->Poll(); ended.has_value() || absl::Now() > give_up) {
      Die(StrCat("the master did not start: ", ended.value_or("no port in time")));
    }
    absl::SleepFor(kPoll);
  }
  address_ = StrCat("127.0.0.1:", port);
}

void Cluster::StartWorkers() {
  for (int i = 0; i < options_.workers; ++i) {
    const std::string name = StrCat("w", i + 1);
    workers_.push_back(
        Must(cli::ChildProcess::Start(With({settings_.bin + "/tandem-worker", "--master", address_,
                                            "--dir", worker_folder(i + 1), "--name", name},
                                           options_.worker_flags)),
             "start a worker"));
  }
  const absl::Time give_up = absl::Now() + kStartPatience;
  const auto attached = [&] { return Must(client_->GetMaster(), "ask the master").workers; };
  while (attached() < static_cast<uint32_t>(options_.workers)) {
    if (absl::Now() > give_up) Die("the workers did not attach in time");
    absl::SleepFor(kPoll);
  }
}

void Cluster::EndWorkers() {
  for (cli::ChildProcess& worker : workers_) worker.Terminate();
  for (cli::ChildProcess& worker : workers_) worker.Wait(kStopPatience);
  workers_.clear();
}

void Cluster::RestartWorkers(const std::function<void()>& between) {
  EndWorkers();
  between();
  StartWorkers();
}

JobSpec Cluster::Prepare(const std::string& kernel, JobSpec spec,
                         const std::vector<client::Argument>& arguments) {
  const KernelInfo info = Must(client_->GetKernel(kernel), "find the kernel");
  client::PreparedJob job =
      Must(client::PrepareJob(info, std::move(spec), arguments), "prepare the job");
  Must(client_->Upload(job.uploads, [](uint64_t, uint64_t) {}), "upload");
  return std::move(job.spec);
}

client::JobInfo Cluster::Run(const JobSpec& spec) {
  const client::JobInfo submitted = Must(client_->Submit(spec), "submit");
  client::JobInfo job = Must(
      client_->Wait(submitted.id, [](const client::JobInfo&) { return true; }), "wait for the job");
  if (job.state != client::JobState::kSucceeded) {
    Die(StrCat("job ", job.id, " of ", spec.kernel, " ended ", client::JobStateName(job.state),
               ": ", job.reason));
  }
  return job;
}

std::string Cluster::Read(JobId job, const std::string& output,
                          const client::TaskSelection& tasks) {
  std::string bytes;
  Must(client_->ReadOutput(job, output, tasks,
                           [&](std::string_view piece) {
                             bytes.append(piece);
                             return absl::OkStatus();
                           }),
       "read the output");
  return bytes;
}

std::vector<pid_t> Cluster::worker_pids() const {
  std::vector<pid_t> pids;
  for (const cli::ChildProcess& worker : workers_) pids.push_back(worker.pid());
  return pids;
}

CpuUse Cluster::Cpu() const {
  CpuUse use;
  use.master = CpuSeconds(master_->pid());
  for (const cli::ChildProcess& worker : workers_) {
    use.workers += CpuSeconds(worker.pid());
    for (const pid_t executor : ChildrenOf(worker.pid())) use.executors += CpuSeconds(executor);
  }
  use.client = OwnCpuSeconds();
  return use;
}

std::map<std::string, uint64_t> Cluster::Counters() {
  return Must(client_->GetMaster(), "ask the master").counters;
}

}  // namespace tandem::bench
