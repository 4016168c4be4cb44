#include "worker/device/cpu/topology.h"

#include <hwloc.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <numeric>
#include <sstream>
#include <utility>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::worker {
namespace {

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The folders of this process's cgroup, innermost first, up to the mount. With a cgroup namespace
// the path is "/" and the mount itself holds the limits.
std::vector<std::string> CgroupFolders(const std::string& root, const std::string& self,
                                       const std::string& controller) {
  std::string folder;
  std::string base;
  for (std::string_view line : Split(self, '\n')) {
    const std::vector<std::string_view> fields = Split(line, ':');
    if (fields.size() < 3) continue;
    const std::string path(line.substr(fields[0].size() + fields[1].size() + 2));
    bool v1 = false;
    for (std::string_view name : Split(fields[1], ',')) v1 = v1 || name == controller;
    if (v1) {
      base = StrCat(root, "/", controller);
      folder = path;
      break;
    }
    if (fields[1].empty()) {
      base = root;
      folder = path;
    }
  }
  std::vector<std::string> folders;
  if (base.empty()) return folders;
  while (folder.size() > 1) {
    folders.push_back(base + folder);
    folder.resize(folder.rfind('/'));
  }
  folders.push_back(base);
  return folders;
}

// Cores of "max 100000" and "150000 100000"; 0: no limit.
int CoresOf(double quota, double period) {
  return quota > 0 && period > 0 ? static_cast<int>(std::ceil(quota / period)) : 0;
}

// Splits the largest group until there are `count`.
void SplitGroups(size_t count, std::vector<CacheDomain>* groups) {
  while (groups->size() < count) {
    auto largest = std::max_element(
        groups->begin(), groups->end(),
        [](const CacheDomain& a, const CacheDomain& b) { return a.size() < b.size(); });
    const auto half = static_cast<ptrdiff_t>((largest->size() + 1) / 2);
    CacheDomain upper(largest->begin() + half, largest->end());
    largest->resize(static_cast<size_t>(half));
    groups->insert(largest + 1, std::move(upper));
  }
}

// Joins the two neighbours that are smallest together until there are `count`.
void JoinGroups(size_t count, std::vector<CacheDomain>* groups) {
  while (groups->size() > count) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < groups->size(); ++i) {
      if ((*groups)[i].size() + (*groups)[i + 1].size() <
          (*groups)[best].size() + (*groups)[best + 1].size()) {
        best = i;
      }
    }
    CacheDomain& into = (*groups)[best];
    const CacheDomain& from = (*groups)[best + 1];
    into.insert(into.end(), from.begin(), from.end());
    groups->erase(groups->begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

// Gives out `threads` a core at a time to the group with the most cores left without one.
std::vector<CoreGroup> GiveThreads(std::vector<CacheDomain> cpus, int threads) {
  std::vector<CoreGroup> groups;
  for (CacheDomain& domain : cpus) groups.push_back({std::move(domain), 0});
  for (int i = 0; i < threads; ++i) {
    auto most =
        std::max_element(groups.begin(), groups.end(), [](const CoreGroup& a, const CoreGroup& b) {
          return static_cast<int>(a.cpus.size()) - a.threads <
                 static_cast<int>(b.cpus.size()) - b.threads;
        });
    ++most->threads;
  }
  return groups;
}

}  // namespace

absl::StatusOr<std::vector<CoreGroup>> DivideCores(const std::vector<CacheDomain>& domains,
                                                   const CpuOptions& options, int quota_cores) {
  if (options.cores < 0 || options.groups < 0) {
    return InvalidError(reason::kBadArgument, "--cores and --cpu-groups cannot be negative");
  }
  std::vector<CacheDomain> groups;
  int threads = 0;
  for (const CacheDomain& domain : domains) {
    if (domain.empty()) continue;
    groups.push_back(domain);
    threads += static_cast<int>(domain.size());
  }
  if (groups.empty()) {
    return InvalidError(reason::kBadResources, "this process is allowed no core at all");
  }
  if (quota_cores > 0) threads = std::min(threads, quota_cores);
  if (options.cores > 0) threads = std::min(threads, options.cores);
  if (options.groups > threads) {
    return InvalidError(reason::kBadResources,
                        StrCat("--cpu-groups ", options.groups, " is more than the ", threads,
                               " cores that this worker may use; ask for at most ", threads));
  }
  // No group without a thread.
  const int count =
      options.groups > 0 ? options.groups : std::min(static_cast<int>(groups.size()), threads);
  SplitGroups(static_cast<size_t>(count), &groups);
  JoinGroups(static_cast<size_t>(count), &groups);
  std::vector<CoreGroup> divided = GiveThreads(std::move(groups), threads);
  for (CoreGroup& group : divided) {
    if (group.threads > 0) continue;
    // A small group beside large ones got none: it takes one from the richest.
    auto richest = std::max_element(
        divided.begin(), divided.end(),
        [](const CoreGroup& a, const CoreGroup& b) { return a.threads < b.threads; });
    --richest->threads;
    ++group.threads;
  }
  return divided;
}

absl::StatusOr<std::vector<CacheDomain>> ReadCacheDomains() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) {
    return Error(absl::StatusCode::kInternal, reason::kInternal, "hwloc cannot start");
  }
  const std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)> topology(
      raw, &hwloc_topology_destroy);
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 ||
      hwloc_topology_load(topology.get()) != 0) {
    return Error(absl::StatusCode::kInternal, reason::kInternal,
                 "cannot read which cores this process may use");
  }
  std::vector<CacheDomain> domains;
  std::vector<bool> taken(CPU_SETSIZE, false);
  const auto add = [&](hwloc_const_cpuset_t set) {
    CacheDomain domain;
    for (int cpu = hwloc_bitmap_first(set); cpu >= 0; cpu = hwloc_bitmap_next(set, cpu)) {
      if (cpu < CPU_SETSIZE && CPU_ISSET(cpu, &allowed) && !taken[static_cast<size_t>(cpu)]) {
        taken[static_cast<size_t>(cpu)] = true;
        domain.push_back(cpu);
      }
    }
    if (!domain.empty()) domains.push_back(std::move(domain));
  };
  for (hwloc_obj_t cache = nullptr;
       (cache = hwloc_get_next_obj_by_type(topology.get(), HWLOC_OBJ_L3CACHE, cache)) != nullptr;) {
    add(cache->cpuset);
  }
  for (hwloc_obj_t node = nullptr;
       (node = hwloc_get_next_obj_by_type(topology.get(), HWLOC_OBJ_NUMANODE, node)) != nullptr;) {
    add(node->cpuset);
  }
  CacheDomain rest;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed) && !taken[static_cast<size_t>(cpu)]) rest.push_back(cpu);
  }
  if (!rest.empty()) domains.push_back(std::move(rest));
  return domains;
}

int CgroupQuotaCores(const std::string& root, const std::string& self) {
  int least = 0;
  for (const std::string& folder : CgroupFolders(root, self, "cpu")) {
    double quota = 0;
    double period = 0;
    std::stringstream v2(ReadText(folder + "/cpu.max"));
    if (!(v2 >> quota >> period)) {
      quota = period = 0;
      std::stringstream(ReadText(folder + "/cpu.cfs_quota_us")) >> quota;
      std::stringstream(ReadText(folder + "/cpu.cfs_period_us")) >> period;
    }
    const int cores = CoresOf(quota, period);
    if (cores > 0 && (least == 0 || cores < least)) least = cores;
  }
  return least;
}

uint64_t CgroupMemoryLimit(const std::string& root, const std::string& self) {
  uint64_t least = 0;
  for (const std::string& folder : CgroupFolders(root, self, "memory")) {
    uint64_t bytes = 0;
    if (!(std::stringstream(ReadText(folder + "/memory.max")) >> bytes)) {
      bytes = 0;
      std::stringstream(ReadText(folder + "/memory.limit_in_bytes")) >> bytes;
    }
    if (bytes > 0 && (least == 0 || bytes < least)) least = bytes;
  }
  return least;
}

MachineInfo ReadMachineInfo() {
  MachineInfo info;
  const std::string cpuinfo = ReadText("/proc/cpuinfo");
  for (std::string_view line : Split(cpuinfo, '\n')) {
    const size_t colon = line.find(':');
    if (line.substr(0, 10) == "model name" && colon != std::string_view::npos) {
      info.cpu_model = std::string(Trim(line.substr(colon + 1)));
      break;
    }
  }
  info.memory_bytes =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t limit = CgroupMemoryLimit("/sys/fs/cgroup", ReadText("/proc/self/cgroup"));
  if (limit > 0) info.memory_bytes = std::min(info.memory_bytes, limit);
  return info;
}

absl::StatusOr<std::vector<CoreGroup>> FindCoreGroups(const CpuOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<CacheDomain> domains, ReadCacheDomains());
  return DivideCores(domains, options,
                     CgroupQuotaCores("/sys/fs/cgroup", ReadText("/proc/self/cgroup")));
}

}  // namespace tandem::worker
