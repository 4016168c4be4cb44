// absl::Status to grpc::Status and back: the only place where they meet.
//
// The reason token travels as google.rpc.ErrorInfo (domain "tandem"), the field path as
// google.rpc.BadRequest, a retry delay as google.rpc.RetryInfo, all in the standard
// `grpc-status-details-bin`, so that clients in any language can read them. What comes back from
// an older or foreign peer has a code and a message only.
//
// Thread-safety: pure functions.
#ifndef TANDEM_COMMON_RPC_STATUS_H_
#define TANDEM_COMMON_RPC_STATUS_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/support/status.h"

namespace tandem::rpc {

inline constexpr char kErrorDomain[] = "tandem";
// Messages are cut to this: they travel in HTTP/2 headers.
inline constexpr size_t kErrorMessageBytesMax = 2048;

grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

// The same error with advice when to try again. OK stays OK.
absl::Status WithRetryDelay(absl::Status status, absl::Duration delay);
// The advice; infinite when there is none.
absl::Duration RetryDelayOf(const absl::Status& status);

}  // namespace tandem::rpc

#endif  // TANDEM_COMMON_RPC_STATUS_H_
