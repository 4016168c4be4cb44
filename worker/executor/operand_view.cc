#include "worker/executor/operand_view.h"

#include <atomic>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "common/base/status_macros.h"
#include "worker/executor/dense_view.h"
#include "worker/executor/ragged_view.h"

namespace tandem::worker {
namespace {

// The calling thread alone: a broadcast operand is prepared once, on the thread that fetched it.
class Alone final : public HostCrew {
 public:
  void ParallelFor(int64_t n, int64_t, Body body) override {
    if (n > 0) body(0, n);
  }
};

class DenseReader final : public OperandReader {
 public:
  DenseReader(std::shared_ptr<ByteSource> source, DType dtype, BufferPool* pool)
      : source_(std::move(source)), dtype_(dtype), pool_(pool) {}
  std::unique_ptr<OperandView> View(const OperandPart& part) override {
    return std::make_unique<DenseView>(source_, part.slice, dtype_, pool_);
  }

 private:
  const std::shared_ptr<ByteSource> source_;
  const DType dtype_;
  BufferPool* const pool_;
};

class PackedReader final : public OperandReader {
 public:
  PackedReader(const RaggedPacked& list, uint64_t items, const SourceFactory& sources,
               BufferPool* pool)
      : items_(items),
        offsets_(sources(list.offsets, DType::kU64, (items + 1) * sizeof(uint64_t))),
        bytes_(sources(list.data, DType::kU8, list.data_bytes)),
        pool_(pool) {}
  std::unique_ptr<OperandView> View(const OperandPart& part) override {
    const bool all = part.kind == OperandPart::Kind::kBroadcast;
    return std::make_unique<PackedView>(offsets_, bytes_, all ? 0 : part.first_index,
                                        all ? items_ : part.count, pool_);
  }

 private:
  const uint64_t items_;
  const std::shared_ptr<ByteSource> offsets_;
  const std::shared_ptr<ByteSource> bytes_;
  BufferPool* const pool_;
};

class ItemsReader final : public OperandReader {
 public:
  ItemsReader(const RaggedItems& list, SourceFactory sources)
      : items_(list.items), sources_(std::move(sources)) {}
  std::unique_ptr<OperandView> View(const OperandPart& part) override {
    const bool all = part.kind == OperandPart::Kind::kBroadcast;
    return std::make_unique<ItemsView>(items_, sources_, all ? 0 : part.first_index,
                                       all ? items_.size() : part.count, !all);
  }

 private:
  const std::vector<Locator> items_;
  const SourceFactory sources_;
};

// A broadcast operand is had once a job: every piece looks at one view.
class BroadcastReader final : public OperandReader {
 public:
  explicit BroadcastReader(std::unique_ptr<OperandReader> inner) : inner_(std::move(inner)) {}
  std::unique_ptr<OperandView> View(const OperandPart& part) override;

 private:
  friend class BroadcastView;
  const std::unique_ptr<OperandReader> inner_;
  absl::Mutex mu_;
  std::unique_ptr<OperandView> view_;  // Written under mu_ before ready_ is set.
  std::atomic<bool> ready_ = false;
};

class BroadcastView final : public OperandView {
 public:
  BroadcastView(BroadcastReader* reader, const OperandPart& part) : reader_(reader), part_(part) {}

  bool Settle() override {
    if (reader_->ready_.load(std::memory_order_acquire)) return true;
    if (!reader_->mu_.TryLock()) return false;
    const bool settled = SettleLocked();
    reader_->mu_.Unlock();
    return settled;
  }
  absl::Status Wait() override {
    absl::MutexLock lock(&reader_->mu_);
    if (SettleLocked()) return absl::OkStatus();
    OperandView* view = reader_->view_.get();
    if (!view->prepares()) RETURN_IF_ERROR(view->Wait());
    Alone alone;
    if (view->prepares()) view->Prepare(alone);
    reader_->ready_.store(true, std::memory_order_release);
    return absl::OkStatus();
  }
  const void* data() const override { return reader_->view_->data(); }
  const std::vector<ItemFault>& faults() const override { return reader_->view_->faults(); }

 private:
  // What takes a core's time waits for Wait, off the executor's loop.
  bool SettleLocked() {
    if (reader_->ready_.load(std::memory_order_relaxed)) return true;
    if (reader_->view_ == nullptr) reader_->view_ = reader_->inner_->View(part_);
    if (!reader_->view_->Settle() || reader_->view_->prepares()) return false;
    reader_->ready_.store(true, std::memory_order_release);
    return true;
  }
  BroadcastReader* const reader_;
  const OperandPart part_;
};

std::unique_ptr<OperandView> BroadcastReader::View(const OperandPart& part) {
  return std::make_unique<BroadcastView>(this, part);
}

std::unique_ptr<OperandReader> MakePlainReader(const BoundOperand& bound, const OperandSpec& spec,
                                               const SourceFactory& sources, BufferPool* pool) {
  if (const auto* packed = std::get_if<RaggedPacked>(&spec.source)) {
    return std::make_unique<PackedReader>(*packed, static_cast<uint64_t>(bound.spec.shape[0]),
                                          sources, pool);
  }
  if (const auto* items = std::get_if<RaggedItems>(&spec.source)) {
    return std::make_unique<ItemsReader>(*items, sources);
  }
  return std::make_unique<DenseReader>(
      sources(std::get<Locator>(spec.source), bound.spec.dtype, bound.bytes), bound.spec.dtype,
      pool);
}

}  // namespace

const std::vector<ItemFault>& OperandView::faults() const {
  static const std::vector<ItemFault> none;
  return none;
}

std::unique_ptr<OperandReader> MakeReader(const BoundOperand& bound, const OperandSpec& spec,
                                          const SourceFactory& sources, BufferPool* pool) {
  std::unique_ptr<OperandReader> reader = MakePlainReader(bound, spec, sources, pool);
  if (bound.sliced) return reader;
  return std::make_unique<BroadcastReader>(std::move(reader));
}

}  // namespace tandem::worker
