#include "client/cli/scratch_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/base/strings.h"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "tandem-up-";
constexpr char kLockName[] = "up.lock";

absl::Status Refused(const std::string& path, const std::error_code& why) {
  return Error(absl::StatusCode::kPermissionDenied, reason::kPathUnwritable,
               StrCat("cannot make the directory ", Quoted(path), ": ", why.message(),
                      "; choose another with --dir"));
}

std::error_code LastError() { return {errno, std::generic_category()}; }

// The lock, where nobody else holds it.
UniqueFd Lock(const fs::path& directory, int flags) {
  UniqueFd lock(open((directory / kLockName).c_str(), flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW,
                     S_IRUSR | S_IWUSR));
  if (lock.ok() && flock(lock.get(), LOCK_EX | LOCK_NB) != 0) lock.reset();
  return lock;
}

}  // namespace

absl::StatusOr<ScratchDirectory> ScratchDirectory::Make(const std::string& asked) {
  ScratchDirectory made;
  std::error_code failed;
  if (!asked.empty()) {
    made.path_ = fs::absolute(asked, failed).string();
    if (!failed) fs::create_directories(made.path_, failed);
    if (failed) return Refused(made.path_, failed);
    return made;
  }
  const fs::path parent = fs::temp_directory_path(failed);
  if (failed) {
    const char* named = std::getenv("TMPDIR");
    return Error(absl::StatusCode::kPermissionDenied, reason::kPathUnwritable,
                 StrCat("there is no directory for temporary files: TMPDIR is ",
                        named == nullptr ? "not set" : Quoted(named), ": ", failed.message(),
                        "; set it to a directory, or choose one with --dir"));
  }
  RemoveAbandoned(parent.string());
  made.path_ = (parent / StrCat(kPrefix, "XXXXXX")).string();
  if (mkdtemp(made.path_.data()) == nullptr) return Refused(made.path_, LastError());
  made.lock_ = Lock(made.path_, O_CREAT | O_EXCL);
  if (made.lock_.ok()) return made;
  failed = LastError();
  std::error_code ignored;
  fs::remove_all(made.path_, ignored);
  return Refused(made.path_, failed);
}

ScratchDirectory::ScratchDirectory(ScratchDirectory&& other) noexcept
    : path_(std::move(other.path_)), lock_(std::move(other.lock_)) {}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  if (temporary()) fs::remove_all(path_, ignored);
}

int ScratchDirectory::RemoveAbandoned(const std::string& parent) {
  int removed = 0;
  std::error_code ignored;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(parent, ignored)) {
    if (entry.path().filename().string().starts_with(kPrefix)) found.push_back(entry.path());
  }
  for (const fs::path& path : found) {
    struct stat info {};
    if (lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid()) {
      continue;
    }
    // Without a lock file it is just being made, or somebody else's.
    if (!Lock(path, 0).ok()) continue;
    fs::remove_all(path, ignored);
    ++removed;
  }
  return removed;
}

}  // namespace tandem::cli
