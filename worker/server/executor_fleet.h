// ExecutorFleet: the live executors of a worker: starts them, carries the core's effects to them
// and what they say back, and notices when they end.
//
//   fleet.Apply(&effects, setups, &events);     // events: what went wrong at once
//   fleet.Collect(&events);                     // what they said, who has ended
//   fleet.AddPollFds(&fds);                     // where to sleep, once PrepareToSleep() is true
//
// An executor that does not get ready in time, says something impossible or stops reading is
// killed; that reaches the core as its loss, like any crash, with the suspects of its start page.
// So is one that ran something for longer than its job's time limit; then only that is a suspect.
// One that does not die of it (its driver holds it) is lost all the same after a while: nobody
// waits for it, and the device that it drives is out of service until it has died after all.
//
// Thread-safety: the loop's thread. Ownership: owns the processes; staging of a lost executor is
// kept until the core closes it.
#ifndef TANDEM_WORKER_SERVER_EXECUTOR_FLEET_H_
#define TANDEM_WORKER_SERVER_EXECUTOR_FLEET_H_

#include <poll.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/data/handover.h"
#include "common/model/gpu_memory.h"
#include "common/wire/usage.h"
#include "tandem/executor/v1/executor.pb.h"
#include "worker/core/events.h"
#include "worker/ring/launch.h"
#include "worker/server/executor_process.h"
#include "worker/server/identity.h"
#include "worker/server/translate.h"

namespace tandem::worker {

struct FleetOptions {
  std::string program;
  std::string cuda_program;  // for devices of CUDA
  ExecutorLaunch launch;     // what is the same for all: cores, groups, cache
  GpuMemory gpu_memory;      // of each device
  absl::Duration ready_max = absl::Seconds(30);
  // Between two looks for what runs too long.
  absl::Duration look_min = absl::Milliseconds(5);
  absl::Duration look_max = absl::Seconds(1);
  absl::Duration die_max = absl::Seconds(10);  // from a kill to the end
};

// What a thread or a grid is at, and for how long at least.
struct LateStart {
  std::string device;
  Started started;
  absl::Duration running;
};

// The name within a device's: "GPU-1f0e…" of "cuda:GPU-1f0e…".
std::string_view UuidOf(std::string_view device);

// What a start page says, in the core's terms.
Suspect SuspectOf(const Started& started);

class ExecutorFleet {
 public:
  using Setups = std::map<JobId, executor::v1::JobSetup>;

  ExecutorFleet(FleetOptions options, const Identity* identity, Clock* clock)
      : options_(std::move(options)), identity_(identity), clock_(clock) {}

  // For executors started from now on.
  void UseKernelLibraries(std::vector<std::string> files) { kernel_libraries_ = std::move(files); }
  // Do devices of this worker share its cores? For executors started from now on.
  void HasDevices(bool has) { has_devices_ = has; }
  // May executors map the master's files? For those started from now on.
  void AllowLocalData(bool allow) { local_data_ = allow; }
  // Where the master takes staging over; "": nowhere. What was handed over before is not any more.
  void HandOverAt(std::string desk_path);

  void Apply(Effects* effects, const Setups& setups, std::vector<Event>* events);
  // True: there was something.
  bool Collect(std::vector<Event>* events);
  // A device is out of service, and stays so while this worker lives, whatever dies there.
  void Condemn(const std::string& device, const std::string& why) { condemned_[device] = why; }
  // Its executor does not die: it is out of service until that has ended.
  bool Held(std::string_view device) const;
  // Kills executors in which a thread has been at one thing for longer than `allowed` says of it.
  // Looks as often as the shortest limit of a job that runs needs, and now and then at least.
  using Allowed = absl::FunctionRef<absl::Duration(const Started& started)>;
  void EndWhatIsOverdue(absl::Duration shortest, Allowed allowed);
  // What runs for longer than `usual` says of it, the longest first.
  std::vector<LateStart> Late(Allowed usual) const;

  void AddPollFds(std::vector<pollfd>* fds) const;
  // True: none of them has anything to say.
  bool PrepareToSleep();
  void Awake();
  MonoTime next_deadline() const;

  // Bytes in an executor's staging, which may be lost, and what holds them. Null: not known.
  std::shared_ptr<StagingFile> StagingOf(ExecutorId executor) const;
  // The token with which the master may have that staging, handed over now at the latest; "": none.
  std::string HandoverOf(ExecutorId executor);
  // Of an executor whose staging is known.
  const std::string& OwnerOf(ExecutorId executor) const;
  tandem::v1::DeviceKind DeviceOf(ExecutorId executor) const;

  // What executors said when they were ready, the newest last. Taken by the caller.
  struct SaidReady {
    ExecutorId executor = 0;
    executor::v1::Ready ready;
  };
  std::vector<SaidReady> TakeReady() { return std::exchange(ready_, {}); }
  // Sums of what executors counted.
  const std::map<std::string, uint64_t>& counters() const { return counters_; }
  // What jobs cost since the caller took it last.
  wire::UsageSums* usage() { return &usage_; }
  size_t size() const { return live_.size(); }

 private:
  // What a thread does, and since when at the latest.
  struct Watched {
    Started started;
    MonoTime since;
  };
  struct Live {
    std::string owner;
    std::string device;
    std::unique_ptr<ExecutorProcess> process;
    MonoTime ready_by;
    bool ready = false;
    bool broken = false;  // killed; nothing more is read from it
    MonoTime killed_at;
    std::string cannot_start;             // why, as it said
    bool unwanted = false;                // because the core said so
    std::map<uint32_t, Watched> watched;  // by slot of its start page
    std::vector<Started> overdue;         // what it was killed for
    ToExecutorBuilder outgoing;
  };
  struct Kept {
    std::string owner;
    std::shared_ptr<StagingFile> staging;
    tandem::v1::DeviceKind device = tandem::v1::DEVICE_KIND_UNSPECIFIED;  // once it is ready
    std::unique_ptr<Handover> handover;
    bool not_taken = false;
  };

  void Start(const StartExecutor& effect, std::vector<Event>* events);
  void Kill(Live* live);
  void Break(Live* live, ExecutorId id, std::string_view why);
  bool Receive(ExecutorId id, Live* live, std::vector<Event>* events);
  void Say(ExecutorId id, Live* live, const executor::v1::ToExecutor& message);
  void Watch(ExecutorId id, Live* live, Allowed allowed);
  // The process has ended, or does not.
  void End(ExecutorId id, Live* live, std::string how, std::vector<Event>* events);
  void GiveUpOn(ExecutorId id, Live* live, std::vector<Event>* events);
  // True: one has ended that nobody waited for any more.
  bool ReapLate(std::vector<Event>* events);

  const FleetOptions options_;
  const Identity* const identity_;
  Clock* const clock_;
  bool has_devices_ = false;
  bool local_data_ = false;
  std::string handover_path_;
  std::vector<std::string> kernel_libraries_;
  MonoTime look_at_ = MonoTime::InfiniteFuture();  // for what is overdue
  std::map<ExecutorId, Live> live_;
  std::map<ExecutorId, Kept> staging_;
  std::vector<SaidReady> ready_;
  struct Undying {
    std::string device;
    std::unique_ptr<ExecutorProcess> process;
  };
  std::vector<Undying> undying_;
  std::map<std::string, std::string> condemned_;  // devices, and why
  std::map<std::string, uint64_t> counters_;
  wire::UsageSums usage_;
  executor::v1::FromExecutor incoming_;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_SERVER_EXECUTOR_FLEET_H_
