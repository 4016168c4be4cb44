// The executor's loop: messages in from the ring, work on, messages out.
//
// Thread-safety: Serve runs on one thread and owns the channel's reading and writing meanwhile.
#ifndef TANDEM_WORKER_EXECUTOR_SERVE_H_
#define TANDEM_WORKER_EXECUTOR_SERVE_H_

#include <functional>

#include "absl/status/status.h"
#include "worker/executor/executor.h"
#include "worker/ring/channel.h"

namespace tandem::worker {

// Runs until a shutdown message (OK), or until the channel or the executor breaks (their error), or
// `orphaned` says, when asked about once a second, that nobody is at the other end (CANCELLED).
absl::Status Serve(Channel* channel, Executor* executor, const std::function<bool()>& orphaned);

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_SERVE_H_
