#include "worker/device/gpu/gpu_device.h"

#include <pthread.h>

#include <utility>

#include "common/base/status_macros.h"
#include "worker/device/cpu/batch_runner.h"
#include "worker/device/gpu/gpu_accumulator.h"

namespace tandem::worker {
namespace {

GpuEngineOptions EngineOptions(const GpuDeviceOptions& options) {
  GpuEngineOptions engine = options.engine;
  engine.first_slot = Lane::SlotsOf(options.cores);
  return engine;
}

}  // namespace

uint32_t GpuDevice::SlotsOf(const GpuDeviceOptions& options) {
  return Lane::SlotsOf(options.cores) + options.engine.slots;
}

absl::StatusOr<std::unique_ptr<GpuDevice>> GpuDevice::Make(std::unique_ptr<GpuRuntime> runtime,
                                                           const GpuDeviceOptions& options,
                                                           StartLog* log) {
  std::unique_ptr<GpuDevice> device(new GpuDevice(std::move(runtime), options, log));
  // One thread makes all calls of the runtime, from the first on.
  absl::Status started;
  bool has = false;
  absl::Mutex mu;
  device->Post([&] {
    absl::Status status = device->engine_->Start();
    absl::MutexLock lock(&mu);
    started = std::move(status);
    has = true;
  });
  {
    absl::MutexLock lock(&mu);
    mu.Await(absl::Condition(&has));
  }
  RETURN_IF_ERROR(started);
  return device;
}

GpuDevice::GpuDevice(std::unique_ptr<GpuRuntime> runtime, const GpuDeviceOptions& options,
                     StartLog* log)
    : runtime_(std::move(runtime)) {
  Lane::AllowThreads(static_cast<size_t>(options.cores.threads));
  host_ = std::make_unique<Lane>(options.cores, 0);
  const GpuProperties& gpu = runtime_->properties();
  engine_ = std::make_unique<GpuEngine>(
      runtime_.get(), EngineOptions(options), log,
      [this](std::function<void()> f) { Post(std::move(f)); },
      [this](std::function<void(Crew&)> f) {
        host_->Run([this, f = std::move(f)] { f(*host_); });
      });
  properties_.kind = options.kind;
  properties_.driver_ns = absl::ToInt64Nanoseconds(gpu.driver_start);
  properties_.context_ns = absl::ToInt64Nanoseconds(gpu.context_start);
  properties_.model = gpu.model;
  properties_.uuid = gpu.uuid;
  properties_.cores = gpu.multiprocessors;
  properties_.memory_bytes = gpu.memory_bytes;
  properties_.budget_bytes = engine_->memory_budget();
  properties_.lanes = 1;
  properties_.slots = SlotsOf(options);
  properties_.own_memory = true;
  thread_ = std::thread([this] { Loop(); });
}

GpuDevice::~GpuDevice() {
  {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(this, &GpuDevice::Quiet));
  }
  host_.reset();
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  thread_.join();
  engine_.reset();
  runtime_.reset();  // Before what its last callbacks use.
}

absl::Status GpuDevice::health() const { return engine_->health(); }

void GpuDevice::Post(std::function<void()> f) {
  absl::MutexLock lock(&mu_);
  inbox_.push_back(std::move(f));
}

void GpuDevice::Loop() {
  (void)pthread_setname_np(pthread_self(), "tandem-gpu");
  std::vector<std::function<void()>> batch;
  while (true) {
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(this, &GpuDevice::SomethingToDo));
      if (inbox_.empty()) return;
      batch.swap(inbox_);
    }
    for (std::function<void()>& f : batch) f();
    batch.clear();
    if (!engine_->health().ok()) {
      absl::MutexLock lock(&mu_);
      broken_ = true;
    }
  }
}

void GpuDevice::Begun() {
  absl::MutexLock lock(&mu_);
  ++under_way_;
}

void GpuDevice::Ended() {
  absl::MutexLock lock(&mu_);
  --under_way_;
}

void GpuDevice::Submit(uint32_t, Batch* batch) {
  Begun();
  batch->done = [this, done = std::move(batch->done)](Batch* b) {
    done(b);
    Ended();
  };
  Post([this, batch] { engine_->Submit(batch); });
}

void GpuDevice::SubmitWork(uint32_t, HostWork* work) {
  Begun();
  host_->Run([this, work] {
    const int64_t start = NowNanos();
    work->run(*host_);
    work->busy_ns = NowNanos() - start;
    const std::function<void(HostWork*)> done = std::move(work->done);
    done(work);
    Ended();
  });
}

std::unique_ptr<Accumulator> GpuDevice::NewAccumulator(const TandemKernelV1* kernel,
                                                       const void* args) {
  return std::make_unique<GpuAccumulator>(
      std::make_shared<GatheredPartial>(kernel, args),
      [this](std::shared_ptr<GatheredPartial> partial) {
        if (!partial->on_device()) return;
        Post([this, partial = std::move(partial)] { engine_->Forget(partial); });
      });
}

void GpuDevice::Collect(uint32_t, Accumulator* accumulator, void* into,
                        std::function<void(absl::Status, int64_t)> done) {
  Begun();
  Post([this, into, partial = static_cast<GpuAccumulator*>(accumulator)->partial(),
        done = std::move(done)]() mutable {
    engine_->Collect(std::move(partial), into,
                     [this, done = std::move(done)](absl::Status status, int64_t busy_ns) {
                       done(std::move(status), busy_ns);
                       Ended();
                     });
  });
}

}  // namespace tandem::worker
