#include "client/lib/hash_cache.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/base/unique_fd.h"
#include "common/data/sha256.h"

namespace tandem::client {
namespace {

constexpr size_t kEntryBytes = 2 * BlobId::kBytes;
// The first entry of a file says what it is.
constexpr std::string_view kMagic =
    "tandem hashes of files, 1: (SHA-256 of identity, SHA-256 of it)\n";
static_assert(kMagic.size() == kEntryBytes);

std::string HomeOfUser() {
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return home;
  std::vector<char> buffer(16 << 10);
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(geteuid(), &entry, buffer.data(), buffer.size(), &found) == 0 &&
      found != nullptr) {
    return found->pw_dir;
  }
  return "";
}

std::string ReadAll(int fd) {
  std::string bytes;
  char buffer[64 << 10];
  while (true) {
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n <= 0) return bytes;
    bytes.append(buffer, static_cast<size_t>(n));
  }
}

bool WriteAll(int fd, std::string_view bytes) {
  return write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
}

absl::StatusOr<BlobId> HashOf(const ByteSource& source) {
  Sha256 hash;
  RETURN_IF_ERROR(source.Read(0, [&](std::string_view chunk) {
    hash.Update(chunk);
    return absl::OkStatus();
  }));
  return hash.Finish();
}

}  // namespace

std::string HashCache::PathOfUser() {
  if (const char* path = std::getenv("TANDEM_HASH_CACHE"); path != nullptr) return path;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/') {
    return StrCat(cache, "/tandem/blob-ids");
  }
  const std::string home = HomeOfUser();
  return home.empty() ? "" : StrCat(home, "/.cache/tandem/blob-ids");
}

HashCache* HashCache::OfUser() {
  static HashCache* const cache = new HashCache(PathOfUser());
  return cache;
}

absl::StatusOr<BlobId> HashCache::IdOf(const ByteSource& source) {
  if (path_.empty() || source.size() < kSourceBytesMin) return HashOf(source);
  // Looked at before the bytes are: a change meanwhile makes another identity.
  const std::optional<ByteIdentity> identity = source.IdentityNow();
  if (!identity) return HashOf(source);
  const BlobId key = Sha256Of(identity->text);
  {
    absl::MutexLock lock(&mu_);
    Load();
    const auto it = entries_.find(key);
    if (it != entries_.end()) {
      ++hits_;
      return it->second.id;
    }
  }
  ASSIGN_OR_RETURN(const BlobId id, HashOf(source));
  if (!identity->settled) return id;
  absl::MutexLock lock(&mu_);
  Add(key, id);
  return id;
}

void HashCache::Load() {
  if (std::exchange(loaded_, true)) return;
  const UniqueFd fd(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.ok()) return;
  const std::string bytes = ReadAll(fd.get());
  const std::string_view all = bytes;
  if (all.substr(0, kEntryBytes) != kMagic) return;
  for (size_t at = kEntryBytes; at + kEntryBytes <= all.size(); at += kEntryBytes) {
    entries_[BlobId::FromRaw(all.substr(at, BlobId::kBytes))] = {
        BlobId::FromRaw(all.substr(at + BlobId::kBytes, BlobId::kBytes)), ++last_};
  }
}

bool HashCache::MakeFolder() const {
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), failed);
  return !failed;
}

void HashCache::Add(const BlobId& key, const BlobId& id) {
  entries_[key] = {id, ++last_};
  if (entries_.size() > kEntriesMax) {
    std::erase_if(entries_, [oldest = last_ - kEntriesMax / 2](const auto& entry) {
      return entry.second.order <= oldest;
    });
    return Rewrite();
  }
  if (!MakeFolder()) return;
  const UniqueFd fd(open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  struct stat info {};
  if (!fd.ok() || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return;
  // One that is new, or was cut off, or is something else, is written anew.
  char magic[kEntryBytes] = {};
  const bool sound = info.st_size % static_cast<off_t>(kEntryBytes) == 0 &&
                     pread(fd.get(), magic, kEntryBytes, 0) == static_cast<ssize_t>(kEntryBytes) &&
                     std::string_view(magic, kEntryBytes) == kMagic;
  if (!sound) return Rewrite();
  (void)WriteAll(fd.get(), StrCat(key.raw(), id.raw()));
}

void HashCache::Rewrite() {
  if (!MakeFolder()) return;
  std::string bytes(kMagic);
  std::vector<std::pair<uint64_t, std::string>> ordered;
  for (const auto& [key, entry] : entries_) {
    ordered.emplace_back(entry.order, StrCat(key.raw(), entry.id.raw()));
  }
  std::ranges::sort(ordered);
  for (const auto& [order, entry] : ordered) bytes += entry;
  const std::string temporary = StrCat(path_, ".", getpid());
  {
    const UniqueFd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!fd.ok()) return;
    if (WriteAll(fd.get(), bytes) && rename(temporary.c_str(), path_.c_str()) == 0) return;
  }
  (void)unlink(temporary.c_str());
}

void HashCache::Forget(const BlobId& id) {
  if (path_.empty()) return;
  absl::MutexLock lock(&mu_);
  Load();
  const size_t erased =
      std::erase_if(entries_, [&id](const auto& entry) { return entry.second.id == id; });
  if (erased > 0) Rewrite();
}

uint64_t HashCache::hits() const {
  absl::MutexLock lock(&mu_);
  return hits_;
}

}  // namespace tandem::client
