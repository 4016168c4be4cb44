#include "client/cli/disk_check.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/time/clock.h"
#include "common/base/strings.h"
#include "common/base/unique_fd.h"

namespace tandem::cli {
namespace {

using absl::StatusCode;

constexpr int kWrites = 15;
constexpr size_t kWriteBytes = 4096;
constexpr uint64_t kFreeGood = uint64_t{4} << 30;
constexpr uint64_t kFreeLeast = uint64_t{64} << 20;
// A job is accepted, and a result committed, only once it is on the disk.
constexpr absl::Duration kSyncGood = absl::Milliseconds(20);

absl::Status Refused(const std::string& directory, int error) {
  const bool full = error == ENOSPC || error == EDQUOT;
  return Error(full ? StatusCode::kResourceExhausted : StatusCode::kPermissionDenied,
               full ? reason::kDiskFull : reason::kPathUnwritable,
               StrCat("cannot write into ", Quoted(directory), ": ", std::strerror(error)));
}

}  // namespace

absl::StatusOr<DiskFacts> MeasureDisk(const std::string& directory) {
  struct statfs stats {};
  if (statfs(directory.c_str(), &stats) != 0) return Refused(directory, errno);
  std::string path = directory + "/.tandem-doctor-XXXXXX";
  const UniqueFd file(mkostemp(path.data(), O_CLOEXEC));
  if (!file.ok()) return Refused(directory, errno);
  unlink(path.c_str());
  const std::string block(kWriteBytes, 'x');
  std::vector<absl::Duration> took;
  for (int i = 0; i < kWrites; ++i) {
    const absl::Time before = absl::Now();
    if (write(file.get(), block.data(), block.size()) != static_cast<ssize_t>(block.size()) ||
        fdatasync(file.get()) != 0) {
      return Refused(directory, errno);
    }
    took.push_back(absl::Now() - before);
  }
  std::nth_element(took.begin(), took.begin() + kWrites / 2, took.end());
  DiskFacts facts;
  const auto block_bytes = static_cast<uint64_t>(stats.f_bsize);
  facts.free_bytes = stats.f_bavail * block_bytes;
  facts.total_bytes = stats.f_blocks * block_bytes;
  facts.sync = took[kWrites / 2];
  facts.in_memory = stats.f_type == TMPFS_MAGIC || stats.f_type == RAMFS_MAGIC;
  facts.on_network = stats.f_type == NFS_SUPER_MAGIC || stats.f_type == SMB_SUPER_MAGIC;
  return facts;
}

Finding CheckDisk(const std::string& directory, const absl::StatusOr<DiskFacts>& facts) {
  Finding finding{.check = "disk", .facts = {{"directory", directory}}};
  if (!facts.ok()) {
    finding.found = std::string(facts.status().message());
    return std::move(finding).Fail(facts.status().code(), ReasonOf(facts.status()),
                                   "choose a folder that you may write to with --dir");
  }
  finding.facts["free_bytes"] = facts->free_bytes;
  finding.facts["total_bytes"] = facts->total_bytes;
  finding.facts["sync_seconds"] = absl::ToDoubleSeconds(facts->sync);
  finding.found =
      StrCat(directory, ": ", HumanSize(facts->free_bytes), " of ", HumanSize(facts->total_bytes),
             " free, ", HumanDuration(facts->sync), " a synced write",
             facts->in_memory ? ", in memory" : "", facts->on_network ? ", on a network" : "");
  if (facts->free_bytes < kFreeLeast) {
    return std::move(finding).Fail(StatusCode::kResourceExhausted, reason::kDiskFull,
                                   "free some space, or choose another folder with --dir");
  }
  if (facts->free_bytes < kFreeGood) {
    return std::move(finding).Warn(
        StrCat("free some space: less than ", HumanSize(kFreeGood), " fills soon"));
  }
  if (facts->in_memory) {
    return std::move(finding).Warn(
        "choose a folder on a disk with --dir: what is in memory is gone when the machine stops");
  }
  if (facts->on_network) {
    return std::move(finding).Warn(
        "choose a local folder with --dir: locks and syncs of network file systems are slow or "
        "missing");
  }
  if (facts->sync > kSyncGood) {
    return std::move(finding).Warn("choose a faster disk with --dir: each commit waits for a sync");
  }
  return finding;
}

}  // namespace tandem::cli
