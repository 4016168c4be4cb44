// OperandView: one operand of one piece on its way into the kernel's arguments.
//
// A view goes through three steps, each where its cost belongs:
//
//   if (!view->Settle()) view->Wait();     // the executor's loop; an I/O thread, which may block
//   if (view->prepares()) view->Prepare(crew);   // the lane: packing strides, computing generators
//   view->data()                            // what the argument points to
//
// OperandReader makes the views of one operand of one job. Where a slice lies in mapped memory as
// the kernel wants it, data() points there and nothing is copied.
//
// Thread-safety: a view is used by one thread at a time, in the order above; a reader by any.
// Ownership: a view keeps alive what data() points to; a reader outlives its views.
#ifndef TANDEM_WORKER_EXECUTOR_OPERAND_VIEW_H_
#define TANDEM_WORKER_EXECUTOR_OPERAND_VIEW_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/model/bound_job.h"
#include "common/model/plan.h"
#include "worker/device/buffers.h"
#include "worker/device/device.h"
#include "worker/executor/byte_source.h"

namespace tandem::worker {

// An item that cannot be had although the rest can: its task fails alone.
struct ItemFault {
  uint64_t index = 0;  // in the operand
  std::string reason;
};

class OperandView {
 public:
  virtual ~OperandView() = default;
  // True when nothing has to be waited for: the view is ready, or will be after Prepare.
  virtual bool Settle() = 0;
  // Waits for bytes, after Settle() said false. Errors: see ByteSource; INVALID_ARGUMENT BAD_FILE
  // for a table of offsets that makes no sense.
  virtual absl::Status Wait() = 0;
  virtual bool prepares() const { return false; }
  virtual void Prepare(HostCrew&) {}
  // A tensor's bytes, or a `const TandemBytes*` with an element an item.
  virtual const void* data() const = 0;
  virtual const std::vector<ItemFault>& faults() const;
};

class OperandReader {
 public:
  virtual ~OperandReader() = default;
  virtual std::unique_ptr<OperandView> View(const OperandPart& part) = 0;
};

// Makes the source behind a locator of elements of `dtype`, `bytes` of them.
using SourceFactory =
    std::function<std::shared_ptr<ByteSource>(const Locator& locator, DType dtype, uint64_t bytes)>;

// REQUIRES: `bound` and `spec` belong together and were validated. `pool` outlives the reader.
std::unique_ptr<OperandReader> MakeReader(const BoundOperand& bound, const OperandSpec& spec,
                                          const SourceFactory& sources, BufferPool* pool);

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_OPERAND_VIEW_H_
