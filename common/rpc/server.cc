#include "common/rpc/server.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/rpc/channel.h"
#include "grpc/grpc.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"

namespace tandem::rpc {
namespace {

// gRPC says only that it could not listen: bind once more by hand to learn why.
int BindErrno(const Address& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found) !=
      0) {
    return EADDRNOTAVAIL;
  }
  int error = 0;
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0) {
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, 1) != 0) error = errno;
    close(fd);
  }
  freeaddrinfo(found);
  return error;
}

absl::Status CannotListen(const std::string& text, const Address& address) {
  const int error = address.unix_socket ? 0 : BindErrno(address);
  if (error == EADDRINUSE) {
    return Error(absl::StatusCode::kUnavailable, reason::kAddressInUse,
                 StrCat("cannot listen on ", text,
                        ": the port is in use. Is another one running? Stop it or choose another "
                        "address with --listen"));
  }
  return Error(absl::StatusCode::kUnavailable, reason::kBadArgument,
               StrCat("cannot listen on ", text, ": ",
                      error == 0 ? "the system refused it" : std::strerror(error),
                      ". Choose an address of this host with --listen"));
}

absl::StatusOr<Address> CheckedAddress(const std::string& text, bool insecure) {
  ASSIGN_OR_RETURN(Address address, ParseAddress(text));
  if (!insecure && !IsLoopback(address)) {
    return Error(absl::StatusCode::kFailedPrecondition, reason::kInsecure,
                 StrCat("refusing to listen on ", text,
                        ": anybody who reaches it could run jobs as anybody, for there is no TLS. "
                        "Listen on 127.0.0.1, or say --insecure on a network you trust"));
  }
  return address;
}

void Configure(grpc::ServerBuilder* builder) {
  grpc::ChannelArguments common;
  SetCommonArguments(&common);
  const grpc_channel_args args = common.c_channel_args();
  for (size_t i = 0; i < args.num_args; ++i) {
    if (args.args[i].type == GRPC_ARG_INTEGER) {
      builder->AddChannelArgument(args.args[i].key, args.args[i].value.integer);
    }
  }
  builder->SetMaxReceiveMessageSize(kMessageBytesMax);
  builder->SetMaxSendMessageSize(kMessageBytesMax);
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // Clients ping every kKeepaliveTime; a few more often than that are no attack.
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              static_cast<int>(absl::ToInt64Milliseconds(kKeepaliveTime / 2)));
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 16 << 10);
}

void EnablePlugins() {
  [[maybe_unused]] static const bool once = [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    return true;
  }();
}

}  // namespace

absl::Status Server::CheckAddress(const ServerOptions& options) {
  ASSIGN_OR_RETURN(const Address address, CheckedAddress(options.address, options.insecure));
  if (address.unix_socket || address.port == 0 || BindErrno(address) == 0) return absl::OkStatus();
  return CannotListen(options.address, address);
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                                      absl::Span<grpc::Service* const> services) {
  ASSIGN_OR_RETURN(const Address address, CheckedAddress(options.address, options.insecure));
  EnablePlugins();
  grpc::ServerBuilder builder;
  Configure(&builder);
  int port = 0;
  builder.AddListeningPort(options.address, grpc::InsecureServerCredentials(), &port);
  for (const std::string& local : options.also_local) {
    builder.AddListeningPort(local, grpc::InsecureServerCredentials());
  }
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || (!address.unix_socket && port == 0)) {
    return CannotListen(options.address, address);
  }
  if (grpc::HealthCheckServiceInterface* health = server->GetHealthCheckService()) {
    health->SetServingStatus(true);
  }
  std::string bound = options.address;
  if (!address.unix_socket) bound = StrCat(bound.substr(0, bound.rfind(':')), ":", port);
  return std::unique_ptr<Server>(new Server(std::move(server), std::move(bound), port));
}

Server::~Server() { Shutdown(absl::ZeroDuration()); }

void Server::Shutdown(absl::Duration grace) {
  if (grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService()) {
    health->SetServingStatus(false);
  }
  server_->Shutdown(std::chrono::system_clock::now() + absl::ToChronoNanoseconds(grace));
  server_->Wait();
}

}  // namespace tandem::rpc
