#include "bench/support/process_stat.h"

#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "common/base/strings.h"

namespace tandem::bench {
namespace {

// The fields of /proc/PID/stat behind the name, which may itself hold spaces; [0] is the state.
std::vector<std::string> StatFields(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string line;
  std::getline(file, line);
  std::vector<std::string> fields;
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return fields;
  std::istringstream rest(line.substr(name_end + 1));
  for (std::string field; rest >> field;) fields.push_back(field);
  return fields;
}

// Positions in StatFields (proc(5) counts from pid = 1).
constexpr size_t kParent = 1, kUserTime = 11, kChildrenSystemTime = 14;

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

}  // namespace

double CpuSeconds(pid_t pid) {
  const std::vector<std::string> fields = StatFields(std::to_string(pid));
  if (fields.size() <= kChildrenSystemTime) return 0;
  double ticks = 0;
  for (size_t i = kUserTime; i <= kChildrenSystemTime; ++i) ticks += std::stod(fields[i]);
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double OwnCpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
}

std::vector<pid_t> ChildrenOf(pid_t pid) {
  std::vector<pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    pid_t child = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), child).ec != std::errc()) continue;
    const std::vector<std::string> fields = StatFields(name);
    if (fields.size() > kParent && fields[kParent] == std::to_string(pid)) {
      children.push_back(child);
    }
  }
  return children;
}

uint64_t OwnMemoryBytes(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  uint64_t kib = 0;
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("RssAnon:", 0) != 0 && line.rfind("RssShmem:", 0) != 0) continue;
    kib += std::stoull(line.substr(line.find(':') + 1));
  }
  return kib << 10;
}

}  // namespace tandem::bench
