#include "worker/device/cpu/batch_runner.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "absl/container/inlined_vector.h"
#include "common/base/error.h"
#include "common/base/strings.h"
#include "worker/device/cpu/cpu_accumulator.h"

namespace tandem::worker {
namespace {

// Tasks that one call of the kernel shall have: enough to be worth the call, and no less than a
// leaf while there is a leaf for each thread.
int64_t ChunkTasks(const Batch& batch, int64_t tasks, uint32_t threads) {
  if (batch.expected_ns > 0 && batch.expected_ns <= kSplitNanos) return tasks;
  const BatchPart& part = batch.parts.front();
  const int64_t leaf = std::min<int64_t>(static_cast<int64_t>(part.grain), tasks / threads);
  const auto ask = batch.kernel->scratch_bytes;
  const double scratch = ask == nullptr ? 0 : static_cast<double>(ask(part.args));
  const double nanos = std::max(kChunkNanos, kChunkNanosAScratchByte * scratch);
  const double worth =
      batch.expected_ns > 0 ? static_cast<double>(tasks) * nanos / batch.expected_ns : 1;
  return std::max({int64_t{1}, leaf, static_cast<int64_t>(worth)});
}

// Leaves that one thread runs before it looks for more; all, where another thread is not worth it.
int64_t LeavesAChunk(const Batch& batch, int64_t leaves) {
  if (batch.expected_ns <= 0) return 1;
  const auto chunks = static_cast<int64_t>(batch.expected_ns / kSplitNanos);
  return leaves / std::max<int64_t>(1, std::min(leaves, chunks));
}

int64_t CallKernel(const RunContext& context, const BatchPart& part, int64_t begin, int64_t end,
                   void* scratch, void* partial) {
  const TandemPart run = {part.args,
                          {part.first.id + begin, part.first.row + begin},
                          end - begin,
                          part.fault == nullptr ? nullptr : part.fault + begin,
                          partial};
  return context.batch->kernel->range(&run, 1, scratch);
}

void LogStart(const RunContext& context, const BatchPart& part, int64_t begin, int64_t end,
              uint32_t slot, uint64_t task) {
  const uint64_t first = static_cast<uint64_t>(part.first.id + begin) / part.grain;
  const uint64_t last = static_cast<uint64_t>(part.first.id + end - 1) / part.grain;
  context.log->Begin(slot, part.job, first, last - first + 1, task);
}

// Tasks [from, to) of one part on the calling thread; false when there is no memory.
bool RunChunk(const RunContext& context, BatchPart& part, int64_t from, int64_t to,
              std::atomic<int64_t>* failed) {
  const uint32_t slot = context.crew->slot();
  void* partial = nullptr;
  if (auto* accumulator = static_cast<CpuAccumulator*>(part.accumulator); accumulator != nullptr) {
    partial = accumulator->ForSlot(slot);
    if (partial == nullptr) return false;
    accumulator->Count(slot, to - from);
  }
  bool no_memory = false;
  void* scratch = ScratchFor(context, part, slot, &no_memory);
  if (no_memory) return false;
  const int64_t bad = RunTasks(context, part, from, to, slot, scratch, partial,
                               part.suspect ? Granularity::kTask : Granularity::kWhole);
  if (bad != 0) failed->fetch_add(bad, std::memory_order_relaxed);
  return true;
}

}  // namespace

int64_t NowNanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

absl::Status OutOfMemory(const Batch& batch) {
  return Error(absl::StatusCode::kResourceExhausted, reason::kOutOfMemory,
               StrCat("no memory for scratch or partials of kernel ", batch.kernel->name,
                      "; give the worker more memory or the job a smaller grain"));
}

Starts StartsOf(const std::vector<BatchPart>& parts) {
  Starts starts;
  starts.reserve(parts.size() + 1);
  int64_t tasks = 0;
  for (const BatchPart& part : parts) {
    starts.push_back(tasks);
    tasks += part.tasks;
  }
  starts.push_back(tasks);
  return starts;
}

bool HasSuspect(const Batch& batch) {
  return std::any_of(batch.parts.begin(), batch.parts.end(),
                     [](const BatchPart& part) { return part.suspect; });
}

void* ScratchFor(const RunContext& context, const BatchPart& part, uint32_t slot, bool* no_memory) {
  const auto ask = context.batch->kernel->scratch_bytes;
  const int64_t bytes = ask == nullptr ? 0 : ask(part.args);
  if (bytes <= 0) return nullptr;
  void* scratch = (*context.slots)[slot].scratch.Ensure(static_cast<size_t>(bytes));
  *no_memory = scratch == nullptr;
  return scratch;
}

int64_t RunTasks(const RunContext& context, const BatchPart& part, int64_t begin, int64_t end,
                 uint32_t slot, void* scratch, void* partial, Granularity granularity) {
  int64_t failed = 0;
  const int64_t start = NowNanos();
  ForEachRun(part, begin, end, [&](int64_t b, int64_t e) {
    if (granularity == Granularity::kWhole) {
      LogStart(context, part, b, e, slot, StartLog::kNoTask);
      failed += CallKernel(context, part, b, e, scratch, partial);
      return;
    }
    for (int64_t i = b; i < e; ++i) {
      LogStart(context, part, i, i + 1, slot, static_cast<uint64_t>(part.first.id + i));
      failed += CallKernel(context, part, i, i + 1, scratch, partial);
    }
  });
  context.log->End(slot);
  context.thread_ns->fetch_add(NowNanos() - start, std::memory_order_relaxed);
  return failed;
}

absl::Status RunMap(const RunContext& context) {
  std::vector<BatchPart>& parts = context.batch->parts;
  const Starts starts = StartsOf(parts);
  const int64_t tasks = starts.back();
  std::vector<std::atomic<int64_t>> failed(parts.size());
  std::atomic<bool> no_memory = false;
  const auto run = [&](int64_t begin, int64_t end) {
    ForEachPart(starts, begin, end, [&](size_t at, int64_t from, int64_t to) {
      if (!RunChunk(context, parts[at], from, to, &failed[at])) no_memory = true;
    });
  };
  const int64_t chunk = HasSuspect(*context.batch)
                            ? tasks
                            : ChunkTasks(*context.batch, tasks, context.crew->threads());
  context.crew->ParallelFor(tasks, chunk, run);
  for (size_t i = 0; i < parts.size(); ++i) parts[i].failed = failed[i];
  return no_memory ? OutOfMemory(*context.batch) : absl::OkStatus();
}

absl::Status RunLeaves(const RunContext& context) {
  std::vector<BatchPart>& parts = context.batch->parts;
  std::vector<std::atomic<int64_t>> failed(parts.size());
  std::atomic<bool> no_memory = false;
  const auto run = [&](size_t at, int64_t begin, int64_t end) {
    const BatchPart& part = parts[at];
    const uint32_t slot = context.crew->slot();
    bool none = false;
    void* scratch = ScratchFor(context, part, slot, &none);
    if (none) {
      no_memory = true;
      return;
    }
    if (part.suspect) {  // Each task by itself, for its name alone.
      RunTasks(context, part, begin, end, slot, scratch, nullptr, Granularity::kTask);
    }
    failed[at] += RunTasks(context, part, begin, end, slot, scratch, nullptr, Granularity::kWhole);
  };
  for (size_t at = 0; at < parts.size(); ++at) {
    const auto grain = static_cast<int64_t>(parts[at].grain);
    const int64_t leaves = (parts[at].tasks + grain - 1) / grain;
    const int64_t chunk = parts[at].suspect ? leaves : LeavesAChunk(*context.batch, leaves);
    context.crew->ParallelFor(leaves, chunk, [&](int64_t first, int64_t last) {
      for (int64_t leaf = first; leaf < last; ++leaf) {
        run(at, leaf * grain, std::min((leaf + 1) * grain, parts[at].tasks));
      }
    });
    parts[at].failed = failed[at];
  }
  return no_memory ? OutOfMemory(*context.batch) : absl::OkStatus();
}

absl::Status RunInOrder(const RunContext& context) {
  BatchPart& part = context.batch->parts.front();
  const auto grain = static_cast<int64_t>(part.grain);
  const bool items = (context.batch->kernel->flags & TANDEM_HOST_STAGES) != 0;
  // A call has the tasks of one leaf where that may show.
  const int64_t tasks = items || part.leaf_calls
                            ? 1
                            : ChunkTasks(*context.batch, part.tasks, context.crew->threads());
  const auto claim = static_cast<uint32_t>(std::clamp<int64_t>(tasks / grain, 1, 1 << 20));
  std::atomic<int64_t> failed = 0;
  std::atomic<bool> no_memory = false;
  const auto run = [&](int64_t begin, int64_t end) {
    if (items) return RunItems(context, part, begin, end, &failed);
    if (!RunChunk(context, part, begin, end, &failed)) no_memory = true;
  };
  context.crew->ParallelFor(context.crew->threads(), 1, [&](int64_t, int64_t) {
    for (auto leaves = part.cursor->Claim(claim); leaves.begin < leaves.end;
         leaves = part.cursor->Claim(claim)) {
      run(leaves.begin * grain, std::min(leaves.end * grain, part.tasks));
    }
  });
  part.failed = failed;
  return no_memory ? OutOfMemory(*context.batch) : absl::OkStatus();
}

absl::Status RunParts(const RunContext& context) {
  const Batch& batch = *context.batch;
  if (batch.parts.front().cursor != nullptr) return RunInOrder(context);
  if ((batch.kernel->flags & TANDEM_HOST_STAGES) != 0) return RunHostStages(context);
  if (batch.parts.front().partial != nullptr) return RunFold(context);
  return batch.parts.front().leaf_calls ? RunLeaves(context) : RunMap(context);
}

}  // namespace tandem::worker
