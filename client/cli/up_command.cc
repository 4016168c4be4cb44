// `tandem up`: a whole cluster on this machine, until Ctrl-C.
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <system_error>

#include "absl/time/clock.h"
#include "client/cli/child_process.h"
#include "client/cli/context.h"
#include "client/cli/exit_code.h"
#include "client/cli/interrupt.h"
#include "client/cli/listen.h"
#include "client/cli/out_file.h"
#include "client/cli/scratch_directory.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/cli/error_file.h"
#include "common/cli/option_types.h"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kStartPatience = absl::Seconds(20);
constexpr absl::Duration kStopPatience = absl::Seconds(10);
constexpr int kPollMilliseconds = 100;
constexpr int kWorkersMax = 64;
constexpr int kEmulatedGpusMax = 16;  // as tandem-worker has it
constexpr char kHost[] = "127.0.0.1";
constexpr int kUsualPort = 7460;

struct UpFlags {
  int workers = 1;
  std::string directory, ready_file, local_data = "auto";
  std::string port;  // "": the settings' own, or another where that is taken
  std::vector<std::string> kernel_paths;
  int emulated_gpus = 0;
  std::string gpu_memory;  // "": the settings' own
};

// This process's CPUs in `parts` lists ("0-3" as "0,1,2,3"), none empty: with fewer CPUs than parts
// they are shared.
std::vector<std::string> CpuShares(int parts) {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  std::vector<std::string> shares(static_cast<size_t>(parts));
  for (size_t part = 0; part < shares.size(); ++part) {
    const size_t begin = part * cpus.size() / shares.size();
    const size_t end = std::max(begin + 1, (part + 1) * cpus.size() / shares.size());
    for (size_t i = begin; i < end; ++i) {
      StrAppend(&shares[part], shares[part].empty() ? "" : ",", cpus[std::min(i, cpus.size() - 1)]);
    }
  }
  return shares;
}

// The port asked for, which must be free; the usual one where it is free now; else any.
absl::StatusOr<int> ChoosePort(const std::string& asked) {
  int port = kUsualPort;
  if (!asked.empty()) std::from_chars(asked.data(), asked.data() + asked.size(), port);
  if (port == 0) return port;
  const int error = TryListen({.host = kHost, .port = port});
  if (error == 0) return port;
  if (asked.empty()) return 0;
  return Error(
      error == EACCES ? absl::StatusCode::kPermissionDenied : absl::StatusCode::kUnavailable,
      reason::kAddressInUse,
      StrCat("cannot listen at ", kHost, ":", port, ": ", std::strerror(error),
             "; leave --port out, and a free one is taken"));
}

class LocalCluster {
 public:
  LocalCluster(Context* context, UpFlags flags, std::string directory)
      : context_(context), flags_(std::move(flags)), directory_(std::move(directory)) {}

  absl::Status Start() {
    ASSIGN_OR_RETURN(const int wanted, ChoosePort(flags_.port));
    absl::Status started = StartMaster(wanted);
    // Another one may have taken the usual port since.
    if (ReasonOf(started) == reason::kAddressInUse && flags_.port.empty() && wanted != 0) {
      started = StartMaster(0);
    }
    RETURN_IF_ERROR(started);
    const std::vector<std::string> shares = CpuShares(flags_.workers);
    for (int i = 0; i < flags_.workers; ++i) {
      const std::string name = StrCat("w", i + 1);
      std::vector<std::string> argv = {Program("tandem-worker"),
                                       "--master",
                                       context_->address,
                                       "--dir",
                                       directory_ + "/" + name,
                                       "--name",
                                       name,
                                       "--cores",
                                       shares[static_cast<size_t>(i)],
                                       "--local-data",
                                       flags_.local_data,
                                       "--gpus",  // of one worker: two would share their memory
                                       i == 0 ? "auto" : "none",
                                       "--emulated-gpus",
                                       StrCat(flags_.emulated_gpus),
                                       "--error-file",
                                       ErrorFile(name)};
      const Settings::Value& memory = context_->settings.Get("gpu_memory");
      // The environment reaches workers by itself.
      if (memory.origin != Origin::kDefault && memory.origin != Origin::kEnvironment) {
        argv.insert(argv.end(), {"--gpu-memory", memory.text});
      }
      for (const std::string& path : flags_.kernel_paths) {
        argv.insert(argv.end(), {"--kernel-path", path});
      }
      RemoveFile(ErrorFile(name));
      ASSIGN_OR_RETURN(ChildProcess worker, ChildProcess::Start(argv));
      workers_.push_back(std::move(worker));
    }
    return AwaitWorkers();
  }

  // Who runs where, for programs; it appears whole.
  absl::Status WriteReadyFile() {
    nlohmann::ordered_json workers = nlohmann::ordered_json::array();
    for (size_t i = 0; i < workers_.size(); ++i) {
      workers.push_back({{"name", StrCat("w", i + 1)}, {"pid", workers_[i].pid()}});
    }
    const std::string part = flags_.ready_file + ".part";
    std::ofstream(part) << RenderObject("cluster", {{"address", context_->address},
                                                    {"directory", directory_},
                                                    {"master_pid", master_->pid()},
                                                    {"workers", workers}});
    std::error_code failed;
    fs::rename(part, flags_.ready_file, failed);
    if (!failed) return absl::OkStatus();
    return Error(absl::StatusCode::kPermissionDenied, reason::kPathUnwritable,
                 StrCat("cannot write ", Quoted(flags_.ready_file), ": ", failed.message()));
  }

  // Until a signal comes or the master ends. A worker that ends is reported; the others go on.
  absl::Status Watch() {
    std::vector<bool> reported(workers_.size(), false);
    while (!Interrupted()) {
      pollfd interrupt{InterruptFd(), POLLIN, 0};
      poll(&interrupt, 1, kPollMilliseconds);
      if (const auto ended = master_->Poll(); ended.has_value() && !Interrupted()) {
        return Error(absl::StatusCode::kUnavailable, reason::kMasterUnavailable,
                     StrCat("the master has ended: ", *ended, "; its last lines above say why"));
      }
      for (size_t i = 0; i < workers_.size(); ++i) {
        const auto ended = workers_[i].Poll();
        if (!ended.has_value() || reported[i] || Interrupted()) continue;
        reported[i] = true;
        std::cerr << "tandem: worker w" << i + 1 << " has ended: " << *ended
                  << "; the others go on\n";
      }
    }
    return absl::OkStatus();
  }

  void Stop() {
    for (ChildProcess& worker : workers_) worker.Terminate();
    for (ChildProcess& worker : workers_) worker.Wait(kStopPatience);
    if (!master_.has_value()) return;
    master_->Terminate();
    master_->Wait(kStopPatience);
  }

 private:
  static std::string Program(const std::string& name) {
    return Context::BinaryDirectory() + "/" + name;
  }

  std::string ErrorFile(const std::string& name) const {
    return StrCat(directory_, "/", name, ".error");
  }
  static void RemoveFile(const std::string& path) {
    std::error_code ignored;
    fs::remove(path, ignored);
  }

  // A child that ended while it started: its own reason and exit code, where it gave one.
  absl::Status DidNotStart(const std::string& name, const std::string& who, const std::string& how,
                           std::string_view reason) const {
    const absl::Status why = ReadErrorFile(ErrorFile(name));
    if (!why.ok()) return WithContext(why, StrCat(who, " did not start"));
    return Error(absl::StatusCode::kUnavailable, reason,
                 StrCat(who, " did not start: ", how, "; its last lines above say why"));
  }

  static absl::Status LeftEarly(const std::string& when) {
    return Error(absl::StatusCode::kCancelled, reason::kInterrupted,
                 StrCat("stopped by a signal ", when, "; nothing goes on"));
  }

  absl::Status StartMaster(int port) {
    const std::string port_file = directory_ + "/master.port";
    RemoveFile(port_file);
    RemoveFile(ErrorFile("master"));
    ASSIGN_OR_RETURN(
        master_,
        ChildProcess::Start({Program("tandem-master"), "--dir", directory_ + "/master", "--listen",
                             StrCat(kHost, ":", port), "--port-file", port_file, "--local-data",
                             flags_.local_data, "--error-file", ErrorFile("master")}));
    const absl::Time give_up = absl::Now() + kStartPatience;
    for (;; absl::SleepFor(absl::Milliseconds(5))) {
      if (std::ifstream(port_file) >> port && port > 0) {
        context_->address = StrCat(kHost, ":", port);
        return absl::OkStatus();
      }
      if (const auto ended = master_->Poll(); ended.has_value()) {
        return DidNotStart("master", "the master", *ended, reason::kMasterUnavailable);
      }
      if (Interrupted()) return LeftEarly("before the master was up");
      if (absl::Now() >= give_up) {
        return Error(absl::StatusCode::kUnavailable, reason::kMasterUnavailable,
                     "the master did not start in time");
      }
    }
  }

  absl::Status AwaitWorkers() {
    ASSIGN_OR_RETURN(client::Client * client, context_->client());
    const absl::Time give_up = absl::Now() + kStartPatience;
    for (;; absl::SleepFor(absl::Milliseconds(10))) {
      ASSIGN_OR_RETURN(const auto master, client->GetMaster());
      if (static_cast<int>(master.workers) >= flags_.workers) return absl::OkStatus();
      for (size_t i = 0; i < workers_.size(); ++i) {
        if (const auto ended = workers_[i].Poll(); ended.has_value()) {
          const std::string name = StrCat("w", i + 1);
          return DidNotStart(name, StrCat("worker ", name), *ended, reason::kWorkerLost);
        }
      }
      if (Interrupted()) {
        return LeftEarly(
            StrCat("when ", master.workers, " of ", flags_.workers, " workers had attached"));
      }
      if (absl::Now() >= give_up) {
        return Error(absl::StatusCode::kUnavailable, reason::kWorkerLost,
                     "the workers did not attach in time");
      }
    }
  }

  Context* const context_;
  const UpFlags flags_;
  const std::string directory_;
  std::optional<ChildProcess> master_;
  std::vector<ChildProcess> workers_;
};

void Announce(const Context& context, const UpFlags& flags, const ScratchDirectory& directory) {
  const bool usual = context.address == StrCat(kHost, ":", kUsualPort) &&
                     context.settings.Get("address").origin == Origin::kDefault;
  std::cout << "master    " << context.address << "\nworkers   " << flags.workers << "\ndata      "
            << directory.path() << (directory.temporary() ? " (removed at the end)" : "")
            << "\ntry       tandem " << (usual ? "" : StrCat("--address ", context.address, " "))
            << "run monte_carlo_pi n=1000000000 seed=7\nCtrl-C ends it." << std::endl;
}

absl::Status Up(Context* context, const UpFlags& flags) {
  if (!flags.gpu_memory.empty()) {
    RETURN_IF_ERROR(context->settings.SetFlag("gpu_memory", "--gpu-memory", flags.gpu_memory));
  }
  CatchInterrupts();
  if (!flags.ready_file.empty()) {
    RETURN_IF_ERROR(WithField(CheckOutFile(flags.ready_file, 0, true), "--ready-file"));
  }
  ASSIGN_OR_RETURN(const ScratchDirectory directory, ScratchDirectory::Make(flags.directory));
  LocalCluster cluster(context, flags, directory.path());
  absl::Status status = cluster.Start();
  if (status.ok()) {
    Announce(*context, flags, directory);
    if (!flags.ready_file.empty()) status = cluster.WriteReadyFile();
    if (!status.ok()) {
      cluster.Stop();
      return status;
    }
    status = cluster.Watch();
  }
  cluster.Stop();
  return status;
}

}  // namespace

void AddUpCommand(CLI::App* app, Context* context) {
  const auto flags = std::make_shared<UpFlags>();
  CLI::App* up =
      AddCommand(app, context, "up", "Run a master and workers on this machine until Ctrl-C.",
                 "  tandem up\n  tandem up --workers 2 --dir ./cluster\n"
                 "  tandem up --kernel-path ./mine.so\n  tandem up --emulated-gpus 2\n",
                 [context, flags] { return Up(context, *flags); });
  up->add_option("--workers", flags->workers, "How many; the cores are shared out among them")
      ->check(Count(0, kWorkersMax));
  up->add_option("--emulated-gpus", flags->emulated_gpus,
                 StrCat("So many emulated devices a worker (at most ", kEmulatedGpusMax,
                        "), which jobs may use like GPUs"))
      ->check(Count(0, kEmulatedGpusMax));
  up->add_option("--gpu-memory", flags->gpu_memory,
                 "What jobs may use of each device's memory: a share of what is free, or a size "
                 "(default: the setting gpu_memory, 90%)")
      ->type_name("SIZE|PERCENT");
  up->add_option("--port", flags->port,
                 "The master's port on 127.0.0.1 (default: 7460, or any free one where that is "
                 "taken; 0: any free one)")
      ->check(Count(0, 65535));
  up->add_option("--dir", flags->directory,
                 "Where it keeps its data (default: a temporary directory)")
      ->type_name("DIR");
  up->add_option("--local-data", flags->local_data,
                 "auto: bytes on the same host are mapped; never: they go over gRPC")
      ->check(OneOf({"auto", "never"}));
  up->add_option(
        "--kernel-path", flags->kernel_paths,
        "A library of kernels (x.so) or a folder of them, for every worker; may be repeated")
      ->type_name("DIR|FILE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  up->add_option("--ready-file", flags->ready_file, "Written, as JSON, once everything is up")
      ->type_name("FILE");
}

}  // namespace tandem::cli
