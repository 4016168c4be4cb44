// PushRegionsCall: takes a worker's output pieces into segments and says where each one is.
//
// All pieces that have come whole by the time the disk is free are written by one call. A piece
// whose bytes were handed over on this host (handover.h) is copied from there, some of it at a
// turn; one that cannot be had is refused by itself, and the stream goes on. A piece is answered
// once it is durable: whoever names it in a record waits for no disk, however large the piece, and
// neither does anybody behind. Syncs run beside the writes, one at a time for all that was written
// meanwhile; answers that are ready go into one message. A checksum that differs ends the stream:
// the worker pushes again what was not answered.
//
// Thread-safety and ownership: as BulkIntake.
#ifndef TANDEM_COMMON_DATA_PUSH_REGIONS_H_
#define TANDEM_COMMON_DATA_PUSH_REGIONS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/data/bulk_intake.h"
#include "common/data/handover.h"
#include "common/data/segment_store.h"
#include "common/model/outputs.h"
#include "common/rpc/bulk.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "tandem/v1/data.pb.h"

namespace tandem {

class PushRegionsCall final
    : public BulkIntake<grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>> {
 public:
  struct Limits {
    uint64_t piece_bytes_max = uint64_t{8} << 30;
    // Pieces longer than this are written as they come; shorter ones whole, many at a time.
    uint64_t whole_bytes_max = 2 << 20;
    size_t announced_max = 1 << 16;  // Pieces whose bytes have not come.
    // What is copied of handed-over pieces before others have their turn.
    uint64_t copy_bytes_max = 8 << 20;
  };
  struct Parts {
    IoPool* pool = nullptr;       // Writes.
    IoPool* sync_pool = nullptr;  // Waits for disks.
    SegmentStore* segments = nullptr;
    HandoverDesk* desk = nullptr;  // Null: nothing is handed over here.
    // Called when bytes could not be made durable: the store may not go on.
    std::function<void(const absl::Status&)> on_sync_failed;
  };

  // `context` lives as long as the call.
  static grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Start(
      grpc::CallbackServerContext* context, Parts parts, std::string owner, Limits limits);
  void OnWriteDone(bool ok) override;
  void OnDone() override { delete this; }

 private:
  struct Piece {
    uint64_t push_id = 0;
    uint64_t length = 0;
    uint64_t xxh3 = 0;
    std::string file;  // The token of the memory that it is in; "": its bytes come in the stream.
    uint64_t offset = 0;
  };

  struct Written {
    uint64_t push_id = 0;
    Region region;
  };

  PushRegionsCall(grpc::CallbackServerContext* context, Parts parts, std::string owner,
                  Limits limits)
      : BulkIntake(parts.pool),
        context_(context),
        parts_(std::move(parts)),
        owner_(std::move(owner)),
        limits_(limits) {}

  absl::Status OnBatch(std::vector<grpc::ByteBuffer> batch) override;
  bool Unfinished() const override {
    return !announced_.empty() && !announced_.front().file.empty();
  }
  void OnEnd(const absl::Status& status) override;
  absl::Status TakeMessage(rpc::BulkMessage message);
  absl::Status TakeHeaders(const std::string& fields);
  absl::Status Write();
  absl::Status WriteWholePieces(size_t count, uint64_t bytes);
  absl::Status WriteOn();
  // Copies of the handed-over pieces in front, until a turn's `room` is used up.
  absl::Status CopyHanded(uint64_t* room);
  absl::Status BeginCopy();
  absl::Status EndCopy();
  void Refuse(v1::PushRefusal why);
  // Removes the first `bytes` of unwritten_; the views stay valid until FreeWritten().
  std::vector<std::string_view> TakeUnwritten(uint64_t bytes);
  void FreeWritten();
  absl::Status CheckPiece(const Piece& piece, const Region& region) const;
  void AnswerOnceDurable(const std::vector<Piece>& pieces, const std::vector<Region>& regions);
  // On the sync pool, while there is something to sync.
  void SyncAndAnswer();
  // Makes a change under the lock, then sends what is ready, or finishes: after that nothing of
  // the call may be touched, unless the change keeps it from finishing.
  void Advance(absl::FunctionRef<void()> change);

  grpc::CallbackServerContext* const context_;
  const Parts parts_;
  const std::string owner_;
  const Limits limits_;

  // Of the pool's task.
  std::unique_ptr<SegmentAppender> appender_;
  std::deque<Piece> announced_;
  uint64_t announced_bytes_ = 0;             // Of announced pieces, not come yet.
  std::vector<std::string_view> unwritten_;  // Bytes of announced_'s first pieces, in order.
  uint64_t unwritten_bytes_ = 0;
  bool streaming_ = false;                  // announced_'s first piece is written as it comes.
  uint64_t streamed_ = 0;                   // Of its bytes, so far; or copied.
  std::shared_ptr<const HandedFile> from_;  // That announced_'s first piece is being copied from.
  std::unique_ptr<char[]> copied_;          // On their way, kCopyBytes.
  std::vector<rpc::BulkMessage> holding_;   // What `unwritten_` looks into.

  grpc::ByteBuffer outgoing_;  // Of the outstanding write.
  absl::Mutex mu_;
  std::vector<Written> unsynced_ ABSL_GUARDED_BY(mu_);
  bool syncing_ ABSL_GUARDED_BY(mu_) = false;  // The call does not finish meanwhile.
  v1::PushResponse answers_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status end_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem

#endif  // TANDEM_COMMON_DATA_PUSH_REGIONS_H_
