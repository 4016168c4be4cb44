// ChunkStream: answers a streaming call with the bytes of a ByteSource, a chunk a message.
//
// One write is outstanding; the next chunk is read meanwhile, on the IoPool. The last chunk takes
// the status along. It deletes itself when the call is over.
//
// Thread-safety: made by a service method; everything else is gRPC's and the pool's.
// Ownership: pool and buffers outlive the call.
#ifndef TANDEM_COMMON_DATA_CHUNK_STREAM_H_
#define TANDEM_COMMON_DATA_CHUNK_STREAM_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/data/byte_source.h"
#include "common/data/chunk_buffers.h"
#include "common/data/io_pool.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"

namespace tandem {

class ChunkStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  // Gives up waiting: what was to be called will not be called from then on.
  using Withdraw = std::function<void()>;
  // Calls its argument once, on any thread, when it is time; may return what withdraws that.
  using Await = std::function<Withdraw(std::function<void()> then)>;

  // Opens the source at once, or when `await` (used before Start returns) says so.
  static grpc::ServerWriteReactor<grpc::ByteBuffer>* Start(IoPool* pool, ChunkBuffers* buffers,
                                                           ByteSourceOpener open,
                                                           const Await& await = nullptr);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override { delete this; }

 private:
  struct Step {
    bool fill = false;
    bool write = false;
    bool finish = false;  // With `write`: in one go.
  };
  struct Chunk {
    std::optional<grpc::ByteBuffer> bytes;
    bool last = false;
  };

  // Of the reader that goes away and the event that is awaited, the first has the stream.
  class Gate {
   public:
    explicit Gate(ChunkStream* stream) : stream_(stream) {}
    ChunkStream* Take() { return stream_.exchange(nullptr); }
    Withdraw withdraw;  // Written before the stream is gRPC's.

   private:
    std::atomic<ChunkStream*> stream_;
  };

  ChunkStream(IoPool* pool, ChunkBuffers* buffers, ByteSourceOpener open)
      : pool_(pool), buffers_(buffers), open_(std::move(open)) {}

  void Fill();
  absl::StatusOr<Chunk> NextChunk();
  Step NextStep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Last statement of its caller: the stream may be gone afterwards.
  void Do(Step step, const absl::Status& end);

  IoPool* const pool_;
  ChunkBuffers* const buffers_;
  // Of the filling task; there is one at a time.
  ByteSourceOpener open_;
  std::unique_ptr<ByteSource> source_;
  std::shared_ptr<Gate> gate_;  // Null: nothing is awaited.
  // Of the outstanding write.
  grpc::ByteBuffer writing_chunk_;

  absl::Mutex mu_;
  std::optional<grpc::ByteBuffer> ready_ ABSL_GUARDED_BY(mu_);
  bool filling_ ABSL_GUARDED_BY(mu_) = true;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status end_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem

#endif  // TANDEM_COMMON_DATA_CHUNK_STREAM_H_
