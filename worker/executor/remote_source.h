// RemoteSource: an OperandSource over the Data service (common/data), one channel an address.
//
// Thread-safety: as OperandSource; the factory may be called from any thread.
#ifndef TANDEM_WORKER_EXECUTOR_REMOTE_SOURCE_H_
#define TANDEM_WORKER_EXECUTOR_REMOTE_SOURCE_H_

#include <string>

#include "worker/executor/operand_source.h"

namespace tandem::worker {

// Sources that speak for `owner`.
OperandSources RemoteSources(std::string owner);

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_REMOTE_SOURCE_H_
