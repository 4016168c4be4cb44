// SimWorker: a worker process: the real WorkerCore in a virtual shell, with virtual executors. It
// can crash, pause, and lose its connection.
//
// Thread-safety: none.
#ifndef TANDEM_TESTS_SIM_SIM_WORKER_H_
#define TANDEM_TESTS_SIM_SIM_WORKER_H_

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "master/core/events.h"
#include "tests/sim/network.h"
#include "tests/sim/sim_executor.h"
#include "tests/sim/world.h"
#include "worker/core/worker_core.h"

namespace tandem::sim {

class SimMaster;

class SimWorker {
 public:
  SimWorker(World* world, SimMaster* master, std::string name);

  void Start();
  // The process dies, its executors with it.
  void Crash();
  // Its loop stands still; executors go on.
  void Pause(absl::Duration time);
  void KillAnExecutor();
  // One of its devices, if it has any, is out of service for so long.
  void TroubleADevice(absl::Duration time);
  void MendDevices();
  void BreakConnection();
  // Nothing passes in these directions for a while.
  void Partition(bool to_master, bool to_worker, absl::Duration time);

  // From the master, in order.
  void OnDescribed(JobId job, std::shared_ptr<const BoundJob> bound);
  void OnEvent(worker::Event event);
  // The master ended the connection.
  void OnConnectionClosed(const ConnectionPtr& connection);

  bool up() const { return up_; }
  const std::string& name() const { return name_; }
  std::string Summary() const;

 private:
  void FindDevices();
  void Connect();
  void Wake();
  void Loop();
  void Act(worker::Effects effects);
  void Attach(const worker::SendHello& hello);
  void ToExecutor(const worker::StartExecutor& e);
  void ToExecutor(const worker::KillExecutor& e);
  void ToExecutor(const worker::SetupJob& e);
  void ToExecutor(const worker::RunPiece& e);
  void ToExecutor(const worker::RunMerge& e);
  void ToExecutor(const worker::CancelPiece& e);
  void ToExecutor(const worker::ShrinkPiece& e);
  void ToExecutor(const worker::FlushJob& e);
  void ToExecutor(const worker::DiscardAccumulator& e);
  void ToExecutor(const worker::ForgetJob& e);
  void ToExecutor(const worker::ReleaseStaging&) {}
  void ToExecutor(const worker::CloseStaging& e);
  void Push(const worker::PushRegion& push);
  void SetTimer(MonoTime at);
  // Runs `action` later if the process has not died meanwhile.
  void Later(absl::Duration delay, std::function<void()> action);

  World* world_;
  SimMaster* master_;
  std::string name_;
  bool up_ = false;
  uint64_t life_ = 0;
  uint64_t max_epoch_ = 0;
  std::unique_ptr<worker::WorkerCore> core_;
  ConnectionPtr connection_;
  std::vector<worker::Event> events_;
  bool awake_ = false;
  MonoTime paused_until_;
  MonoTime timer_;
  std::map<worker::ExecutorId, std::shared_ptr<SimExecutor>> executors_;
  std::map<JobId, std::shared_ptr<const BoundJob>> jobs_;
  std::vector<worker::Suspect> leftovers_;  // Of former lives, until it is acknowledged.
};

}  // namespace tandem::sim

#endif  // TANDEM_TESTS_SIM_SIM_WORKER_H_
