// WorkerHub: the workers' streams as the event loop sees them: who is attached over which stream,
// what goes to whom, and what people may want to know of each.
//
//   hub.SendNow(effects);      // describes, to_workers, drains
//   hub.SendDurable(effects);  // drops, acks
//   hub.Flush();               // one message a worker
//
// Thread-safety: one thread, the loop's. Ownership: shares streams with gRPC.
#ifndef TANDEM_MASTER_SERVER_WORKER_HUB_H_
#define TANDEM_MASTER_SERVER_WORKER_HUB_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/model/ids.h"
#include "common/wire/session.h"
#include "master/core/events.h"
#include "master/server/job_board.h"
#include "master/server/job_ledger.h"
#include "master/server/worker_stream.h"
#include "tandem/worker/v1/worker.pb.h"

namespace tandem::master {

// What a worker said of itself, for lists.
struct WorkerProfile {
  std::string name;
  std::string version;
  std::string address;  // The host that it calls from.
  std::vector<DeviceInfo> devices;
  // The last of each kernel, extents and device, and when it was said; the latest last.
  std::vector<std::pair<KernelRate, absl::Time>> rates;
  absl::Time attached;
  absl::Time last_heard;
  // What it did since this master started.
  uint64_t leaves_done = 0;
  v1::Usage usage;
  uint64_t executors_lost = 0;
  worker::v1::WorkerNotes notes;  // As it said last, in this session.
};

class WorkerHub final : public WorkerLooks {
 public:
  // Workers that are no longer attached and still remembered.
  static constexpr size_t kProfilesMax = 8192;
  static constexpr size_t kCountersMax = 1024;
  static constexpr size_t kRatesMax = 4096;  // Of a worker.

  // `handover`: where workers on the host of `host_id` hand memory over; "": nowhere.
  WorkerHub(const JobBoard* board, std::string cluster_id, std::string host_id,
            std::string handover)
      : board_(board),
        cluster_id_(std::move(cluster_id)),
        host_id_(std::move(host_id)),
        handover_(std::move(handover)) {}

  // A stream that has said hello; `token` names it to the core.
  void Greet(RequestToken token, std::shared_ptr<WorkerStream> stream, wire::WorkerHello hello,
             absl::Time now);
  // The core refused it.
  void Reject(RequestToken token, const absl::Status& status);
  // The stream is over. Returns the worker and token of its core's name, if it had been welcomed.
  struct Gone {
    WorkerId worker;
    RequestToken token = 0;
  };
  Gone Remove(const WorkerStream* stream);

  // Returns what the core took for attached although its stream was over by then.
  std::vector<Gone> SendNow(const Effects& effects);
  void SendDurable(const std::vector<DropJob>& drops, const std::vector<AckReport>& acks);
  // To every worker: measures round trips, shows that the master lives.
  void Pulse(MonoTime now);
  // Sends what has gathered.
  void Flush();
  void CloseAll(const absl::Status& status);

  // Tells the worker, which answers in a report. `done` is called once: OK then, UNAVAILABLE
  // (WORKER_LOST) when it is not attached, or no more, or this ends before.
  void ForgetRates(WorkerId worker, const std::string& kernel,
                   std::function<void(const absl::Status&)> done);

  // For lists.
  void NoteReport(WorkerId worker, const Report& report, absl::Time now);
  // A message came, and what it says of work done.
  void NoteMessage(const FromWorker& message, absl::Time now);
  // Of all workers since this master started, by name.
  const std::map<std::string, uint64_t>& counters() const { return counters_; }
  const WorkerProfile* Profile(WorkerId worker) const;
  WorkerLook LookAt(WorkerId worker, v1::DeviceKind device) const override;
  std::vector<WorkerId> Attached() const;

 private:
  struct Peer {
    RequestToken token = 0;
    std::shared_ptr<WorkerStream> stream;
    worker::v1::MasterMessage draft;
    bool drafted = false;
    bool drain = false;
    std::map<uint64_t, std::function<void(const absl::Status&)>> forgetting;  // By number.
  };
  struct Greeted {
    std::shared_ptr<WorkerStream> stream;
    WorkerProfile profile;
  };

  // False: the stream is over.
  bool Welcome(const WelcomeWorker& welcome, const std::vector<DescribeJob>& describes);
  void PruneProfiles();
  static void NoteRates(const Report& report, absl::Time now, WorkerProfile* profile);
  static void EndForgetting(Peer* peer, uint64_t up_to, const absl::Status& status);
  void NoteCounters(const std::map<std::string, uint64_t>& grown);
  worker::v1::MasterMessage* Draft(WorkerId worker);
  void Describe(JobId job, worker::v1::JobDescription* to) const;
  void AddTo(worker::v1::MasterMessage* draft, const ToWorker& message) const;

  const JobBoard* const board_;
  const std::string cluster_id_;
  const std::string host_id_;
  const std::string handover_;
  std::map<RequestToken, Greeted> greeted_;
  std::map<WorkerId, Peer> peers_;
  std::map<WorkerId, WorkerProfile> profiles_;
  std::map<std::string, uint64_t> counters_;
  std::vector<WorkerId> drafted_;  // With something to flush.
  uint64_t last_forget_ = 0;
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_WORKER_HUB_H_
