// Views of ragged operands: a table of TandemBytes over items that lie packed behind a table of
// offsets, or each behind a locator of its own.
//
// Thread-safety: as operand_view.h.
#ifndef TANDEM_WORKER_EXECUTOR_RAGGED_VIEW_H_
#define TANDEM_WORKER_EXECUTOR_RAGGED_VIEW_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/model/locator.h"
#include "kernels/sdk/include/tandem/abi.h"
#include "worker/executor/operand_view.h"

namespace tandem::worker {

// Items [first, first + count) of one packed list.
class PackedView final : public OperandView {
 public:
  PackedView(std::shared_ptr<ByteSource> offsets, std::shared_ptr<ByteSource> bytes, uint64_t first,
             uint64_t count, BufferPool* pool)
      : offsets_(std::move(offsets)),
        bytes_(std::move(bytes)),
        first_(first),
        count_(count),
        pool_(pool) {}
  ~PackedView() override;

  bool Settle() override;
  absl::Status Wait() override;
  const void* data() const override { return table_.data(); }

 private:
  absl::Status ReadOffsets();
  void MakeTable(const char* bytes);

  const std::shared_ptr<ByteSource> offsets_;
  const std::shared_ptr<ByteSource> bytes_;
  const uint64_t first_;
  const uint64_t count_;
  BufferPool* const pool_;
  std::vector<uint64_t> ends_;  // count + 1 offsets
  AlignedBuffer copy_;
  std::vector<TandemBytes> table_;
};

// Items behind locators of their own.
class ItemsView final : public OperandView {
 public:
  // `items` outlives the view. `alone`: a changed item fails its own task (a fault); else, where
  // every task needs all items, Wait fails.
  ItemsView(const std::vector<Locator>& items, const SourceFactory& sources, uint64_t first,
            uint64_t count, bool alone);

  bool Settle() override;
  absl::Status Wait() override;
  const void* data() const override { return table_.data(); }
  const std::vector<ItemFault>& faults() const override { return faults_; }

 private:
  struct Item {
    std::shared_ptr<ByteSource> source;
    AlignedBuffer copy;
  };
  bool SettleItem(size_t index);
  absl::Status WaitItem(size_t index);

  const uint64_t first_;
  const bool alone_;
  std::vector<Item> items_;
  std::vector<TandemBytes> table_;
  std::vector<ItemFault> faults_;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_RAGGED_VIEW_H_
