// DeviceModel: how long a device takes for a batch, and why: learned from what batches took.
//
//   seconds of a batch alone = host stages + copy up + grid + copy down
//   host = fixed + n × slope     grid = fixed + n × slope     copy = fixed + bytes × slope
//
//   model.Learn({"black_scholes@7f", "k=21"}, {4096}, {.grid_seconds = 12e-6, …}, now);
//   const Prediction line = *model.Predict(key, hinted_seconds_per_task);
//   line.fixed.Alone() + 8192 * line.per_task.Alone();   line.per_task.Binds();   // "copy up"
//
// It decides whether a device is worth asking, and the first pull of a job that nothing is known
// of; after that the Puller's own measurements decide. It outlives the jobs that taught it, and the
// worker (worker/server/learned_file.h).
//
// Copies are the device's: what one kernel teaches of them holds for all. Grids and host stages are
// those of a kernel with its inner extents (all axes but the split one). Where the kernel gives a
// hint of its cost, n is what the tasks cost by it: so other extents and scalars are told apart,
// and a kernel that was measured with other extents alone is predicted by the hint's proportion.
//
// Who asks leaves out the first launch of a kernel in a process: it pays for loading it.
//
// Thread-safety: one thread. Bounds: kernels_max kernels and extents, the least recently used is
// forgotten first. Invariants: what makes no sense is never learned nor restored, so each predicted
// number is finite and not negative.
#ifndef TANDEM_WORKER_CORE_DEVICE_MODEL_H_
#define TANDEM_WORKER_CORE_DEVICE_MODEL_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "worker/core/rate_model.h"

namespace tandem::worker {

// A kernel's identity, and its inner extents as text ("k=21"): what its speed depends on.
struct ModelKey {
  std::string kernel;
  std::string extents;
  friend auto operator<=>(const ModelKey&, const ModelKey&) = default;
};

struct BatchSize {
  double tasks = 0;
  double hinted_seconds_per_task = 0;  // by the kernel's own hint; 0: it gives none
};

// What a batch was measured to take, from the device's own events, and what it copied.
struct BatchMeasured {
  double host_seconds = 0, up_seconds = 0, grid_seconds = 0, down_seconds = 0;
  double bytes_up = 0, bytes_down = 0;
};

// The stages of a batch, in the order in which it passes them. Host stages are on either side of
// the device and counted together.
enum class Stage { kHost, kCopyUp, kGrid, kCopyDown };
std::string_view StageName(Stage stage);  // "copy up"

struct BatchSeconds {
  double host = 0, up = 0, grid = 0, down = 0;

  // By itself, each stage after the other.
  double Alone() const { return host + up + grid + down; }
  // One of many that follow each other through the stages: the slowest stage's time.
  double Streamed() const;
  Stage Binds() const;
};

struct Prediction {
  BatchSeconds fixed;     // whatever the batch's size
  BatchSeconds per_task;  // and for each task of it
  bool same_extents = false;
};

// Everything that was learned, as plain data: to be kept over restarts.
struct DeviceModelState {
  struct Kernel {
    ModelKey key;
    RateModel::Sums grid, host;
    double hint = 0;  // seconds a task, of the last batch; 0: the kernel gives none
    double tasks = 0, bytes_up = 0, bytes_down = 0;  // decayed sums
    uint64_t samples = 0;
    absl::Duration age;  // of the last sample
    friend bool operator==(const Kernel&, const Kernel&) = default;
  };
  RateModel::Sums up, down;
  std::vector<Kernel> kernels;  // the least recently used first
  friend bool operator==(const DeviceModelState&, const DeviceModelState&) = default;
};

// One of a worker's devices, as it is kept.
struct LearnedDevice {
  std::string device;  // the worker's name of it: "cpu", "emulated:EMULATED-0"
  uint32_t lanes = 1;  // that pull for themselves
  DeviceModelState model;
  friend bool operator==(const LearnedDevice&, const LearnedDevice&) = default;
};

class DeviceModel {
 public:
  static constexpr size_t kKernelsMax = 128;
  static constexpr size_t kNameBytesMax = 256;  // of a kernel's identity, of extents

  // One line of what was learned, for people.
  struct Row {
    const ModelKey* key = nullptr;
    Prediction line;  // of a task as hinted as those of the last batch
    double up_bytes_per_second = 0, down_bytes_per_second = 0;  // 0: it copies nothing that way
    uint64_t samples = 0;
    absl::Duration age;
  };

  explicit DeviceModel(size_t kernels_max = kKernelsMax) : kernels_max_(kernels_max) {}

  // Its batches are grids from now on, which have a price of their own, however little is in them:
  // of small batches of one size alone it cannot be told from what the tasks cost. So a task is
  // predicted to take no more than so many times its hint; the rest is the grid's.
  static constexpr double kOfHintMax = 100;
  void RunsGrids() { runs_grids_ = true; }

  // False: a size or a time makes no sense, and nothing was learned.
  bool Learn(const ModelKey& key, const BatchSize& size, const BatchMeasured& measured,
             MonoTime now);
  // Nothing while the kernel was never measured, or only with other extents and it gives no hint.
  std::optional<Prediction> Predict(const ModelKey& key, double hinted_seconds_per_task) const;

  // In the order in which they were last learned of.
  std::vector<Row> Rows(MonoTime now) const;
  // Grows with all that changes.
  uint64_t version() const { return version_; }
  size_t size() const { return kernels_.size(); }
  bool Knows(const ModelKey& key) const { return kernels_.contains(key); }

  DeviceModelState State(MonoTime now) const;
  // In place of what is known. False: it makes no sense, and nothing has changed.
  bool Restore(const DeviceModelState& state, MonoTime now);
  // Of one kernel, by its identity or its name; of all, and of copies: "".
  void Forget(std::string_view kernel);

 private:
  struct Kernel {
    RateModel grid, host;
    double hint = 0;
    double tasks = 0, bytes_up = 0, bytes_down = 0;
    uint64_t samples = 0;
    MonoTime learned_at;
    uint64_t used = 0;
  };
  using Kernels = absl::btree_map<ModelKey, Kernel>;
  static bool Sound(const DeviceModelState::Kernel& kernel);
  Prediction LineOf(const Kernel& kernel, double hint) const;
  std::vector<Kernels::const_iterator> ByUse() const;
  void ForgetOldest();

  size_t kernels_max_;
  bool runs_grids_ = false;
  RateModel up_, down_;
  Kernels kernels_;
  uint64_t last_use_ = 0;
  uint64_t version_ = 0;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_CORE_DEVICE_MODEL_H_
