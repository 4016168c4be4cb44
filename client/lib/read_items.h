// The items in one piece of a ragged output: [u64 offsets[tasks + 1]][bytes].
//
// Thread-safety: immutable. Ownership: looks into the bytes it was made of.
#ifndef TANDEM_CLIENT_LIB_READ_ITEMS_H_
#define TANDEM_CLIENT_LIB_READ_ITEMS_H_

#include <cstdint>
#include <cstring>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/base/error.h"
#include "common/base/strings.h"

namespace tandem::client {

class ItemTable {
 public:
  // Errors: DATA_LOSS when the table does not fit the bytes.
  static absl::StatusOr<ItemTable> Of(std::string_view piece, uint64_t tasks) {
    const absl::Status bad =
        Error(absl::StatusCode::kDataLoss, reason::kTruncated,
              StrCat("a piece of ", piece.size(), " bytes does not hold ", tasks, " items"));
    if (tasks >= piece.size() / sizeof(uint64_t)) return bad;
    const ItemTable table(piece, tasks);
    uint64_t before = 0;
    for (uint64_t i = 0; i <= tasks; ++i) {
      const uint64_t offset = table.Offset(i);
      if (offset < before || offset > table.data_.size()) return bad;
      before = offset;
    }
    return table;
  }

  // REQUIRES: i < tasks.
  std::string_view Item(uint64_t i) const {
    return data_.substr(Offset(i), Offset(i + 1) - Offset(i));
  }

 private:
  ItemTable(std::string_view piece, uint64_t tasks)
      : table_(piece), data_(piece.substr((tasks + 1) * sizeof(uint64_t))) {}
  uint64_t Offset(uint64_t i) const {
    uint64_t offset = 0;
    std::memcpy(&offset, table_.data() + i * sizeof offset, sizeof offset);
    return offset;
  }

  std::string_view table_, data_;
};

}  // namespace tandem::client

#endif  // TANDEM_CLIENT_LIB_READ_ITEMS_H_
