// Do client and master understand each other? The number of the API, and how each says it.
//
// A client says its API and its version with every call (metadata), and asks GetMaster once. Equal
// majors understand each other: fields and RPCs are only ever added. Any other is VERSION_SKEW, on
// whichever side it is seen first.
//
// Thread-safety: pure functions.
#ifndef TANDEM_COMMON_RPC_VERSION_H_
#define TANDEM_COMMON_RPC_VERSION_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "grpcpp/client_context.h"
#include "grpcpp/server_context.h"

namespace tandem::rpc {

// major * 1000 + minor.
inline constexpr uint32_t kApi = 1000;
inline constexpr uint32_t ApiMajor(uint32_t api) { return api / 1000; }

inline constexpr char kApiKey[] = "tandem-api";
inline constexpr char kVersionKey[] = "tandem-version";

// This program's release.
std::string_view Version();

struct Release {
  std::string version;  // "0.3.0"; may be empty
  uint32_t api = 0;     // 0: from before there was a number
};
// OK for equal majors. Errors: FAILED_PRECONDITION VERSION_SKEW with both versions.
absl::Status CheckSkew(const Release& client, const Release& master);

// On each call, from the client …
void SetVersion(grpc::ClientContext* context);
// … and to the master. A call that does not say anything passes: tools that call by reflection.
absl::Status CheckVersion(const grpc::ServerContextBase& context);

}  // namespace tandem::rpc

#endif  // TANDEM_COMMON_RPC_VERSION_H_
