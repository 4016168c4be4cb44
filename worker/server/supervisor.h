// Supervisor: the shell around a WorkerCore: one loop thread that owns the core, the executors and
// the stream to the master.
//
//   Supervisor supervisor(options, std::move(identity), clock);
//   return supervisor.Run();          // until told to stop, or for good reason
//
// Each round takes what gRPC's threads queued, what executors wrote into their rings and what
// signals came, steps the core through all of it, acts on the effects at once, and sleeps only when
// nobody has anything to say. What is ready meanwhile makes the next batch.
//
// Thread-safety: Run is called once, by the thread that lives as long as the program.
#ifndef TANDEM_WORKER_SERVER_SUPERVISOR_H_
#define TANDEM_WORKER_SERVER_SUPERVISOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/unique_fd.h"
#include "common/probe/device_report.h"
#include "worker/core/worker_core.h"
#include "worker/device/nvml/nvml_monitor.h"
#include "worker/server/backoff.h"
#include "worker/server/control_stream.h"
#include "worker/server/cuda_search.h"
#include "worker/server/event_queue.h"
#include "worker/server/executor_fleet.h"
#include "worker/server/identity.h"
#include "worker/server/learned_file.h"
#include "worker/server/notes.h"
#include "worker/server/options.h"
#include "worker/server/pushers.h"

namespace tandem::worker {

class Supervisor {
 public:
  Supervisor(const WorkerOptions& options, Identity identity, Clock* clock);
  ~Supervisor();

  // OK after SIGTERM or SIGINT (a second one ends it at once). Errors: FAILED_PRECONDITION
  // (VERSION_SKEW) when the master speaks another protocol; those of starting the first executor.
  absl::Status Run();

 private:
  // supervisor_devices.cc
  absl::Status FindKernels();
  // Errors: INVALID_ARGUMENT when jobs may use more of a device's memory than it has.
  absl::Status FindEmulated();
  absl::Status FindCuda(CudaSearch* search);
  void WarnOfUnknownDevices();
  void WatchGpus();
  // Beside the CPU; `ready`: as its executor, or that of one of the same kind, has said.
  absl::Status AddDevice(const std::string& name, const std::string& uuid,
                         const executor::v1::Ready& ready);
  // What executors on these devices say of themselves, or why they did not start: they are started
  // at the same time, asked, and ended.
  using Answers = std::vector<absl::StatusOr<executor::v1::Ready>>;
  Answers AskExecutors(const std::vector<std::string>& devices);
  absl::Status WhyNotReady(const std::string& device, const std::string& how) const;
  void EndAsked(size_t count);
  void LookAtMask();
  void LookAtNvml();
  void AddReadings(worker::v1::WorkerMessage* message) const;
  void NoteTrouble(const DeviceTroubled& event);
  void TakeKernels(const executor::v1::Ready& ready, bool announce);
  static std::string IdentityOf(const tandem::v1::Kernel& kernel);
  // supervisor_learned.cc
  void NoteHardware(const std::string& name, const tandem::v1::Device& device);
  // After all devices and kernels were found.
  void RecallLearned();
  // Seldom, unless `now`.
  void KeepLearned(bool now);
  void Collect();
  void Handle(StreamMessage event);
  void Handle(StreamClosed event);
  void Handle(Pushed event) { pushers_.Handle(std::move(event), &events_); }
  void Handle(GpuNews event);  // supervisor_devices.cc
  void Handle(PushesBroken event) { pushers_.Handle(std::move(event), &events_); }
  absl::Status TakeMessage(worker::v1::MasterMessage* message);
  void TakeDrain(bool drain);
  absl::Status TakeWelcome(worker::v1::Welcome* welcome);
  absl::Status TakeJob(worker::v1::JobDescription* description);
  void TakeSignals();
  void StepCore();
  void Act(Effects* effects);
  void SayHello(const SendHello& hello);
  void AddCounters(worker::v1::WorkerMessage* message);
  void AddUsage(worker::v1::WorkerMessage* message);
  void NoteWhatIsLate();
  void Connect();
  // Is this worth a line of the log: is it news, or was it last said long ago?
  bool IsNews(const std::string& trouble);
  void Disconnect(const absl::Status& why);
  void Sleep();
  void Leave();

  const WorkerOptions options_;
  const Identity identity_;
  Clock* const clock_;
  const std::shared_ptr<EventQueue> queue_;
  UniqueFd signals_;
  LearnedKeeper keeper_;
  WorkerCore core_;
  ExecutorFleet fleet_;
  Pushers pushers_;
  Backoff backoff_;

  std::vector<Event> events_;  // for the core's next step
  ExecutorFleet::Setups setups_;
  MonoTime core_deadline_;
  MonoTime connect_at_;
  std::unique_ptr<ControlStream> stream_;
  uint64_t last_stream_ = 0;
  std::string trouble_;  // with the master, as last logged
  MonoTime trouble_at_;
  bool welcomed_ = false;  // on this stream
  bool draining_ = false;  // as this stream last said
  uint64_t pulse_ = 0;     // to be echoed
  std::map<std::string, uint64_t> counters_told_;

  std::string host_id_;
  std::vector<tandem::v1::Device> devices_;
  std::vector<ReportedDevice> gpus_;             // those of them that CUDA drives
  std::map<std::string, std::string> hardware_;  // by the name of the device
  uint64_t kept_version_ = 0;                    // of what the core has learned
  MonoTime keep_at_;
  bool keep_now_ = false;
  std::vector<tandem::v1::Kernel> kernels_;
  std::set<std::pair<std::string, uint64_t>> announced_;
  std::vector<tandem::v1::Kernel> to_announce_;
  int stops_ = 0;  // signals that asked to stop
  bool done_ = false;
  absl::Status result_;
  std::unique_ptr<NvmlMonitor> nvml_;  // where there are GPUs
  MonoTime nvml_look_at_ = MonoTime::InfiniteFuture();
  std::string nvml_trouble_;  // as last logged; "": none
  Notes notes_;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_SERVER_SUPERVISOR_H_
