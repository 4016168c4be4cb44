#include "master/store/wal_check.h"

#include <cstdint>
#include <fstream>
#include <istream>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "common/base/error.h"
#include "common/base/strings.h"
#include "master/store/log_codec.h"

namespace tandem::master {
namespace {

constexpr size_t kHeaderBytes = 32;
constexpr size_t kFrameHeaderBytes = 24;
constexpr size_t kPageBytes = 4096;
constexpr uint32_t kMagic = 0x377f0682;  // The lowest bit: checksums over big-endian words.

uint32_t BigEndian(const char* at) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(at);
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

uint32_t LittleEndian(const char* at) { return __builtin_bswap32(BigEndian(at)); }

struct Sums {
  uint32_t first = 0;
  uint32_t second = 0;
  friend bool operator==(const Sums&, const Sums&) = default;
};

Sums ReadSums(const char* at) { return {BigEndian(at), BigEndian(at + 4)}; }

Sums AddBytes(Sums sums, std::string_view bytes, bool big_endian) {
  for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    const char* at = bytes.data() + i;
    sums.first += (big_endian ? BigEndian(at) : LittleEndian(at)) + sums.second;
    sums.second += (big_endian ? BigEndian(at + 4) : LittleEndian(at + 4)) + sums.first;
  }
  return sums;
}

// The log's header. `valid`: it is whole.
struct Header {
  bool valid = false;
  bool big_endian = false;
  size_t page_bytes = 0;
  std::string salts;
  Sums sums;
};

Header ReadHeader(std::string_view bytes) {
  Header header;
  const uint32_t magic = BigEndian(bytes.data());
  if ((magic & ~1u) != kMagic) return header;
  header.big_endian = (magic & 1) != 0;
  header.page_bytes = BigEndian(bytes.data() + 8);
  header.salts = bytes.substr(16, 8);
  header.sums = ReadSums(bytes.data() + 24);
  header.valid = header.page_bytes >= 512 && header.page_bytes <= 65536 &&
                 AddBytes(Sums(), bytes.substr(0, 24), header.big_endian) == header.sums;
  return header;
}

class Scan {
 public:
  // `header_whole`: the frames go on from the header's checksum. Without salts, those of the first
  // whole frame are taken.
  Scan(const Header& header, bool header_whole)
      : header_(header), salts_(header.salts), bad_(!header_whole) {}

  // Reads frame after frame. Returns the damage, or "".
  std::string Run(std::istream* file) {
    std::string frame(kFrameHeaderBytes + header_.page_bytes, '\0');
    Sums before = header_.sums;
    for (uint64_t offset = kHeaderBytes;
         file->read(frame.data(), static_cast<std::streamsize>(frame.size()));
         offset += frame.size()) {
      Note(frame, before, offset);
      before = ReadSums(frame.data() + 16);
    }
    if (!bad_ || frames_after_commit_ == 0) return "";
    return StrCat("what stands at offset ", bad_offset_, " is damaged, but ", commits_after_,
                  " commits after it were written, so it was durable once");
  }

  uint64_t torn_bytes() const { return torn_frames_ * (kFrameHeaderBytes + header_.page_bytes); }

 private:
  void Note(const std::string& frame, Sums before, uint64_t offset) {
    const std::string_view salts = std::string_view(frame).substr(8, 8);
    const bool commits = BigEndian(frame.data() + 4) != 0;
    Sums sums = AddBytes(before, std::string_view(frame).substr(0, 8), header_.big_endian);
    sums = AddBytes(sums, std::string_view(frame).substr(kFrameHeaderBytes), header_.big_endian);
    const bool page = BigEndian(frame.data()) != 0;  // Zeros have the right checksum, but no page.
    const bool sums_right = page && sums == ReadSums(frame.data() + 16);
    if (sums_right && salts_.empty()) salts_ = salts;
    // Frames with other salts are left from a former use of the file.
    const bool ours = salts == salts_;
    const bool whole = ours && sums_right;
    if (!whole && !bad_) {
      bad_ = true;
      bad_offset_ = offset;
    }
    if (!bad_ && commits) pages_.clear();
    const bool again = whole && !pages_.insert(BigEndian(frame.data())).second;
    if (ours) torn_frames_ = commits && !bad_ ? 0 : torn_frames_ + 1;
    if (!bad_) return;
    // A transaction writes a page once: the second time, one has ended between.
    if (again && commits_after_ == 0) ++commits_after_;
    if (whole && commits_after_ > 0) ++frames_after_commit_;
    if (ours && commits) ++commits_after_;
  }

  const Header& header_;
  std::string salts_;
  bool bad_;
  uint64_t bad_offset_ = 0;
  absl::flat_hash_set<uint32_t> pages_;  // Since the last commit that SQLite will find.
  uint64_t torn_frames_ = 0;             // After the last commit that SQLite will find.
  uint64_t commits_after_ = 0;           // Commit frames from the damage on.
  uint64_t frames_after_commit_ = 0;     // Whole frames after the first of those.
};

}  // namespace

absl::StatusOr<uint64_t> CheckWal(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return 0;  // No log: everything is in the database.
  std::string start(kHeaderBytes + kFrameHeaderBytes, '\0');
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  if (file.gcount() < static_cast<std::streamsize>(start.size())) return 0;  // No frame.
  Header header = ReadHeader(start);
  const bool whole = header.valid;
  if (!whole) {
    // What our logs have; the salts stand in each frame as well.
    header.big_endian = false;
    header.page_bytes = kPageBytes;
    header.salts.clear();
  }
  file.seekg(kHeaderBytes);
  Scan scan(header, whole);
  const std::string damage = scan.Run(&file);
  if (file.bad()) {
    return Error(absl::StatusCode::kInternal, reason::kJournalIo, StrCat("reading ", path));
  }
  if (damage.empty()) return scan.torn_bytes();
  return Corrupt(StrCat("the write-ahead log ", path, " has a hole: ", damage,
                        "; restore the directory from a backup"));
}

}  // namespace tandem::master
