// HostId: two processes with the same one can open each other's files by path.
//
// Thread-safety: a pure function of the process.
#ifndef TANDEM_COMMON_DATA_HOST_ID_H_
#define TANDEM_COMMON_DATA_HOST_ID_H_

#include <string>

namespace tandem {

// The kernel's boot id and this process's mount namespace; "" where the system tells neither, which
// equals nobody's.
std::string HostId();

}  // namespace tandem

#endif  // TANDEM_COMMON_DATA_HOST_ID_H_
