// Who is calling: the owner of a job, a blob, an RPC.
//
// Without TLS the owner is the client's user name, sent as metadata `tandem-owner` and trusted on
// loopback (docs/ARCHITECTURE.md).
//
// Thread-safety: pure functions.
#ifndef TANDEM_COMMON_RPC_OWNER_H_
#define TANDEM_COMMON_RPC_OWNER_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "grpcpp/client_context.h"
#include "grpcpp/server_context.h"

namespace tandem::rpc {

inline constexpr char kOwnerKey[] = "tandem-owner";
inline constexpr size_t kOwnerBytesMax = 64;

// 1 to 64 characters of [A-Za-z0-9._-], not beginning with '.' or '-': an owner is also the name of
// a folder. Errors: INVALID_ARGUMENT BAD_ARGUMENT.
absl::Status CheckOwner(std::string_view owner);

// The name of this process's user; "uid-<n>" where the system knows none.
std::string LocalOwner();

void SetOwner(grpc::ClientContext* context, std::string_view owner);
// Errors: UNAUTHENTICATED NOT_OWNER when it is missing or no owner's name; those of CheckVersion:
// what a client of another major means by its call is not guessed.
absl::StatusOr<std::string> OwnerOf(const grpc::ServerContextBase& context);

}  // namespace tandem::rpc

#endif  // TANDEM_COMMON_RPC_OWNER_H_
