// Bulk messages as raw bytes: framed and read without a protobuf object, so that payload bytes are
// never copied between buffers.
//
// Chunk, PutBlobRequest and PushRequest carry their payload in field 1, `bytes data`. On the wire
// they are ordinary messages; here the payload stays in the slices that gRPC sends or received.
//
//   grpc::ByteBuffer message = rpc::FrameBulk("", slices);           // a Chunk
//   rpc::BulkMessage in;  RETURN_IF_ERROR(rpc::ParseBulk(message, &in));   // in.data: views
//
// Thread-safety: pure functions. Ownership: a BulkMessage holds the slices that its views see.
#ifndef TANDEM_COMMON_RPC_BULK_H_
#define TANDEM_COMMON_RPC_BULK_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"

namespace tandem::rpc {

// A message with the serialized `fields` (which have no field 1) and, unless empty, `data`.
grpc::ByteBuffer FrameBulk(std::string_view fields, absl::Span<const grpc::Slice> data);

struct BulkMessage {
  std::string fields;                  // Everything but `data`, serialized.
  std::vector<std::string_view> data;  // The payload, in order; views into `slices`.
  uint64_t data_bytes = 0;
  std::vector<grpc::Slice> slices;
};
// Errors: INVALID_ARGUMENT PROTOCOL_ERROR for what is no such message: broken framing, `data`
// twice, other fields beyond 64 KiB.
absl::Status ParseBulk(const grpc::ByteBuffer& buffer, BulkMessage* message);

// Ordinary messages on methods that are raw because of their other direction.
absl::Status ParseMessage(const grpc::ByteBuffer& buffer, google::protobuf::MessageLite* message);
grpc::ByteBuffer FrameMessage(const google::protobuf::MessageLite& message);

// A slice over bytes that outlive the call: `release(context)` is called once gRPC is done.
grpc::Slice BorrowSlice(std::string_view bytes, void (*release)(void*), void* context);

}  // namespace tandem::rpc

#endif  // TANDEM_COMMON_RPC_BULK_H_
