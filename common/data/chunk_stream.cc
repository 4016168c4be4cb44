#include "common/data/chunk_stream.h"

#include <string>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/rpc/bulk.h"
#include "common/rpc/status.h"

namespace tandem {

grpc::ServerWriteReactor<grpc::ByteBuffer>* ChunkStream::Start(IoPool* pool, ChunkBuffers* buffers,
                                                               ByteSourceOpener open,
                                                               const Await& await) {
  auto* stream = new ChunkStream(pool, buffers, std::move(open));
  if (await == nullptr) {
    pool->Run([stream] { stream->Fill(); });
    return stream;
  }
  const auto gate = std::make_shared<Gate>(stream);
  stream->gate_ = gate;
  gate->withdraw = await([pool, gate] {
    ChunkStream* mine = gate->Take();
    if (mine != nullptr) pool->Run([mine] { mine->Fill(); });
  });
  return stream;
}

absl::StatusOr<ChunkStream::Chunk> ChunkStream::NextChunk() {
  if (source_ == nullptr) {
    ASSIGN_OR_RETURN(source_, open_());
  }
  ChunkBuffers::Buffer buffer = buffers_->Take();
  ASSIGN_OR_RETURN(const size_t size,
                   source_->Read(absl::MakeSpan(buffer.data(), buffers_->bytes())));
  Chunk chunk{.bytes = {}, .last = size < buffers_->bytes()};
  if (size > 0) {
    const grpc::Slice slice = std::move(buffer).ToSlice(size);
    chunk.bytes = rpc::FrameBulk("", absl::MakeConstSpan(&slice, 1));
  }
  return chunk;
}

void ChunkStream::Fill() {
  absl::StatusOr<Chunk> chunk = NextChunk();
  Step step;
  absl::Status end;
  {
    absl::MutexLock lock(&mu_);
    filling_ = false;
    if (!chunk.ok()) {
      ended_ = true;
      if (end_.ok()) end_ = chunk.status();
    } else {
      // A reader that is gone meanwhile gets nothing more.
      if (!ended_) ready_ = std::move(chunk->bytes);
      ended_ |= chunk->last;
    }
    step = NextStep();
    end = end_;
  }
  Do(step, end);
}

void ChunkStream::OnWriteDone(bool ok) {
  Step step;
  absl::Status end;
  {
    absl::MutexLock lock(&mu_);
    writing_ = false;
    if (!ok) {
      ended_ = true;
      ready_.reset();
      if (end_.ok()) end_ = absl::CancelledError("the reader is gone");
    }
    step = NextStep();
    end = end_;
  }
  Do(step, end);
}

void ChunkStream::OnCancel() {
  const bool begun = gate_ == nullptr || gate_->Take() == nullptr;
  const absl::Status gone = absl::CancelledError("the reader is gone");
  {
    absl::MutexLock lock(&mu_);
    ended_ = true;
    ready_.reset();
    if (end_.ok()) end_ = gone;
    if (!begun) finished_ = true;
  }
  if (begun) return;
  if (gate_->withdraw) gate_->withdraw();
  Finish(rpc::ToGrpc(gone));
}

ChunkStream::Step ChunkStream::NextStep() {
  Step step;
  if (finished_ || writing_) return step;
  if (ready_) {
    writing_chunk_ = *std::move(ready_);
    ready_.reset();
    writing_ = step.write = true;
    finished_ = step.finish = ended_;
    if (!ended_) filling_ = step.fill = true;
  } else if (ended_ && !filling_) {
    finished_ = step.finish = true;
  }
  return step;
}

void ChunkStream::Do(Step step, const absl::Status& end) {
  if (step.write && step.finish) {
    StartWriteAndFinish(&writing_chunk_, grpc::WriteOptions(), rpc::ToGrpc(end));
    return;
  }
  if (step.write) StartWrite(&writing_chunk_);
  if (step.fill) pool_->Run([this] { Fill(); });
  if (step.finish) Finish(rpc::ToGrpc(end));
}

}  // namespace tandem
