#include "tests/worker/device/fake_nvml.h"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <utility>

namespace {

constexpr int kDevices = 2;
constexpr int kOk = 0, kUninitialized = 1, kNotSupported = 3, kTimeout = 10, kLost = 15;

struct FakeDevice {
  int number;
  bool lost = false, remapping_failed = false;
  uint64_t uncorrected = 0;
};
struct Event {
  FakeDevice* device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};

// Never destroyed: a thread that was left behind may still be here when the program ends.
std::mutex& mu = *new std::mutex;
std::condition_variable& changed = *new std::condition_variable;
FakeDevice devices[kDevices] = {FakeDevice{0}, FakeDevice{1}};
std::deque<std::pair<int, uint64_t>>& xids = *new std::deque<std::pair<int, uint64_t>>;
int init_code = kOk;
bool hangs = false, has_events = true;
int users = 0;

template <class F>
void Set(F set) {
  const std::lock_guard lock(mu);
  set();
  changed.notify_all();
}

// What a call about a device answers; `read` runs under the lock.
template <class F>
int Answer(FakeDevice* device, F read) {
  std::unique_lock lock(mu);
  changed.wait(lock, [] { return !hangs; });
  if (users == 0) return kUninitialized;
  read();
  return device->lost ? kLost : kOk;
}
int Answer(FakeDevice* device) {
  return Answer(device, [] {});
}

const FakeNvml kFake = {
    [] {
      Set([] {
        for (int i = 0; i < kDevices; ++i) devices[i] = FakeDevice{i};
        xids.clear();
        init_code = kOk;
        hangs = false;
        has_events = true;
      });
    },
    [](int device, uint64_t xid) { Set([=] { xids.emplace_back(device, xid); }); },
    [](int device, uint64_t errors) { Set([=] { devices[device].uncorrected = errors; }); },
    [](int device) { Set([=] { devices[device].lost = true; }); },
    [](int device) { Set([=] { devices[device].remapping_failed = true; }); },
    [](int code) { Set([=] { init_code = code; }); },
    [] { Set([] { has_events = false; }); },
    [](bool does) { Set([=] { hangs = does; }); },
};

}  // namespace

extern "C" {

const FakeNvml* fake_nvml() { return &kFake; }

int nvmlInit_v2() {
  std::unique_lock lock(mu);
  // Of a process that nobody else can tell.
  if (std::getenv("FAKE_NVML_HANGS") != nullptr) changed.wait(lock, [] { return false; });
  if (init_code == kOk) ++users;
  return init_code;
}
int nvmlShutdown() {
  const std::lock_guard lock(mu);
  --users;
  return kOk;
}
const char* nvmlErrorString(int code) { return code == 9 ? "Driver Not Loaded" : "Some Error"; }
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  std::snprintf(text, size, "599.12.03");
  return kOk;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = kDevices;
  return kOk;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, FakeDevice** device) {
  *device = &devices[index];
  return kOk;
}
int nvmlDeviceGetUUID(FakeDevice* device, char* text, unsigned size) {
  std::snprintf(text, size, "GPU-fake-%d", device->number);
  return kOk;
}
int nvmlDeviceGetName(FakeDevice* device, char* text, unsigned size) {
  std::snprintf(text, size, "Fake %d", device->number);
  return kOk;
}
int nvmlDeviceGetUtilizationRates(FakeDevice* device, unsigned* rates) {
  rates[0] = 37;
  rates[1] = 12;
  return Answer(device);
}
int nvmlDeviceGetMemoryInfo(FakeDevice* device, unsigned long long* bytes) {
  bytes[0] = 1000;
  bytes[1] = 600;
  bytes[2] = 400;
  return Answer(device);
}
int nvmlDeviceGetTemperature(FakeDevice* device, int, unsigned* celsius) {
  *celsius = 41;
  return Answer(device);
}
int nvmlDeviceGetPowerUsage(FakeDevice* device, unsigned* milliwatts) {
  *milliwatts = 123'500;
  return Answer(device);
}
int nvmlDeviceGetMigMode(FakeDevice*, unsigned*, unsigned*) { return kNotSupported; }
int nvmlDeviceGetTotalEccErrors(FakeDevice* device, int kind, int, unsigned long long* errors) {
  return Answer(device, [=] { *errors = kind == 1 ? device->uncorrected : 5; });
}
int nvmlDeviceGetRemappedRows(FakeDevice* device, unsigned*, unsigned*, unsigned*,
                              unsigned* failed) {
  return Answer(device, [=] { *failed = device->remapping_failed ? 1 : 0; });
}
int nvmlEventSetCreate(int** set) {
  static int only = 0;
  *set = &only;
  return kOk;
}
int nvmlEventSetFree(int*) { return kOk; }
int nvmlDeviceRegisterEvents(FakeDevice*, unsigned long long, int*) {
  const std::lock_guard lock(mu);
  return has_events ? kOk : kNotSupported;
}
int nvmlEventSetWait_v2(int*, Event* event, unsigned milliseconds) {
  std::unique_lock lock(mu);
  if (!changed.wait_for(lock, std::chrono::milliseconds(milliseconds),
                        [] { return !xids.empty(); })) {
    return kTimeout;
  }
  *event = {&devices[xids.front().first], 8, xids.front().second, ~0u, ~0u};
  xids.pop_front();
  return kOk;
}

}  // extern "C"
