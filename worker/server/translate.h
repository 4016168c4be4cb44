// Between the core's events and effects and the executors' messages (executor.proto), and what the
// core must know of a job.
//
// Thread-safety: ToExecutorBuilder belongs to one thread; the functions are pure.
#ifndef TANDEM_WORKER_SERVER_TRANSLATE_H_
#define TANDEM_WORKER_SERVER_TRANSLATE_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/wire/session.h"
#include "tandem/executor/v1/executor.pb.h"
#include "worker/core/events.h"
#include "worker/ring/staging.h"

namespace tandem::worker {

// What the core needs of a description. Errors: those of ValidateAndBind: the job cannot be run.
absl::StatusOr<JobDescribed> Describe(wire::JobDescription description);
// The least that lets the core refuse a job that cannot be described.
JobDescribed DescribeRefused(const wire::JobDescription& description);

// Turns a message into events, in the order in which they happened. Takes the message's strings.
// Errors: DATA_LOSS for what no sound executor says (an unreadable output, bytes that are not in
// its staging file): it must be restarted.
absl::Status ToEvents(ExecutorId executor, const StagingFile& staging,
                      executor::v1::FromExecutor* message, std::vector<Event>* events);

// Gathers effects into as few messages as keep their order. An executor does what one message says
// in this order: releases, setups, discards, cancels, runs, shrinks, merges, flushes, forgets.
class ToExecutorBuilder {
 public:
  using Send = absl::FunctionRef<void(const executor::v1::ToExecutor&)>;

  void Add(const SetupJob&, const executor::v1::JobSetup& setup, Send send);
  void Add(const DiscardAccumulator& effect, Send send);
  void Add(const CancelPiece& effect, Send send);
  void Add(RunPiece effect, Send send);
  void Add(const ShrinkPiece& effect, Send send);
  void Add(const RunMerge& effect, Send send);
  void Add(const FlushJob& effect, Send send);
  void Add(const ForgetJob& effect, Send send);
  void Add(const ReleaseStaging& effect);
  // Sends what is gathered.
  void Finish(Send send);

 private:
  enum Rank { kNothing, kSetup, kDiscard, kCancel, kRun, kShrink, kMerge, kFlush, kForget };
  executor::v1::ToExecutor* At(Rank rank, Send send);

  executor::v1::ToExecutor message_;
  Rank last_ = kNothing;
  bool empty_ = true;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_SERVER_TRANSLATE_H_
