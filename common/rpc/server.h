// Server: a gRPC server as every process of Tandem runs it.
//
//   ASSIGN_OR_RETURN(auto server, rpc::Server::Start({.address = "127.0.0.1:7460"}, services));
//   server->address();      // "127.0.0.1:7460", the port chosen where 0 was asked for
//   server->Shutdown(absl::Seconds(2));
//
// It binds loopback; anything else needs `insecure`, because there is no TLS. Two servers never
// share a port (GRPC_ARG_ALLOW_REUSEPORT=0). grpc.health.v1 and reflection are on.
//
// Thread-safety: safe from any thread. Ownership: services outlive the server.
#ifndef TANDEM_COMMON_RPC_SERVER_H_
#define TANDEM_COMMON_RPC_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "grpcpp/server.h"

namespace tandem::rpc {

struct ServerOptions {
  std::string address;                  // "host:port" or "unix:/path"; port 0: any free one.
  bool insecure = false;                // Listen beyond loopback without TLS.
  std::vector<std::string> also_local;  // More addresses: unix sockets for readers on this host.
};

class Server {
 public:
  // Errors: INVALID_ARGUMENT (BAD_ARGUMENT); FAILED_PRECONDITION (INSECURE); UNAVAILABLE
  // (ADDRESS_IN_USE); each with what to do.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options,
                                                       absl::Span<grpc::Service* const> services);
  // What Start would say of the address alone, now. Nothing is left listening.
  static absl::Status CheckAddress(const ServerOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const std::string& address() const { return address_; }
  int port() const { return port_; }

  // Refuses new calls, gives those that run `grace` to end, then cancels them.
  void Shutdown(absl::Duration grace);

 private:
  Server(std::unique_ptr<grpc::Server> server, std::string address, int port)
      : server_(std::move(server)), address_(std::move(address)), port_(port) {}

  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  int port_ = 0;
};

}  // namespace tandem::rpc

#endif  // TANDEM_COMMON_RPC_SERVER_H_
