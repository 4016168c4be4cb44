#include "worker/executor/executor_program.h"

#include <errno.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/rpc/channel.h"
#include "worker/device/device.h"
#include "worker/executor/executor.h"
#include "worker/executor/page_log.h"
#include "worker/executor/remote_source.h"
#include "worker/executor/serve.h"
#include "worker/executor/start_times.h"
#include "worker/ring/channel.h"
#include "worker/ring/launch.h"

namespace tandem::worker {
namespace {

constexpr int kUsage = 2;
constexpr int kSoftware = 70;
constexpr uint64_t kCacheBytesDefault = uint64_t{16} << 30;
constexpr size_t kIdleBufferBytes = size_t{1} << 30;
// The largest that glibc takes; larger buffers are pooled (worker/device/buffers.h).
constexpr int kMmapThreshold = 32 << 20;

// Freed memory is kept: its pages would only be faulted in again by the next piece.
void TuneAllocator() {
  mallopt(M_MMAP_THRESHOLD, kMmapThreshold);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 16 << 20);
}

// It ends with its worker, also when that is killed.
bool Orphaned(int64_t parent) { return parent > 0 && getppid() != static_cast<pid_t>(parent); }

absl::Status BindToCores(const std::vector<uint32_t>& cores) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const uint32_t core : cores) {
    if (core < CPU_SETSIZE) CPU_SET(core, &mask);
  }
  // Of all threads: a library may have started some before us (OpenBLAS does).
  bool bound = sched_setaffinity(0, sizeof(mask), &mask) == 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", ignored)) {
    pid_t thread = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &thread)) continue;
    bound &= sched_setaffinity(thread, sizeof(mask), &mask) == 0 || errno == ESRCH;
  }
  if (bound) return absl::OkStatus();
  return InvalidError(reason::kBadResources,
                      StrCat("cannot run on cores ", FormatCpuList(cores),
                             "; the worker's own cores have changed: start it again"));
}

// The worker says so to people, who see no exit codes.
absl::Status CannotStart(Channel* channel, const absl::Status& why) {
  executor::v1::FromExecutor message;
  message.set_cannot_start(std::string(why.message()));
  (void)channel->Send(message);  // It learns of the end at least.
  return why;
}

double SecondsSince(MonoTime begin) { return absl::ToDoubleSeconds(Clock::Real()->Now() - begin); }

absl::Status RunExecutor(const ExecutorProgram& program, const ExecutorLaunch& launch) {
  const MonoTime begin = Clock::Real()->Now();
  RETURN_IF_ERROR(BindToCores(launch.cores));
  ASSIGN_OR_RETURN(ChannelFds fds, ChannelFds::Parse(launch.channel));
  ASSIGN_OR_RETURN(const std::unique_ptr<Channel> channel, Channel::Open(std::move(fds)));
  ASSIGN_OR_RETURN(const std::unique_ptr<StagingFile> staging_file,
                   StagingFile::Open(UniqueFd(launch.staging_fd)));
  StagingAllocator staging(staging_file.get());
  ASSIGN_OR_RETURN(const std::unique_ptr<StartPage> page, StartPage::Open(launch.start_page));
  PageLog log(page.get());

  const absl::StatusOr<std::unique_ptr<Device>> opened =
      program.device_of(launch, page->slots(), &log);
  if (!opened.ok()) return CannotStart(channel.get(), opened.status());
  Device* const device = opened->get();
  const double device_seconds = SecondsSince(begin);
  KernelTable kernels(program.form);
  RETURN_IF_ERROR(program.add_builtin(&kernels));
  for (const std::string& library : launch.kernel_libraries) {
    if (const absl::Status added = kernels.AddLibrary(library); !added.ok()) {
      // It was good when the worker probed it; what it had is not run by this executor.
      TLOG(Error, "kernel_library_changed", "file", library, "why", ToStd(added.message()));
    }
  }

  BufferPool pool(kIdleBufferBytes);
  JobResources resources;
  resources.sources = RemoteSources(launch.owner);
  resources.cache = std::make_shared<BlobCache>(
      StrCat(launch.directory, "/cache"),
      launch.cache_bytes_max == 0 ? kCacheBytesDefault : launch.cache_bytes_max);
  resources.local_data = launch.local_data;
  resources.pool = &pool;

  TLOG(Debug, "executor_starts", "device", launch.device, "seconds", SecondsSince(begin),
       "device_seconds", device_seconds, "kernels", kernels.infos().size());
  Executor executor(
      device, &staging, &kernels, std::move(resources), [&channel] { channel->WakeSelf(); },
      ExecutorLimits::For(device->properties()));
  return Serve(channel.get(), &executor, [&launch] { return Orphaned(launch.parent_pid); });
}

}  // namespace

int RunExecutorProgram(const ExecutorProgram& program, int argc, char** argv) {
  const MonoTime began = Clock::Real()->Now();
  if (argc == 2 && (std::string_view(argv[1]) == "--help" || std::string_view(argv[1]) == "-h")) {
    return std::fputs(program.help, stdout) >= 0 && std::fflush(stdout) == 0 ? 0 : kSoftware;
  }
  TuneAllocator();
  rpc::RouteGrpcLog();
  signal(SIGINT, SIG_IGN);  // A terminal's Ctrl-C is for the worker, which then says shutdown.
  signal(SIGPIPE, SIG_IGN);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (const std::optional<int> answered = program.answer(arguments)) return *answered;
  if (const std::optional<int> answered = AnswerStart(program, arguments, began)) return *answered;
  absl::StatusOr<ExecutorLaunch> launch = ParseLaunch(arguments);
  if (!launch.ok()) {
    std::fprintf(stderr, "%s: %s\n", program.name, std::string(launch.status().message()).c_str());
    return kUsage;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (Orphaned(launch->parent_pid)) return 0;  // The worker died before this was set.
  const absl::Status status = RunExecutor(program, *launch);
  if (status.ok() || absl::IsCancelled(status)) return 0;
  TLOG(Error, "executor_ends", "owner", launch->owner, "device", launch->device, "why",
       ToStd(status.message()));
  const bool gone = absl::IsUnavailable(status) && ReasonOf(status) == reason::kDeviceFault;
  return gone ? kDeviceGoneExit : kSoftware;
}

}  // namespace tandem::worker
