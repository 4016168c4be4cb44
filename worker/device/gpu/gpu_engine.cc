// GpuEngine: admission, packing, and what follows when a batch has landed.
#include "worker/device/gpu/gpu_engine.h"

#include <algorithm>
#include <utility>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "worker/device/cpu/batch_runner.h"
#include "worker/device/gpu/flight.h"

namespace tandem::worker {
namespace {

// Of what is free, where nothing is said.
constexpr double kMemoryShare = 0.9;
// Host memory kept for folds.
constexpr size_t kIdleBytesMax = size_t{256} << 20;
// Work under way on the crew at a time: threads that find nothing left of the first begin the next.
constexpr uint32_t kHostWorkMax = 2;

uint64_t BudgetOf(const GpuEngineOptions& options, const GpuRuntime& runtime) {
  if (options.memory_bytes > 0) return options.memory_bytes;
  return static_cast<uint64_t>(static_cast<double>(runtime.FreeBytes()) * kMemoryShare);
}

uint64_t StayingBytes(const GpuBatch& work) {
  uint64_t bytes = 0;
  for (const GpuBatch::Input& input : work.inputs()) {
    if (input.stays) bytes += Arena::RoundUp(input.bytes);
  }
  return bytes;
}

absl::Status TooLarge(Batch* batch, uint64_t need, uint64_t budget, std::string_view text) {
  batch->need_bytes = need;
  batch->budget_bytes = budget;
  return Error(absl::StatusCode::kResourceExhausted, reason::kGpuOom,
               StrCat("a batch of kernel ", batch->kernel->name, " ", text));
}

}  // namespace

GpuEngine::GpuEngine(GpuRuntime* runtime, const GpuEngineOptions& options, StartLog* log, Post post,
                     OnHost on_host)
    : runtime_(runtime),
      options_(options),
      log_(log),
      post_(std::move(post)),
      on_host_(std::move(on_host)),
      here_(0),
      pool_(kIdleBytesMax),
      memory_(
          BudgetOf(options, *runtime), options.extent_bytes,
          [runtime](uint64_t bytes) -> absl::StatusOr<uint64_t> {
            ASSIGN_OR_RETURN(const DeviceAddress address, runtime->Allocate(bytes));
            return address.value;
          },
          [runtime](uint64_t address) { (void)runtime->Free(DeviceAddress{address}); }),
      pinned_(
          options.pinned_bytes, options.extent_bytes,
          [runtime](uint64_t bytes) -> absl::StatusOr<uint64_t> {
            ASSIGN_OR_RETURN(void* const memory, runtime->AllocateHost(bytes));
            return reinterpret_cast<uint64_t>(memory);
          },
          [runtime](uint64_t address) {
            (void)runtime->FreeHost(reinterpret_cast<void*>(address));
          }) {
  for (uint32_t i = 0; i < options.slots; ++i) {
    free_slots_.push_back(options.first_slot + options.slots - 1 - i);
  }
}

GpuEngine::~GpuEngine() = default;

absl::Status GpuEngine::Start() {
  for (uint32_t i = 0; i < options_.streams; ++i) {
    ASSIGN_OR_RETURN(const StreamId stream, runtime_->NewStream());
    streams_.push_back(stream);
    on_stream_.push_back(0);
  }
  ASSIGN_OR_RETURN(base_, runtime_->NewEvent());
  return runtime_->Record(streams_.front(), base_);
}

absl::Status GpuEngine::health() const {
  absl::MutexLock lock(&mu_);
  return health_;
}

GpuCounters GpuEngine::counters() const {
  absl::MutexLock lock(&mu_);
  return counters_;
}

void GpuEngine::Submit(Batch* batch) {
  auto owned = std::make_unique<Flight>(batch, options_.resident_bytes_min, &pool_);
  Flight* const flight = owned.get();
  flights_.emplace(flight, std::move(owned));
  Count([](GpuCounters& c) { ++c.batches; });
  if (absl::Status status = health(); !status.ok()) return Fail(flight, std::move(status));
  if (!batch->before && !flight->work.has_items()) {
    flight->work.Plan();
    return Planned(flight);
  }
  PushHost(false, [this, flight](Crew& crew) {
    flight->work.Begin(crew, log_);
    flight->work.Plan();
    post_([this, flight] { Planned(flight); });
  });
}

void GpuEngine::Planned(Flight* flight) {
  queue_.push_back(flight);
  AdmitQueued();
}

void GpuEngine::AdmitQueued() {
  CollectQueued();
  while (!queue_.empty()) {
    Flight* const flight = queue_.front();
    absl::Status status = health();
    if (status.ok()) status = CheckFits(*flight);
    const bool never = !status.ok();
    if (!never) {
      const MonoTime begin = Clock::Real()->Now();
      status = Admit(flight);
      flight->work.batch()->memory_ns += Clock::Real()->Now().NanosSince(begin);
    }
    // Others will give back what they have.
    if (!never && absl::IsResourceExhausted(status) && holding_ > 0) return;
    queue_.pop_front();
    if (!status.ok()) {
      Batch* const batch = flight->work.batch();
      batch->too_large = absl::IsResourceExhausted(status);
      if (!never && batch->too_large) {
        status = TooLarge(batch, OwnBytes(*flight), memory_.budget(),
                          StrCat("does not get the ", HumanSize(OwnBytes(*flight)),
                                 " that it needs on the device, of a budget of ",
                                 HumanSize(memory_.budget()), ": ", ToStd(status.message())));
      }
      Fail(flight, std::move(status));
      continue;
    }
    ++holding_;
    admitted_.push_back(flight);
    Pack(flight);
  }
}

uint64_t GpuEngine::OwnBytes(const Flight& flight) {
  const GpuBatch& work = flight.work;
  const uint64_t block = Arena::RoundUp(work.layout().device_bytes());
  return StayingBytes(work) + Arena::RoundUp(block + work.workspace_bytes());
}

absl::Status GpuEngine::CheckFits(const Flight& flight) const {
  const GpuBatch& work = flight.work;
  Batch* const batch = work.batch();
  const uint64_t own = OwnBytes(flight);
  if (own > memory_.budget()) {
    return TooLarge(
        batch, own, memory_.budget(),
        StrCat("needs ", HumanSize(own), " on the device (operands that stay ",
               HumanSize(StayingBytes(work)), ", workspace ", HumanSize(work.workspace_bytes()),
               "); the budget is ", HumanSize(memory_.budget()),
               ": choose a smaller --grain, or give the "
               "worker more --gpu-memory"));
  }
  if (batch->memory_bytes > memory_.budget()) {
    return TooLarge(batch, batch->memory_bytes, memory_.budget(),
                    StrCat("is to have ", HumanSize(batch->memory_bytes),
                           " on the device (its job's --gpu-memory); the budget is ",
                           HumanSize(memory_.budget())));
  }
  const uint64_t pinned = work.layout().device_bytes();
  if (pinned > pinned_.budget()) {
    return TooLarge(batch, pinned, pinned_.budget(),
                    StrCat("needs ", HumanSize(pinned), " of pinned memory; the budget is ",
                           HumanSize(pinned_.budget()),
                           ": choose a smaller --grain, or give the "
                           "worker more --pinned-memory"));
  }
  return absl::OkStatus();
}

absl::Status GpuEngine::Admit(Flight* flight) {
  absl::Status status = AdmitSlots(flight);
  if (status.ok()) status = AdmitResidents(flight);
  if (status.ok()) status = AdmitBlocks(flight);
  if (status.ok()) status = AdmitDeclared(flight);
  if (!status.ok()) Release(flight, /*all=*/true);
  Count([this](GpuCounters& c) { c.evictions = memory_.evictions(); });
  return status;
}

absl::Status GpuEngine::AdmitSlots(Flight* flight) {
  const size_t parts = flight->work.batch()->parts.size();
  if (parts > free_slots_.size()) {
    return Error(absl::StatusCode::kResourceExhausted, reason::kOutOfMemory,
                 StrCat("a batch of ", parts, " parts has no room in the start log, which has ",
                        options_.slots, " places: give the device smaller batches"));
  }
  flight->slots.assign(free_slots_.end() - static_cast<ptrdiff_t>(parts), free_slots_.end());
  free_slots_.resize(free_slots_.size() - parts);
  return absl::OkStatus();
}

absl::Status GpuEngine::AdmitResidents(Flight* flight) {
  for (GpuBatch::Input& input : flight->work.inputs()) {
    if (!input.stays) continue;
    input.resident = memory_.Use(input.content, input.bytes);
    if (input.resident != nullptr) continue;
    ASSIGN_OR_RETURN(const EventId event, NewEvent());
    const absl::StatusOr<Resident*> kept = memory_.Keep(input.content, input.bytes, event);
    if (!kept.ok()) {
      events_.push_back(event);
      return kept.status();
    }
    input.resident = *kept;
    input.fresh = true;
  }
  for (GpuBatch::Gathered& gathered : flight->work.gathered()) {
    GatheredPartial* const partial = gathered.partial;
    if (!partial->on_device() || partial->address.valid()) continue;
    ASSIGN_OR_RETURN(const EventId event, NewEvent());
    const absl::StatusOr<DeviceAddress> address = memory_.Take(partial->bytes());
    if (!address.ok()) {
      events_.push_back(event);
      return address.status();
    }
    partial->address = *address;
    partial->last = event;
    gathered.fresh = true;
  }
  return absl::OkStatus();
}

absl::Status GpuEngine::AdmitBlocks(Flight* flight) {
  flight->work.PlanStaging();
  const BlockLayout& layout = flight->work.layout();
  const uint64_t workspace = flight->work.workspace_bytes();
  GpuBatch::Place& place = flight->place;
  ASSIGN_OR_RETURN(const uint64_t pinned, pinned_.Take(layout.pinned_bytes()));
  place.pinned = reinterpret_cast<uint8_t*>(pinned);
  if (MayBeMapped(*flight)) {
    place.device = runtime_->Mapped(place.pinned);
    place.mapped = place.device.valid();
  }
  const uint64_t block = place.mapped ? 0 : Arena::RoundUp(layout.device_bytes());
  if (block + workspace == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(flight->taken, memory_.Take(block + workspace));
  if (workspace > 0) place.workspace = flight->taken + block;
  if (!place.mapped) place.device = flight->taken;
  return absl::OkStatus();
}

// What the job declares beyond what the engine itself allocates for it.
absl::Status GpuEngine::AdmitDeclared(Flight* flight) {
  const uint64_t own = OwnBytes(*flight);
  const uint64_t declared = flight->work.batch()->memory_bytes;
  if (declared <= own) return absl::OkStatus();
  RETURN_IF_ERROR(memory_.Reserve(declared - own));
  flight->reserved = declared - own;
  return absl::OkStatus();
}

// A grid of small operands that each task reads its own of, and outputs that it writes once. Of
// what all tasks read, and of partials, each look would go to the host's memory again.
bool GpuEngine::MayBeMapped(const Flight& flight) const {
  const GpuBatch& work = flight.work;
  const BlockLayout& layout = work.layout();
  const auto shares = [](const GpuBatch::Input& input) { return input.shared && !input.stays; };
  return layout.device_bytes() <= options_.mapped_bytes_max && layout.in_out_bytes() == 0 &&
         work.steps().size() == 1 && work.batch()->parts.size() <= options_.mapped_parts_max &&
         !work.has_items() && (work.batch()->kernel->flags & TANDEM_OWN_LAUNCHER) == 0 &&
         std::ranges::none_of(work.inputs(), shares);
}

// Gives back the flight's place on the device; `all`: it was not admitted.
void GpuEngine::Release(Flight* flight, bool all) {
  for (GpuBatch::Input& input : flight->work.inputs()) {
    if (input.resident == nullptr) continue;
    if (all && input.fresh) {
      events_.push_back(input.resident->uploaded);
      memory_.Drop(input.resident);
    } else {
      memory_.Leave(input.resident);
    }
    input.resident = nullptr;
    input.fresh = false;
  }
  if (flight->taken.valid()) memory_.Free(flight->taken);
  flight->taken = {};
  memory_.Unreserve(std::exchange(flight->reserved, 0));
  free_slots_.insert(free_slots_.end(), flight->slots.begin(), flight->slots.end());
  flight->slots.clear();
  if (!all) return;
  if (flight->place.pinned != nullptr) {
    pinned_.Free(reinterpret_cast<uint64_t>(flight->place.pinned));
  }
  flight->place = {};
  for (GpuBatch::Gathered& gathered : flight->work.gathered()) {
    if (!gathered.fresh) continue;
    memory_.Free(gathered.partial->address);
    events_.push_back(gathered.partial->last);
    gathered.partial->address = {};
    gathered.fresh = false;
  }
}

void GpuEngine::Pack(Flight* flight) {
  const bool here = !flight->work.has_items() && !flight->work.batch()->before &&
                    flight->work.layout().pinned_bytes() <= options_.pack_here_bytes_max;
  if (here) {
    flight->status = flight->work.Pack(here_, log_, flight->place);
    flight->packed = true;
    return LaunchPacked();
  }
  PushHost(false, [this, flight](Crew& crew) {
    flight->crew_threads = crew.threads();
    flight->status = flight->work.Pack(crew, log_, flight->place);
    post_([this, flight] {
      flight->packed = true;
      LaunchPacked();
    });
  });
}

void GpuEngine::LaunchPacked() {
  while (!admitted_.empty() && admitted_.front()->packed) {
    Flight* const flight = admitted_.front();
    admitted_.pop_front();
    absl::Status status = health();
    if (status.ok()) status = Launch(flight);
    if (status.ok()) continue;
    Break(status);
    Fail(flight, std::move(status));
  }
}

void GpuEngine::Landed(Flight* flight, const absl::Status& status) {
  if (!status.ok()) {
    Break(status);
    return Fail(flight, status);
  }
  EndLog(flight);
  if (flight->status.ok() && flight->step + 1 < flight->work.steps().size()) {
    ++flight->step;
    if (const absl::Status launched = LaunchStep(flight); !launched.ok()) {
      Break(launched);
      Fail(flight, launched);
    }
    return;
  }
  const int64_t now = NowNanos();
  flight->work.batch()->busy_ns = now - std::max(flight->launched_ns, landed_ns_);
  landed_ns_ = now;
  --on_stream_[flight->stream];
  TakeTimes(flight);
  Release(flight, /*all=*/false);
  Unpack(flight);
  AdmitQueued();
}

void GpuEngine::Unpack(Flight* flight) {
  Batch* const batch = flight->work.batch();
  batch->status = flight->status;
  if (!flight->status.ok()) return Complete(flight);
  const bool here = !flight->work.has_items() && !batch->after &&
                    flight->work.layout().pinned_bytes() <= options_.pack_here_bytes_max;
  if (here) {
    batch->status = flight->work.Unpack(here_, log_, flight->place);
    return Complete(flight);
  }
  PushHost(true, [this, flight, batch](Crew& crew) {
    batch->status = flight->work.Unpack(crew, log_, flight->place);
    if (batch->after) batch->after(crew);
    post_([this, flight] { Complete(flight); });
  });
}

void GpuEngine::Complete(Flight* flight) {
  Batch* const batch = flight->work.batch();
  batch->host_ns = flight->work.stage_thread_ns() / flight->crew_threads;
  batch->busy_ns = std::max(batch->busy_ns, batch->host_ns);
  pinned_.Free(reinterpret_cast<uint64_t>(flight->place.pinned));
  --holding_;
  flights_.erase(flight);
  AdmitQueued();
  // The batch may be gone once `done` runs, and the function with it.
  const std::function<void(Batch*)> done = std::move(batch->done);
  done(batch);
}

// Ends a flight that has no memory, or whose memory cannot be trusted any more and is left alone.
void GpuEngine::Fail(Flight* flight, absl::Status status) {
  Batch* const batch = flight->work.batch();
  batch->status = std::move(status);
  flights_.erase(flight);
  const std::function<void(Batch*)> done = std::move(batch->done);
  done(batch);
}

void GpuEngine::Break(const absl::Status& status) {
  {
    absl::MutexLock lock(&mu_);
    if (health_.ok()) health_ = status;
  }
  // Nothing that waits will ever be served.
  while (!queue_.empty()) {
    Flight* const flight = queue_.front();
    queue_.pop_front();
    Fail(flight, status);
  }
  while (!collections_.empty() && collections_.front()->pinned == nullptr) {
    const std::unique_ptr<Collection> collection = std::move(collections_.front());
    collections_.pop_front();
    collection->done(status, 0);
  }
}

// ---- the host's crew ----

void GpuEngine::PushHost(bool finish, std::function<void(Crew&)> work) {
  (finish ? finish_ : prepare_).push_back(std::move(work));
  PumpHost();
}

void GpuEngine::PumpHost() {
  while (on_host_running_ < kHostWorkMax && !(finish_.empty() && prepare_.empty())) {
    auto& queue = finish_.empty() ? prepare_ : finish_;
    std::function<void(Crew&)> work = std::move(queue.front());
    queue.pop_front();
    ++on_host_running_;
    on_host_([this, work = std::move(work)](Crew& crew) {
      work(crew);
      post_([this] {
        --on_host_running_;
        PumpHost();
      });
    });
  }
}

// ---- large partials ----

void GpuEngine::Forget(const std::shared_ptr<GatheredPartial>& partial) {
  if (!partial->address.valid() || !health().ok()) return;
  memory_.Free(partial->address);
  partial->address = {};
  events_.push_back(partial->last);
  AdmitQueued();
}

void GpuEngine::Collect(std::shared_ptr<GatheredPartial> partial, void* into, Collected done) {
  absl::Status status = health();
  if (status.ok() && partial->address.valid()) {
    auto collection = std::make_unique<Collection>();
    collection->partial = std::move(partial);
    collection->into = into;
    collection->done = std::move(done);
    collection->begun_ns = NowNanos();
    collections_.push_back(std::move(collection));
    return AdmitQueued();
  }
  const int64_t start = NowNanos();
  if (status.ok()) partial->CopyTo(into);
  done(std::move(status), NowNanos() - start);
}

void GpuEngine::CollectQueued() {
  while (!collections_.empty()) {
    Collection* const collection = collections_.front().get();
    const absl::Status status = StartCollection(collection);
    if (absl::IsResourceExhausted(status) && holding_ > 0) return;
    // From here on it belongs to itself.
    Collection* const owned = collections_.front().release();
    collections_.pop_front();
    if (!status.ok()) {
      if (!absl::IsResourceExhausted(status)) Break(status);
      EndCollection(owned, status);
    }
  }
}

absl::Status GpuEngine::StartCollection(Collection* collection) {
  GatheredPartial* const partial = collection->partial.get();
  ASSIGN_OR_RETURN(const uint64_t pinned, pinned_.Take(partial->bytes()));
  collection->pinned = reinterpret_cast<uint8_t*>(pinned);
  ++holding_;
  const StreamId stream = streams_.front();
  RETURN_IF_ERROR(runtime_->Wait(stream, partial->last));
  RETURN_IF_ERROR(
      runtime_->CopyDown(stream, collection->pinned, partial->address, partial->bytes()));
  Count([&](GpuCounters& c) {
    ++c.copies_down;
    c.bytes_down += partial->bytes();
  });
  return runtime_->Call(stream, [this, post = post_, collection](const absl::Status& status) {
    post([this, collection, status] {
      if (!status.ok()) {
        Break(status);
        return EndCollection(collection, status);
      }
      PushHost(true, [this, collection](Crew& crew) {
        CopyBytes(crew, collection->into, collection->pinned, collection->partial->bytes());
        post_([this, collection] { EndCollection(collection, absl::OkStatus()); });
      });
    });
  });
}

void GpuEngine::EndCollection(Collection* collection, absl::Status status) {
  const std::unique_ptr<Collection> owned(collection);
  if (owned->pinned != nullptr) {
    --holding_;
    if (health().ok()) pinned_.Free(reinterpret_cast<uint64_t>(owned->pinned));
  }
  if (health().ok()) AdmitQueued();
  owned->done(std::move(status), NowNanos() - owned->begun_ns);
}

}  // namespace tandem::worker
