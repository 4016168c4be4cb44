// Supervisor: what a worker can do is what its executors say: one on each kind of device is started
// to be asked.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/model/kernel_info.h"
#include "common/probe/visible_devices.h"
#include "common/rpc/owner.h"
#include "common/wire/lease_messages.h"
#include "worker/device/emulated/emulated_spec.h"
#include "worker/server/supervisor.h"

namespace tandem::worker {
namespace {

// Executors that are started only to be asked have numbers from here on.
constexpr ExecutorId kAsked = ExecutorId{1} << 63;
// Between two looks for signals while devices are sought.
constexpr absl::Duration kLookEvery = absl::Milliseconds(20);
// Between two looks whether NVML still answers.
constexpr absl::Duration kNvmlEvery = absl::Seconds(1);

}  // namespace

absl::Status Supervisor::FindKernels() {
  const Answers answers = AskExecutors({"cpu"});
  RETURN_IF_ERROR(answers.front().status());
  const executor::v1::Ready& ready = *answers.front();
  devices_.push_back(ready.device());
  NoteHardware("cpu", ready.device());
  TakeKernels(ready, /*announce=*/false);
  return absl::OkStatus();
}

// A worker goes on with its CPU when nothing else can be had, and says so.
absl::Status Supervisor::FindEmulated() {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < options_.emulated_gpus; ++i) {
    names.push_back(StrCat("emulated:", EmulatedName(i)));
  }
  // Each by itself: they may have memory of different sizes.
  const Answers answers = AskExecutors(names);
  for (uint32_t i = 0; i < names.size(); ++i) {
    if (answers[i].ok()) {
      RETURN_IF_ERROR(AddDevice(names[i], EmulatedName(i), *answers[i]));
      continue;
    }
    const std::string why(answers[i].status().message());
    TLOG(Error, "emulated_device_left_out", "device", names[i], "why", why);
    notes_.Set(names[i], {"EMULATED_LEFT_OUT", why, "mend it, then start the worker again"});
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
      notes_.Set("gpus", {"GPUS_LEFT_OUT", std::string(why.message()),
                          "`tandem doctor` on that server says more; then start the worker again"});
    }
    return absl::OkStatus();
  }
  LookAtMask();
  std::vector<std::string> names;
  for (const ReportedDevice& device : *devices) {
    names.push_back(StrCat(kCudaDevice, device.uuid));
  }
  const Answers answers = AskExecutors(names);
  for (size_t i = 0; i < names.size(); ++i) {
    const ReportedDevice& device = (*devices)[i];
    if (answers[i].ok()) {
      RETURN_IF_ERROR(AddDevice(names[i], device.uuid, *answers[i]));
      gpus_.push_back(device);
      continue;
    }
    const std::string why(answers[i].status().message());
    TLOG(Error, "gpu_left_out", "device", names[i], "model", device.model, "why", why);
    notes_.Set(names[i], {"GPU_LEFT_OUT", StrCat(names[i], " (", device.model, "): ", why),
                          "`tandem doctor` tries it; then start the worker again"});
  }
  WatchGpus();
  return absl::OkStatus();
}

// CUDA passes over what it cannot read of the variable, and says nothing.
void Supervisor::LookAtMask() {
  const char* const value = std::getenv("CUDA_VISIBLE_DEVICES");
  if (value == nullptr) return;
  const VisibleDevices visible = DescribeVisible(std::string(value));
  if (visible.kind != VisibleDevices::Kind::kJunk) return;
  TLOG(Warning, "gpus_masked", "why", visible.text, "mend", visible.mend);
  notes_.Set("mask", {"GPUS_MASKED", visible.text, visible.mend});
}

// Without NVML nothing is told, and jobs find out.
void Supervisor::WatchGpus() {
  if (gpus_.empty()) return;
  NvmlOptions options;
  options.library = options_.nvml;
  nvml_ = std::make_unique<NvmlMonitor>(options, [queue = queue_](const GpuEvent& event) {
    queue->Push(GpuNews{event.uuid, event.out_of_service, event.text});
  });
  nvml_look_at_ = clock_->Now();
}

// Said once: when it begins and when it ends.
void Supervisor::LookAtNvml() {
  nvml_look_at_ = clock_->Now() + kNvmlEvery;
  const absl::Status status = nvml_->status();
  if (absl::IsUnknown(status)) return;  // It may still answer.
  const std::string trouble(status.message());
  if (trouble == nvml_trouble_) return;
  nvml_trouble_ = trouble;
  if (status.ok()) {
    TLOG(Info, "nvml_answers");
    return notes_.Clear("nvml");
  }
  TLOG(Warning, "nvml_unavailable", "then", "GPUs are used without news of their health", "why",
       trouble);
  notes_.Set("nvml", {"NVML", StrCat("GPUs are used without news of their health: ", trouble),
                      "a GPU that fails is noticed by the jobs on it alone"});
}

// Of a slice NVML says nothing.
void Supervisor::AddReadings(worker::v1::WorkerMessage* message) const {
  if (nvml_ == nullptr) return;
  for (const GpuReading& said : nvml_->readings()) {
    const auto is = [&said](const ReportedDevice& gpu) { return gpu.uuid == said.uuid; };
    if (std::ranges::none_of(gpus_, is)) continue;
    wire::Encode(
        DeviceReading{said.uuid, said.utilization, said.memory_utilization,
                      said.temperature_celsius, said.power_watts, said.power_limit_watts,
                      said.memory_used_bytes, said.ecc, said.ecc_corrected, said.ecc_uncorrected},
        message->add_readings());
  }
}

void Supervisor::NoteTrouble(const DeviceTroubled& event) {
  if (event.trouble.empty()) return notes_.Clear(event.device);
  notes_.Set(event.device,
             {"OUT_OF_SERVICE", StrCat(event.device, " gets no work: ", event.trouble),
              fleet_.Held(event.device)
                  ? "other devices go on; once that process has ended, it is used again"
                  : "other devices go on; once it is mended, start the worker again"});
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
    fleet_.Condemn(name, event.text);
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

Supervisor::Answers Supervisor::AskExecutors(const std::vector<std::string>& devices) {
  Effects effects;
  for (size_t i = 0; i < devices.size(); ++i) {
    effects.to_executors.push_back(StartExecutor{kAsked + i, rpc::LocalOwner(), devices[i]});
  }
  std::vector<Event> events;
  fleet_.Apply(&effects, setups_, &events);
  const absl::Status open = absl::CancelledError("stopped while starting");
  Answers answers(devices.size(), open);
  size_t left = devices.size();
  while (true) {
    fleet_.Collect(&events);
    const auto answer = [&](ExecutorId executor, absl::StatusOr<executor::v1::Ready> said) {
      absl::StatusOr<executor::v1::Ready>& to = answers[executor - kAsked];
      if (to.status() != open) return;
      to = std::move(said);
      --left;
    };
    for (ExecutorFleet::SaidReady& said : fleet_.TakeReady()) {
      answer(said.executor, std::move(said.ready));
    }
    for (const Event& event : events) {
      if (const auto* lost = std::get_if<ExecutorLost>(&event)) {
        answer(lost->executor, WhyNotReady(devices[lost->executor - kAsked], lost->how));
      }
    }
    events.clear();
    TakeSignals();
    if (left == 0 || stops_ > 0) break;
    Sleep();
  }
  EndAsked(devices.size());
  return answers;
}

absl::Status Supervisor::WhyNotReady(const std::string& device, const std::string& how) const {
  const bool cuda = device.starts_with(kCudaDevice);
  return Error(absl::StatusCode::kFailedPrecondition, reason::kExecutorLost,
               StrCat(cuda ? CudaExecutorOf(options_.executor) : options_.executor, " on ", device,
                      " ended (", how, ") before it was ready",
                      cuda ? "; tandem doctor tries the device"
                           : "; start it by hand to see why, or name another with --executor"));
}

void Supervisor::EndAsked(size_t count) {
  std::vector<Event> events;
  Effects stop, close;
  for (size_t i = 0; i < count; ++i) {
    stop.to_executors.push_back(KillExecutor{kAsked + i});
    close.to_executors.push_back(CloseStaging{kAsked + i});
  }
  fleet_.Apply(&stop, setups_, &events);
  while (fleet_.size() > 0) {
    fleet_.Collect(&events);
    if (fleet_.size() > 0) Sleep();
  }
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
