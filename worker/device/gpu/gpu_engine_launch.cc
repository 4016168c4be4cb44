// GpuEngine: what goes onto the streams.
#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "worker/device/cpu/batch_runner.h"
#include "worker/device/gpu/flight.h"
#include "worker/device/gpu/gpu_engine.h"

namespace tandem::worker {

absl::StatusOr<EventId> GpuEngine::NewEvent() {
  for (const EventId event : memory_.TakeSpareEvents()) events_.push_back(event);
  if (events_.empty()) return runtime_->NewEvent();
  const EventId event = events_.back();
  events_.pop_back();
  return event;
}

StreamId GpuEngine::LeastBusy() const {
  return static_cast<StreamId>(std::min_element(on_stream_.begin(), on_stream_.end()) -
                               on_stream_.begin());
}

absl::Status GpuEngine::CopyUp(Flight* flight, DeviceAddress to, const void* from, uint64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  flight->work.batch()->bytes_up += bytes;
  Count([bytes](GpuCounters& c) {
    ++c.copies_up;
    c.bytes_up += bytes;
  });
  return runtime_->CopyUp(streams_[flight->stream], to, from, bytes);
}

absl::Status GpuEngine::Launch(Flight* flight) {
  flight->stream = LeastBusy();
  const StreamId stream = streams_[flight->stream];
  flight->launched_ns = NowNanos();
  for (EventId* event : {&flight->begun, &flight->up, &flight->grid, &flight->down}) {
    ASSIGN_OR_RETURN(*event, NewEvent());
  }
  RETURN_IF_ERROR(runtime_->Record(stream, flight->begun));
  RETURN_IF_ERROR(CopyUpAll(flight));
  ++on_stream_[flight->stream];
  if (flight->status.ok() && !flight->work.steps().empty()) return LaunchStep(flight);
  // Nothing runs; what was to stay is on its way all the same.
  for (const EventId event : {flight->up, flight->grid, flight->down}) {
    RETURN_IF_ERROR(runtime_->Record(stream, event));
  }
  return runtime_->Call(stream, [this, post = post_, flight](const absl::Status& status) {
    post([this, flight, status] { Landed(flight, status); });
  });
}

// The block in one copy, and what is to stay, each to its own place. Where nothing will run the
// block stays here.
absl::Status GpuEngine::CopyUpAll(Flight* flight) {
  const StreamId stream = streams_[flight->stream];
  GpuBatch& work = flight->work;
  const BlockLayout& layout = work.layout();
  const GpuBatch::Place& place = flight->place;
  if (place.mapped) {
    Count([](GpuCounters& c) { ++c.mapped; });
  } else if (flight->status.ok() && !work.steps().empty()) {
    RETURN_IF_ERROR(CopyUp(flight, place.device, place.pinned, layout.up_bytes()));
  }
  for (const GpuBatch::Input& input : work.inputs()) {
    if (!input.stays) continue;
    if (!input.fresh) {
      RETURN_IF_ERROR(runtime_->Wait(stream, input.resident->uploaded));
      Count([](GpuCounters& c) { ++c.resident_hits; });
      continue;
    }
    RETURN_IF_ERROR(CopyUp(flight, input.resident->address, place.pinned + layout.at(input.chunk),
                           input.bytes));
    RETURN_IF_ERROR(runtime_->Record(stream, input.resident->uploaded));
    Count([](GpuCounters& c) { ++c.resident_uploads; });
  }
  for (const GpuBatch::Gathered& gathered : work.gathered()) {
    if (!gathered.fresh) continue;
    RETURN_IF_ERROR(CopyUp(flight, gathered.partial->address,
                           place.pinned + layout.at(gathered.chunk), gathered.partial->bytes()));
    RETURN_IF_ERROR(runtime_->Record(stream, gathered.partial->last));
  }
  return absl::OkStatus();
}

absl::Status GpuEngine::LaunchStep(Flight* flight) {
  const StreamId stream = streams_[flight->stream];
  GpuBatch& work = flight->work;
  const BlockLayout& layout = work.layout();
  const GpuBatch::Place& place = flight->place;
  const GpuBatch::Step& step = work.steps()[flight->step];
  Batch* const batch = work.batch();
  if (flight->step > 0 && step.fresh != BlockLayout::kNone) {
    const uint64_t at = layout.at(step.fresh);
    RETURN_IF_ERROR(CopyUp(flight, place.device + at, place.pinned + at, layout.bytes(step.fresh)));
  }
  for (const GpuBatch::Gathered& gathered : work.gathered()) {
    if (!gathered.partial->on_device()) continue;
    RETURN_IF_ERROR(runtime_->Wait(stream, gathered.partial->last));
  }
  if (flight->step == 0) {
    batch->first_launch = launched_.insert(batch->kernel).second;
    RETURN_IF_ERROR(runtime_->Record(stream, flight->up));
  }
  LogStep(flight);
  GridLaunch launch;
  launch.kernel = batch->kernel;
  launch.parts = work.PartsOf(step);
  launch.slab = place.device + step.table_begin * static_cast<uint64_t>(batch->kernel->part_bytes);
  launch.workspace = place.workspace;
  launch.expected_ns = work.ExpectedNanos(step);
  Count([](GpuCounters& c) { ++c.launches; });
  RETURN_IF_ERROR(runtime_->LaunchGrid(stream, launch));
  for (const GpuBatch::Gathered& gathered : work.gathered()) {
    if (!gathered.partial->on_device()) continue;
    RETURN_IF_ERROR(runtime_->Record(stream, gathered.partial->last));
  }
  if (flight->step + 1 == work.steps().size()) {
    RETURN_IF_ERROR(runtime_->Record(stream, flight->grid));
    if (const uint64_t bytes = layout.down_bytes(); bytes > 0 && !place.mapped) {
      const uint64_t at = layout.down_begin();
      RETURN_IF_ERROR(runtime_->CopyDown(stream, place.pinned + at, place.device + at, bytes));
      batch->bytes_down += bytes;
      Count([bytes](GpuCounters& c) {
        ++c.copies_down;
        c.bytes_down += bytes;
      });
    }
    RETURN_IF_ERROR(runtime_->Record(stream, flight->down));
  }
  return runtime_->Call(stream, [this, post = post_, flight](const absl::Status& status) {
    post([this, flight, status] { Landed(flight, status); });
  });
}

// What a copy or a grid took is counted from when the one before it on any stream had ended, since
// the device does one at a time: waiting for others is not its own.
void GpuEngine::TakeTimes(Flight* flight) {
  Batch* const batch = flight->work.batch();
  double at[4] = {};
  const EventId events[4] = {flight->begun, flight->up, flight->grid, flight->down};
  for (size_t i = 0; timed_ && i < std::size(events); ++i) {
    const absl::StatusOr<absl::Duration> since = runtime_->Between(base_, events[i]);
    timed_ = since.ok();  // The exact clock has no times.
    if (timed_) at[i] = absl::ToDoubleSeconds(*since);
  }
  events_.insert(events_.end(), std::begin(events), std::end(events));
  if (!timed_) return;
  const auto took = [](double begin, double end, double* until) {
    const double from = std::max(begin, *until);
    *until = std::max(end, *until);
    return static_cast<int64_t>(std::max(0.0, end - from) * 1e9);
  };
  batch->up_ns = took(at[0], at[1], &up_until_);
  batch->grid_ns = took(at[1], at[2], &grid_until_);
  batch->down_ns = took(at[2], at[3], &down_until_);
}

// ---- the start log ----

void GpuEngine::LogStep(Flight* flight) {
  const GpuBatch::Step& step = flight->work.steps()[flight->step];
  const std::vector<BatchPart>& parts = flight->work.batch()->parts;
  const auto begin = [&](const BatchPart& part, uint64_t first_leaf, uint64_t leaves,
                         uint64_t task) {
    log_->Begin(flight->slots[flight->slots_begun++], part.job, first_leaf, leaves, task);
  };
  if (step.suspect) {
    const GpuBatch::Launch& launch = flight->work.launch(step.begin);
    const BatchPart& part = parts[launch.part];
    const auto task = static_cast<uint64_t>(flight->work.PartsOf(step).front().first.id);
    return begin(part, task / part.grain, 1, task);
  }
  uint32_t last = ~uint32_t{0};
  for (size_t i = step.begin; i < step.end; ++i) {
    const uint32_t index = flight->work.launch(i).part;
    if (index == last) continue;
    last = index;
    const BatchPart& part = parts[index];
    const uint64_t first = static_cast<uint64_t>(part.first.id) / part.grain;
    const uint64_t behind = static_cast<uint64_t>(part.first.id + part.tasks - 1) / part.grain;
    begin(part, first, behind - first + 1, StartLog::kNoTask);
  }
}

void GpuEngine::EndLog(Flight* flight) {
  while (flight->slots_begun > 0) log_->End(flight->slots[--flight->slots_begun]);
}

}  // namespace tandem::worker
