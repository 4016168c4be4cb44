// Wall time and job states as the protos have them.
//
// Thread-safety: pure functions.
#ifndef TANDEM_MASTER_SERVER_TIMESTAMPS_H_
#define TANDEM_MASTER_SERVER_TIMESTAMPS_H_

#include "absl/time/time.h"
#include "google/protobuf/timestamp.pb.h"
#include "master/core/events.h"
#include "tandem/v1/jobs.pb.h"

namespace tandem::master {

inline void EncodeTime(absl::Time from, google::protobuf::Timestamp* to) {
  absl::Duration rest;
  to->set_seconds(absl::IDivDuration(from - absl::UnixEpoch(), absl::Seconds(1), &rest));
  if (rest < absl::ZeroDuration()) {
    to->set_seconds(to->seconds() - 1);
    rest += absl::Seconds(1);
  }
  to->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
}
inline absl::Time DecodeTime(const google::protobuf::Timestamp& from) {
  return absl::UnixEpoch() + absl::Seconds(from.seconds()) + absl::Nanoseconds(from.nanos());
}

inline v1::JobState EncodeState(JobState state) {
  static_assert(static_cast<int>(JobState::kPending) + v1::PENDING == v1::PENDING);
  static_assert(static_cast<int>(JobState::kCancelled) + v1::PENDING == v1::CANCELLED);
  return static_cast<v1::JobState>(static_cast<int>(state) + v1::PENDING);
}
inline v1::WaitReason EncodeWaitReason(WaitReason reason) {
  static_assert(static_cast<int>(WaitReason::kNone) == v1::WAIT_REASON_UNSPECIFIED);
  static_assert(static_cast<int>(WaitReason::kDrained) == v1::DRAINED);
  return static_cast<v1::WaitReason>(reason);
}
inline bool HasEnded(JobState state) { return state >= JobState::kSucceeded; }

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_TIMESTAMPS_H_
