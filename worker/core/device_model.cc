#include "worker/core/device_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace tandem::worker {
namespace {

constexpr double kTasksMax = 1e18;

bool Usable(double value) { return std::isfinite(value) && value >= 0; }

void Add(RateModel* model, double units, double seconds) {
  if (units > 0 && Usable(units) && Usable(seconds)) model->Add(units, seconds);
}

double Predicted(const RateModel& model, double units) {
  return model.known() && units > 0 ? model.Predict(units) : 0;
}

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

void DeviceModel::Learn(const ModelKey& key, const BatchSize& size, const BatchMeasured& measured) {
  if (!(size.tasks > 0) || !Usable(size.tasks)) return;
  Add(&up_, size.bytes_up, measured.up_seconds);
  Add(&down_, size.bytes_down, measured.down_seconds);
  if (measured.first_launch || !Usable(measured.grid_seconds)) return;
  Kernel& kernel = kernels_[key];
  kernel.used = ++last_use_;
  kernel.grid.Add(size.tasks, measured.grid_seconds);
  Add(&kernel.host, size.tasks, measured.host_seconds);
  if (kernels_.size() > options_.kernels_max) ForgetOldest();
}

void DeviceModel::ForgetOldest() {
  const auto oldest =
      std::min_element(kernels_.begin(), kernels_.end(),
                       [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
  kernels_.erase(oldest);
}

RateModel DeviceModel::CopyPrior() const {
  // One small and one large copy say what the options say.
  RateModel prior;
  for (const double bytes : {1e3, 1e9}) {
    prior.Add(bytes, options_.copy_fixed_seconds + bytes * options_.copy_seconds_per_byte);
  }
  return prior;
}

std::optional<BatchSeconds> DeviceModel::Predict(const ModelKey& key, const BatchSize& size) const {
  const auto found = kernels_.find(key);
  if (found == kernels_.end()) return std::nullopt;
  const RateModel prior = CopyPrior();
  BatchSeconds seconds;
  seconds.host = Predicted(found->second.host, size.tasks);
  seconds.grid = Predicted(found->second.grid, size.tasks);
  seconds.up = Predicted(up_.known() ? up_ : prior, size.bytes_up);
  seconds.down = Predicted(down_.known() ? down_ : prior, size.bytes_down);
  return seconds;
}

std::optional<uint64_t> DeviceModel::TasksFor(const ModelKey& key, const BatchSize& per_task,
                                              double seconds) const {
  // A line in the number of tasks: two points give it.
  const auto at = [&](double tasks) {
    return Predict(key, {tasks, tasks * per_task.bytes_up, tasks * per_task.bytes_down});
  };
  const std::optional<BatchSeconds> one = at(1), two = at(2);
  if (!one.has_value()) return std::nullopt;
  const double slope = std::max(two->Alone() - one->Alone(), 1e-18);
  const double tasks = 1 + (seconds - one->Alone()) / slope;
  return static_cast<uint64_t>(std::clamp(tasks, 1.0, kTasksMax));
}

DeviceModelState DeviceModel::State() const {
  DeviceModelState state{device_, up_.sums(), down_.sums(), {}};
  std::vector<std::pair<uint64_t, const ModelKey*>> by_use;
  for (const auto& [key, kernel] : kernels_) by_use.emplace_back(kernel.used, &key);
  std::sort(by_use.begin(), by_use.end());
  for (const auto& [used, key] : by_use) {
    const Kernel& kernel = kernels_.at(*key);
    state.kernels.push_back({*key, kernel.grid.sums(), kernel.host.sums()});
  }
  return state;
}

bool DeviceModel::Sound(const DeviceModelState::Kernel& kernel) {
  return kernel.grid.Sound() && kernel.grid.weight > 0 && kernel.host.Sound();
}

bool DeviceModel::Restore(const DeviceModelState& state) {
  if (state.device != device_ || !state.up.Sound() || !state.down.Sound() ||
      !std::all_of(state.kernels.begin(), state.kernels.end(), Sound)) {
    return false;
  }
  Reset();
  up_ = RateModel(state.up);
  down_ = RateModel(state.down);
  for (const DeviceModelState::Kernel& kernel : state.kernels) {
    kernels_[kernel.key] = {RateModel(kernel.grid), RateModel(kernel.host), ++last_use_};
    if (kernels_.size() > options_.kernels_max) ForgetOldest();
  }
  return true;
}

void DeviceModel::Reset() {
  up_ = RateModel();
  down_ = RateModel();
  kernels_.clear();
}

uint64_t TasksThatFit(const MemoryNeed& need, uint64_t budget) {
  const uint64_t once = need.resident_bytes + need.fixed_bytes;
  const bool overflows = once < need.resident_bytes;
  if (overflows || once > budget) return 0;
  if (need.bytes_per_task == 0) return std::numeric_limits<uint64_t>::max();
  return (budget - once) / need.bytes_per_task;
}

}  // namespace tandem::worker
