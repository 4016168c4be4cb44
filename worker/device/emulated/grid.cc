#include "worker/device/emulated/grid.h"

#include <errno.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <vector>

#include "common/base/error.h"
#include "common/base/rng.h"
#include "common/base/strings.h"
#include "worker/device/buffers.h"
#include "worker/device/emulated/guarded_call.h"

namespace tandem::worker {
namespace {

constexpr uint64_t kHostPage = 4096;
// Programs, heaps and mappings lie above; two small numbers side by side below, where a sanitizer
// may have something mapped.
constexpr uint64_t kPointersFrom = uint64_t{1} << 44;

struct RangeCall {
  int64_t (*range)(const TandemPart*, int32_t, void*);
  TandemPart part;
  void* scratch;
};

void CallRange(void* context) {
  auto* call = static_cast<RangeCall*>(context);
  call->range(&call->part, 1, call->scratch);
}

absl::Status IllegalAddress(const TandemKernelV1& kernel, uint64_t address, const char* how) {
  return Error(absl::StatusCode::kInternal, reason::kDeviceFault,
               StrCat("the grid of kernel ", kernel.name, " ", how, " address ", address,
                      ", which is not the emulated device's memory; its process is replaced"));
}

// Something of this process lies there (the device's own pages aside).
bool IsMapped(uint64_t address) {
  if (address < kPointersFrom) return false;
  unsigned char resident = 0;
  return mincore(reinterpret_cast<void*>(address / kHostPage * kHostPage), kHostPage, &resident) ==
             0 ||
         errno != ENOMEM;
}

// What looks like a pointer among the arguments must point into the device.
absl::Status CheckArgs(const TandemKernelV1& kernel, const TandemPart& part,
                       const EmulatedMemory& memory) {
  const bool cells = (kernel.flags & TANDEM_HOST_STAGES) != 0;
  const size_t words = (cells ? kernel.work_bytes : kernel.args_bytes) / sizeof(uint64_t);
  std::vector<uint64_t> found(words);
  if (words > 0) std::memcpy(found.data(), part.args, words * sizeof(uint64_t));
  for (const uint64_t word : found) {
    if (!memory.Owns(word) && IsMapped(word)) return IllegalAddress(kernel, word, "is given");
  }
  for (const void* pointer : {static_cast<const void*>(part.fault),  //
                              static_cast<const void*>(part.partial)}) {
    const auto address = reinterpret_cast<uint64_t>(pointer);
    if (address != 0 && !memory.Owns(address)) return IllegalAddress(kernel, address, "is given");
  }
  return absl::OkStatus();
}

// One grid's run.
class Runner {
 public:
  Runner(const TandemKernelV1& kernel, absl::Span<const TandemPart> parts, Body body)
      : kernel_(kernel),
        parts_(parts),
        range_(body == Body::kCheap && kernel.range_cheap != nullptr ? kernel.range_cheap
                                                                     : kernel.range) {}

  // Tasks [begin, end) of all parts laid behind one another.
  absl::Status Tasks(uint64_t begin, uint64_t end) {
    uint64_t before = 0;
    for (const TandemPart& part : parts_) {
      const uint64_t from = std::max(begin, before);
      const uint64_t to = std::min(end, before + static_cast<uint64_t>(part.tasks));
      if (from < to) {
        absl::Status status =
            Some(part, static_cast<int64_t>(from - before), static_cast<int64_t>(to - before));
        if (!status.ok()) return status;
      }
      before += static_cast<uint64_t>(part.tasks);
    }
    return absl::OkStatus();
  }

  absl::Status WholeParts() {
    for (const TandemPart& part : parts_) {
      if (part.tasks == 0) continue;
      if (absl::Status status = Some(part, 0, part.tasks); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Some(const TandemPart& part, int64_t from, int64_t to) {
    RangeCall call = {range_, part, nullptr};
    call.part.first = {part.first.id + from, part.first.row + from};
    call.part.tasks = to - from;
    if (part.fault != nullptr) call.part.fault = part.fault + from;
    // A block's shared memory.
    const auto ask = kernel_.scratch_bytes;
    const int64_t bytes = ask == nullptr ? 0 : ask(part.args);
    if (bytes > 0) call.scratch = scratch_.Ensure(static_cast<size_t>(bytes));
    const std::optional<uint64_t> address = GuardedCall(CallRange, &call);
    if (address.has_value()) return IllegalAddress(kernel_, *address, "touched");
    return absl::OkStatus();
  }

  const TandemKernelV1& kernel_;
  const absl::Span<const TandemPart> parts_;
  int64_t (*const range_)(const TandemPart*, int32_t, void*);
  AlignedBuffer scratch_;
};

absl::Status RunBlocks(Runner* runner, const GridShape& shape, uint64_t tasks, uint64_t seed) {
  std::vector<uint64_t> order(shape.blocks);
  std::iota(order.begin(), order.end(), 0);
  Rng rng(seed);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.Below(i)]);
  for (const uint64_t block : order) {
    for (uint64_t round = 0; round < shape.rounds; ++round) {
      const uint64_t begin = (round * shape.blocks + block) * shape.tasks_a_block;
      if (begin >= tasks) break;
      absl::Status status = runner->Tasks(begin, std::min(tasks, begin + shape.tasks_a_block));
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace

GridShape ShapeOf(uint64_t tasks, uint64_t threads_a_task, const GpuProperties& device) {
  GridShape shape;
  shape.tasks_a_block =
      std::max<uint64_t>(1, kBlockThreads / std::max<uint64_t>(threads_a_task, 1));
  const uint64_t wanted = (tasks - 1) / shape.tasks_a_block + 1;
  const uint64_t resident = std::max<uint64_t>(
      1, uint64_t{device.multiprocessors} * device.threads_a_multiprocessor / kBlockThreads);
  shape.blocks = std::min(wanted, kWavesMax * resident);
  shape.rounds = (wanted - 1) / shape.blocks + 1;
  return shape;
}

absl::Status RunGrid(const TandemKernelV1& kernel, absl::Span<const TandemPart> parts,
                     const GpuProperties& device, Body body, uint64_t seed,
                     EmulatedMemory* memory) {
  uint64_t tasks = 0;
  for (const TandemPart& part : parts) {
    tasks += static_cast<uint64_t>(part.tasks);
    if (absl::Status status = CheckArgs(kernel, part, *memory); !status.ok()) return status;
  }
  if (tasks == 0) return absl::OkStatus();
  Runner runner(kernel, parts, body);
  // Where it shows which tasks share a call, a part is one.
  constexpr uint32_t kAtOnce = TANDEM_WHOLE_LEAF | TANDEM_OWN_LAUNCHER | TANDEM_OWN_MERGE;
  const bool whole = (kernel.flags & kAtOnce) != 0 || kernel.output_class == TANDEM_CLASS_TOLERANT;
  absl::Status status;
  {
    const EmulatedMemory::Opened opened(memory);
    if (whole) {
      status = runner.WholeParts();
    } else {
      const uint64_t threads = (kernel.flags & TANDEM_BLOCK_A_TASK) != 0 ? kBlockThreads : 1;
      status = RunBlocks(&runner, ShapeOf(tasks, threads, device), tasks, seed);
    }
  }
  return status.ok() ? memory->CheckSlack() : status;
}

}  // namespace tandem::worker
