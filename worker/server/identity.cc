#include "worker/server/identity.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::worker {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNameBytesMax = 64;

absl::Status CheckName(std::string_view name) {
  bool good = !name.empty() && name.size() <= kNameBytesMax && name[0] != '.' && name[0] != '-';
  for (const char c : name) {
    good = good && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '.' || c == '_' || c == '-');
  }
  if (good) return absl::OkStatus();
  return InvalidError(reason::kBadArgument,
                      StrCat("a worker's name has 1 to ", kNameBytesMax,
                             " letters, digits, '.', '_' or '-'; got ", Quoted(name)));
}

absl::StatusOr<uint64_t> Random() {
  uint64_t number = 0;
  if (::getrandom(&number, sizeof(number), 0) != sizeof(number)) {
    return absl::ErrnoToStatus(errno, "no random number to be had");
  }
  return number == 0 ? 1 : number;
}

std::string HostName() {
  char host[256] = {};
  if (::gethostname(host, sizeof(host) - 1) != 0) return "worker";
  std::string name;
  for (const char* c = host; *c != '\0' && *c != '.' && name.size() < 40; ++c) {
    const bool good = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                      (*c >= '0' && *c <= '9') || (*c == '-' && !name.empty());
    if (good) name += *c;
  }
  return name.empty() ? "worker" : name;
}

absl::Status CannotWrite(const std::string& path, int error) {
  const bool full = error == ENOSPC || error == EDQUOT;
  return Error(
      full ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kPermissionDenied,
      full ? reason::kDiskFull : reason::kPathUnwritable,
      StrCat("cannot write ", Quoted(path), ": ", std::strerror(error), "; ",
             full ? "make room" : "make the folder writable", ", or choose another with --dir"));
}

absl::StatusOr<UniqueFd> Lock(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.ok()) return CannotWrite(path, errno);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return Error(absl::StatusCode::kFailedPrecondition, reason::kStoreLocked,
                 StrCat(path,
                        " is locked: another tandem-worker runs in this folder; give each "
                        "worker its own --dir"));
  }
  return fd;
}

// The name is in place whole or not at all.
absl::Status Remember(const std::string& path, const std::string& name) {
  const std::string part = path + ".part";
  {
    std::ofstream out(part, std::ios::trunc);
    out << name << '\n';
    if (!out.flush()) return CannotWrite(part, errno);
  }
  if (std::rename(part.c_str(), path.c_str()) != 0) {
    return CannotWrite(path, errno);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Identity> Identity::Claim(const std::string& directory, const std::string& wanted) {
  Identity identity;
  identity.directory_ = directory;
  std::error_code error;
  fs::create_directories(directory + "/start", error);
  if (error) return CannotWrite(directory, error.value());
  ASSIGN_OR_RETURN(identity.lock_, Lock(directory + "/lock"));
  ASSIGN_OR_RETURN(identity.incarnation_, Random());
  const std::string path = directory + "/name";
  std::string remembered;
  std::getline(std::ifstream(path) >> std::ws, remembered);
  identity.name_ = !wanted.empty() ? wanted : remembered;
  if (identity.name_.empty()) {
    char suffix[8];
    std::snprintf(suffix, sizeof(suffix), "-%04x",
                  static_cast<unsigned>(identity.incarnation_ & 0xffff));
    identity.name_ = HostName() + suffix;
  }
  RETURN_IF_ERROR(CheckName(identity.name_));
  if (identity.name_ != remembered) RETURN_IF_ERROR(Remember(path, identity.name_));
  return identity;
}

std::string Identity::StartPagePath(uint64_t executor) const {
  return StrCat(directory_, "/start/", executor);
}

std::string Identity::OwnerDirectory(const std::string& owner) const {
  return StrCat(directory_, "/owners/", owner);
}

std::vector<Started> Identity::FindLeftovers() const {
  std::error_code error;
  const std::string aside = directory_ + "/left";
  fs::create_directories(aside, error);
  // Numbers of executors begin anew with each life.
  for (const auto& entry : fs::directory_iterator(directory_ + "/start", error)) {
    const std::string name = StrCat(incarnation_, "-", entry.path().filename().string());
    fs::rename(entry.path(), aside + "/" + name, error);
  }
  std::vector<Started> left;
  for (const auto& entry : fs::directory_iterator(aside, error)) {
    const auto page = StartPage::Open(entry.path().string());
    if (!page.ok()) continue;
    const std::vector<Started> running = (*page)->Running();
    left.insert(left.end(), running.begin(), running.end());
  }
  return left;
}

void Identity::DropLeftovers() const {
  std::error_code error;
  fs::remove_all(directory_ + "/left", error);
}

}  // namespace tandem::worker
