#include "common/rpc/bulk.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "grpcpp/support/proto_buffer_reader.h"

namespace tandem::rpc {
namespace {

constexpr uint8_t kDataTag = 1 << 3 | 2;  // Field 1, length-delimited.
constexpr size_t kFieldsBytesMax = 64 << 10;
constexpr size_t kVarintBytesMax = 10;

void AppendVarint(uint64_t value, std::string* to) {
  while (value >= 0x80) {
    to->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  to->push_back(static_cast<char>(value));
}

absl::Status Broken(std::string_view what) {
  return InvalidError(reason::kProtocolError, StrCat("a bulk message ", what));
}

// Reads a list of slices as one run of bytes.
class Cursor {
 public:
  explicit Cursor(const std::vector<grpc::Slice>& slices) : slices_(slices) { SkipEmpty(); }

  bool at_end() const { return index_ == slices_.size(); }

  absl::Status Byte(uint8_t* to) {
    std::string_view piece;
    if (!Next(1, &piece)) return Broken("ends in the middle of a field");
    *to = static_cast<uint8_t>(piece[0]);
    return absl::OkStatus();
  }
  // Also appends the bytes read to `raw`.
  absl::Status Varint(std::string* raw, uint64_t* to) {
    *to = 0;
    for (size_t i = 0; i < kVarintBytesMax; ++i) {
      uint8_t byte = 0;
      RETURN_IF_ERROR(Byte(&byte));
      raw->push_back(static_cast<char>(byte));
      *to |= static_cast<uint64_t>(byte & 0x7F) << (7 * i);
      if ((byte & 0x80) == 0) return absl::OkStatus();
    }
    return Broken("has a number of more than ten bytes");
  }
  // Calls f(view) for the next `size` bytes, piece by piece.
  template <class F>
  absl::Status Bytes(uint64_t size, F f) {
    while (size > 0) {
      std::string_view piece;
      if (!Next(size, &piece)) return Broken("ends in the middle of a field");
      size -= piece.size();
      f(piece);
    }
    return absl::OkStatus();
  }

 private:
  // At most `size` bytes that lie together; false at the end.
  bool Next(uint64_t size, std::string_view* piece) {
    if (at_end()) return false;
    const grpc::Slice& slice = slices_[index_];
    const size_t taken = static_cast<size_t>(std::min<uint64_t>(size, slice.size() - offset_));
    *piece = std::string_view(reinterpret_cast<const char*>(slice.begin()) + offset_, taken);
    offset_ += taken;
    SkipEmpty();
    return true;
  }
  void SkipEmpty() {
    while (index_ < slices_.size() && offset_ == slices_[index_].size()) {
      ++index_;
      offset_ = 0;
    }
  }

  const std::vector<grpc::Slice>& slices_;
  size_t index_ = 0;
  size_t offset_ = 0;
};

// The bytes behind a tag that is not `data`'s, appended to `fields`.
absl::Status CopyField(uint64_t tag, Cursor* cursor, std::string* fields) {
  const auto append = [fields](std::string_view piece) { fields->append(piece); };
  uint64_t value = 0;
  switch (tag & 7) {
    case 0:
      return cursor->Varint(fields, &value);
    case 1:
      return cursor->Bytes(8, append);
    case 5:
      return cursor->Bytes(4, append);
    case 2:
      RETURN_IF_ERROR(cursor->Varint(fields, &value));
      if (value > kFieldsBytesMax) return Broken("has a field that is too long");
      return cursor->Bytes(value, append);
    default:
      return Broken("has a field of a kind that is not in use");
  }
}

}  // namespace

grpc::ByteBuffer FrameBulk(std::string_view fields, absl::Span<const grpc::Slice> data) {
  uint64_t bytes = 0;
  for (const grpc::Slice& slice : data) bytes += slice.size();
  std::string head(fields);
  if (bytes > 0) {
    head.push_back(static_cast<char>(kDataTag));
    AppendVarint(bytes, &head);
  }
  std::vector<grpc::Slice> slices;
  slices.reserve(data.size() + 1);
  slices.emplace_back(head);
  slices.insert(slices.end(), data.begin(), data.end());
  return grpc::ByteBuffer(slices.data(), slices.size());
}

absl::Status ParseBulk(const grpc::ByteBuffer& buffer, BulkMessage* message) {
  *message = BulkMessage();
  if (!buffer.Valid() || !buffer.Dump(&message->slices).ok()) {
    return Broken("could not be read");
  }
  Cursor cursor(message->slices);
  bool seen = false;
  while (!cursor.at_end()) {
    std::string raw;
    uint64_t tag = 0;
    RETURN_IF_ERROR(cursor.Varint(&raw, &tag));
    if (tag != kDataTag) {
      message->fields += raw;
      RETURN_IF_ERROR(CopyField(tag, &cursor, &message->fields));
      if (message->fields.size() > kFieldsBytesMax) return Broken("has too many fields");
      continue;
    }
    if (std::exchange(seen, true)) return Broken("has its data twice");
    RETURN_IF_ERROR(cursor.Varint(&raw, &message->data_bytes));
    RETURN_IF_ERROR(cursor.Bytes(message->data_bytes, [message](std::string_view piece) {
      message->data.push_back(piece);
    }));
  }
  return absl::OkStatus();
}

absl::Status ParseMessage(const grpc::ByteBuffer& buffer, google::protobuf::MessageLite* message) {
  grpc::ByteBuffer copy(buffer);  // A reader takes a buffer that is not const; slices are shared.
  grpc::ProtoBufferReader reader(&copy);
  if (!reader.status().ok() || !message->ParseFromZeroCopyStream(&reader)) {
    return InvalidError(reason::kProtocolError,
                        StrCat("the message is not a ", message->GetTypeName()));
  }
  return absl::OkStatus();
}

grpc::ByteBuffer FrameMessage(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

grpc::Slice BorrowSlice(std::string_view bytes, void (*release)(void*), void* context) {
  return grpc::Slice(const_cast<char*>(bytes.data()), bytes.size(), release, context);
}

}  // namespace tandem::rpc
