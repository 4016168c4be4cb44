#include "common/rpc/channel.h"

#include <arpa/inet.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <utility>

#include "absl/strings/str_replace.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/reason.h"
#include "common/base/strings.h"
#include "grpc/grpc.h"
#include "grpc/support/log.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/security/credentials.h"

namespace tandem::rpc {
namespace {

// Frames and windows that let a chunk of 1 MiB travel in one piece on a fast link: measured with
// bench/data_bench.cc.
constexpr int kFrameBytes = (1 << 20) + (16 << 10);
constexpr int kWindowBytes = 8 << 20;
constexpr int kWriteBufferBytes = 2 << 20;

int Millis(absl::Duration d) { return static_cast<int>(absl::ToInt64Milliseconds(d)); }

void LogGrpc(gpr_log_func_args* args) {
  if (args->severity == GPR_LOG_SEVERITY_ERROR) {
    TLOG(Warning, "grpc", "file", args->file, "line", args->line, "message", args->message);
  } else {
    TLOG(Debug, "grpc", "file", args->file, "line", args->line, "message", args->message);
  }
}

// gRPC's threads for callbacks end with the last channel that used them, and join themselves (and
// run on in freed memory) when one of them drops it, as a callback may. A channel that is never
// destroyed and made one callback call keeps them for as long as the process lives.
class CallbackThreads {
 public:
  static void Keep() {
    // Volatile, so that it is kept where a leak checker finds it.
    static CallbackThreads* volatile forever = new CallbackThreads();
    (void)forever;
  }

 private:
  CallbackThreads()
      : stub_(grpc::CreateChannel("unix:/nonexistent", grpc::InsecureChannelCredentials())) {
    context_.set_deadline(std::chrono::system_clock::now());
    stub_.UnaryCall(&context_, "/tandem.none/None", grpc::StubOptions(), &request_, &response_,
                    [](const grpc::Status&) {});
  }

  grpc::ClientContext context_;
  const grpc::Slice empty_;
  const grpc::ByteBuffer request_{&empty_, 1};
  grpc::ByteBuffer response_;
  grpc::GenericStub stub_;
};

absl::Status BadAddress(std::string_view text) {
  return InvalidError(
      reason::kBadArgument,
      StrCat("the address ", Quoted(text),
             " is not HOST:PORT, [IPV6]:PORT or unix:/PATH; an example is 127.0.0.1:7460"));
}

}  // namespace

void SetCommonArguments(grpc::ChannelArguments* arguments) {
  arguments->SetMaxReceiveMessageSize(kMessageBytesMax);
  arguments->SetMaxSendMessageSize(kMessageBytesMax);
  arguments->SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, Millis(kKeepaliveTime));
  arguments->SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Millis(kKeepaliveTimeout));
  arguments->SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments->SetInt(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kFrameBytes);
  arguments->SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kWindowBytes);
  // The window is as large as it need be: nothing is to be learned of the way by a ping with what
  // is received.
  arguments->SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments->SetInt(GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, kWriteBufferBytes);
}

std::shared_ptr<grpc::Channel> Connect(const std::string& address, Traffic traffic) {
  static std::atomic<int> next{0};
  grpc::ChannelArguments arguments;
  SetCommonArguments(&arguments);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, traffic == Traffic::kControl ? 1 : 0);
  // Backoff is the caller's business (a worker's session has its own, with jitter).
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // What one attempt may take, whatever its name says: a loaded machine is slow to accept.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  // gRPC asks for the name again before it connects anew, an address of digits too, and by itself
  // waits 30 s before it does: a server that has just come up would not be seen.
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 50);
  // An argument that no two channels share keeps their connections apart.
  arguments.SetInt("tandem.connection", next.fetch_add(1));
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

std::shared_ptr<grpc::Channel> ConnectForCallbacks(const std::string& address, Traffic traffic) {
  CallbackThreads::Keep();
  return Connect(address, traffic);
}

absl::StatusOr<Address> ParseAddress(std::string_view text) {
  Address address;
  constexpr std::string_view kUnix = "unix:";
  if (text.substr(0, kUnix.size()) == kUnix) {
    address.host = std::string(text.substr(kUnix.size()));
    address.unix_socket = true;
    if (address.host.empty()) return BadAddress(text);
    return address;
  }
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return BadAddress(text);
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return BadAddress(text);
  }
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc() || end != port.data() + port.size() || address.port < 0 ||
      address.port > 65535 || host.empty()) {
    return BadAddress(text);
  }
  address.host = std::string(host);
  return address;
}

std::string HostOfPeer(std::string_view peer) {
  std::string plain = absl::StrReplaceAll(ToAbsl(peer), {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
  for (const std::string_view scheme : {"ipv4:", "ipv6:"}) {
    if (!peer.starts_with(scheme)) continue;
    absl::StatusOr<Address> address = ParseAddress(std::string_view(plain).substr(scheme.size()));
    if (address.ok()) return std::move(address->host);
  }
  return plain;
}

bool IsLoopback(const Address& address) {
  if (address.unix_socket || address.host == "localhost") return true;
  in_addr v4{};
  if (inet_pton(AF_INET, address.host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, address.host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

void RouteGrpcLog() { gpr_set_log_function(&LogGrpc); }

}  // namespace tandem::rpc
