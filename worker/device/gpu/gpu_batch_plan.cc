// GpuBatch: which chunks a batch has, and which grids.
#include <algorithm>
#include <utility>

#include "worker/device/cpu/batch_runner.h"
#include "worker/device/gpu/gpu_batch.h"

namespace tandem::worker {

void GpuBatch::Begin(Crew& crew, StartLog* log) {
  if (batch_->before) batch_->before(crew);
  if (has_items()) Measure(crew, log);
}

void GpuBatch::Plan() {
  const auto parts = static_cast<uint32_t>(batch_->parts.size());
  faults_.assign(parts, BlockLayout::kNone);
  for (uint32_t i = 0; i < parts; ++i) PlanBuffers(i);
  const bool own_partials = batch_->parts.front().partial != nullptr;
  if (has_items()) {
    PlanItems();
  } else {
    const size_t begin = launches_.size();
    for (uint32_t i = 0; i < parts; ++i) {
      const BatchPart& part = batch_->parts[i];
      if (part.suspect || part.tasks == 0) continue;
      own_partials ? PlanFold(i) : PlanPart(i);
    }
    AddStep(begin, false, BlockLayout::kNone);
    for (uint32_t i = 0; i < parts; ++i) {
      const BatchPart& part = batch_->parts[i];
      if (!part.suspect || part.tasks == 0) continue;
      own_partials ? PlanFold(i) : PlanPart(i);
    }
  }
  for (const Launch& launch : launches_) tasks_ += launch.end - launch.begin;
  const auto table_bytes = static_cast<uint64_t>(batch_->kernel->part_bytes);
  table_ = layout_.Add(BlockLayout::kParts, table_bytes * launches_.size());
  layout_.Close();
  if (batch_->kernel->workspace_bytes == nullptr || has_items()) return;
  std::vector<TandemPart> sizes;
  for (const Launch& launch : launches_) {
    const BatchPart& part = batch_->parts[launch.part];
    sizes.push_back({part.args,
                     {part.first.id + launch.begin, part.first.row + launch.begin},
                     launch.end - launch.begin,
                     nullptr,
                     nullptr});
  }
  workspace_bytes_ = static_cast<uint64_t>(std::max<int64_t>(
      0, batch_->kernel->workspace_bytes(sizes.data(), static_cast<int32_t>(sizes.size()))));
}

void GpuBatch::PlanStaging() {
  layout_.DropStaging();
  for (Input& input : inputs_) {
    if (input.fresh) input.chunk = layout_.Add(BlockLayout::kStaging, input.bytes);
  }
  for (Gathered& gathered : gathered_) {
    if (gathered.fresh) {
      gathered.chunk = layout_.Add(BlockLayout::kStaging, gathered.partial->bytes());
    }
  }
  layout_.Close();
}

void GpuBatch::PlanBuffers(uint32_t index) {
  const BatchPart& part = batch_->parts[index];
  const bool skips = !part.skip.empty();
  for (const PartBuffer& buffer : part.buffers) {
    Patch patch = {index, buffer.args_offset, Patch::To::kNull, 0};
    // Items and their outputs are the host stages' business, sinks are the host's anyway.
    const bool host_only =
        buffer.table ? (buffer.output || has_items()) : (buffer.output && has_items());
    if (!host_only && buffer.output) {
      patch.to = Patch::To::kOutput;
      patch.index = OutputOf(buffer, skips);
    } else if (!host_only) {
      patch.to = Patch::To::kInput;
      patch.index = InputOf(buffer);
    }
    patches_.push_back(patch);
  }
  if (part.fault != nullptr && !has_items() && batch_->kernel->fault_count > 1) {
    faults_[index] = layout_.Add(skips ? BlockLayout::kInOut : BlockLayout::kOut,
                                 static_cast<uint64_t>(part.tasks));
  }
}

uint32_t GpuBatch::InputOf(const PartBuffer& buffer) {
  const auto next = static_cast<uint32_t>(inputs_.size());
  const bool known = buffer.content != 0;
  const auto [it, is_new] =
      input_by_.emplace(std::pair(buffer.content, known ? nullptr : buffer.host), next);
  if (!is_new) return it->second;
  Input input;
  input.host = buffer.host;
  input.bytes = buffer.bytes;
  input.content = buffer.content;
  input.table = buffer.table;
  input.shared = buffer.shared;
  input.stays = !buffer.table && buffer.content != 0 && buffer.bytes >= resident_bytes_min_;
  if (!input.stays) input.chunk = layout_.Add(BlockLayout::kIn, buffer.bytes);
  if (buffer.table) {
    const auto* items = static_cast<const TandemBytes*>(buffer.host);
    for (uint64_t i = 0; i < buffer.bytes / sizeof(TandemBytes); ++i) {
      input.items.push_back(layout_.Add(BlockLayout::kIn, static_cast<uint64_t>(items[i].size)));
    }
  }
  inputs_.push_back(std::move(input));
  return next;
}

uint32_t GpuBatch::OutputOf(const PartBuffer& buffer, bool goes_up) {
  const auto next = static_cast<uint32_t>(outputs_.size());
  const auto [it, is_new] = output_by_host_.emplace(buffer.host, next);
  if (!is_new) return it->second;
  const auto section = goes_up ? BlockLayout::kInOut : BlockLayout::kOut;
  outputs_.push_back({buffer.host, buffer.bytes, layout_.Add(section, buffer.bytes), goes_up});
  return next;
}

int64_t GpuBatch::PartialBytes(const BatchPart& part, int64_t tasks) const {
  return std::max<int64_t>(0, batch_->kernel->partial_bytes(part.args, tasks));
}

void GpuBatch::AddStep(size_t begin, bool suspect, Chunk fresh) {
  if (begin == launches_.size()) return;
  steps_.push_back({begin, launches_.size(), suspect, fresh, begin});
}

int32_t GpuBatch::GatheredOf(const BatchPart& part) {
  const auto next = static_cast<int32_t>(gathered_.size());
  const auto [it, is_new] = gathered_by_.emplace(part.accumulator, next);
  if (!is_new) return it->second;
  Gathered gathered;
  gathered.partial = static_cast<GpuAccumulator*>(part.accumulator)->partial().get();
  if (!gathered.partial->on_device()) {
    gathered.chunk = layout_.Add(BlockLayout::kInOut, gathered.partial->bytes());
  }
  gathered_.push_back(gathered);
  return next;
}

void GpuBatch::PlanPart(uint32_t index) {
  const BatchPart& part = batch_->parts[index];
  int32_t gathered = -1;
  if (part.accumulator != nullptr) {
    gathered = GatheredOf(part);
    gathered_[static_cast<size_t>(gathered)].tasks += part.tasks;
  }
  if (part.suspect) {
    PlanSuspect(index, BlockLayout::kNone, gathered);
    if (!part.leaf_calls) return;
  }
  const size_t begin = launches_.size();
  const auto grain = part.leaf_calls ? static_cast<int64_t>(part.grain) : part.tasks;
  for (int64_t at = 0; at < part.tasks; at += grain) {
    ForEachRun(part, at, std::min(at + grain, part.tasks), [&](int64_t from, int64_t to) {
      launches_.push_back({index, from, to, BlockLayout::kNone, gathered, -1});
    });
  }
  if (part.suspect) AddStep(begin, false, BlockLayout::kNone);
}

// Each task by itself, so that what it does to the device has its name.
void GpuBatch::PlanSuspect(uint32_t index, Chunk partial, int32_t gathered) {
  const BatchPart& part = batch_->parts[index];
  ForEachRun(part, 0, part.tasks, [&](int64_t from, int64_t to) {
    for (int64_t task = from; task < to; ++task) {
      const size_t begin = launches_.size();
      launches_.push_back({index, task, task + 1, partial, gathered, -1});
      AddStep(begin, true, partial);
    }
  });
}

void GpuBatch::PlanFold(uint32_t index) {
  const BatchPart& part = batch_->parts[index];
  const bool own = (batch_->kernel->flags & TANDEM_OWN_MERGE) != 0;
  if (part.suspect) {
    // What single tasks yield is thrown away: a leaf's value depends on how it is called.
    const Chunk thrown =
        layout_.Add(BlockLayout::kIn, static_cast<uint64_t>(PartialBytes(part, 1)));
    fresh_.push_back({index, thrown, 1});
    PlanSuspect(index, thrown, -1);
  }
  const size_t launched = launches_.size();
  Folded folded;
  folded.part = index;
  const auto add = [&](int64_t from, int64_t to, bool runs) {
    if (from == to || (!runs && !own)) return;
    Segment segment = {from, to, BlockLayout::kNone};
    if (runs) {
      segment.partial =
          layout_.Add(BlockLayout::kInOut, static_cast<uint64_t>(PartialBytes(part, to - from)));
      fresh_.push_back({index, segment.partial, to - from});
      launches_.push_back({index, from, to, segment.partial, -1, -1});
    }
    folded.segments.push_back(segment);
  };
  const auto grain = static_cast<int64_t>(part.grain);
  for (int64_t begin = 0; begin < part.tasks; begin += grain) {
    folded.leaf_at.push_back(folded.segments.size());
    const int64_t end = std::min(begin + grain, part.tasks);
    int64_t at = begin;
    ForEachRun(part, begin, end, [&](int64_t from, int64_t to) {
      add(at, from, false);
      add(from, to, true);
      at = to;
    });
    add(at, end, false);
  }
  folded.leaf_at.push_back(folded.segments.size());
  folded_.push_back(std::move(folded));
  if (part.suspect) AddStep(launched, false, BlockLayout::kNone);
}

void GpuBatch::PlanItems() {
  const bool suspects = HasSuspect(*batch_);
  size_t begin = launches_.size();
  for (size_t i = 0; i < items_.size(); ++i) {
    Item& item = items_[i];
    if (item.fault != TANDEM_OK) continue;
    item.in = layout_.Add(BlockLayout::kIn, static_cast<uint64_t>(item.need.in_bytes));
    item.out = layout_.Add(BlockLayout::kOut, static_cast<uint64_t>(item.need.out_bytes));
    launches_.push_back(
        {item.part, 0, item.need.down, BlockLayout::kNone, -1, static_cast<int32_t>(i)});
    if (!suspects) continue;
    AddStep(begin, true, BlockLayout::kNone);
    begin = launches_.size();
  }
  AddStep(begin, false, BlockLayout::kNone);
}

}  // namespace tandem::worker
