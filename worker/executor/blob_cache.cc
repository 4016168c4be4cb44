#include "worker/executor/blob_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "common/base/checked_math.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/data/xxh3.h"
#include "worker/device/buffers.h"

namespace tandem::worker {
namespace {

constexpr char kMagic[8] = {'T', 'D', 'M', 'B', 'M', 'A', 'P', '1'};
constexpr char kDataSuffix[] = ".blob";
constexpr char kMapSuffix[] = ".map";
// One read fetches at most so many blocks, so that a piece of a large blob needs little memory.
constexpr uint64_t kFetchBlocksMax = 8;
constexpr int kOpenTriesMax = 100;

struct MapHeader {
  char magic[8];
  uint64_t size;
  uint64_t boot;
  uint64_t reserved[5];
};
static_assert(sizeof(MapHeader) == 64);

uint64_t BlocksOf(uint64_t size) { return CeilDiv(size, CachedBlob::kBlockBytes); }
uint64_t MapBytes(uint64_t size) {
  return sizeof(MapHeader) + CeilDiv(BlocksOf(size), uint64_t{64}) * 8;
}

absl::Status FileError(const std::string& path, std::string_view what) {
  const bool full = errno == ENOSPC || errno == EDQUOT;
  return Error(full ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal,
               full ? reason::kDiskFull : reason::kInternal,
               StrCat("cannot ", what, " ", path, ": ", strerror(errno),
                      full ? "; free space for the worker's cache" : ""));
}

uint64_t BootNumber() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  file >> text;
  return Xxh3(text);
}

bool SameMap(int fd, uint64_t size, uint64_t boot) {
  MapHeader header;
  struct stat info;
  return pread(fd, &header, sizeof(header), 0) == static_cast<ssize_t>(sizeof(header)) &&
         std::memcmp(header.magic, kMagic, sizeof(kMagic)) == 0 && header.size == size &&
         header.boot == boot && fstat(fd, &info) == 0 &&
         static_cast<uint64_t>(info.st_size) == MapBytes(size);
}

// The data's old bytes go first: a map is never newer than what it describes.
absl::Status InitialiseMap(int fd, const std::string& path, uint64_t size, uint64_t boot,
                           const std::string& data_path) {
  unlink(data_path.c_str());
  MapHeader header = {};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.size = size;
  header.boot = boot;
  if (ftruncate(fd, 0) != 0 || ftruncate(fd, static_cast<off_t>(MapBytes(size))) != 0 ||
      pwrite(fd, &header, sizeof(header), 0) != static_cast<ssize_t>(sizeof(header))) {
    return FileError(path, "write");
  }
  return absl::OkStatus();
}

// Is the name still this file's? (Another process may have removed it meanwhile.)
bool StillNamed(int fd, const std::string& path) {
  struct stat open_file;
  struct stat named;
  return fstat(fd, &open_file) == 0 && stat(path.c_str(), &named) == 0 &&
         open_file.st_ino == named.st_ino && open_file.st_dev == named.st_dev;
}

}  // namespace

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}
MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

absl::StatusOr<MappedFile> MappedFile::Make(int fd, uint64_t bytes, bool writable) {
  MappedFile mapped;
  if (bytes == 0) return mapped;
  void* data =
      mmap(nullptr, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    return Error(absl::StatusCode::kInternal, reason::kInternal,
                 StrCat("cannot map ", bytes, " bytes: ", strerror(errno)));
  }
  mapped.data_ = static_cast<char*>(data);
  mapped.bytes_ = bytes;
  return mapped;
}

CachedBlob::CachedBlob(uint64_t size, UniqueFd file, UniqueFd map_file, MappedFile data,
                       MappedFile map)
    : size_(size),
      file_(std::move(file)),
      map_file_(std::move(map_file)),
      data_(std::move(data)),
      map_(std::move(map)),
      bits_(reinterpret_cast<std::atomic<uint64_t>*>(map_.data() + sizeof(MapHeader))) {}

bool CachedBlob::HasBlock(uint64_t block) const {
  return (bits_[block / 64].load(std::memory_order_acquire) >> (block % 64) & 1) != 0;
}

bool CachedBlob::Resident(uint64_t offset, uint64_t length) const {
  if (length == 0) return true;
  for (uint64_t block = offset / kBlockBytes; block <= (offset + length - 1) / kBlockBytes;
       ++block) {
    if (!HasBlock(block)) return false;
  }
  return true;
}

CachedBlob::Claim CachedBlob::ClaimMissing(uint64_t block, uint64_t end) {
  absl::MutexLock lock(&mu_);
  while (block < end) {
    if (HasBlock(block)) {
      ++block;
    } else if (fetching_.contains(block)) {
      const auto free = [this, block]()
                            ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return Unclaimed(block); };
      mu_.Await(absl::Condition(&free));
    } else {
      Claim claim = {block, block};
      while (claim.end < end && claim.end - block < kFetchBlocksMax && !HasBlock(claim.end) &&
             fetching_.insert(claim.end).second) {
        ++claim.end;
      }
      return claim;
    }
  }
  return {};
}

void CachedBlob::Release(const Claim& claim) {
  absl::MutexLock lock(&mu_);
  for (uint64_t block = claim.first; block < claim.end; ++block) fetching_.erase(block);
}

absl::Status CachedBlob::FetchBlocks(const Claim& claim, const Reader& reader) {
  const uint64_t from = claim.first * kBlockBytes;
  const uint64_t bytes = std::min(claim.end * kBlockBytes, size_) - from;
  AlignedBuffer buffer;
  char* at = reinterpret_cast<char*>(buffer.Ensure(bytes));
  if (at == nullptr) {
    return Error(absl::StatusCode::kResourceExhausted, reason::kOutOfMemory,
                 "no memory to fetch an operand");
  }
  RETURN_IF_ERROR(reader(from, bytes, at));
  for (uint64_t written = 0; written < bytes;) {
    const ssize_t n =
        pwrite(file_.get(), at + written, bytes - written, static_cast<off_t>(from + written));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return FileError("the cache", "write");
    written += static_cast<uint64_t>(n);
  }
  for (uint64_t block = claim.first; block < claim.end; ++block) {
    bits_[block / 64].fetch_or(uint64_t{1} << (block % 64), std::memory_order_release);
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> CachedBlob::Fetch(uint64_t offset, uint64_t length, const Reader& reader) {
  uint64_t fetched = 0;
  if (length == 0) return fetched;
  const uint64_t end = (offset + length - 1) / kBlockBytes + 1;
  for (uint64_t block = offset / kBlockBytes; block < end;) {
    const Claim claim = ClaimMissing(block, end);
    if (claim.first == claim.end) break;
    const absl::Status status = FetchBlocks(claim, reader);
    Release(claim);
    RETURN_IF_ERROR(status);
    fetched += std::min(claim.end * kBlockBytes, size_) - claim.first * kBlockBytes;
    block = claim.end;
  }
  return fetched;
}

void CachedBlob::Drop(uint64_t block) {
  bits_[block / 64].fetch_and(~(uint64_t{1} << (block % 64)), std::memory_order_acq_rel);
}

BlobCache::BlobCache(std::string folder, uint64_t bytes_max)
    : folder_(std::move(folder)), bytes_max_(bytes_max), boot_(BootNumber()) {
  std::error_code ignored;
  std::filesystem::create_directories(folder_, ignored);
}

// The map's descriptor with a shared lock on it; its content belongs to this boot and size.
absl::StatusOr<UniqueFd> BlobCache::OpenMap(const std::string& path, uint64_t size,
                                            const std::string& data_path) {
  for (int tries = 0; tries < kOpenTriesMax; ++tries) {
    UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!fd.ok()) return FileError(path, "open");
    // Whoever gets the exclusive lock is alone with the file, and may make it anew.
    if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0 && StillNamed(fd.get(), path) &&
        !SameMap(fd.get(), size, boot_)) {
      RETURN_IF_ERROR(InitialiseMap(fd.get(), path, size, boot_, data_path));
    }
    if (flock(fd.get(), LOCK_SH) != 0) return FileError(path, "lock");
    if (StillNamed(fd.get(), path) && SameMap(fd.get(), size, boot_)) return fd;
  }
  return Error(absl::StatusCode::kInternal, reason::kInternal,
               StrCat("cannot settle on ", path, " with other executors"));
}

absl::StatusOr<std::shared_ptr<CachedBlob>> BlobCache::Open(const BlobLocator& blob) {
  const std::string base = StrCat(folder_, "/", blob.id.ToHex());
  if (!std::filesystem::exists(base + kMapSuffix)) MakeRoom(blob.size);
  const std::string data_path = base + kDataSuffix;
  ASSIGN_OR_RETURN(UniqueFd map_file, OpenMap(base + kMapSuffix, blob.size, data_path));
  UniqueFd file(open(data_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.ok() || ftruncate(file.get(), static_cast<off_t>(blob.size)) != 0) {
    return FileError(data_path, "make");
  }
  (void)futimens(map_file.get(), nullptr);  // Used now.
  ASSIGN_OR_RETURN(MappedFile data, MappedFile::Make(file.get(), blob.size, false));
  ASSIGN_OR_RETURN(MappedFile map, MappedFile::Make(map_file.get(), MapBytes(blob.size), true));
  return std::shared_ptr<CachedBlob>(new CachedBlob(blob.size, std::move(file), std::move(map_file),
                                                    std::move(data), std::move(map)));
}

// Removes what was used least recently and is open nowhere, until `bytes` more fit.
void BlobCache::MakeRoom(uint64_t bytes) {
  struct Entry {
    std::filesystem::file_time_type used;
    std::string base;
    uint64_t bytes;
  };
  std::vector<Entry> entries;
  uint64_t total = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder_, error), end; !error && it != end;
       it.increment(error)) {
    const std::string path = it->path().string();
    if (!path.ends_with(kMapSuffix)) continue;
    const std::string base = path.substr(0, path.size() - std::strlen(kMapSuffix));
    struct stat info;
    const uint64_t held = stat((base + kDataSuffix).c_str(), &info) == 0
                              ? static_cast<uint64_t>(info.st_blocks) * 512
                              : 0;
    std::error_code gone;
    entries.push_back({std::filesystem::last_write_time(path, gone), base, held});
    total += held;
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (SaturatingAdd(total, bytes) <= bytes_max_) return;
    UniqueFd fd(open((entry.base + kMapSuffix).c_str(), O_RDWR | O_CLOEXEC));
    if (!fd.ok() || flock(fd.get(), LOCK_EX | LOCK_NB) != 0) continue;
    unlink((entry.base + kDataSuffix).c_str());
    unlink((entry.base + kMapSuffix).c_str());
    total -= entry.bytes;
  }
}

}  // namespace tandem::worker
