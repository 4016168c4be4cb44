#include "common/data/chunk_stream.h"

#include <string>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/rpc/bulk.h"
#include "common/rpc/status.h"

namespace tandem {

grpc::ServerWriteReactor<grpc::ByteBuffer>* ChunkStream::Start(IoPool* pool, ChunkBuffers* buffers,
                                                               ByteSourceOpener open) {
  auto* stream = new ChunkStream(pool, buffers, std::move(open));
  pool->Run([stream] { stream->Fill(); });
  return stream;
}

absl::StatusOr<std::optional<grpc::ByteBuffer>> ChunkStream::NextChunk() {
  if (source_ == nullptr) {
    ASSIGN_OR_RETURN(source_, open_());
  }
  ChunkBuffers::Buffer buffer = buffers_->Take();
  ASSIGN_OR_RETURN(const size_t size,
                   source_->Read(absl::MakeSpan(buffer.data(), buffers_->bytes())));
  std::optional<grpc::ByteBuffer> chunk;
  if (size > 0) {
    const grpc::Slice slice = std::move(buffer).ToSlice(size);
    chunk = rpc::FrameBulk("", absl::MakeConstSpan(&slice, 1));
  }
  return chunk;
}

void ChunkStream::Fill() {
  absl::StatusOr<std::optional<grpc::ByteBuffer>> chunk = NextChunk();
  Step step;
  absl::Status end;
  {
    absl::MutexLock lock(&mu_);
    filling_ = false;
    if (!chunk.ok()) {
      ended_ = true;
      if (end_.ok()) end_ = chunk.status();
    } else if (*chunk) {
      ready_ = *std::move(chunk);
    } else {
      ended_ = true;
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
  absl::MutexLock lock(&mu_);
  ended_ = true;
  ready_.reset();
  if (end_.ok()) end_ = absl::CancelledError("the reader is gone");
}

ChunkStream::Step ChunkStream::NextStep() {
  Step step;
  if (finished_ || writing_) return step;
  if (ready_) {
    writing_chunk_ = *std::move(ready_);
    ready_.reset();
    writing_ = step.write = true;
    if (!ended_) filling_ = step.fill = true;
  } else if (ended_ && !filling_) {
    finished_ = step.finish = true;
  }
  return step;
}

void ChunkStream::Do(Step step, const absl::Status& end) {
  if (step.write) StartWrite(&writing_chunk_);
  if (step.fill) pool_->Run([this] { Fill(); });
  if (step.finish) Finish(rpc::ToGrpc(end));
}

}  // namespace tandem
