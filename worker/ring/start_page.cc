#include "worker/ring/start_page.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/base/unique_fd.h"

namespace tandem::worker {
namespace {

constexpr uint64_t kStartPageMagic = 0x3150545354444e54;  // "TNDTSTP1"

struct alignas(64) PageHeader {
  uint64_t magic;
  uint32_t slots;
  uint32_t record_bytes;
};

size_t PageBytes(uint32_t slots) { return sizeof(PageHeader) + slots * sizeof(StartRecord); }

}  // namespace

absl::StatusOr<std::unique_ptr<StartPage>> StartPage::Create(const std::string& path,
                                                             uint32_t slots) {
  CHECK_GE(slots, 1u);
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd.ok()) return absl::ErrnoToStatus(errno, StrCat("cannot make start page ", path));
  const size_t bytes = PageBytes(slots);
  // With its blocks: a store into a page that a full disk has no room for would kill the process.
  if (const int error = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes)); error != 0) {
    return absl::ErrnoToStatus(error, StrCat("cannot make room for start page ", path));
  }
  ASSIGN_OR_RETURN(Mapping mapping, Mapping::Make(fd.get(), bytes, true, path));
  auto* header = reinterpret_cast<PageHeader*>(mapping.data());
  *header = {kStartPageMagic, slots, sizeof(StartRecord)};
  return std::unique_ptr<StartPage>(new StartPage(std::move(mapping), slots));
}

absl::StatusOr<std::unique_ptr<StartPage>> StartPage::Open(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd.ok()) return absl::ErrnoToStatus(errno, StrCat("cannot open start page ", path));
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0) return absl::ErrnoToStatus(errno, path);
  const auto bytes = static_cast<size_t>(info.st_size);
  if (bytes < PageBytes(1)) {
    return InvalidError(reason::kBadFile, StrCat(path, " is not a start page: too small"));
  }
  ASSIGN_OR_RETURN(Mapping mapping, Mapping::Make(fd.get(), bytes, true, path));
  const auto* header = reinterpret_cast<const PageHeader*>(mapping.data());
  const uint32_t slots = header->slots;
  if (header->magic != kStartPageMagic || header->record_bytes != sizeof(StartRecord) ||
      slots == 0 || PageBytes(slots) != bytes) {
    return InvalidError(reason::kBadFile, StrCat(path, " is not a start page of this version"));
  }
  return std::unique_ptr<StartPage>(new StartPage(std::move(mapping), slots));
}

StartRecord* StartPage::records() const {
  return reinterpret_cast<StartRecord*>(mapping_.data() + sizeof(PageHeader));
}

std::vector<Started> StartPage::Running() const {
  std::vector<Started> running;
  for (uint32_t i = 0; i < slots_; ++i) {
    const StartRecord& record = records()[i];
    const uint64_t job = record.job.load(std::memory_order_relaxed);
    if (job == 0) continue;
    Started started{i,
                    job,
                    record.first_leaf.load(std::memory_order_relaxed),
                    record.leaf_count.load(std::memory_order_relaxed),
                    std::nullopt,
                    0};
    const uint64_t task_plus_1 = record.task_plus_1.load(std::memory_order_relaxed);
    if (task_plus_1 != 0) started.task = task_plus_1 - 1;
    started.sequence = record.sequence.load(std::memory_order_relaxed);
    running.push_back(started);
  }
  return running;
}

}  // namespace tandem::worker
