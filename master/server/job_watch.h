// JobWatch: answers one WatchJob call with a job's durable states until it has ended.
//
// One write is outstanding. Progress that comes meanwhile is merged: of states that differ in
// numbers only the last is sent. A reader that leaves one write unfinished for `stall_max` while
// states wait, or lets more than `waiting_max` changes of state wait, is cut off (ABORTED
// SLOW_CONSUMER): it watches again from the last sequence.
//
// Thread-safety: as gRPC's reactors and JobWatcher. Ownership: shared by gRPC (until OnDone) and
// the board; the board outlives the call.
#ifndef TANDEM_MASTER_SERVER_JOB_WATCH_H_
#define TANDEM_MASTER_SERVER_JOB_WATCH_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "grpcpp/support/server_callback.h"
#include "master/server/job_board.h"
#include "tandem/v1/jobs.pb.h"

namespace tandem::master {

struct WatchLimits {
  size_t waiting_max = 16;
  absl::Duration stall_max = absl::Seconds(10);
};

class JobWatch final : public grpc::ServerWriteReactor<v1::Job>,
                       public JobWatcher,
                       public std::enable_shared_from_this<JobWatch> {
 public:
  static std::shared_ptr<JobWatch> Start(JobBoard* board, const Clock* clock, WatchLimits limits,
                                         uint64_t after_sequence);
  // Begins with the present state. Errors: NOT_FOUND; the call is then over.
  void Watch(JobId job, const std::string& owner);
  // A job that only history knows: its last state is all there is.
  void ShowEnded(const JobView& view);
  void Close(const absl::Status& status);

  void Offer(const JobView& view) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override { Close(absl::CancelledError("the watcher is gone")); }
  void OnDone() override;

 private:
  JobWatch(JobBoard* board, const Clock* clock, WatchLimits limits, uint64_t after_sequence)
      : board_(board), clock_(clock), limits_(limits), last_sequence_(after_sequence) {}

  enum class Action { kNone, kWrite, kFinish };
  Action NextAction() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Drive();

  JobBoard* const board_;
  const Clock* const clock_;
  const WatchLimits limits_;
  std::shared_ptr<JobWatch> self_;  // Until OnDone.
  JobId job_;

  v1::Job outgoing_;  // Of the outstanding write.

  absl::Mutex mu_;
  std::deque<JobView> waiting_ ABSL_GUARDED_BY(mu_);
  uint64_t last_sequence_ ABSL_GUARDED_BY(mu_);
  bool first_ ABSL_GUARDED_BY(mu_) = true;  // Nothing has been written.
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  MonoTime writing_since_ ABSL_GUARDED_BY(mu_);
  bool driving_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_JOB_WATCH_H_
