// SegmentStore: append-only files that hold the bytes of outputs.
//
//   ASSIGN_OR_RETURN(auto appender, store->NewAppender(owner));       // one a connection
//   ASSIGN_OR_RETURN(Region region, appender->Append({header, body}));
//   RETURN_IF_ERROR(store->Sync({region.segment}));                   // durable from here on
//   store->Read(region);
//
// Files are <dir>/segments/<id>.<owner>. A segment belongs to one owner and is written by one
// appender at a time, so appends do not contend. Past `segment_bytes_max` an appender goes on in a
// new segment; a destroyed appender leaves its segment for the next one of the same owner. After a
// restart old segments are only read: what no record names in them is never looked at, and new
// appends go to new segments. Nothing is ever written in place.
//
// Errors: RESOURCE_EXHAUSTED (DISK_FULL): nothing was appended, go on when there is room. NOT_FOUND
// (SEGMENT_NOT_FOUND). OUT_OF_RANGE for bytes beyond a segment's end. DATA_LOSS
// (CHECKSUM_MISMATCH). INTERNAL (STORE_FAILED) when the disk failed; after a failed sync the
// segment is given up: each later sync of it fails too, and it takes no more appends.
//
// Failpoints: segment.before_sync, segment.after_sync.
// Thread-safety: SegmentStore is safe from any thread. A SegmentAppender belongs to one thread.
// Ownership: the store outlives its appenders and the file system outlives the store.
#ifndef TANDEM_COMMON_DATA_SEGMENT_STORE_H_
#define TANDEM_COMMON_DATA_SEGMENT_STORE_H_

#include <cstdint>
#include <initializer_list>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/data/file_system.h"
#include "common/model/ids.h"
#include "common/model/outputs.h"
#include "common/model/segment_extent.h"

namespace tandem {

struct SegmentLimits {
  // An appender starts a new segment when the present one has reached this.
  uint64_t segment_bytes_max = uint64_t{256} << 20;
  uint64_t append_bytes_max = uint64_t{1} << 30;
  // Room is reserved on disk this far ahead of the writes.
  uint64_t reserve_bytes = uint64_t{16} << 20;
  // The system is told to start writing out each time this much was appended.
  uint64_t writeout_bytes = uint64_t{4} << 20;
  // Appends begin at multiples of this, so that mapped pieces are aligned.
  uint64_t alignment = 64;
  // Files kept open for reading.
  size_t open_files_max = 128;
  // All segments together; 0: as much as the disk holds.
  uint64_t total_bytes_max = 0;
};

struct SegmentInfo {
  SegmentId id;
  uint64_t bytes = 0;
};

class SegmentAppender;

class SegmentStore {
 public:
  // Makes the directory where it is not there.
  static absl::StatusOr<std::unique_ptr<SegmentStore>> Open(FileSystem* file_system,
                                                            std::string_view directory,
                                                            SegmentLimits limits);
  ~SegmentStore();

  absl::StatusOr<std::unique_ptr<SegmentAppender>> NewAppender(std::string_view owner);

  // Makes what was appended to these segments before the call durable. Costs nothing for one that
  // is so already.
  absl::Status Sync(absl::Span<const SegmentId> segments);
  // The same, as far as each extent goes: what is appended behind it meanwhile does not count.
  absl::Status SyncUpTo(absl::Span<const SegmentExtent> extents);

  absl::StatusOr<std::string> Read(SegmentId segment, uint64_t offset, uint64_t length);
  absl::Status ReadInto(SegmentId segment, uint64_t offset, absl::Span<char> buffer);
  // The whole region, checked against its checksum.
  absl::StatusOr<std::string> Read(const Region& region);
  // The file, for a reader on the same host to map.
  absl::StatusOr<std::string> PathOf(SegmentId segment) const;
  // Whose appender wrote it; known after a restart too.
  absl::StatusOr<std::string> OwnerOf(SegmentId segment) const;

  // That `region` lies in what was written for `owner`. Costs a look-up; no byte is read. Errors:
  // NOT_FOUND (SEGMENT_NOT_FOUND), OUT_OF_RANGE (TRUNCATED), PERMISSION_DENIED (NOT_OWNER).
  absl::Status CheckHolds(const Region& region, std::string_view owner) const;

  // Readers that have it open go on. An appender that has it moves on to a new one. Errors also:
  // FAILED_PRECONDITION while something is being appended to it.
  absl::Status Delete(SegmentId segment);
  // Deletes each segment that is not in `referenced` and that was there at Open already (in later
  // ones there may be pieces whose record is still to come).
  // Returns the bytes that became free.
  absl::StatusOr<uint64_t> DeleteUnreferenced(absl::Span<const SegmentId> referenced);
  // Deletes each segment of `candidates` that is not in `referenced` and is still unused.
  // Returns the bytes that became free.
  absl::StatusOr<uint64_t> DeleteUnused(absl::Span<const SegmentId> candidates,
                                        absl::Span<const SegmentId> referenced);
  // Nothing was appended for that long (since the start at least): whoever appended has by now
  // named what is there, or never will.
  std::vector<SegmentId> Unused(absl::Duration quiet) const;
  // In order of ids.
  std::vector<SegmentInfo> List() const;
  uint64_t TotalBytes() const;

 private:
  friend class SegmentAppender;
  struct Segment;
  using SegmentHandle = std::shared_ptr<Segment>;

  SegmentStore(FileSystem* file_system, std::string directory, SegmentLimits limits);
  absl::Status Recover();
  std::string PathFor(const Segment& segment) const;
  absl::StatusOr<SegmentHandle> Find(SegmentId segment) const;
  absl::StatusOr<SegmentHandle> FindBytes(SegmentId segment, uint64_t offset,
                                          uint64_t length) const;
  absl::Status ReadBytes(const SegmentHandle& segment, uint64_t offset, absl::Span<char> buffer);
  absl::StatusOr<std::shared_ptr<File>> FileOf(const SegmentHandle& segment);
  absl::StatusOr<SegmentHandle> NewSegment(std::string_view owner);
  absl::StatusOr<SegmentHandle> TakeSegment(std::string_view owner);
  void GiveBack(SegmentHandle segment);
  absl::Status SyncOne(const SegmentHandle& segment);
  // False: it was deleted meanwhile.
  bool BeginUse(Segment* segment);
  void EndUse(Segment* segment);
  void CloseSurplusFiles() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status AddBytes(uint64_t bytes);
  void SubtractBytes(uint64_t bytes);

  FileSystem* const file_system_;
  const std::string directory_;
  const SegmentLimits limits_;

  mutable absl::Mutex mu_;
  std::map<SegmentId, SegmentHandle> segments_ ABSL_GUARDED_BY(mu_);
  // Segments that have room and no appender, by owner.
  std::map<std::string, std::vector<SegmentHandle>, std::less<>> idle_ ABSL_GUARDED_BY(mu_);
  SegmentId last_id_ ABSL_GUARDED_BY(mu_);
  uint64_t total_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  // Full segments whose file is open, the one used last at the end.
  std::list<SegmentHandle> open_ ABSL_GUARDED_BY(mu_);
};

class SegmentAppender {
 public:
  ~SegmentAppender();

  // Appends the slices as one piece. Not durable yet: see SegmentStore::Sync.
  absl::StatusOr<Region> Append(absl::Span<const std::string_view> slices);
  absl::StatusOr<Region> Append(std::string_view bytes) {
    return Append(absl::MakeConstSpan(&bytes, 1));
  }
  // Many pieces with one write: the slices' bytes are cut into pieces of these lengths, each with
  // a checksum of its own. REQUIRES: the lengths add up to the slices' bytes.
  absl::StatusOr<std::vector<Region>> AppendPieces(absl::Span<const std::string_view> slices,
                                                   absl::Span<const uint64_t> lengths);

  // One piece whose bytes come in parts, so that a large one is never in memory whole. It is there
  // once EndPiece has said where; a piece that is not ended is as if it had never begun.
  // REQUIRES: no other append between BeginPiece and EndPiece; the parts add up to `length`.
  absl::Status BeginPiece(uint64_t length);
  absl::Status AddToPiece(absl::Span<const std::string_view> slices);
  absl::StatusOr<Region> EndPiece();
  // Of the bytes added so far. REQUIRES: a piece has begun.
  uint64_t PieceSum() const;
  // As if the piece had never begun.
  void DropPiece();

 private:
  friend class SegmentStore;
  struct Piece;
  SegmentAppender(SegmentStore* store, std::string owner);
  void StartWriteoutUpTo(uint64_t end);
  absl::Status PrepareSegment();
  absl::Status ReserveUpTo(uint64_t end);
  absl::StatusOr<uint64_t> WriteAtEnd(absl::Span<const std::string_view> slices, uint64_t bytes);

  SegmentStore* const store_;
  const std::string owner_;
  SegmentStore::SegmentHandle segment_;
  std::unique_ptr<Piece> piece_;  // Between BeginPiece and EndPiece.
};

}  // namespace tandem

#endif  // TANDEM_COMMON_DATA_SEGMENT_STORE_H_
