#include "worker/executor/ragged_view.h"

#include <algorithm>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "worker/executor/failure_text.h"

namespace tandem::worker {
namespace {

const uint8_t* AsBytes(const char* bytes) { return reinterpret_cast<const uint8_t*>(bytes); }

absl::Status NoMemory(std::string_view what) {
  return Error(absl::StatusCode::kResourceExhausted, reason::kOutOfMemory,
               StrCat("no memory for ", what, "; choose a smaller grain"));
}

}  // namespace

PackedView::~PackedView() { pool_->Give(std::move(copy_)); }

absl::Status PackedView::ReadOffsets() {
  ends_.resize(count_ + 1);
  RETURN_IF_ERROR(offsets_->Read(first_ * sizeof(uint64_t), ends_.size() * sizeof(uint64_t),
                                 reinterpret_cast<char*>(ends_.data())));
  if (std::is_sorted(ends_.begin(), ends_.end()) && ends_.back() <= bytes_->size()) {
    return absl::OkStatus();
  }
  return InvalidError(
      reason::kBadFile,
      StrCat("the offsets of items ", first_, " to ", first_ + count_, " do not ascend within the ",
             bytes_->size(), " bytes of the list; pack the operand again"));
}

void PackedView::MakeTable(const char* bytes) {
  table_.resize(count_);
  for (uint64_t i = 0; i < count_; ++i) {
    table_[i] = {AsBytes(bytes + (ends_[i] - ends_[0])),
                 static_cast<int64_t>(ends_[i + 1] - ends_[i])};
  }
}

bool PackedView::Settle() {
  const uint64_t table = first_ * sizeof(uint64_t);
  if (!offsets_->Resident(table, (count_ + 1) * sizeof(uint64_t)) || !ReadOffsets().ok()) {
    return false;  // Wait() finds the same error and tells it.
  }
  const uint64_t length = ends_.back() - ends_.front();
  if (length == 0) {
    MakeTable("");
    return true;
  }
  if (!bytes_->Resident(ends_.front(), length)) return false;
  const char* mapped = bytes_->Mapped(ends_.front());
  if (mapped == nullptr) return false;
  MakeTable(mapped);
  return true;
}

absl::Status PackedView::Wait() {
  RETURN_IF_ERROR(ReadOffsets());
  const uint64_t length = ends_.back() - ends_.front();
  RETURN_IF_ERROR(bytes_->Fetch(ends_.front(), length));
  if (Settle()) return absl::OkStatus();
  copy_ = pool_->Take(length);
  char* to = reinterpret_cast<char*>(copy_.data());
  if (to == nullptr) return NoMemory("a piece's items");
  RETURN_IF_ERROR(bytes_->Read(ends_.front(), length, to));
  MakeTable(to);
  return absl::OkStatus();
}

ItemsView::ItemsView(const std::vector<Locator>& items, const SourceFactory& sources,
                     uint64_t first, uint64_t count, bool alone)
    : first_(first), alone_(alone), items_(count), table_(count) {
  for (uint64_t i = 0; i < count; ++i) {
    const Locator& locator = items[first + i];
    items_[i].source = sources(locator, DType::kU8, LocatorBytes(locator).value_or(0));
  }
}

bool ItemsView::SettleItem(size_t index) {
  const std::shared_ptr<ByteSource>& source = items_[index].source;
  if (source == nullptr) return true;  // Its bytes are copied.
  const uint64_t size = source->size();
  table_[index] = {nullptr, static_cast<int64_t>(size)};
  if (size == 0) return true;
  if (!source->Resident(0, size)) return false;
  table_[index].data = AsBytes(source->Mapped(0));
  return table_[index].data != nullptr;
}

bool ItemsView::Settle() {
  for (size_t i = 0; i < items_.size(); ++i) {
    if (!SettleItem(i)) return false;
  }
  return true;
}

absl::Status ItemsView::WaitItem(size_t index) {
  Item& item = items_[index];
  if (SettleItem(index)) return absl::OkStatus();
  const uint64_t size = item.source->size();
  RETURN_IF_ERROR(item.source->Fetch(0, size));
  if (SettleItem(index)) return absl::OkStatus();
  char* to = reinterpret_cast<char*>(item.copy.Ensure(size));
  if (to == nullptr) return NoMemory(StrCat("item ", first_ + index));
  RETURN_IF_ERROR(item.source->Read(0, size, to));
  table_[index].data = AsBytes(to);
  item.source.reset();  // A file for each of thousands of items must not stay open.
  return absl::OkStatus();
}

absl::Status ItemsView::Wait() {
  faults_.clear();
  for (size_t i = 0; i < items_.size(); ++i) {
    const absl::Status status = WaitItem(i);
    if (alone_ && ReasonOf(status) == reason::kPathChanged) {
      faults_.push_back({first_ + i, FailureText(status)});
      table_[i] = {nullptr, 0};
    } else if (!status.ok()) {
      return WithContext(status, StrCat("item ", first_ + i));
    }
  }
  return absl::OkStatus();
}

}  // namespace tandem::worker
