#include "worker/executor/serve.h"

#include <poll.h>

#include "common/base/error.h"
#include "common/base/status_macros.h"

namespace tandem::worker {
namespace {

constexpr int kLookMillis = 1000;

// Waits until the ring or another thread has something, or it is time to look around.
absl::Status Sleep(Channel* channel, Executor* executor) {
  if (!executor->PrepareToSleep()) return absl::OkStatus();
  absl::StatusOr<bool> may_sleep = channel->PrepareToSleep();
  if (may_sleep.ok() && *may_sleep) {
    pollfd fd = {channel->wake_fd(), POLLIN, 0};
    (void)poll(&fd, 1, kLookMillis);
  }
  executor->Awake();
  RETURN_IF_ERROR(channel->Awake());
  return may_sleep.status();
}

}  // namespace

absl::Status Serve(Channel* channel, Executor* executor, const std::function<bool()>& orphaned) {
  executor::v1::ToExecutor message;
  executor::v1::FromExecutor reply;
  executor->SayReady();
  while (true) {
    bool moved = false;
    while (true) {
      ASSIGN_OR_RETURN(const bool received, channel->Receive(&message));
      if (!received) break;
      executor->Handle(&message);
      moved = true;
    }
    moved |= executor->Pump();
    RETURN_IF_ERROR(executor->health());
    if (executor->TakeReply(&reply)) {
      RETURN_IF_ERROR(channel->Send(reply));
      moved = true;
    }
    if (executor->finished() && channel->outbox_bytes() == 0) return absl::OkStatus();
    if (moved) continue;
    if (orphaned()) return absl::CancelledError("the worker that started this executor is gone");
    RETURN_IF_ERROR(Sleep(channel, executor));
  }
}

}  // namespace tandem::worker
