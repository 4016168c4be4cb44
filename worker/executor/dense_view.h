// Views of dense operands: a slice of a tensor, in place where it is mapped, contiguous and
// aligned, else packed into a buffer of the pool.
//
// Thread-safety: as operand_view.h.
#ifndef TANDEM_WORKER_EXECUTOR_DENSE_VIEW_H_
#define TANDEM_WORKER_EXECUTOR_DENSE_VIEW_H_

#include <memory>
#include <utility>

#include "common/model/dtype.h"
#include "common/model/tensor.h"
#include "worker/executor/operand_view.h"

namespace tandem::worker {

class DenseView final : public OperandView {
 public:
  DenseView(std::shared_ptr<ByteSource> source, const StridedSlice& slice, DType dtype,
            BufferPool* pool)
      : source_(std::move(source)), slice_(slice), align_(DTypeSize(dtype)), pool_(pool) {}
  ~DenseView() override;

  bool Settle() override;
  absl::Status Wait() override;
  bool prepares() const override { return prepares_; }
  void Prepare(HostCrew& crew) override;
  const void* data() const override { return data_; }

 private:
  bool TakeBuffer();
  absl::Status ReadBlocks();
  void Gather(HostCrew& crew);
  void Compute(HostCrew& crew);

  const std::shared_ptr<ByteSource> source_;
  const StridedSlice slice_;
  const uint64_t align_;
  BufferPool* const pool_;
  AlignedBuffer packed_;
  bool prepares_ = false;
  const void* data_ = nullptr;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_DENSE_VIEW_H_
