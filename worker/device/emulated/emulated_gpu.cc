#include "worker/device/emulated/emulated_gpu.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "worker/device/emulated/grid.h"

namespace tandem::worker {
namespace {

// The longest sleep of the paced clock in one go.
constexpr double kSleepMax = 3600;

absl::Status Misused(std::string_view what) {
  return Error(absl::StatusCode::kFailedPrecondition, reason::kBadArgument, what);
}

absl::Status StickyFault(uint64_t launch) {
  return Error(absl::StatusCode::kInternal, reason::kDeviceFault,
               StrCat("launch ", launch,
                      " of the emulated device ended in an error that stays (as its faults were "
                      "scripted); its process is replaced"));
}

absl::Status DeviceGone(uint64_t launch) {
  return Error(absl::StatusCode::kUnavailable, reason::kDeviceFault,
               StrCat("the emulated device was lost with launch ", launch,
                      " (as its faults were scripted); it takes no more work"));
}

}  // namespace

// Parts as they were when the launch was made.
struct EmulatedGpu::Launched {
  explicit Launched(const GridLaunch& launch)
      : kernel(launch.kernel), parts(launch.parts.begin(), launch.parts.end()) {
    const bool cells = (kernel->flags & TANDEM_HOST_STAGES) != 0;
    const size_t bytes = cells ? kernel->work_bytes : kernel->args_bytes;
    const size_t words = (bytes + 15) / 16 * 2;  // aligned to 16, as the ABI wants it
    args.resize(parts.size() * words + 1);
    auto* place = args.data() + (reinterpret_cast<uintptr_t>(args.data()) % 16 == 0 ? 0 : 1);
    for (TandemPart& part : parts) {
      if (bytes > 0) std::memcpy(place, part.args, bytes);
      part.args = place;
      place += words;
    }
  }

  const TandemKernelV1* const kernel;
  std::vector<TandemPart> parts;
  std::vector<uint64_t> args;
};

EmulatedGpu::EmulatedGpu(const EmulatedOptions& options)
    : options_(options),
      memory_(options.memory_bytes, options.clock == EmulatedClock::kPaced
                                        ? EmulatedMemory::Access::kOpen
                                        : EmulatedMemory::Access::kOnlyGrids),
      timeline_(options.seed) {
  properties_.model = "emulated";
  properties_.uuid = options.uuid;
  properties_.memory_bytes = options.memory_bytes;
  properties_.multiprocessors = options.multiprocessors;
  if (options_.clock != EmulatedClock::kVirtual) thread_ = std::thread([this] { Loop(); });
}

EmulatedGpu::~EmulatedGpu() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

absl::Status EmulatedGpu::health() const {
  absl::MutexLock lock(&mu_);
  return health_;
}

EmulatedCounters EmulatedGpu::counters() const {
  absl::MutexLock lock(&mu_);
  return counters_;
}

double EmulatedGpu::Now() const {
  if (options_.clock == EmulatedClock::kPaced) {
    return static_cast<double>(Clock::Real()->Now().nanos()) * 1e-9;
  }
  return 0;
}

double EmulatedGpu::Seconds(double seconds) const {
  return options_.clock == EmulatedClock::kExact ? 0 : seconds;
}

absl::StatusOr<DeviceAddress> EmulatedGpu::Allocate(uint64_t bytes) {
  {
    absl::MutexLock lock(&mu_);
    RETURN_IF_ERROR(health_);
    if (options_.faults.failing_allocations.contains(++allocations_)) {
      return Error(absl::StatusCode::kResourceExhausted, reason::kOutOfMemory,
                   StrCat("allocation ", allocations_, " of the emulated device, ", bytes,
                          " bytes, failed (as its faults were scripted)"));
    }
  }
  return memory_.Allocate(bytes);
}

absl::Status EmulatedGpu::Free(DeviceAddress address) { return memory_.Free(address); }

absl::StatusOr<void*> EmulatedGpu::AllocateHost(uint64_t bytes) {
  AlignedBuffer buffer;
  if (buffer.Ensure(bytes) == nullptr) {
    return Error(absl::StatusCode::kResourceExhausted, reason::kOutOfMemory,
                 StrCat("no memory for ", bytes, " pinned bytes; give the worker more"));
  }
  void* const memory = buffer.data();
  const auto begin = reinterpret_cast<uint64_t>(memory);
  absl::MutexLock lock(&mu_);
  pinned_[begin] = bytes;
  host_[begin] = std::move(buffer);
  return memory;
}

absl::Status EmulatedGpu::FreeHost(void* memory) {
  const auto begin = reinterpret_cast<uint64_t>(memory);
  absl::MutexLock lock(&mu_);
  if (pinned_.erase(begin) == 0) return Misused("FreeHost of what AllocateHost did not return");
  host_.erase(begin);
  return absl::OkStatus();
}

absl::Status EmulatedGpu::CheckPinned(const void* memory, uint64_t bytes) const {
  const auto address = reinterpret_cast<uint64_t>(memory);
  auto next = pinned_.upper_bound(address);
  const bool held = next != pinned_.begin() &&
                    address - std::prev(next)->first <= std::prev(next)->second &&
                    bytes <= std::prev(next)->second - (address - std::prev(next)->first);
  if (held) return absl::OkStatus();
  return Misused("a copy from or to host memory that is not pinned would wait for the device");
}

absl::StatusOr<StreamId> EmulatedGpu::NewStream() {
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(health_);
  return timeline_.NewStream();
}

absl::StatusOr<EventId> EmulatedGpu::NewEvent() {
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(health_);
  return timeline_.NewEvent();
}

absl::Status EmulatedGpu::CheckStream(StreamId stream) const {
  RETURN_IF_ERROR(health_);
  return timeline_.HasStream(stream) ? absl::OkStatus() : Misused("no such stream");
}

absl::Status EmulatedGpu::Add(StreamId stream, Line line, double seconds, Work work) {
  const double slowdown = options_.faults.SlowdownAt(counters_.launches);
  const double now = options_.clock == EmulatedClock::kVirtual ? virtual_now_ : Now();
  const Timeline::Op op =
      timeline_.Add(stream, line, line == Line::kNone ? 0 : Seconds(seconds * slowdown), now);
  works_[op] = std::move(work);
  added_ = true;
  return absl::OkStatus();
}

EmulatedGpu::Work EmulatedGpu::Move(void* to, const void* from, uint64_t bytes) const {
  if (options_.clock == EmulatedClock::kVirtual) return {};
  return {[to, from, bytes] {
            std::memcpy(to, from, bytes);
            return absl::OkStatus();
          },
          nullptr};
}

absl::Status EmulatedGpu::CopyUp(StreamId stream, DeviceAddress to, const void* from,
                                 uint64_t bytes) {
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(CheckStream(stream));
  RETURN_IF_ERROR(CheckPinned(from, bytes));
  ASSIGN_OR_RETURN(uint8_t * target, memory_.ForCopy(to, bytes));
  ++counters_.copies_up;
  counters_.bytes_up += bytes;
  const EmulatedSpeed& speed = options_.speed;
  return Add(stream, Line::kUp,
             speed.copy_fixed_seconds + static_cast<double>(bytes) / speed.copy_bytes_per_second,
             Move(target, from, bytes));
}

absl::Status EmulatedGpu::CopyDown(StreamId stream, void* to, DeviceAddress from, uint64_t bytes) {
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(CheckStream(stream));
  RETURN_IF_ERROR(CheckPinned(to, bytes));
  ASSIGN_OR_RETURN(const uint8_t* source, memory_.ForCopy(from, bytes));
  ++counters_.copies_down;
  counters_.bytes_down += bytes;
  const EmulatedSpeed& speed = options_.speed;
  return Add(stream, Line::kDown,
             speed.copy_fixed_seconds + static_cast<double>(bytes) / speed.copy_bytes_per_second,
             Move(to, source, bytes));
}

absl::Status EmulatedGpu::Fill(StreamId stream, DeviceAddress to, uint8_t value, uint64_t bytes) {
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(CheckStream(stream));
  ASSIGN_OR_RETURN(uint8_t * target, memory_.ForCopy(to, bytes));
  Work work;
  if (options_.clock != EmulatedClock::kVirtual) {
    work.act = [target, value, bytes] {
      std::memset(target, value, bytes);
      return absl::OkStatus();
    };
  }
  return Add(stream, Line::kGrid, options_.speed.launch_seconds, std::move(work));
}

double EmulatedGpu::GridSeconds(const GridLaunch& launch) const {
  double nanos = launch.expected_ns;
  if (nanos <= 0) {
    int64_t tasks = 0;
    for (const TandemPart& part : launch.parts) tasks += part.tasks;
    nanos = static_cast<double>(tasks) * options_.speed.unknown_task_seconds * 1e9 *
            options_.speed.cores;
  }
  return options_.speed.launch_seconds + nanos * 1e-9 / options_.speed.cores;
}

absl::Status EmulatedGpu::LaunchGrid(StreamId stream, const GridLaunch& launch) {
  auto launched = std::make_shared<Launched>(launch);
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(CheckStream(stream));
  const uint64_t number = ++counters_.launches;
  const LaunchFault fault = options_.faults.OfLaunch(number);
  const double seconds = fault == LaunchFault::kHang ? Timeline::kNever : GridSeconds(launch);
  Work work;
  work.act = [this, launched, fault, number] {
    if (fault == LaunchFault::kSticky) return StickyFault(number);
    if (fault == LaunchFault::kLost) return DeviceGone(number);
    if (options_.clock == EmulatedClock::kVirtual) return absl::OkStatus();
    const Body body = options_.clock == EmulatedClock::kPaced ? Body::kCheap : Body::kFull;
    return RunGrid(*launched->kernel, launched->parts, properties_, body, options_.seed + number,
                   &memory_);
  };
  if (fault == LaunchFault::kHang) {
    const double now = options_.clock == EmulatedClock::kVirtual ? virtual_now_ : Now();
    works_[timeline_.Add(stream, Line::kGrid, Timeline::kNever, now)] = std::move(work);
    return absl::OkStatus();
  }
  return Add(stream, Line::kGrid, seconds, std::move(work));
}

absl::Status EmulatedGpu::Call(StreamId stream, Callback callback) {
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(CheckStream(stream));
  return Add(stream, Line::kNone, 0, {nullptr, std::move(callback)});
}

absl::Status EmulatedGpu::Record(StreamId stream, EventId event) {
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(CheckStream(stream));
  if (!timeline_.HasEvent(event)) return Misused("no such event");
  ended_.erase(timeline_.OpOf(event));
  const double now = options_.clock == EmulatedClock::kVirtual ? virtual_now_ : Now();
  works_[timeline_.Record(stream, event, now)] = {nullptr, nullptr, true};
  added_ = true;
  return absl::OkStatus();
}

absl::Status EmulatedGpu::Wait(StreamId stream, EventId event) {
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(CheckStream(stream));
  if (!timeline_.HasEvent(event)) return Misused("no such event");
  const double now = options_.clock == EmulatedClock::kVirtual ? virtual_now_ : Now();
  works_[timeline_.Wait(stream, event, now)] = {};
  added_ = true;
  return absl::OkStatus();
}

absl::StatusOr<bool> EmulatedGpu::Reached(EventId event) const {
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(health_);
  if (!timeline_.HasEvent(event)) return Misused("no such event");
  return ended_.contains(timeline_.OpOf(event));
}

absl::StatusOr<absl::Duration> EmulatedGpu::Between(EventId from, EventId to) const {
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(health_);
  if (options_.clock == EmulatedClock::kExact) {
    return Misused("an emulated device with an exact clock has no speed");
  }
  const bool are = timeline_.HasEvent(from) && timeline_.HasEvent(to);
  const auto first = are ? ended_.find(timeline_.OpOf(from)) : ended_.end();
  const auto second = are ? ended_.find(timeline_.OpOf(to)) : ended_.end();
  if (first == ended_.end() || second == ended_.end()) {
    return Misused("the time between events that are not both reached");
  }
  return absl::Seconds(second->second - first->second);
}

double EmulatedGpu::next() const {
  absl::MutexLock lock(&mu_);
  return timeline_.next();
}

void EmulatedGpu::AdvanceTo(double seconds) {
  CHECK(options_.clock == EmulatedClock::kVirtual);
  for (const Timeline::Ended& ended : Take(seconds)) End(ended);
}

std::vector<Timeline::Ended> EmulatedGpu::Take(double now) {
  std::vector<Timeline::Ended> ended;
  absl::MutexLock lock(&mu_);
  added_ = false;
  virtual_now_ = std::max(virtual_now_, now);
  timeline_.Advance(now, &ended);
  return ended;
}

void EmulatedGpu::End(const Timeline::Ended& ended) {
  Work work;
  absl::Status status;
  {
    absl::MutexLock lock(&mu_);
    const auto found = works_.find(ended.op);
    work = std::move(found->second);
    works_.erase(found);
    status = health_;
  }
  if (work.act && status.ok()) status = work.act();
  {
    absl::MutexLock lock(&mu_);
    if (health_.ok()) health_ = status;
    if (work.event && status.ok()) ended_[ended.op] = ended.at;
  }
  if (work.callback) work.callback(status);
}

bool EmulatedGpu::SomethingToDo() const { return added_ || stopping_; }

void EmulatedGpu::Loop() {
  while (true) {
    {
      absl::MutexLock lock(&mu_);
      const double left = timeline_.next() - Now();
      if (left > 0) {
        const absl::Duration sleep = absl::Seconds(std::min(left, kSleepMax));
        mu_.AwaitWithTimeout(absl::Condition(this, &EmulatedGpu::SomethingToDo), sleep);
      }
      if (stopping_) return;
    }
    for (const Timeline::Ended& ended : Take(Now())) End(ended);
  }
}

}  // namespace tandem::worker
