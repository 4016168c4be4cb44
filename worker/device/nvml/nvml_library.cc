#include "worker/device/nvml/nvml_library.h"

#include <dlfcn.h>

#include <cctype>
#include <utility>

#include "common/base/error.h"
#include "common/base/strings.h"

namespace tandem::worker {
namespace {

// NVML's C interface, of which the toolkit has no header: the types after its documentation, the
// layouts after its Python binding's structures.
using Return = int;
using Device = void*;
using EventSet = void*;
constexpr Return kSuccess = 0, kTimeout = 10, kGpuIsLost = 15;
constexpr unsigned kTextBytes = 96;
constexpr unsigned long long kXidEvents = 8;

struct Memory {
  unsigned long long total, free, used;
};
struct Utilization {
  unsigned gpu, memory;
};
struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
struct EventData {
  Device device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};

constexpr double kPercent = 0.01;
constexpr double kMilli = 0.001;

// "00000000:18:00.0" as the kernel writes it, "0000:18:00.0".
std::string PciPath(const char* bus_id) {
  std::string text(bus_id);
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const size_t domain = text.find(':');
  return domain == 8 ? text.substr(4) : text;
}

}  // namespace

struct NvmlLibrary::Entries {
  void* handle = nullptr;
  std::vector<std::pair<Device, std::string>> devices;  // with their UUIDs
  std::vector<GpuReading> known;                        // what stays the same of each
  EventSet events = nullptr;

  Return (*init)() = nullptr;
  Return (*shutdown)() = nullptr;
  const char* (*error_string)(Return) = nullptr;
  Return (*driver_version)(char*, unsigned) = nullptr;
  Return (*count)(unsigned*) = nullptr;
  Return (*by_index)(unsigned, Device*) = nullptr;
  Return (*uuid)(Device, char*, unsigned) = nullptr;
  Return (*name)(Device, char*, unsigned) = nullptr;
  Return (*pci)(Device, PciInfo*) = nullptr;
  Return (*utilization)(Device, Utilization*) = nullptr;
  Return (*memory)(Device, Memory*) = nullptr;
  Return (*temperature)(Device, int, unsigned*) = nullptr;
  Return (*power)(Device, unsigned*) = nullptr;
  Return (*power_limit)(Device, unsigned*) = nullptr;
  Return (*mig)(Device, unsigned*, unsigned*) = nullptr;
  Return (*persistence)(Device, int*) = nullptr;
  Return (*ecc_mode)(Device, int*, int*) = nullptr;
  Return (*ecc_errors)(Device, int, int, unsigned long long*) = nullptr;
  Return (*remapped)(Device, unsigned*, unsigned*, unsigned*, unsigned*) = nullptr;
  Return (*event_set)(EventSet*) = nullptr;
  Return (*event_set_free)(EventSet) = nullptr;
  Return (*register_events)(Device, unsigned long long, EventSet) = nullptr;
  Return (*wait)(EventSet, EventData*, unsigned) = nullptr;

  template <class F>
  void Load(F* entry, const char* symbol) {
    *entry = reinterpret_cast<F>(dlsym(handle, symbol));
  }
  void LoadAll();
  bool Sufficient() const {
    return init != nullptr && shutdown != nullptr && count != nullptr && by_index != nullptr &&
           uuid != nullptr;
  }
  std::string TextOf(Return code) const {
    return StrCat(error_string == nullptr ? "error" : error_string(code), " (", code, ")");
  }
  void FindDevices();
  void RegisterEvents();
  // Calls an entry that may be missing; false if it does not say, or says that the device is lost.
  template <class F, class... A>
  bool Ask(GpuReading* reading, F entry, A... args) const {
    if (entry == nullptr || reading->lost) return false;
    const Return code = entry(args...);
    if (code == kGpuIsLost) reading->lost = true;
    return code == kSuccess;
  }
  void ReadLoad(Device device, GpuReading* reading) const;
  void ReadHealth(Device device, GpuReading* reading) const;
};

void NvmlLibrary::Entries::LoadAll() {
  Load(&init, "nvmlInit_v2");
  Load(&shutdown, "nvmlShutdown");
  Load(&error_string, "nvmlErrorString");
  Load(&driver_version, "nvmlSystemGetDriverVersion");
  Load(&count, "nvmlDeviceGetCount_v2");
  Load(&by_index, "nvmlDeviceGetHandleByIndex_v2");
  Load(&uuid, "nvmlDeviceGetUUID");
  Load(&name, "nvmlDeviceGetName");
  Load(&pci, "nvmlDeviceGetPciInfo_v3");
  Load(&utilization, "nvmlDeviceGetUtilizationRates");
  Load(&memory, "nvmlDeviceGetMemoryInfo");
  Load(&temperature, "nvmlDeviceGetTemperature");
  Load(&power, "nvmlDeviceGetPowerUsage");
  Load(&power_limit, "nvmlDeviceGetEnforcedPowerLimit");
  Load(&mig, "nvmlDeviceGetMigMode");
  Load(&persistence, "nvmlDeviceGetPersistenceMode");
  Load(&ecc_mode, "nvmlDeviceGetEccMode");
  Load(&ecc_errors, "nvmlDeviceGetTotalEccErrors");
  Load(&remapped, "nvmlDeviceGetRemappedRows");
  Load(&event_set, "nvmlEventSetCreate");
  Load(&event_set_free, "nvmlEventSetFree");
  Load(&register_events, "nvmlDeviceRegisterEvents");
  Load(&wait, "nvmlEventSetWait_v2");
}

void NvmlLibrary::Entries::FindDevices() {
  unsigned devices_there = 0;
  if (count(&devices_there) != kSuccess) return;
  for (unsigned i = 0; i < devices_there; ++i) {
    Device device = nullptr;
    GpuReading reading;
    char text[kTextBytes] = {};
    // A device that is lost already may have no handle, and nobody can say which it is.
    if (by_index(i, &device) != kSuccess || !Ask(&reading, uuid, device, text, kTextBytes))
      continue;
    reading.uuid = text;
    if (Ask(&reading, name, device, text, kTextBytes)) reading.model = text;
    PciInfo info{};
    if (Ask(&reading, pci, device, &info)) reading.pci = PciPath(info.bus_id);
    devices.emplace_back(device, reading.uuid);
    known.push_back(std::move(reading));
  }
}

void NvmlLibrary::Entries::RegisterEvents() {
  if (event_set == nullptr || event_set_free == nullptr || register_events == nullptr ||
      wait == nullptr || event_set(&events) != kSuccess) {
    events = nullptr;
    return;
  }
  bool any = false;
  for (const auto& [device, uuid_text] : devices) {
    any = register_events(device, kXidEvents, events) == kSuccess || any;
  }
  if (any) return;
  event_set_free(events);
  events = nullptr;
}

void NvmlLibrary::Entries::ReadLoad(Device device, GpuReading* reading) const {
  Utilization rates{};
  if (Ask(reading, utilization, device, &rates)) {
    reading->utilization = rates.gpu * kPercent;
    reading->memory_utilization = rates.memory * kPercent;
  }
  Memory bytes{};
  if (Ask(reading, memory, device, &bytes)) {
    reading->memory_total_bytes = bytes.total;
    reading->memory_used_bytes = bytes.used;
  }
  unsigned value = 0;
  if (Ask(reading, temperature, device, 0, &value)) reading->temperature_celsius = value;
  if (Ask(reading, power, device, &value)) reading->power_watts = value * kMilli;
  if (Ask(reading, power_limit, device, &value)) reading->power_limit_watts = value * kMilli;
}

void NvmlLibrary::Entries::ReadHealth(Device device, GpuReading* reading) const {
  unsigned now = 0, later = 0, pending = 0, failed = 0;
  if (Ask(reading, mig, device, &now, &later)) reading->mig = now != 0;
  int mode = 0, next = 0;
  if (Ask(reading, persistence, device, &mode)) reading->persistence = mode != 0;
  if (Ask(reading, ecc_mode, device, &mode, &next)) reading->ecc = mode != 0;
  constexpr int kCorrected = 0, kUncorrected = 1, kVolatile = 0;
  unsigned long long errors = 0;
  if (Ask(reading, ecc_errors, device, kCorrected, kVolatile, &errors)) {
    reading->ecc_corrected = errors;
  }
  if (Ask(reading, ecc_errors, device, kUncorrected, kVolatile, &errors)) {
    reading->ecc_uncorrected = errors;
  }
  if (Ask(reading, remapped, device, &now, &later, &pending, &failed)) {
    reading->remapping_failed = failed != 0;
  }
}

absl::StatusOr<std::unique_ptr<NvmlLibrary>> NvmlLibrary::Open(const std::string& path) {
  auto entries = std::make_unique<Entries>();
  entries->handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (entries->handle == nullptr) {
    const char* why = dlerror();
    return Error(absl::StatusCode::kNotFound, reason::kPathUnreadable,
                 StrCat("NVML cannot be loaded: ", why == nullptr ? path.c_str() : why,
                        "; it comes with NVIDIA's driver"));
  }
  entries->LoadAll();
  if (!entries->Sufficient()) {
    return Error(absl::StatusCode::kNotFound, reason::kVersionSkew,
                 StrCat(path, " is no NVML of a driver that CUDA 12 or later can use"));
  }
  if (const Return code = entries->init(); code != kSuccess) {
    return Error(absl::StatusCode::kUnavailable, reason::kDeviceFault,
                 StrCat("NVML does not start: ", entries->TextOf(code),
                        "; nvidia-smi and dmesg say more of the driver"));
  }
  entries->FindDevices();
  entries->RegisterEvents();
  return std::unique_ptr<NvmlLibrary>(new NvmlLibrary(std::move(entries)));
}

NvmlLibrary::NvmlLibrary(std::unique_ptr<Entries> entries) : entries_(std::move(entries)) {}

NvmlLibrary::~NvmlLibrary() {
  if (entries_->events != nullptr) entries_->event_set_free(entries_->events);
  entries_->shutdown();
}

std::string NvmlLibrary::DriverVersion() const {
  char text[kTextBytes] = {};
  const auto ask = entries_->driver_version;
  return ask != nullptr && ask(text, kTextBytes) == kSuccess ? text : "";
}

std::vector<GpuReading> NvmlLibrary::Read() const {
  std::vector<GpuReading> readings = entries_->known;
  for (size_t i = 0; i < readings.size(); ++i) {
    const Device device = entries_->devices[i].first;
    entries_->ReadLoad(device, &readings[i]);
    entries_->ReadHealth(device, &readings[i]);
  }
  return readings;
}

bool NvmlLibrary::reports_xids() const { return entries_->events != nullptr; }

absl::StatusOr<std::optional<GpuXid>> NvmlLibrary::NextXid(absl::Duration wait) {
  if (!reports_xids()) return absl::UnimplementedError("no device reports its Xids");
  EventData event{};
  const auto patience = static_cast<unsigned>(absl::ToInt64Milliseconds(wait));
  const Return code = entries_->wait(entries_->events, &event, patience);
  if (code == kTimeout) return std::nullopt;
  if (code != kSuccess) {
    return Error(absl::StatusCode::kUnavailable, reason::kDeviceFault,
                 StrCat("NVML does not wait for events: ", entries_->TextOf(code)));
  }
  if (event.type != kXidEvents) return std::nullopt;
  for (const auto& [device, uuid] : entries_->devices) {
    if (device == event.device) return GpuXid{uuid, event.data};
  }
  return std::nullopt;
}

}  // namespace tandem::worker
