#include "worker/core/device_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tandem::worker {
namespace {

constexpr double kMemory = 0.9;  // of what a task copies
constexpr double kTasksMax = 1e18, kBytesMax = 1e18, kHintMax = 1e7;
constexpr double kTaskSecondsMin = 1e-15;
constexpr absl::Duration kAgeMax = absl::Hours(24 * 36'500);  // MonoTime holds it

bool Within(double value, double most) { return value >= 0 && value <= most; }  // NaN is not

// What n is counted in.
double Units(double tasks, double hint) { return hint > 0 ? tasks * hint : tasks; }

double BytesPerSecond(const RateModel& copy) { return copy.known() ? 1 / copy.slope() : 0; }

}  // namespace

std::string_view StageName(Stage stage) {
  switch (stage) {
    case Stage::kHost:
      return "host stages";
    case Stage::kCopyUp:
      return "copy up";
    case Stage::kGrid:
      return "grid";
    case Stage::kCopyDown:
      return "copy down";
  }
  return "";
}

double BatchSeconds::Streamed() const { return std::max({host, up, grid, down}); }

Stage BatchSeconds::Binds() const {
  const double most = Streamed();
  if (grid >= most) return Stage::kGrid;
  if (up >= most) return Stage::kCopyUp;
  return down >= most ? Stage::kCopyDown : Stage::kHost;
}

bool DeviceModel::Learn(const ModelKey& key, const BatchSize& size, const BatchMeasured& measured,
                        MonoTime now) {
  const double hint = size.hinted_seconds_per_task;
  const double units = Units(size.tasks, hint);
  if (!Within(size.tasks, kTasksMax) || size.tasks < 1 || !Within(hint, kHintMax) ||
      !RateModel::Takes(units, measured.grid_seconds) ||
      !RateModel::Takes(units, measured.host_seconds) || !Within(measured.bytes_up, kBytesMax) ||
      !Within(measured.bytes_down, kBytesMax)) {
    return false;
  }
  if (measured.up_seconds > 0) up_.Add(measured.bytes_up, measured.up_seconds);
  if (measured.down_seconds > 0) down_.Add(measured.bytes_down, measured.down_seconds);
  Kernel& kernel = kernels_[key];
  if ((kernel.hint > 0) != (hint > 0)) kernel = Kernel();  // what it was counted in has changed
  kernel.grid.Add(units, measured.grid_seconds);
  if (measured.host_seconds > 0 || kernel.host.known()) {
    kernel.host.Add(units, measured.host_seconds);
  }
  kernel.hint = hint;
  kernel.tasks = kernel.tasks * kMemory + size.tasks;
  kernel.bytes_up = kernel.bytes_up * kMemory + measured.bytes_up;
  kernel.bytes_down = kernel.bytes_down * kMemory + measured.bytes_down;
  ++kernel.samples;
  kernel.learned_at = now;
  kernel.used = ++last_use_;
  if (kernels_.size() > kernels_max_) ForgetOldest();
  ++version_;
  return true;
}

void DeviceModel::ForgetOldest() {
  const auto oldest =
      std::min_element(kernels_.begin(), kernels_.end(),
                       [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
  kernels_.erase(oldest);
}

Prediction DeviceModel::LineOf(const Kernel& kernel, double hint) const {
  const double unit = Units(1, hint);
  Prediction line;
  const auto add = [](const RateModel& rate, double units, double BatchSeconds::*stage,
                      Prediction* to) {
    if (!rate.known() || units <= 0) return;
    to->fixed.*stage = rate.fixed();
    to->per_task.*stage = units * rate.slope();
  };
  add(kernel.host, unit, &BatchSeconds::host, &line);
  add(kernel.grid, unit, &BatchSeconds::grid, &line);
  if (const double most = kOfHintMax * hint;
      runs_grids_ && hint > 0 && line.per_task.grid > most && kernel.grid.sums().n > 0) {
    const double tasks = kernel.grid.sums().n / kernel.grid.sums().weight / unit;  // of a batch
    line.fixed.grid += (line.per_task.grid - most) * tasks;
    line.per_task.grid = most;
  }
  line.per_task.grid = std::max(line.per_task.grid, kTaskSecondsMin);
  add(up_, kernel.bytes_up / kernel.tasks, &BatchSeconds::up, &line);
  add(down_, kernel.bytes_down / kernel.tasks, &BatchSeconds::down, &line);
  return line;
}

std::optional<Prediction> DeviceModel::Predict(const ModelKey& key, double hint) const {
  if (!Within(hint, kHintMax)) return std::nullopt;
  const auto found = kernels_.find(key);
  if (found != kernels_.end() && (found->second.hint > 0) == (hint > 0)) {
    Prediction line = LineOf(found->second, hint);
    line.same_extents = true;
    return line;
  }
  if (hint <= 0) return std::nullopt;
  const Kernel* last = nullptr;
  for (auto it = kernels_.lower_bound({key.kernel, ""});
       it != kernels_.end() && it->first.kernel == key.kernel; ++it) {
    if (it->second.hint <= 0) continue;
    if (last == nullptr || it->second.used > last->used) last = &it->second;
  }
  if (last == nullptr) return std::nullopt;
  return LineOf(*last, hint);
}

std::vector<DeviceModel::Kernels::const_iterator> DeviceModel::ByUse() const {
  std::vector<Kernels::const_iterator> by_use;
  for (auto it = kernels_.begin(); it != kernels_.end(); ++it) by_use.push_back(it);
  std::sort(by_use.begin(), by_use.end(),
            [](const auto& a, const auto& b) { return a->second.used < b->second.used; });
  return by_use;
}

std::vector<DeviceModel::Row> DeviceModel::Rows(MonoTime now) const {
  std::vector<Row> rows;
  for (const auto& at : ByUse()) {
    const Kernel& kernel = at->second;
    rows.push_back({&at->first, LineOf(kernel, kernel.hint),
                    kernel.bytes_up > 0 ? BytesPerSecond(up_) : 0,
                    kernel.bytes_down > 0 ? BytesPerSecond(down_) : 0, kernel.samples,
                    std::max(now - kernel.learned_at, absl::ZeroDuration())});
  }
  return rows;
}

DeviceModelState DeviceModel::State(MonoTime now) const {
  DeviceModelState state{up_.sums(), down_.sums(), {}};
  for (const auto& at : ByUse()) {
    const Kernel& kernel = at->second;
    state.kernels.push_back({at->first, kernel.grid.sums(), kernel.host.sums(), kernel.hint,
                             kernel.tasks, kernel.bytes_up, kernel.bytes_down, kernel.samples,
                             std::max(now - kernel.learned_at, absl::ZeroDuration())});
  }
  return state;
}

bool DeviceModel::Sound(const DeviceModelState::Kernel& kernel) {
  constexpr double kSum = 1 / (1 - kMemory) * (1 + 1e-6);
  return !kernel.key.kernel.empty() && kernel.key.kernel.size() <= kNameBytesMax &&
         kernel.key.extents.size() <= kNameBytesMax && kernel.grid.Sound() &&
         kernel.grid.weight > 0 && kernel.host.Sound() && Within(kernel.hint, kHintMax) &&
         Within(kernel.tasks, kSum * kTasksMax) && kernel.tasks >= 1 &&
         Within(kernel.bytes_up, kSum * kBytesMax) && Within(kernel.bytes_down, kSum * kBytesMax) &&
         kernel.samples > 0 && kernel.age >= absl::ZeroDuration() && kernel.age <= kAgeMax;
}

bool DeviceModel::Restore(const DeviceModelState& state, MonoTime now) {
  if (!state.up.Sound() || !state.down.Sound() ||
      !std::all_of(state.kernels.begin(), state.kernels.end(), Sound)) {
    return false;
  }
  Forget("");
  up_ = RateModel(state.up);
  down_ = RateModel(state.down);
  for (const DeviceModelState::Kernel& kernel : state.kernels) {
    kernels_[kernel.key] = {RateModel(kernel.grid), RateModel(kernel.host), kernel.hint,
                            kernel.tasks,           kernel.bytes_up,        kernel.bytes_down,
                            kernel.samples,         now - kernel.age,       ++last_use_};
    if (kernels_.size() > kernels_max_) ForgetOldest();
  }
  return true;
}

void DeviceModel::Forget(std::string_view kernel) {
  ++version_;
  if (kernel.empty()) {
    up_ = RateModel();
    down_ = RateModel();
    kernels_.clear();
    return;
  }
  absl::erase_if(kernels_, [kernel](const auto& entry) {
    const std::string_view identity = entry.first.kernel;
    return identity.substr(0, identity.find('@')) == kernel || identity == kernel;
  });
}

}  // namespace tandem::worker
