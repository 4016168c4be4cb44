#include "client/cli/listen.h"

#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>

#include "common/base/strings.h"
#include "common/base/unique_fd.h"

namespace tandem::cli {

int TryListen(const rpc::Address& address) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.host.c_str(), StrCat(address.port).c_str(), &hints, &found) != 0) {
    return EADDRNOTAVAIL;
  }
  const UniqueFd fd(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;  // a connection that has just ended does not count
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool listens =
      bind(fd.get(), found->ai_addr, found->ai_addrlen) == 0 && listen(fd.get(), 1) == 0;
  const int error = listens ? 0 : errno;
  freeaddrinfo(found);
  return error;
}

}  // namespace tandem::cli
