#include "worker/server/options.h"

#include <sched.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/cli/error_file.h"
#include "common/cli/option_types.h"
#include "common/cli/usage.h"
#include "common/model/gpu_memory.h"
#include "common/rpc/channel.h"
#include "worker/device/emulated/emulated_spec.h"
#include "worker/device/nvml/nvml_library.h"
#include "worker/ring/launch.h"

namespace tandem::worker {
namespace {

// The least that a cache or pinned memory may have.
constexpr uint64_t kHostBudgetLeast = uint64_t{16} << 20;

uint64_t MemoryOfThisServer() {
  const int64_t pages = ::sysconf(_SC_PHYS_PAGES), bytes = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && bytes > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(bytes) : 0;
}

struct RawFlags {
  WorkerOptions options;
  std::string cores;
  uint32_t cores_max = 0;
  std::string local_data = "auto";
  std::string on_master_lost = "finish";
  std::string cache_size, pinned_memory, gpu_memory;
  std::vector<std::string> kernel_paths;
  std::string gpus = "auto";
  std::string gpu_time_limit = "30s";
  std::string kernel_load_limit = "10s";
  std::string late_after = "10s";
  std::string gpu_mapped_max = "64KiB";
};

// What was given, else the environment's; each may be several, as in PATH.
std::vector<std::string> KernelPaths(const std::vector<std::string>& given) {
  std::vector<std::string> texts = given;
  const char* environment = std::getenv("TANDEM_KERNEL_PATH");
  if (texts.empty() && environment != nullptr) texts.emplace_back(environment);
  std::vector<std::string> paths;
  for (const std::string& text : texts) {
    for (const std::string_view path : Split(text, ':')) {
      if (!path.empty()) paths.emplace_back(path);
    }
  }
  return paths;
}

// Beside this program in a build folder, else where an installation has it.
std::string DefaultExecutor() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path beside = folder / "tandem-executor";
  const fs::path installed = folder.parent_path() / "libexec" / "tandem" / "tandem-executor";
  return (fs::exists(beside, error) ? beside : installed).string();
}

void AddClusterFlags(CLI::App* app, RawFlags* raw) {
  WorkerOptions& options = raw->options;
  app->set_version_flag("--version", StrCat(kProgram, " ", TANDEM_VERSION),
                        "Print the version and exit");
  app->add_option("--master", options.master, "The master's address, HOST:PORT")
      ->envname("TANDEM_ADDRESS")
      ->type_name("ADDRESS")
      ->capture_default_str();
  app->add_option("--dir", options.directory, "This worker's own folder; made when missing")
      ->required()
      ->type_name("DIR");
  app->add_option("--name", options.name,
                  "Its name in the cluster; default: the one its folder remembers, else a new one");
  app->add_option("--max-leases", options.max_leases, "The most leases in flight that it takes")
      ->check(cli::Count(1, uint64_t{1} << 20))
      ->capture_default_str();
  app->add_option("--late-after", raw->late_after,
                  "What has run for so long, and several times longer than predicted, is shown as "
                  "late (tandem job explain); nothing else follows")
      ->type_name("DURATION")
      ->capture_default_str();
  app->add_option("--local-data", raw->local_data,
                  "auto: map the master's files and hand over outputs when it runs on this host; "
                  "never: stream them")
      ->check(cli::OneOf({"auto", "never"}))
      ->capture_default_str();
  app->add_option("--on-master-lost", raw->on_master_lost,
                  "finish: go on with what it holds and report it later; kill: drop it when its "
                  "leases are over")
      ->check(cli::OneOf({"finish", "kill"}))
      ->capture_default_str();
  app->add_option("--error-file", options.error_file,
                  "Write why it could not start to this file, for the program that starts it")
      ->type_name("FILE");
}

void AddCpuFlags(CLI::App* app, RawFlags* raw) {
  app->add_option("--cores", raw->cores,
                  "The CPUs it may use, as taskset lists them (0-3,8); default: all it is allowed")
      ->type_name("LIST");
  app->add_option("--cores-max", raw->cores_max, "At most so many CPUs of those")
      ->check(cli::Count(1, CPU_SETSIZE));
  app->add_option("--cpu-groups", raw->options.cpu_groups,
                  "Core groups; default: one a NUMA node or last-level cache")
      ->check(cli::Count(0, CPU_SETSIZE));
  app->add_option("--cache-size", raw->cache_size,
                  "Of one owner's operands on this server (16GiB); 16MiB at least")
      ->type_name("SIZE");
}

void AddGpuFlags(CLI::App* app, RawFlags* raw) {
  WorkerOptions& options = raw->options;
  app->add_option(
         "--gpus", raw->gpus,
         "auto: the GPUs that CUDA sees (CUDA_VISIBLE_DEVICES), beside the CPUs; none: the "
         "CPUs alone")
      ->check(cli::OneOf({"auto", "none"}))
      ->capture_default_str();
  app->add_option("--gpu-time-limit", raw->gpu_time_limit,
                  "How long NVIDIA's driver may take to say what there is; then it goes on without")
      ->type_name("DURATION")
      ->capture_default_str();
  app->add_option("--gpu-memory", raw->gpu_memory,
                  "What jobs may use of each device's memory: a share of what is free, or a size "
                  "(20GiB); DEVICE=SIZE, behind a comma, for one device. Default: "
                  "TANDEM_GPU_MEMORY, else 90%")
      ->type_name("SIZE|PERCENT");
  app->add_option("--pinned-memory", raw->pinned_memory,
                  "Of the host's memory for copies to and from each device, an owner (1GiB); "
                  "16MiB at least")
      ->type_name("SIZE");
  app->add_option("--gpu-mapped-max", raw->gpu_mapped_max,
                  "Pieces whose operands and outputs are at most so much are not copied: a GPU "
                  "reaches them in pinned memory; 0: all are copied")
      ->type_name("SIZE")
      ->capture_default_str();
  options.nvml = kNvmlPath;
  app->add_option("--nvml", options.nvml,
                  "NVIDIA's management library, which tells of GPUs that fail")
      ->type_name("FILE")
      ->capture_default_str();
  app->add_option("--emulated-gpus", options.emulated_gpus,
                  StrCat("So many emulated devices (at most ", kEmulatedGpusMax,
                         "), which jobs may use like GPUs: to try a job's device half, or to test "
                         "with, on a machine without one"))
      ->check(cli::Count(0, kEmulatedGpusMax))
      ->capture_default_str();
}

void AddKernelFlags(CLI::App* app, RawFlags* raw) {
  app->add_option("--executor", raw->options.executor,
                  "Default: the tandem-executor that came with this program; for GPUs the one "
                  "beside it with -cuda behind its name")
      ->type_name("FILE");
  app->add_option("--kernel-path", raw->kernel_paths,
                  "A library of kernels (x.so), or a folder of them; may be repeated. A library "
                  "that is named must load; one in a folder is left out when it does not. "
                  "Default: TANDEM_KERNEL_PATH, separated by ':'")
      ->type_name("DIR|FILE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app->add_option("--kernel-load-limit", raw->kernel_load_limit,
                  "How long a library may take to load")
      ->type_name("DURATION")
      ->capture_default_str();
}

// Flag, else environment, else default; with who said so.
absl::Status TakeGpuMemory(const std::string& flag, WorkerOptions* options) {
  const char* const environment = std::getenv(kGpuMemoryVariable);
  std::string text = kGpuMemoryDefault;
  if (!flag.empty()) {
    text = flag;
    options->gpu_memory_origin = "--gpu-memory";
  } else if (environment != nullptr && *environment != '\0') {
    text = environment;
    options->gpu_memory_origin = kGpuMemoryVariable;
  }
  absl::StatusOr<GpuMemory> memory = GpuMemory::Parse(text);
  if (!memory.ok()) {
    return WithField(WithContext(memory.status(), options->gpu_memory_origin), "--gpu-memory");
  }
  options->gpu_memory = *std::move(memory);
  return absl::OkStatus();
}

// A budget of host memory. `most`: 0: any.
absl::Status TakeBudget(const char* flag, const std::string& text, uint64_t most, uint64_t* bytes) {
  if (text.empty()) return absl::OkStatus();
  const absl::StatusOr<uint64_t> size = ParseSize(text);
  if (!size.ok()) return WithField(WithContext(size.status(), flag), flag);
  if (*size < kHostBudgetLeast) {
    return WithField(
        InvalidError(reason::kBadArgument,
                     StrCat(flag, " ", Quoted(text), " is less than ", HumanSize(kHostBudgetLeast),
                            ", which a batch may need at least")),
        flag);
  }
  if (most > 0 && *size > most) {
    return WithField(InvalidError(reason::kBadArgument,
                                  StrCat(flag, " ", Quoted(text), " is more than this server's ",
                                         HumanSize(most), " of memory; give it less")),
                     flag);
  }
  *bytes = *size;
  return absl::OkStatus();
}

absl::Status Complete(RawFlags* raw) {
  WorkerOptions& options = raw->options;
  ASSIGN_OR_RETURN(const rpc::Address address, rpc::ParseAddress(options.master));
  (void)address;
  std::vector<uint32_t> wanted;
  if (!raw->cores.empty()) {
    ASSIGN_OR_RETURN(wanted, ParseCpuList(raw->cores));
  }
  ASSIGN_OR_RETURN(options.cores, ChooseCores(AllowedCores(), wanted, raw->cores_max));
  if (options.cpu_groups > options.cores.size()) {
    return InvalidError(reason::kBadResources,
                        StrCat("--cpu-groups ", options.cpu_groups, " is more than the ",
                               options.cores.size(), " cores there are"));
  }
  RETURN_IF_ERROR(TakeGpuMemory(raw->gpu_memory, &options));
  // The cache is files; what is pinned is memory.
  RETURN_IF_ERROR(TakeBudget("--cache-size", raw->cache_size, 0, &options.cache_bytes_max));
  RETURN_IF_ERROR(TakeBudget("--pinned-memory", raw->pinned_memory, MemoryOfThisServer(),
                             &options.pinned_bytes_max));
  ASSIGN_OR_RETURN(options.gpu_mapped_max, ParseSize(raw->gpu_mapped_max));
  options.local_data = raw->local_data == "auto";
  options.finish_when_master_lost = raw->on_master_lost == "finish";
  options.kernel_paths = KernelPaths(raw->kernel_paths);
  ASSIGN_OR_RETURN(options.kernel_load_limit, ParseDuration(raw->kernel_load_limit));
  options.gpus = raw->gpus == "auto";
  ASSIGN_OR_RETURN(options.gpu_time_limit, ParseDuration(raw->gpu_time_limit));
  ASSIGN_OR_RETURN(options.late_after, ParseDuration(raw->late_after));
  if (const char* emulated = std::getenv(kEmulatedVariable);
      emulated != nullptr && options.emulated_gpus > 0) {
    RETURN_IF_ERROR(CheckEmulated(emulated, options.emulated_gpus));
  }
  if (options.executor.empty()) options.executor = DefaultExecutor();
  options.directory = std::filesystem::absolute(options.directory).lexically_normal().string();
  return absl::OkStatus();
}

}  // namespace

std::variant<WorkerOptions, int> ParseFlags(int argc, char** argv) {
  CLI::App app(
      "Runs the work of one server for a Tandem master: leases ranges of tasks, runs them on this "
      "server's cores, reports what is done.\n\nExamples:\n"
      "  tandem-worker --master 10.0.0.1:7460 --dir /var/lib/tandem-worker\n"
      "  tandem-worker --dir ./w1 --name w1 --cores 0-3\n",
      kProgram);
  RawFlags raw;
  AddClusterFlags(&app, &raw);
  AddCpuFlags(&app, &raw);
  AddGpuFlags(&app, &raw);
  AddKernelFlags(&app, &raw);
  if (const auto code = cli::ParseCommandLine(&app, argc, argv)) return *code;
  if (const absl::Status status = Complete(&raw); !status.ok()) {
    return cli::FailToStart(kProgram, status, raw.options.error_file);
  }
  return raw.options;
}

std::vector<uint32_t> AllowedCores() {
  std::vector<uint32_t> cores;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (::sched_getaffinity(0, sizeof(mask), &mask) != 0) return cores;
  for (uint32_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &mask)) cores.push_back(cpu);
  }
  return cores;
}

absl::StatusOr<std::vector<uint32_t>> ChooseCores(const std::vector<uint32_t>& allowed,
                                                  const std::vector<uint32_t>& wanted,
                                                  uint32_t cores_max) {
  std::vector<uint32_t> cores = wanted.empty() ? allowed : wanted;
  for (const uint32_t cpu : cores) {
    if (std::find(allowed.begin(), allowed.end(), cpu) == allowed.end()) {
      return InvalidError(reason::kBadResources,
                          StrCat("CPU ", cpu, " is not among those that this process may use (",
                                 FormatCpuList(allowed), "); choose --cores from them"));
    }
  }
  if (cores.empty()) {
    return InvalidError(reason::kBadResources, "this process may use no CPU; see taskset -p");
  }
  if (cores_max > 0 && cores.size() > cores_max) cores.resize(cores_max);
  return cores;
}

}  // namespace tandem::worker
