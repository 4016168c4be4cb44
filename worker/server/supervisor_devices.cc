// Supervisor: what a worker can do is what its executors say: one on each kind of device is started
// to be asked.
#include <utility>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/model/kernel_info.h"
#include "common/rpc/owner.h"
#include "worker/server/supervisor.h"

namespace tandem::worker {
namespace {

// The executor that is started only to be asked what it can.
constexpr ExecutorId kAsked = 0;
// Between two looks for signals while devices are sought.
constexpr absl::Duration kLookEvery = absl::Milliseconds(20);

}  // namespace

absl::Status Supervisor::FindKernels() {
  ASSIGN_OR_RETURN(const executor::v1::Ready ready, AskExecutor("cpu"));
  devices_.push_back(ready.device());
  NoteHardware("cpu", ready.device());
  TakeKernels(ready, /*announce=*/false);
  return absl::OkStatus();
}

// A worker goes on with its CPU when nothing else can be had, and says so.
absl::Status Supervisor::FindEmulated() {
  for (uint32_t i = 0; i < options_.emulated_gpus; ++i) {
    const std::string uuid = StrCat("EMULATED-", i);
    const std::string name = StrCat("emulated:", uuid);
    // Each by itself: they may have memory of different sizes.
    const absl::StatusOr<executor::v1::Ready> ready = AskExecutor(name);
    if (!ready.ok()) {
      TLOG(Error, "emulated_device_left_out", "device", name, "why",
           ToStd(ready.status().message()));
      continue;
    }
    RETURN_IF_ERROR(AddDevice(name, uuid, *ready));
  }
  return absl::OkStatus();
}

void Supervisor::WarnOfUnknownDevices() {
  std::vector<std::string> uuids;
  for (const tandem::v1::Device& device : devices_) uuids.push_back(device.uuid());
  for (const std::string& unknown : options_.gpu_memory.UnknownNames(uuids)) {
    TLOG(Warning, "gpu_memory_of_unknown_device", "device", unknown, "said_by",
         options_.gpu_memory_origin, "then", "it is not used");
  }
}

// A device whose executor does not start stays out, whatever its driver says of it.
absl::Status Supervisor::FindCuda(CudaSearch* search) {
  while (!search->Done(kLookEvery)) {
    TakeSignals();
    if (stops_ > 0) return absl::OkStatus();
  }
  const absl::StatusOr<std::vector<ReportedDevice>>& devices = search->devices();
  if (!devices.ok()) {
    const absl::Status& why = devices.status();
    // That there is none is no trouble.
    if (ReasonOf(why) == reason::kUnsatisfiable || ReasonOf(why) == reason::kPathUnreadable) {
      TLOG(Info, "no_gpus", "then", "the CPUs alone", "why", ToStd(why.message()));
    } else {
      TLOG(Error, "gpus_left_out", "then", "the CPUs alone", "why", ToStd(why.message()));
    }
    return absl::OkStatus();
  }
  for (const ReportedDevice& device : *devices) {
    const std::string name = StrCat(kCudaDevice, device.uuid);
    const absl::StatusOr<executor::v1::Ready> ready = AskExecutor(name);
    if (ready.ok()) {
      RETURN_IF_ERROR(AddDevice(name, device.uuid, *ready));
      gpus_.push_back(device);
    } else {
      TLOG(Error, "gpu_left_out", "device", name, "model", device.model, "why",
           ToStd(ready.status().message()));
    }
  }
  WatchGpus();
  return absl::OkStatus();
}

// Without NVML nothing is told, and jobs find out.
void Supervisor::WatchGpus() {
  if (gpus_.empty()) return;
  NvmlOptions options;
  options.library = options_.nvml;
  nvml_ = std::make_unique<NvmlMonitor>(options, [queue = queue_](const GpuEvent& event) {
    queue->Push(GpuNews{event.uuid, event.out_of_service, event.text});
  });
}

// NVML names whole GPUs: a slice is told from where it sits.
void Supervisor::Handle(GpuNews event) {
  std::string pci;
  for (const GpuReading& reading : nvml_->readings()) {
    if (reading.uuid == event.uuid) pci = reading.pci;
  }
  for (const ReportedDevice& gpu : gpus_) {
    if (gpu.uuid != event.uuid && (!gpu.slice || gpu.pci != pci)) continue;
    const std::string name = StrCat(kCudaDevice, gpu.uuid);
    if (!event.out_of_service) {
      TLOG(Warning, "gpu_event", "device", name, "what", event.text);
      continue;
    }
    TLOG(Error, "gpu_out_of_service", "device", name, "why", event.text);
    events_.push_back(DeviceTroubled{name, event.text});
  }
}

std::string Supervisor::IdentityOf(const tandem::v1::Kernel& kernel) {
  KernelInfo info;
  info.name = kernel.name();
  info.content_hash = kernel.content_hash();
  return info.identity();
}

absl::Status Supervisor::AddDevice(const std::string& name, const std::string& uuid,
                                   const executor::v1::Ready& ready) {
  const std::string& origin = options_.gpu_memory_origin;
  const absl::Status enough = options_.gpu_memory.CheckAgainst(uuid, ready.device().memory_bytes());
  if (!enough.ok()) return WithField(WithContext(enough, origin), "--gpu-memory");
  DeviceFound found;
  found.device = name;
  found.budget_bytes = ready.device().budget_bytes();
  found.kind = static_cast<DeviceKind>(ready.device().kind());
  found.model = ready.device().model();
  for (const tandem::v1::Kernel& kernel : ready.kernels()) {
    found.kernels.push_back(IdentityOf(kernel));
  }
  NoteHardware(name, ready.device());
  devices_.push_back(ready.device());
  devices_.back().set_uuid(uuid);
  devices_.back().set_budget_rule(StrCat(options_.gpu_memory.For(uuid).Words(), " (", origin, ")"));
  TLOG(Info, "device_found", "device", name, "model", devices_.back().model(), "memory",
       devices_.back().memory_bytes(), "budget", found.budget_bytes, "kernels",
       found.kernels.size());
  events_.push_back(std::move(found));
  return absl::OkStatus();
}

absl::StatusOr<executor::v1::Ready> Supervisor::AskExecutor(const std::string& device) {
  Effects effects;
  effects.to_executors.push_back(StartExecutor{kAsked, rpc::LocalOwner(), device});
  std::vector<Event> events;
  fleet_.Apply(&effects, setups_, &events);
  while (true) {
    fleet_.Collect(&events);
    std::vector<executor::v1::Ready> said = fleet_.TakeReady();
    TakeSignals();
    if (stops_ > 0) return absl::CancelledError("stopped while starting");
    if (!said.empty()) {
      EndAsked();
      return std::move(said.front());
    }
    for (const Event& event : events) {
      const auto* lost = std::get_if<ExecutorLost>(&event);
      if (lost == nullptr) continue;
      EndAsked();
      return Error(absl::StatusCode::kFailedPrecondition, reason::kExecutorLost,
                   device.starts_with(kCudaDevice)
                       ? StrCat(CudaExecutorOf(options_.executor), " on ", device, " ended (",
                                lost->how, ") before it was ready; tandem doctor tries the device")
                       : StrCat(options_.executor, " on ", device, " ended (", lost->how,
                                ") before it was ready; start it by hand to see why, or name "
                                "another with --executor"));
    }
    events.clear();
    Sleep();
  }
}

void Supervisor::EndAsked() {
  std::vector<Event> events;
  Effects stop;
  stop.to_executors.push_back(KillExecutor{kAsked});
  fleet_.Apply(&stop, setups_, &events);
  while (fleet_.size() > 0) {
    fleet_.Collect(&events);
    if (fleet_.size() > 0) Sleep();
  }
  Effects close;
  close.to_executors.push_back(CloseStaging{kAsked});
  fleet_.Apply(&close, setups_, &events);
}

void Supervisor::TakeKernels(const executor::v1::Ready& ready, bool announce) {
  for (const tandem::v1::Kernel& kernel : ready.kernels()) {
    if (!announced_.emplace(kernel.name(), kernel.content_hash()).second) continue;
    if (announce) to_announce_.push_back(kernel);
    kernels_.push_back(kernel);
  }
}

}  // namespace tandem::worker
