// WorkerStream: one worker's control stream (tandem.worker.v1.WorkerControl/Attach).
//
// Reading: messages are decoded and checked on gRPC's threads and handed to the inbox as events; at
// most kUnhandledMax messages wait there, then the stream stops reading. Writing: one write is
// outstanding; what is sent meanwhile is merged into the next message (natural batching).
//
// Life: Hello (alone) -> the loop answers Welcome() or Close(status) -> anything.
//
// Thread-safety: Send, Close, Welcome and Handled from any thread. Ownership: shared by gRPC (until
// OnDone), the hub and events on their way.
#ifndef TANDEM_MASTER_SERVER_WORKER_STREAM_H_
#define TANDEM_MASTER_SERVER_WORKER_STREAM_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"
#include "common/data/segment_store.h"
#include "common/model/bound_job.h"
#include "common/model/ids.h"
#include "common/wire/session.h"
#include "grpcpp/support/server_callback.h"
#include "master/core/events.h"
#include "master/server/job_board.h"
#include "tandem/worker/v1/worker.grpc.pb.h"

namespace tandem::master {

class WorkerStream;

// What one message says.
struct FromWorker {
  WorkerId worker;
  std::vector<Event> events;
  std::map<std::string, uint64_t> counters;  // Grown by.
  std::vector<v1::JobUsage> usages;          // The same; before the events.
  std::optional<worker::v1::WorkerNotes> notes;
  std::optional<std::vector<DeviceReading>> readings;  // Of its GPUs; with each heartbeat.
};

// Where a stream's messages go: the event loop.
class WorkerInbox {
 public:
  virtual ~WorkerInbox() = default;
  virtual void OnHello(std::shared_ptr<WorkerStream> stream, wire::WorkerHello hello) = 0;
  // Call stream->Handled() once the message is handled.
  virtual void OnMessage(std::shared_ptr<WorkerStream> stream, FromWorker message) = 0;
  virtual void OnGone(std::shared_ptr<WorkerStream> stream) = 0;
};

class WorkerStream final
    : public grpc::ServerBidiReactor<worker::v1::WorkerMessage, worker::v1::MasterMessage>,
      public std::enable_shared_from_this<WorkerStream> {
 public:
  static constexpr int kUnhandledMax = 4;
  static constexpr size_t kCountersMax = 256;
  static constexpr int kFindingsMax = 64;
  static constexpr int kLateMax = 16;
  static constexpr int kReadingsMax = 1024;
  // Messages waiting to be written are merged up to this size.
  static constexpr size_t kMergedBytesMax = 512 << 10;
  // More than this waiting means that the worker does not read: it is cut off.
  static constexpr size_t kWaitingBytesMax = 64 << 20;

  // All of them outlive the stream.
  struct Parts {
    WorkerInbox* inbox = nullptr;
    const JobBoard* board = nullptr;
    const SegmentStore* segments = nullptr;  // Where what is reported as pushed lies.
    const Clock* clock = nullptr;
  };
  // `peer`: where the worker calls from, as gRPC writes it.
  static std::shared_ptr<WorkerStream> Start(const Parts& parts, std::string_view peer);

  // The host that the worker calls from: "10.0.0.7".
  const std::string& host() const { return host_; }

  // The worker is accepted as `worker`: reading goes on.
  void Welcome(WorkerId worker);
  void Send(worker::v1::MasterMessage message);
  // Ends the call; later calls do nothing.
  void Close(const absl::Status& status);
  void Handled();

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override { Close(absl::CancelledError("the worker is gone")); }
  void OnDone() override;

 private:
  struct Waiting {
    worker::v1::MasterMessage message;
    size_t bytes = 0;
  };

  WorkerStream(const Parts& parts, std::string host) : parts_(parts), host_(std::move(host)) {}

  absl::Status TakeHello();
  absl::Status TakeMessage(FromWorker* message);
  absl::Status TakeReport(worker::v1::Report* report, std::vector<Event>* events);
  absl::Status CheckReport(const Report& report);
  absl::Status CheckRegions(const BoundJob& job, const CommitOutputs* outputs) const;
  void TakePulse(std::vector<Event>* events);
  absl::Status TakeReadings(FromWorker* message);
  static absl::Status CheckNotes(const worker::v1::WorkerNotes& notes);

  // What gRPC is asked next, and asking it: one thread at a time, without the lock, so that nothing
  // is started behind the end of the call.
  enum class Action { kNone, kRead, kWrite, kFinish };
  Action NextAction() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Drive();

  const Parts parts_;
  const std::string host_;
  std::shared_ptr<WorkerStream> self_;  // Until OnDone.

  // Of the outstanding read, and of the thread that handles it.
  worker::v1::WorkerMessage incoming_;
  uint64_t last_pulse_ = 0;
  std::shared_ptr<const JobAccepted> last_job_;

  worker::v1::MasterMessage outgoing_;  // Of the outstanding write.

  absl::Mutex mu_;
  WorkerId worker_ ABSL_GUARDED_BY(mu_);
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mu_);
  size_t waiting_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  int unhandled_ ABSL_GUARDED_BY(mu_) = 0;
  bool greeted_ ABSL_GUARDED_BY(mu_) = false;  // Hello has come.
  bool reading_ ABSL_GUARDED_BY(mu_) = false;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool driving_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_WORKER_STREAM_H_
