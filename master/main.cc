// tandem-master: accepts jobs, leases their ranges to workers, keeps their results.
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "absl/synchronization/mutex.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/cli/error_file.h"
#include "common/cli/option_types.h"
#include "common/cli/usage.h"
#include "common/rpc/channel.h"
#include "master/server/server.h"

namespace tandem::master {
namespace {

constexpr char kProgram[] = "tandem-master";
constexpr int kExitJournal = 74;  // EX_IOERR: the journal could not be written.
constexpr char kDamaged[] =
    "; nothing was changed: copy the folder of --dir away, look at its disk, and start from a "
    "backup "
    "(\"When the master's folder is damaged\" in docs/operating.md)";
constexpr absl::Duration kShutdownGrace = absl::Seconds(2);

struct Flags {
  std::string directory = "tandem-master";
  std::string listen = "127.0.0.1:7460";
  bool insecure = false;
  std::string lease_ttl = "5s";
  std::string heartbeat = "1s";
  std::string local_data = "auto";
  uint64_t snapshot_every = 100'000;
  uint64_t keep_jobs = 10'000;
  std::string keep_uploads = "24h";
  std::string retention;
  std::string free_after = "15m";
  std::string disk_reserve = "16MiB";
  std::string port_file, error_file;
};

void Declare(CLI::App* app, Flags* flags) {
  app->set_version_flag("--version", StrCat(kProgram, " ", TANDEM_VERSION),
                        "Print the version and exit");
  app->add_option("--dir", flags->directory, "Where journal, blobs and results are kept")
      ->type_name("DIR")
      ->capture_default_str();
  app->add_option("--listen", flags->listen, "HOST:PORT; port 0 takes a free one")
      ->type_name("ADDRESS")
      ->capture_default_str();
  app->add_flag("--insecure", flags->insecure, "Listen beyond this host although there is no TLS");
  app->add_option("--lease-ttl", flags->lease_ttl, "A silent worker's leases live that long")
      ->type_name("DURATION")
      ->capture_default_str();
  app->add_option("--heartbeat", flags->heartbeat, "How often workers are heard and heard from")
      ->type_name("DURATION")
      ->capture_default_str();
  app->add_option("--local-data", flags->local_data,
                  "auto: processes on this host may map the master's blobs and hand over outputs; "
                  "never: they may not")
      ->check(cli::OneOf({"auto", "never"}))
      ->capture_default_str();
  app->add_option("--snapshot-every", flags->snapshot_every,
                  "Records of the journal between two snapshots, at least")
      ->check(cli::Count(1))
      ->capture_default_str();
  app->add_option("--keep-jobs", flags->keep_jobs,
                  "Ended jobs whose results are kept; the oldest go first")
      ->check(cli::Count(1))
      ->capture_default_str();
  app->add_option("--keep-uploads", flags->keep_uploads,
                  "How long an upload that broke off is kept for going on")
      ->type_name("DURATION")
      ->capture_default_str();
  app->add_option("--retention", flags->retention,
                  "An ended job's results go so long after its end (30d); default: never")
      ->type_name("DURATION");
  app->add_option("--free-after", flags->free_after,
                  "Files of outputs that only deleted jobs name go so long after they were last "
                  "written; longer than a worker may be away with what it has yet to report")
      ->type_name("DURATION")
      ->capture_default_str();
  app->add_option("--disk-reserve", flags->disk_reserve,
                  "So much of the disk is left to the journal; new jobs are refused when nothing "
                  "else is free")
      ->type_name("SIZE")
      ->capture_default_str();
  app->add_option("--port-file", flags->port_file, "Write the port that was taken to this file")
      ->type_name("FILE");
  app->add_option("--error-file", flags->error_file,
                  "Write why it could not start to this file, for the program that starts it")
      ->type_name("FILE");
}

absl::Status ReadDuration(const std::string& text, const char* flag, absl::Duration* to) {
  const absl::StatusOr<absl::Duration> value = ParseDuration(text);
  if (!value.ok()) return WithContext(value.status(), flag);
  if (*value < absl::Milliseconds(10)) {
    return InvalidError(reason::kBadDuration,
                        StrCat(flag, ": ", text, " is too short; at least 10ms"));
  }
  *to = *value;
  return absl::OkStatus();
}

absl::StatusOr<MasterOptions> OptionsOf(const Flags& flags) {
  MasterOptions options;
  options.directory = flags.directory;
  options.listen.address = flags.listen;
  options.listen.insecure = flags.insecure;
  options.offer_local_data = flags.local_data == "auto";
  options.capabilities.time_limit = true;
  options.capabilities.gpu_memory = true;
  options.loop.snapshot_every = flags.snapshot_every;
  options.loop.ended_jobs_kept = flags.keep_jobs;
  absl::Status status = ReadDuration(flags.lease_ttl, "--lease-ttl", &options.loop.core.lease_ttl);
  if (status.ok()) {
    status = ReadDuration(flags.heartbeat, "--heartbeat", &options.loop.core.heartbeat);
  }
  if (status.ok())
    status = ReadDuration(flags.keep_uploads, "--keep-uploads", &options.keep_uploads);
  if (status.ok() && options.loop.core.heartbeat * 2 > options.loop.core.lease_ttl) {
    status = InvalidError(
        reason::kBadArgument,
        "--heartbeat must be at most half of --lease-ttl, or a single late one loses leases");
  }
  if (status.ok() && !flags.retention.empty()) {
    status = ReadDuration(flags.retention, "--retention", &options.loop.retention);
  }
  if (status.ok()) {
    status = ReadDuration(flags.free_after, "--free-after", &options.loop.segment_quiet);
  }
  if (!status.ok()) return status;
  ASSIGN_OR_RETURN(options.disk_reserve_bytes, ParseSize(flags.disk_reserve));
  return options;
}

// Written whole or not at all: whoever waits for the file reads a port.
bool WritePortFile(const std::string& path, int port) {
  const std::string temporary = path + ".tmp";
  std::ofstream file(temporary, std::ios::trunc);
  file << port << '\n';
  file.close();
  return file.good() && rename(temporary.c_str(), path.c_str()) == 0;
}

int Fail(const absl::Status& status, const Flags& flags) {
  if (ReasonOf(status) != reason::kStoreCorrupt) {
    return cli::FailToStart(kProgram, status, flags.error_file);
  }
  return cli::FailToStart(
      kProgram,
      Error(status.code(), reason::kStoreCorrupt, StrCat(ToStd(status.message()), kDamaged)),
      flags.error_file);
}

int Run(const Flags& flags) {
  const absl::StatusOr<MasterOptions> options = OptionsOf(flags);
  if (!options.ok()) return Fail(options.status(), flags);
  // Signals are taken by sigwait only.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // A file limit is an error of the write that meets it.
  std::atomic<int> exit_code{0};
  const auto on_failed = [&exit_code](const absl::Status&) {
    exit_code = kExitJournal;
    kill(getpid(), SIGTERM);
  };
  absl::StatusOr<std::unique_ptr<Master>> master = Master::Start(*options, on_failed);
  if (!master.ok()) return Fail(master.status(), flags);
  if (!flags.port_file.empty() && !WritePortFile(flags.port_file, (*master)->port())) {
    return Fail(Error(absl::StatusCode::kPermissionDenied, reason::kPathUnwritable,
                      StrCat("cannot write ", Quoted(flags.port_file), ": ", std::strerror(errno),
                             "; choose another --port-file")),
                flags);
  }
  int signal_number = 0;
  sigwait(&signals, &signal_number);
  TLOG(Info, "master_stops", "signal", signal_number);
  // With the journal broken there is nothing left to do well.
  if (exit_code != 0) _exit(exit_code);
  (*master)->Shutdown(kShutdownGrace);
  return exit_code;
}

int Main(int argc, char** argv) {
  // Large buffers are used again instead of being mapped and faulted each time.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  // Debian's Abseil looks for deadlocks in every build; tests do too, a server need not.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  CLI::App app(
      "The master of a Tandem cluster: accepts jobs, leases their ranges to workers, keeps "
      "their results.\n\nExamples:\n"
      "  tandem-master --dir /var/lib/tandem --listen 127.0.0.1:7460\n"
      "  tandem-master --dir /var/lib/tandem --retention 30d --disk-reserve 1GiB\n",
      kProgram);
  Flags flags;
  Declare(&app, &flags);
  if (const auto code = cli::ParseCommandLine(&app, argc, argv)) return *code;
  rpc::RouteGrpcLog();
  return Run(flags);
}

}  // namespace
}  // namespace tandem::master

int main(int argc, char** argv) { return tandem::master::Main(argc, argv); }
