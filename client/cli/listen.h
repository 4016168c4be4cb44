// Is an address free to listen at?
//
// Thread-safety: a pure function but for the port, which it holds for a moment.
#ifndef TANDEM_CLIENT_CLI_LISTEN_H_
#define TANDEM_CLIENT_CLI_LISTEN_H_

#include "common/rpc/channel.h"

namespace tandem::cli {

// 0, or the errno with which the address cannot be listened at. REQUIRES: no unix socket.
int TryListen(const rpc::Address& address);

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_LISTEN_H_
