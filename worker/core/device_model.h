// DeviceModel: how long a device takes for a batch, and why: learned from what batches took.
//
//   seconds of a batch alone = host stages + copy up + grid + copy down
//   host = fixed + n × slope     grid = fixed + n × slope     copy = fixed + bytes × slope
//
//   model.Learn({"black_scholes@7f", "n"}, {4096, 49152, 32768}, {.grid_seconds = 12e-6, …});
//   const BatchSeconds seconds = *model.Predict(key, {8192, 98304, 65536});
//   seconds.Alone(), seconds.Streamed(), seconds.Binds()     // "bound by copy up"
//
// It decides which devices are eligible, what fits into their memory, and the first pull of a job
// that nothing is known of; after that the Puller's own measurements decide. Copies are the
// device's: what one kernel teaches of them holds for all. Grids and host stages are those of a
// kernel with its inner extents (all axes but the split one), on this device model.
//
// The first launch of a kernel in a process pays for loading it and is not learned.
//
// Thread-safety: one thread. Bounds: DeviceModelOptions::kernels_max kernels, the least recently
// used is forgotten first.
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
  double bytes_up = 0;
  double bytes_down = 0;
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

// What a batch was measured to take, from the device's own events.
struct BatchMeasured {
  double host_seconds = 0, up_seconds = 0, grid_seconds = 0, down_seconds = 0;
  bool first_launch = false;
};

struct DeviceModelOptions {
  // Of a copy, until one was measured.
  double copy_seconds_per_byte = 1 / 8e9;
  double copy_fixed_seconds = 10e-6;
  size_t kernels_max = 4096;
};

// Everything that was learned, as plain data: to be kept over restarts, shown and reset.
struct DeviceModelState {
  struct Kernel {
    ModelKey key;
    RateModel::Sums grid, host;
    friend bool operator==(const Kernel&, const Kernel&) = default;
  };
  std::string device;  // its model: "NVIDIA H200"
  RateModel::Sums up, down;
  std::vector<Kernel> kernels;  // the least recently used first
  friend bool operator==(const DeviceModelState&, const DeviceModelState&) = default;
};

class DeviceModel {
 public:
  explicit DeviceModel(std::string device, const DeviceModelOptions& options = {})
      : device_(std::move(device)), options_(options) {}

  // Sizes and times that are negative or not finite are passed over, as is what comes of no task.
  void Learn(const ModelKey& key, const BatchSize& size, const BatchMeasured& measured);
  // Nothing while the kernel was never measured with these extents.
  std::optional<BatchSeconds> Predict(const ModelKey& key, const BatchSize& size) const;
  // How many tasks, each of so many bytes, a batch may have to take `seconds` by itself; at least
  // 1. Nothing: as Predict.
  std::optional<uint64_t> TasksFor(const ModelKey& key, const BatchSize& per_task,
                                   double seconds) const;

  const std::string& device() const { return device_; }
  size_t size() const { return kernels_.size(); }
  DeviceModelState State() const;
  // What was learned on another device model, or makes no sense, is not taken over. True: it was.
  bool Restore(const DeviceModelState& state);
  void Reset();

 private:
  struct Kernel {
    RateModel grid, host;
    uint64_t used = 0;
  };
  static bool Sound(const DeviceModelState::Kernel& kernel);
  RateModel CopyPrior() const;
  void ForgetOldest();

  const std::string device_;
  const DeviceModelOptions options_;
  RateModel up_, down_;
  absl::btree_map<ModelKey, Kernel> kernels_;
  uint64_t last_use_ = 0;
};

// What a batch needs of a device's memory.
struct MemoryNeed {
  uint64_t resident_bytes = 0;  // operands that stay, whatever the batch's size
  uint64_t fixed_bytes = 0;     // workspace, parts
  uint64_t bytes_per_task = 0;  // operands, outputs and fault bytes
};

// The most tasks of a batch that fit into `budget`; 0: not even one does.
uint64_t TasksThatFit(const MemoryNeed& need, uint64_t budget);

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_CORE_DEVICE_MODEL_H_
