#include "worker/device/gpu/gpu_batch.h"

#include <algorithm>
#include <cstring>

#include "common/base/error.h"
#include "common/base/strings.h"
#include "worker/device/cpu/batch_runner.h"
#include "worker/device/cpu/tree_fold.h"

namespace tandem::worker {
namespace {

// Bytes that are worth a second thread.
constexpr int64_t kCopyBytes = 1 << 20;
// Arguments are aligned to this.
constexpr uint64_t kArgsAlign = 16;

absl::Status NoHostMemory(const Batch& batch) {
  return Error(absl::StatusCode::kResourceExhausted, reason::kOutOfMemory,
               StrCat("no host memory for the arguments or items of kernel ", batch.kernel->name,
                      "; give the worker more memory or the job a smaller grain"));
}

// How many fault bytes are set.
int64_t CountFaults(const uint8_t* fault, int64_t tasks) {
  return tasks - std::count(fault, fault + tasks, uint8_t{TANDEM_OK});
}

}  // namespace

void CopyBytes(Crew& crew, void* to, const void* from, uint64_t bytes) {
  if (bytes == 0) return;
  crew.ParallelFor(static_cast<int64_t>(bytes), kCopyBytes, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<uint8_t*>(to) + begin, static_cast<const uint8_t*>(from) + begin,
                static_cast<size_t>(end - begin));
  });
}

DeviceAddress GpuBatch::AddressOf(const Input& input, const Place& place) const {
  return input.stays ? input.resident->address : place.device + layout_.at(input.chunk);
}

void GpuBatch::CopyOperands(Crew& crew, const Place& place) {
  for (const Input& input : inputs_) {
    if (input.stays && !input.fresh) continue;
    uint8_t* const to = place.pinned + layout_.at(input.chunk);
    if (!input.table) {
      CopyBytes(crew, to, input.host, input.bytes);
      continue;
    }
    const auto* from = static_cast<const TandemBytes*>(input.host);
    auto* const table = reinterpret_cast<TandemBytes*>(to);
    for (size_t i = 0; i < input.items.size(); ++i) {
      const uint64_t at = layout_.at(input.items[i]);
      CopyBytes(crew, place.pinned + at, from[i].data, static_cast<uint64_t>(from[i].size));
      table[i] = {static_cast<const uint8_t*>((place.device + at).ForKernel()), from[i].size};
    }
  }
  for (const Output& output : outputs_) {
    if (!output.goes_up) continue;
    CopyBytes(crew, place.pinned + layout_.at(output.chunk), output.host, output.bytes);
  }
  for (size_t i = 0; i < batch_->parts.size(); ++i) {
    const BatchPart& part = batch_->parts[i];
    if (faults_[i] == BlockLayout::kNone || part.skip.empty()) continue;
    std::memcpy(place.pinned + layout_.at(faults_[i]), part.fault, static_cast<size_t>(part.tasks));
  }
}

void GpuBatch::FreshenPartials(const Place& place) {
  const bool own = (batch_->kernel->flags & TANDEM_OWN_MERGE) != 0;
  for (const Fresh& fresh : fresh_) {
    uint8_t* const partial = place.pinned + layout_.at(fresh.chunk);
    if (own) std::memset(partial, 0, layout_.bytes(fresh.chunk));
    batch_->kernel->partial_init(batch_->parts[fresh.part].args, partial);
  }
  for (const Gathered& gathered : gathered_) {
    if (gathered.partial->on_device() && !gathered.fresh) continue;
    batch_->kernel->partial_init(gathered.partial->args(),
                                 place.pinned + layout_.at(gathered.chunk));
  }
}

// Every part's arguments, with the device's pointers.
void GpuBatch::PatchArgs(const Place& place) {
  for (uint32_t i = 0; i < batch_->parts.size(); ++i) {
    if (batch_->kernel->args_bytes == 0) break;
    std::memcpy(ArgsOf(i), batch_->parts[i].args, batch_->kernel->args_bytes);
  }
  for (const Patch& patch : patches_) {
    void* pointer = nullptr;
    if (patch.to == Patch::To::kInput) {
      pointer = AddressOf(inputs_[patch.index], place).ForKernel();
    } else if (patch.to == Patch::To::kOutput) {
      pointer = (place.device + layout_.at(outputs_[patch.index].chunk)).ForKernel();
    }
    std::memcpy(ArgsOf(patch.part) + patch.args_offset, &pointer, sizeof(pointer));
  }
}

void GpuBatch::MakeParts(const Place& place) {
  for (const Launch& launch : launches_) {
    const BatchPart& part = batch_->parts[launch.part];
    TandemPart made = {ArgsOf(launch.part),
                       {part.first.id + launch.begin, part.first.row + launch.begin},
                       launch.end - launch.begin,
                       nullptr,
                       nullptr};
    if (launch.item >= 0) {
      const Item& item = items_[static_cast<size_t>(launch.item)];
      made.args = DeviceWorkOf(static_cast<size_t>(launch.item));
      made.first = {part.first.id + item.at, 0};
      // One that could not be prepared has no rows.
      if (item.fault != TANDEM_OK) made.tasks = 0;
    }
    if (const Chunk fault = faults_[launch.part]; fault != BlockLayout::kNone) {
      const uint64_t at = layout_.at(fault) + static_cast<uint64_t>(launch.begin);
      made.fault = static_cast<uint8_t*>((place.device + at).ForKernel());
    }
    if (launch.partial != BlockLayout::kNone) {
      made.partial = (place.device + layout_.at(launch.partial)).ForKernel();
    } else if (launch.gathered >= 0) {
      const Gathered& gathered = gathered_[static_cast<size_t>(launch.gathered)];
      made.partial = gathered.partial->on_device()
                         ? gathered.partial->address.ForKernel()
                         : (place.device + layout_.at(gathered.chunk)).ForKernel();
    }
    parts_.push_back(made);
  }
  const TandemKernelV1* kernel = batch_->kernel;
  if (kernel->pack_parts == nullptr) return;
  for (const Step& step : steps_) {
    uint8_t* const table = place.pinned + layout_.at(table_) +
                           step.table_begin * static_cast<uint64_t>(kernel->part_bytes);
    kernel->pack_parts(parts_.data() + step.begin, static_cast<int32_t>(step.end - step.begin),
                       table, place.workspace.ForKernel());
  }
}

absl::Status GpuBatch::Pack(Crew& crew, StartLog* log, const Place& place) {
  // What stays is needed by others too, whatever becomes of this batch.
  CopyOperands(crew, place);
  FreshenPartials(place);
  args_stride_ = (batch_->kernel->args_bytes + kArgsAlign) / kArgsAlign * kArgsAlign;
  if (args_.Ensure(args_stride_ * batch_->parts.size()) == nullptr || no_memory_) {
    return NoHostMemory(*batch_);
  }
  PatchArgs(place);
  if (has_items()) Prepare(crew, log, place);
  MakeParts(place);
  return absl::OkStatus();
}

absl::Span<const TandemPart> GpuBatch::PartsOf(const Step& step) const {
  return absl::MakeConstSpan(parts_).subspan(step.begin, step.end - step.begin);
}

double GpuBatch::ExpectedNanos(const Step& step) const {
  if (tasks_ == 0) return 0;
  int64_t tasks = 0;
  for (size_t i = step.begin; i < step.end; ++i) tasks += launches_[i].end - launches_[i].begin;
  return batch_->expected_ns * static_cast<double>(tasks) / static_cast<double>(tasks_);
}

void GpuBatch::CopyOutputs(Crew& crew, const Place& place) {
  for (const Output& output : outputs_) {
    CopyBytes(crew, output.host, place.pinned + layout_.at(output.chunk), output.bytes);
  }
  for (size_t i = 0; i < batch_->parts.size(); ++i) {
    BatchPart& part = batch_->parts[i];
    part.failed = 0;
    if (faults_[i] == BlockLayout::kNone) continue;
    std::memcpy(part.fault, place.pinned + layout_.at(faults_[i]), static_cast<size_t>(part.tasks));
    part.failed = CountFaults(part.fault, part.tasks);
  }
}

absl::Status GpuBatch::Fold(Crew& crew, const Folded& folded, const Place& place) {
  const BatchPart& part = batch_->parts[folded.part];
  TreeFold fold(batch_->kernel, part, pool_, &crew);
  const auto value_of = [&](const Segment& segment, uint8_t* into) {
    if (segment.partial == BlockLayout::kNone) {
      fold.Freshen(into, segment.end - segment.begin);
    } else {
      std::memcpy(into, place.pinned + layout_.at(segment.partial), layout_.bytes(segment.partial));
    }
  };
  return fold.Run(1, [&](int64_t leaf, uint8_t* into) {
    const int64_t begin = fold.LeafBegin(leaf);
    const int64_t end = fold.LeafEnd(leaf);
    const auto first = folded.leaf_at[static_cast<size_t>(leaf)];
    const auto last = folded.leaf_at[static_cast<size_t>(leaf) + 1];
    if (first == last) return fold.Freshen(into, end - begin);  // Nothing of it runs.
    AlignedBuffer buffer;
    value_of(folded.segments[first], into);
    for (size_t i = first + 1; i < last; ++i) {
      const Segment& segment = folded.segments[i];
      if (buffer.data() == nullptr) buffer = pool_->Take(fold.BytesOf(end - segment.begin));
      if (buffer.data() == nullptr) return fold.NoMemory();
      value_of(segment, buffer.data());
      fold.MergeTasks(into, segment.begin - begin, buffer.data(), segment.end - segment.begin);
    }
    pool_->Give(std::move(buffer));
  });
}

absl::Status GpuBatch::Unpack(Crew& crew, StartLog* log, const Place& place) {
  CopyOutputs(crew, place);
  if (has_items()) Finish(crew, log);
  for (const Gathered& gathered : gathered_) {
    if (gathered.partial->on_device()) continue;
    absl::Status status =
        gathered.partial->Add(place.pinned + layout_.at(gathered.chunk), gathered.tasks);
    if (!status.ok()) return status;
  }
  std::vector<absl::Status> statuses(folded_.size());
  crew.ParallelFor(static_cast<int64_t>(folded_.size()), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      statuses[i] = Fold(crew, folded_[i], place);
    }
  });
  for (absl::Status& status : statuses) {
    if (!status.ok()) return std::move(status);
  }
  for (const BatchPart& part : batch_->parts) {
    if (part.partial != nullptr && part.tasks == 0) {
      batch_->kernel->partial_init(part.args, part.partial);
    }
  }
  return absl::OkStatus();
}

}  // namespace tandem::worker
