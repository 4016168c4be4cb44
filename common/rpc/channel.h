// Channels: how a client or worker reaches a server, with the arguments that both ends need.
//
//   std::shared_ptr<grpc::Channel> channel = rpc::Connect("127.0.0.1:7460", rpc::Traffic::kBulk);
//
// Control and bulk traffic use channels of their own, so that a gigabyte on its way delays no
// lease. No message is over kMessageBytesMax in either direction. Keepalive runs both ways.
//
// Thread-safety: pure functions; a channel may be used from any thread.
#ifndef TANDEM_COMMON_RPC_CHANNEL_H_
#define TANDEM_COMMON_RPC_CHANNEL_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/channel_arguments.h"

namespace tandem::rpc {

enum class Traffic { kControl, kBulk };

inline constexpr int kMessageBytesMax = 4 << 20;
// Blobs that one StatBlobs asks for.
inline constexpr int kStatBlobsMax = 1000;
// What one bulk message carries at most.
inline constexpr size_t kChunkBytesMax = 1 << 20;

inline constexpr absl::Duration kKeepaliveTime = absl::Seconds(10);
inline constexpr absl::Duration kKeepaliveTimeout = absl::Seconds(5);

// What client and server set alike: message limits, keepalive, windows and frames.
void SetCommonArguments(grpc::ChannelArguments* arguments);

// A channel of its own connection: two calls with equal arguments share nothing.
// `address`: "host:port" or "unix:/path". Connects when first used. For calls that block: a process
// that makes no others has no thread of gRPC's to pass each answer on.
std::shared_ptr<grpc::Channel> Connect(const std::string& address, Traffic traffic);
// The same for calls that are answered by callbacks, on threads that live as long as the process.
std::shared_ptr<grpc::Channel> ConnectForCallbacks(const std::string& address, Traffic traffic);

// "127.0.0.1:7460", "[::1]:0", "localhost:1", "unix:/run/tandem.sock".
// Errors: INVALID_ARGUMENT BAD_ARGUMENT with what was expected.
struct Address {
  std::string host;  // Without brackets; the path of a unix socket.
  int port = 0;
  bool unix_socket = false;
};
absl::StatusOr<Address> ParseAddress(std::string_view text);
// The host in the peer of a call as gRPC writes it: "10.0.0.7" of "ipv4:10.0.0.7:43124", "::1" of
// "ipv6:%5B::1%5D:43124". What is no such peer ("unix:/path") comes back as it is.
std::string HostOfPeer(std::string_view peer);
// Reachable from this host only: a unix socket, localhost, 127.0.0.0/8 or ::1.
bool IsLoopback(const Address& address);

// Sends gRPC's own messages to our log (at debug level; errors as warnings). Call once, early.
void RouteGrpcLog();

}  // namespace tandem::rpc

#endif  // TANDEM_COMMON_RPC_CHANNEL_H_
