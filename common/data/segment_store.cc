#include "common/data/segment_store.h"

#include <algorithm>
#include <limits>

#include "absl/strings/numbers.h"
#include "common/base/checked_math.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/data/segment.h"
#include "common/data/xxh3.h"

namespace tandem {

namespace {

absl::Status NoSegment(SegmentId id) {
  return Error(absl::StatusCode::kNotFound, reason::kSegmentNotFound,
               StrCat("there is no segment ", id, " here: it was deleted, or never written here"));
}

absl::Status SegmentFailed(SegmentId id) {
  return Error(absl::StatusCode::kInternal, reason::kStoreFailed,
               StrCat("segment ", id, " was given up after a failed sync"));
}

// An owner as the end of a file's name: what is no letter, digit, '-' or '_' is %XX.
std::string EscapeOwner(std::string_view owner) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string name;
  for (const char c : owner) {
    const auto byte = static_cast<uint8_t>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_';
    if (plain) {
      name.push_back(c);
    } else {
      name.push_back('%');
      name.push_back(kDigits[byte >> 4]);
      name.push_back(kDigits[byte & 15]);
    }
  }
  return name;
}

bool UnescapeOwner(std::string_view name, std::string* owner) {
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] != '%') {
      owner->push_back(name[i]);
      continue;
    }
    char byte = 0;
    if (!FromHex(name.substr(i + 1, 2), &byte, 1)) return false;
    owner->push_back(byte);
    i += 2;
  }
  return true;
}

}  // namespace

SegmentStore::SegmentStore(FileSystem* file_system, std::string directory, SegmentLimits limits)
    : file_system_(file_system), directory_(std::move(directory)), limits_(limits) {}

SegmentStore::~SegmentStore() = default;

absl::StatusOr<std::unique_ptr<SegmentStore>> SegmentStore::Open(FileSystem* file_system,
                                                                 std::string_view directory,
                                                                 SegmentLimits limits) {
  std::unique_ptr<SegmentStore> store(
      new SegmentStore(file_system, StrCat(directory, "/segments"), limits));
  RETURN_IF_ERROR(CreateDirectories(*file_system, store->directory_));
  RETURN_IF_ERROR(store->Recover());
  return store;
}

absl::Status SegmentStore::Recover() {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, file_system_->List(directory_));
  absl::MutexLock lock(&mu_);
  for (const std::string& name : names) {
    const size_t dot = name.find('.');
    uint64_t number = 0;
    std::string owner;
    if (!absl::SimpleAtoi(name.substr(0, dot), &number) || number == 0 ||
        dot == std::string::npos || !UnescapeOwner(name.substr(dot + 1), &owner)) {
      continue;  // Not one of ours.
    }
    auto segment = std::make_shared<Segment>(SegmentId(number), std::move(owner));
    const std::string path = PathFor(*segment);
    ASSIGN_OR_RETURN(const FileInfo info, file_system_->Stat(path));
    constexpr uint64_t kBlock = 4096;
    if (info.allocated > RoundUp(info.size, kBlock)) {
      ASSIGN_OR_RETURN(std::unique_ptr<File> file,
                       file_system_->Open(path, FileSystem::Mode::kReadWrite));
      RETURN_IF_ERROR(file->Truncate(info.size));
    }
    segment->written = segment->synced = info.size;
    segment->name_synced = true;
    segment->recovered = true;
    segment->last_use = Clock::Real()->Now();
    total_bytes_ += info.size;
    last_id_ = std::max(last_id_, segment->id);
    segments_.emplace(segment->id, std::move(segment));
  }
  return absl::OkStatus();
}

std::string SegmentStore::PathFor(const Segment& segment) const {
  return StrCat(directory_, "/", segment.id, ".", EscapeOwner(segment.owner));
}

absl::StatusOr<SegmentStore::SegmentHandle> SegmentStore::Find(SegmentId segment) const {
  absl::MutexLock lock(&mu_);
  const auto it = segments_.find(segment);
  if (it == segments_.end()) return NoSegment(segment);
  return it->second;
}

absl::StatusOr<std::unique_ptr<SegmentAppender>> SegmentStore::NewAppender(std::string_view owner) {
  return std::unique_ptr<SegmentAppender>(new SegmentAppender(this, std::string(owner)));
}

absl::StatusOr<SegmentStore::SegmentHandle> SegmentStore::NewSegment(std::string_view owner) {
  SegmentId id;
  {
    absl::MutexLock lock(&mu_);
    last_id_ = last_id_.next();
    id = last_id_;
  }
  auto segment = std::make_shared<Segment>(id, std::string(owner));
  ASSIGN_OR_RETURN(std::unique_ptr<File> file,
                   file_system_->Open(PathFor(*segment), FileSystem::Mode::kCreate));
  absl::MutexLock lock(&mu_);
  segment->file = std::move(file);
  segment->last_use = Clock::Real()->Now();
  segments_.emplace(id, segment);
  return segment;
}

absl::StatusOr<SegmentStore::SegmentHandle> SegmentStore::TakeSegment(std::string_view owner) {
  {
    absl::MutexLock lock(&mu_);
    const auto it = idle_.find(owner);
    if (it != idle_.end() && !it->second.empty()) {
      SegmentHandle segment = std::move(it->second.back());
      it->second.pop_back();
      if (it->second.empty()) idle_.erase(it);
      return segment;
    }
  }
  return NewSegment(owner);
}

// Where an appender leaves its segment: for the next one while there is room, closed up when full.
void SegmentStore::GiveBack(SegmentHandle segment) {
  const bool roomy = !segment->failed && segment->written < limits_.segment_bytes_max;
  if (!roomy && segment->reserved > segment->written) {
    // What was reserved beyond the end is given back; not being able to costs only room.
    segment->file->Truncate(segment->written).IgnoreError();
  }
  absl::MutexLock lock(&mu_);
  if (segment->deleted) return;
  if (roomy) {
    idle_[segment->owner].push_back(std::move(segment));
    return;
  }
  segment->open = open_.insert(open_.end(), segment);
  CloseSurplusFiles();
}

// Segments that are not synced yet stay open, so that an error in writing them out is not missed.
void SegmentStore::CloseSurplusFiles() {
  size_t surplus =
      open_.size() > limits_.open_files_max ? open_.size() - limits_.open_files_max : 0;
  for (auto it = open_.begin(); surplus > 0 && it != open_.end();) {
    Segment& segment = **it;
    if (segment.synced < segment.written) {
      ++it;
      continue;
    }
    segment.file.reset();
    segment.open.reset();
    it = open_.erase(it);
    --surplus;
  }
}

absl::StatusOr<std::shared_ptr<File>> SegmentStore::FileOf(const SegmentHandle& segment) {
  {
    absl::MutexLock lock(&mu_);
    if (segment->file != nullptr) {
      if (segment->open.has_value()) open_.splice(open_.end(), open_, *segment->open);
      return segment->file;
    }
  }
  absl::StatusOr<std::unique_ptr<File>> opened =
      file_system_->Open(PathFor(*segment), FileSystem::Mode::kReadWrite);
  if (!opened.ok()) return segment->deleted ? NoSegment(segment->id) : opened.status();
  std::shared_ptr<File> file = *std::move(opened);
  absl::MutexLock lock(&mu_);
  if (segment->file == nullptr && !segment->deleted) {
    segment->file = file;
    segment->open = open_.insert(open_.end(), segment);
    CloseSurplusFiles();
  }
  return file;
}

absl::Status SegmentStore::Sync(absl::Span<const SegmentId> segments) {
  std::vector<SegmentExtent> extents;
  extents.reserve(segments.size());
  for (const SegmentId id : segments) extents.push_back({id, std::numeric_limits<uint64_t>::max()});
  return SyncUpTo(extents);
}

absl::Status SegmentStore::SyncUpTo(absl::Span<const SegmentExtent> extents) {
  std::vector<SegmentHandle> dirty;
  absl::flat_hash_set<SegmentId> seen;
  for (const SegmentExtent& extent : extents) {
    if (seen.contains(extent.segment)) continue;
    ASSIGN_OR_RETURN(SegmentHandle segment, Find(extent.segment));
    if (segment->failed) return SegmentFailed(extent.segment);
    const uint64_t end = std::min<uint64_t>(extent.end, segment->written);
    if (segment->synced >= end && segment->name_synced) continue;
    seen.insert(extent.segment);
    dirty.push_back(std::move(segment));
  }
  if (dirty.size() > 1) {
    // All of them are written out at the same time; then each is waited for.
    for (const SegmentHandle& segment : dirty) {
      ASSIGN_OR_RETURN(const std::shared_ptr<File> file, FileOf(segment));
      file->StartWriteout(segment->synced, segment->written - segment->synced);
    }
  }
  for (const SegmentHandle& segment : dirty) RETURN_IF_ERROR(SyncOne(segment));
  return absl::OkStatus();
}

absl::Status SegmentStore::SyncOne(const SegmentHandle& segment) {
  ASSIGN_OR_RETURN(const std::shared_ptr<File> file, FileOf(segment));
  const uint64_t written = segment->written;
  absl::Status status = TANDEM_FAILPOINT("segment.before_sync");
  if (status.ok()) status = file->Sync();
  if (status.ok() && !segment->name_synced) {
    status = file_system_->SyncDirectory(directory_);
    if (status.ok()) segment->name_synced = true;
  }
  if (!status.ok()) {
    segment->failed = true;
    // Even a full disk is final here: what was written before may be gone.
    return Error(
        absl::StatusCode::kInternal, reason::kStoreFailed,
        StrCat("segment ", segment->id, " could not be made durable: ", ToStd(status.message())));
  }
  RETURN_IF_ERROR(TANDEM_FAILPOINT("segment.after_sync"));
  uint64_t before = segment->synced;
  while (before < written && !segment->synced.compare_exchange_weak(before, written)) {
  }
  return absl::OkStatus();
}

absl::StatusOr<SegmentStore::SegmentHandle> SegmentStore::FindBytes(SegmentId segment,
                                                                    uint64_t offset,
                                                                    uint64_t length) const {
  ASSIGN_OR_RETURN(SegmentHandle handle, Find(segment));
  const uint64_t written = handle->written;
  if (offset > written || length > written - offset) {
    return Error(absl::StatusCode::kOutOfRange, reason::kTruncated,
                 StrCat("bytes [", offset, ",", offset, "+", length, ") of segment ", segment,
                        " are beyond its end at ", written));
  }
  return handle;
}

absl::Status SegmentStore::ReadBytes(const SegmentHandle& segment, uint64_t offset,
                                     absl::Span<char> buffer) {
  ASSIGN_OR_RETURN(const std::shared_ptr<File> file, FileOf(segment));
  ASSIGN_OR_RETURN(const size_t got, file->ReadAt(offset, buffer.data(), buffer.size()));
  if (got == buffer.size()) return absl::OkStatus();
  return Error(absl::StatusCode::kDataLoss, reason::kChecksumMismatch,
               StrCat("segment ", segment->id, " ends at ", offset + got, " on disk, ",
                      segment->written.load(), " bytes were written"));
}

absl::Status SegmentStore::ReadInto(SegmentId segment, uint64_t offset, absl::Span<char> buffer) {
  ASSIGN_OR_RETURN(const SegmentHandle handle, FindBytes(segment, offset, buffer.size()));
  return ReadBytes(handle, offset, buffer);
}

absl::StatusOr<std::string> SegmentStore::Read(SegmentId segment, uint64_t offset,
                                               uint64_t length) {
  ASSIGN_OR_RETURN(const SegmentHandle handle, FindBytes(segment, offset, length));
  std::string bytes(length, '\0');
  RETURN_IF_ERROR(ReadBytes(handle, offset, absl::MakeSpan(bytes)));
  return bytes;
}

absl::StatusOr<std::string> SegmentStore::Read(const Region& region) {
  ASSIGN_OR_RETURN(std::string bytes, Read(region.segment, region.offset, region.length));
  if (Xxh3(bytes) == region.xxh3) return bytes;
  return Error(absl::StatusCode::kDataLoss, reason::kChecksumMismatch,
               StrCat("segment ", region.segment, " bytes [", region.offset, ",", region.offset,
                      "+", region.length, ") are not what was written: the checksum differs"));
}

absl::StatusOr<std::string> SegmentStore::PathOf(SegmentId segment) const {
  ASSIGN_OR_RETURN(const SegmentHandle handle, Find(segment));
  return PathFor(*handle);
}

absl::StatusOr<std::string> SegmentStore::OwnerOf(SegmentId segment) const {
  ASSIGN_OR_RETURN(const SegmentHandle handle, Find(segment));
  return handle->owner;
}

absl::Status SegmentStore::CheckHolds(const Region& region, std::string_view owner) const {
  ASSIGN_OR_RETURN(const SegmentHandle handle,
                   FindBytes(region.segment, region.offset, region.length));
  if (handle->owner == owner) return absl::OkStatus();
  return Error(absl::StatusCode::kPermissionDenied, reason::kNotOwner,
               StrCat("segment ", region.segment, " holds outputs of somebody else"));
}

absl::Status SegmentStore::Delete(SegmentId segment) {
  ASSIGN_OR_RETURN(const SegmentHandle handle, Find(segment));
  bool newest = false;
  {
    absl::MutexLock lock(&mu_);
    newest = segment == last_id_;
  }
  // The newest file is what a restart counts on from, so it goes only when there is a newer one.
  if (newest) {
    ASSIGN_OR_RETURN(SegmentHandle next, NewSegment(handle->owner));
    GiveBack(std::move(next));
    RETURN_IF_ERROR(file_system_->SyncDirectory(directory_));
  }
  {
    absl::MutexLock lock(&mu_);
    if (handle->in_use) {
      return absl::FailedPreconditionError(StrCat("segment ", segment, " is being written"));
    }
    if (segments_.erase(segment) == 0) return NoSegment(segment);
    handle->deleted = true;
    total_bytes_ -= handle->written;
    if (handle->open.has_value()) open_.erase(*handle->open);
    handle->open.reset();
    const auto it = idle_.find(handle->owner);
    if (it != idle_.end()) {
      it->second.erase(std::remove(it->second.begin(), it->second.end(), handle), it->second.end());
    }
  }
  return file_system_->Remove(PathFor(*handle));
}

absl::StatusOr<uint64_t> SegmentStore::DeleteUnreferenced(absl::Span<const SegmentId> referenced) {
  const absl::flat_hash_set<SegmentId> keep(referenced.begin(), referenced.end());
  std::vector<SegmentInfo> doomed;
  {
    absl::MutexLock lock(&mu_);
    for (const auto& [id, segment] : segments_) {
      if (segment->recovered && !keep.contains(id)) doomed.push_back({id, segment->written});
    }
  }
  uint64_t freed = 0;
  for (const SegmentInfo& info : doomed) {
    RETURN_IF_ERROR(Delete(info.id));
    freed += info.bytes;
  }
  return freed;
}

std::vector<SegmentId> SegmentStore::Unused(absl::Duration quiet) const {
  const MonoTime now = Clock::Real()->Now();
  std::vector<SegmentId> unused;
  absl::MutexLock lock(&mu_);
  for (const auto& [id, segment] : segments_) {
    if (!segment->in_use && now - segment->last_use >= quiet) unused.push_back(id);
  }
  return unused;
}

absl::StatusOr<uint64_t> SegmentStore::DeleteUnused(absl::Span<const SegmentId> candidates,
                                                    absl::Span<const SegmentId> referenced) {
  const absl::flat_hash_set<SegmentId> keep(referenced.begin(), referenced.end());
  uint64_t freed = 0;
  for (const SegmentId id : candidates) {
    if (keep.contains(id)) continue;
    const absl::StatusOr<SegmentHandle> segment = Find(id);
    if (!segment.ok() || (*segment)->written == 0) continue;  // The newest stays, empty.
    const uint64_t bytes = (*segment)->written;
    const absl::Status status = Delete(id);
    if (absl::IsFailedPrecondition(status)) continue;  // It is used again.
    RETURN_IF_ERROR(status);
    freed += bytes;
  }
  return freed;
}

bool SegmentStore::BeginUse(Segment* segment) {
  absl::MutexLock lock(&mu_);
  if (segment->deleted) return false;
  segment->in_use = true;
  return true;
}

void SegmentStore::EndUse(Segment* segment) {
  const MonoTime now = Clock::Real()->Now();
  absl::MutexLock lock(&mu_);
  segment->in_use = false;
  segment->last_use = now;
}

std::vector<SegmentInfo> SegmentStore::List() const {
  std::vector<SegmentInfo> infos;
  absl::MutexLock lock(&mu_);
  infos.reserve(segments_.size());
  for (const auto& [id, segment] : segments_) infos.push_back({id, segment->written});
  return infos;
}

uint64_t SegmentStore::TotalBytes() const {
  absl::MutexLock lock(&mu_);
  return total_bytes_;
}

absl::Status SegmentStore::AddBytes(uint64_t bytes) {
  absl::MutexLock lock(&mu_);
  if (limits_.total_bytes_max != 0 && total_bytes_ + bytes > limits_.total_bytes_max) {
    return Error(absl::StatusCode::kResourceExhausted, reason::kQuotaExceeded,
                 StrCat("segments hold ", HumanSize(total_bytes_), " and may hold ",
                        HumanSize(limits_.total_bytes_max), "; delete jobs or raise the limit"));
  }
  total_bytes_ += bytes;
  return absl::OkStatus();
}

void SegmentStore::SubtractBytes(uint64_t bytes) {
  absl::MutexLock lock(&mu_);
  total_bytes_ -= bytes;
}

}  // namespace tandem
