// SimMaster: a master process and its disk: the real MasterCore in a virtual shell with a committer
// whose syncs take time. It can crash (whatever was not synced may or may not be there afterwards),
// restart from its log or from a snapshot, and pause.
//
// Thread-safety: none.
#ifndef TANDEM_TESTS_SIM_SIM_MASTER_H_
#define TANDEM_TESTS_SIM_SIM_MASTER_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "master/core/core.h"
#include "tests/sim/auditor.h"
#include "tests/sim/network.h"
#include "tests/sim/world.h"

namespace tandem::sim {

class SimWorker;

class SimMaster {
 public:
  SimMaster(World* world, Auditor* auditor);

  void Start();
  void Crash();
  void Pause(absl::Duration time);
  bool up() const { return up_; }

  // From workers.
  // Null when the master is down.
  ConnectionPtr Connect(SimWorker* worker);
  void OnConnectionBroken(const ConnectionPtr& connection);
  void OnAttach(const ConnectionPtr& connection, master::WorkerAttach attach);
  void OnReport(const ConnectionPtr& connection, const Report& report);
  void OnHeartbeat(const ConnectionPtr& connection);
  // Appends to a segment; false when the master is down.
  bool Push(const std::string& bytes, Region* region);

  // From owners.
  // `answered` is called at most once; never if the master crashes first.
  using Answered = std::function<void(const absl::StatusOr<JobId>&)>;
  void Submit(master::SubmitJob submit, Answered answered);
  void Cancel(JobId job, std::string owner, Answered answered);
  void Drain(const std::string& worker, bool drain);

  std::string Summary() const;

 private:
  struct Stream {
    ConnectionPtr connection;
    SimWorker* worker = nullptr;
    WorkerId id;
  };
  // Effects that wait for a commit.
  struct Waiting {
    uint64_t row = 0;
    std::vector<JobId> accepted;
    std::vector<master::DropJob> drops;
    std::vector<master::AckReport> acks;
    std::vector<master::Reply> replies;
    std::vector<master::JobStatus> statuses;
  };

  void Post(master::Event event);
  void Wake();
  void Loop();
  void Act(master::Effects effects);
  void SendTo(WorkerId worker, std::function<void(SimWorker*)> deliver);
  void SendWelcome(const master::WelcomeWorker& welcome,
                   const std::vector<master::DescribeJob>& describes);
  void EndStream(uint64_t token);
  void SendMessage(const master::ToWorker& message);
  void Sync();
  void Synced(size_t rows);
  void Release();
  void ReleaseOne(const Waiting& waiting);
  void Durable(std::vector<master::Record> row);
  void SetTimer(MonoTime at);
  void Later(absl::Duration delay, std::function<void()> action);
  std::unique_ptr<master::MasterCore> Replayed(bool from_snapshot);
  Stream* StreamOf(WorkerId worker);

  World* world_;
  Auditor* auditor_;
  master::Options options_;

  // The disk.
  std::vector<master::Record> durable_;
  uint64_t epoch_ = 0;

  // The process.
  bool up_ = false;
  uint64_t life_ = 0;
  std::unique_ptr<master::MasterCore> core_;
  std::vector<master::Event> events_;
  bool awake_ = false;
  MonoTime paused_until_;
  MonoTime timer_;
  std::map<JobId, std::shared_ptr<const BoundJob>> bounds_;
  std::map<uint64_t, Stream> streams_;  // By token.
  std::map<uint64_t, Answered> answers_;
  std::deque<std::vector<master::Record>> unsynced_;
  uint64_t rows_made_ = 0;
  uint64_t rows_durable_ = 0;
  bool syncing_ = false;
  std::deque<Waiting> waiting_;
  uint64_t next_token_ = 1;
  uint64_t segment_end_ = 0;
};

}  // namespace tandem::sim

#endif  // TANDEM_TESTS_SIM_SIM_MASTER_H_
