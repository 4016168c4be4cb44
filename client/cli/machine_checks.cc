#include "client/cli/machine_checks.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "common/base/strings.h"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;

constexpr uint64_t kOpenFilesLeast = 1024;    // a master with a few workers and clients
constexpr uint64_t kOpenFilesGood = 8192;     // with hundreds of them, and blobs
constexpr uint64_t kMemoryGood = 1ULL << 30;  // buffers of an executor's pieces
// Version 1 writes "no limit" as the largest multiple of a page.
constexpr uint64_t kMemoryUnlimited = uint64_t{1} << 62;

std::string ReadLine(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

void Lower(std::optional<double>* limit, double value) {
  *limit = std::min(limit->value_or(value), value);
}
void Lower(std::optional<uint64_t>* limit, uint64_t value) {
  *limit = std::min(limit->value_or(value), value);
}

// "150000 100000" or "max 100000"
void TakeCpuMax(const std::string& line, CgroupLimits* limits) {
  double quota = 0, period = 0;
  if (std::istringstream(line) >> quota >> period && quota > 0 && period > 0) {
    Lower(&limits->cpus, quota / period);
  }
}

void TakeMemory(const std::string& line, CgroupLimits* limits) {
  uint64_t bytes = 0;
  if (std::istringstream(line) >> bytes && bytes < kMemoryUnlimited) {
    Lower(&limits->memory_bytes, bytes);
  }
}

// Calls take(folder) for a group's folder and those above it, up to the controller's mount.
template <class Take>
void Upwards(const fs::path& mount, const std::string& group, Take take) {
  const fs::path relative = fs::path(group).relative_path().lexically_normal();
  fs::path folder = mount / relative;
  // In a container the group's own path may not be there: its mount then is the group.
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) folder = mount;
  for (;; folder = folder.parent_path()) {
    take(folder);
    if (folder == mount || folder == folder.root_path()) return;
  }
}

// "NAME:    123 kB"
uint64_t MemInfo(const std::string& text, const std::string& name) {
  const size_t at = text.find(name + ":");
  uint64_t kib = 0;
  if (at != std::string::npos) std::istringstream(text.substr(at + name.size() + 1)) >> kib;
  return kib << 10;
}

}  // namespace

std::string_view VerdictName(Finding::Verdict verdict) {
  switch (verdict) {
    case Finding::Verdict::kOk:
      return "ok";
    case Finding::Verdict::kWarning:
      return "warning";
    case Finding::Verdict::kFailure:
      return "FAILURE";
  }
  return "ok";
}

CgroupLimits ReadCgroupLimits(const std::string& root) {
  const fs::path mount = fs::path(root) / "sys/fs/cgroup";
  CgroupLimits limits;
  std::ifstream file(fs::path(root) / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // hierarchy:controllers:group
    const std::vector<std::string_view> parts = Split(line, ':');
    if (parts.size() < 3) continue;
    const std::string group(parts[2]);
    const auto controllers = Split(parts[1], ',');
    const auto has = [&](std::string_view name) {
      return std::find(controllers.begin(), controllers.end(), name) != controllers.end();
    };
    if (parts[1].empty()) {
      Upwards(mount, group, [&](const fs::path& folder) {
        TakeCpuMax(ReadLine(folder / "cpu.max"), &limits);
        TakeMemory(ReadLine(folder / "memory.max"), &limits);
      });
    } else if (has("cpu")) {
      Upwards(mount / "cpu", group, [&](const fs::path& folder) {
        TakeCpuMax(
            ReadLine(folder / "cpu.cfs_quota_us") + " " + ReadLine(folder / "cpu.cfs_period_us"),
            &limits);
      });
    } else if (has("memory")) {
      Upwards(mount / "memory", group, [&](const fs::path& folder) {
        TakeMemory(ReadLine(folder / "memory.limit_in_bytes"), &limits);
      });
    }
  }
  return limits;
}

Memory ReadMemory(const std::string& root) {
  std::ifstream file(fs::path(root) / "proc/meminfo");
  std::stringstream text;
  text << file.rdbuf();
  return {MemInfo(text.str(), "MemTotal"), MemInfo(text.str(), "MemAvailable")};
}

std::vector<std::string> ReadNumaNodes(const std::string& root) {
  std::vector<std::pair<int, std::string>> nodes;
  std::error_code failed;
  const fs::path folder = fs::path(root) / "sys/devices/system/node";
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename();
    int number = 0;
    if (!name.starts_with("node") || !(std::istringstream(name.substr(4)) >> number)) continue;
    nodes.emplace_back(number, ReadLine(entry.path() / "cpulist"));
  }
  std::sort(nodes.begin(), nodes.end());
  std::vector<std::string> cpus;
  for (auto& [number, list] : nodes) cpus.push_back(std::move(list));
  return cpus;
}

Finding CheckPrograms(const std::string& directory) {
  std::string missing;
  const auto can_be_run = [](const std::string& path) { return access(path.c_str(), X_OK) == 0; };
  for (const std::string_view name : {"tandem-master", "tandem-worker", "tandem-executor"}) {
    if (can_be_run(StrCat(directory, "/", name))) continue;
    // Where an installation has what nobody starts by hand.
    if (can_be_run(StrCat(directory, "/../libexec/tandem/", name))) continue;
    StrAppend(&missing, missing.empty() ? "" : ", ", name);
  }
  Finding finding{.check = "programs", .facts = {{"directory", directory}}};
  finding.found = missing.empty() ? StrCat("all in ", directory)
                                  : StrCat("no ", missing, " that can be run in ", directory);
  if (missing.empty()) return finding;
  return std::move(finding).Fail(StatusCode::kNotFound, reason::kPathUnreadable,
                                 "install Tandem's programs into one directory");
}

Finding CheckCores(uint32_t allowed, uint32_t online, const CgroupLimits& limits) {
  Finding finding{.check = "cores", .facts = {{"allowed", allowed}, {"online", online}}};
  finding.found = StrCat(allowed, " of ", online, " may be used");
  if (!limits.cpus.has_value()) return finding;
  finding.facts["cgroup_cpus"] = *limits.cpus;
  char share[32];
  std::snprintf(share, sizeof share, "%.3g", *limits.cpus);
  StrAppend(&finding.found, "; the cgroup gives the time of ", share);
  if (*limits.cpus >= allowed) return finding;
  const auto whole = static_cast<uint64_t>(std::max(1.0, std::floor(*limits.cpus)));
  return std::move(finding).Warn(
      StrCat("start workers with --cores-max ", whole, ", or raise the cgroup's cpu.max"));
}

Finding CheckNuma(const std::vector<std::string>& nodes) {
  Finding finding{.check = "numa", .facts = {{"nodes", nodes}}};
  finding.found = nodes.size() <= 1 ? "one node" : StrCat(nodes.size(), " nodes:");
  if (nodes.size() > 1) {
    for (const std::string& cpus : nodes) StrAppend(&finding.found, " ", cpus);
  }
  return finding;
}

Finding CheckMemory(const Memory& memory, const CgroupLimits& limits) {
  Finding finding{
      .check = "memory",
      .facts = {{"total_bytes", memory.total_bytes}, {"available_bytes", memory.available_bytes}}};
  finding.found = StrCat(HumanSize(memory.available_bytes), " of ", HumanSize(memory.total_bytes),
                         " available");
  uint64_t usable = memory.available_bytes;
  if (limits.memory_bytes.has_value()) {
    finding.facts["cgroup_bytes"] = *limits.memory_bytes;
    StrAppend(&finding.found, "; the cgroup allows ", HumanSize(*limits.memory_bytes));
    usable = std::min(usable, *limits.memory_bytes);
  }
  if (usable >= kMemoryGood) return finding;
  return std::move(finding).Warn(
      StrCat("free some, or raise the cgroup's memory.max: a worker wants ", HumanSize(kMemoryGood),
             " at least"));
}

Finding CheckOpenFiles(uint64_t soft, uint64_t hard) {
  Finding finding{.check = "open files", .facts = {{"soft", soft}, {"hard", hard}}};
  const auto text = [](uint64_t n) { return n == RLIM_INFINITY ? "unlimited" : StrCat(n); };
  finding.found = StrCat(text(soft), " at once; may be raised to ", text(hard));
  const std::string mend =
      StrCat("ulimit -n ", std::min(hard, kOpenFilesGood), ", or LimitNOFILE= of a systemd unit");
  if (soft < kOpenFilesLeast) {
    return std::move(finding).Fail(StatusCode::kResourceExhausted, reason::kLimitTooLow, mend);
  }
  if (soft < kOpenFilesGood && hard > soft) return std::move(finding).Warn(mend);
  return finding;
}

Finding CheckSharedMemory() {
  Finding finding{.check = "shared memory", .found = "memfd works"};
  const int fd = memfd_create("tandem-doctor", MFD_CLOEXEC);
  const bool works = fd >= 0 && ftruncate(fd, 1 << 20) == 0;
  const int error = errno;
  if (fd >= 0) close(fd);
  if (works) return finding;
  finding.found = StrCat("memfd_create fails: ", std::strerror(error));
  return std::move(finding).Fail(
      StatusCode::kPermissionDenied, reason::kLimitTooLow,
      "allow memfd_create (a seccomp filter may forbid it): workers and executors share memory");
}

std::vector<Finding> CheckMachine(const std::string& program_directory) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  sched_getaffinity(0, sizeof mask, &mask);
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const CgroupLimits limits = ReadCgroupLimits("/");
  return {CheckPrograms(program_directory),
          CheckCores(static_cast<uint32_t>(CPU_COUNT(&mask)),
                     static_cast<uint32_t>(sysconf(_SC_NPROCESSORS_ONLN)), limits),
          CheckNuma(ReadNumaNodes("/")),
          CheckMemory(ReadMemory("/"), limits),
          CheckOpenFiles(files.rlim_cur, files.rlim_max),
          CheckSharedMemory()};
}

}  // namespace tandem::cli
