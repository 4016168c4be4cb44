#include "bench/support/merging.h"

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "bench/support/measure.h"
#include "bench/support/process_stat.h"
#include "common/base/strings.h"
#include "common/model/bound_job.h"
#include "common/wire/session.h"
#include "worker/device/cpu/topology.h"
#include "worker/device/gpu/gpu_device.h"
#include "worker/executor/executor.h"
#include "worker/executor/serve.h"
#include "worker/ring/channel.h"

namespace tandem::bench {
namespace {

using worker::GpuCounters;

constexpr double kMergedLeast = 10;  // times as fast; 50 is aimed for
constexpr double kLoneMaxMicros = 50;
constexpr uint64_t kJobsMax = 100'000;
constexpr uint64_t kStagingBytes = uint64_t{1} << 30;
constexpr size_t kPoolBytes = size_t{1} << 26;
constexpr uint32_t kInlineBytesMax = 512;
constexpr float kX = 3, kY = 0.5;

int64_t Nanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// When the last grid was about to be launched.
class LaunchLog final : public worker::StartLog {
 public:
  void Begin(uint32_t, uint64_t, uint64_t, uint64_t, uint64_t) override { last_ns_ = Nanos(); }
  void End(uint32_t) override {}
  int64_t last_ns() const { return last_ns_; }

 private:
  std::atomic<int64_t> last_ns_ = 0;
};

// All operands travel with their jobs.
class NoSource final : public worker::OperandSource {
 public:
  absl::StatusOr<std::string> LocateBlob(const BlobLocator&) override { return Nothing(); }
  absl::Status ReadBlob(const BlobLocator&, uint64_t, uint64_t, char*) override {
    return Nothing();
  }
  absl::Status ReadRegion(const Region&, char*) override { return Nothing(); }

 private:
  static absl::Status Nothing() { return absl::UnimplementedError("there is nothing to read"); }
};

// An executor with its engine, and its jobs. Its loop is the caller's thread; or, once it is
// served, one of its own, and what it is given comes through a ring.
class Bench {
 public:
  Bench(const GpuUnderTest& gpu, const Settings& settings, uint64_t jobs, size_t merge_pieces_max)
      : jobs_(jobs), form_(gpu.form), folder_(settings.out), kernels_(gpu.form) {
    staging_file_ = Must(worker::StagingFile::Create(kStagingBytes), "a staging file");
    staging_ = std::make_unique<worker::StagingAllocator>(staging_file_.get());
    Must(kernels_.Add(gpu.kernels), "the kernels");
    worker::GpuDeviceOptions options;
    options.kind = gpu.kind;
    options.cores = Must(worker::FindCoreGroups({.cores = 0, .groups = 1}), "cores").front();
    device_ = Must(worker::GpuDevice::Make(gpu.open(), options, &log_), "a device");
    worker::JobResources resources;
    resources.sources = [](const std::string&) { return std::make_shared<NoSource>(); };
    resources.cache = std::make_shared<worker::BlobCache>(folder_.path() + "/cache", kPoolBytes);
    resources.pool = &pool_;
    auto limits = worker::ExecutorLimits::For(device_->properties());
    limits.merge_pieces_max = std::min(limits.merge_pieces_max, merge_pieces_max);
    executor_ = std::make_unique<worker::Executor>(
        device_.get(), staging_.get(), &kernels_, std::move(resources), [this] { Wake(); }, limits);
    for (uint64_t job = 1; job <= jobs; ++job) SetUp(job);
  }
  ~Bench() {
    if (!thread_.joinable()) return;
    message_.Clear();
    message_.set_shutdown(true);
    Must(supervisor_->Send(message_), "send");
    thread_.join();
  }

  // A lease of each job, queued before the clock starts. Seconds until the last is done.
  double RunAll() {
    message_.Clear();
    for (uint64_t job = 1; job <= jobs_; ++job) AddPiece(job);
    executor_->Handle(&message_);
    std::vector<executor::v1::FromExecutor> replies;
    const Stopwatch watch;
    for (uint64_t done = 0; done < jobs_;) {
      if (!executor_->Pump() && executor_->PrepareToSleep()) Sleep();
      executor_->Awake();
      Must(executor_->health(), "running leases");
      if (!executor_->TakeReply(&reply_)) continue;
      done += static_cast<uint64_t>(reply_.done_size());
      replies.emplace_back().Swap(&reply_);
    }
    const double seconds = watch.Seconds();
    for (const executor::v1::FromExecutor& reply : replies) Check(reply);
    return seconds;
  }
  // From now on it has a loop of its own.
  void Serve() {
    worker::ChannelPair pair = Must(worker::MakeChannel(), "a ring");
    supervisor_ = std::move(pair.supervisor);
    channel_ = Must(worker::Channel::Open(std::move(pair.executor_fds)), "a ring");
    thread_ = std::thread([this] {
      Must(worker::Serve(channel_.get(), executor_.get(), [] { return false; }), "serve");
    });
  }
  // One alone. Seconds from its message to its launch. REQUIRES: it is served.
  double RunOne(uint64_t job) {
    message_.Clear();
    AddPiece(job);
    const int64_t sent = Nanos();
    Must(supervisor_->Send(message_), "send");
    Await(1);
    return static_cast<double>(log_.last_ns() - sent) * 1e-9;
  }
  GpuCounters counters() const { return device_->counters(); }

 private:
  static float Scale(uint64_t job) { return static_cast<float>(job); }
  static OperandSpec OneFloat(float value) {
    OperandSpec operand;
    operand.spec.dtype = DType::kF32;
    operand.spec.shape = {1};
    std::string bytes(sizeof(value), '\0');
    std::memcpy(bytes.data(), &value, sizeof(value));
    operand.source = InlineLocator{std::move(bytes)};
    return operand;
  }
  void SetUp(uint64_t job) {
    wire::JobDescription description;
    description.job = JobId(job);
    const TandemKernelV1* const kernel = Must(kernels_.Find("saxpy", 0), "the kernel");
    description.kernel = Must(worker::DescribeKernel(*kernel, form_), "the kernel");
    JobSpec spec;
    spec.kernel = "saxpy";
    spec.owner = "bench";
    spec.scalars["scale"] = Scalar::F64(Scale(job));
    spec.operands["x"] = OneFloat(kX);
    spec.operands["y"] = OneFloat(kY);
    description.spec = Must(ValidateAndBind(std::move(spec), description.kernel), "the job").spec;
    message_.Clear();
    wire::Encode(description, message_.add_setups()->mutable_description());
    executor_->Handle(&message_);
  }
  void AddPiece(uint64_t job) {
    executor::v1::RunPiece* run = message_.add_runs();
    run->set_piece(++last_piece_ * kJobsMax + job);
    run->set_job(job);
    run->set_leaf_count(1);
    run->set_inline_bytes_max(kInlineBytesMax);
  }
  // Until `pieces` more are done, each with its job's result.
  void Await(uint64_t pieces) {
    for (uint64_t done = 0; done < pieces;) {
      if (!Must(supervisor_->Receive(&reply_), "receive")) {
        if (Must(supervisor_->PrepareToSleep(), "sleep")) {
          pollfd fd = {supervisor_->wake_fd(), POLLIN, 0};
          (void)poll(&fd, 1, -1);
        }
        Must(supervisor_->Awake(), "wake");
        continue;
      }
      Check(reply_);
      done += static_cast<uint64_t>(reply_.done_size());
    }
  }
  // Each lease has its job's result.
  static void Check(const executor::v1::FromExecutor& reply) {
    if (reply.job_errors_size() > 0) Die(reply.job_errors(0).reason());
    for (const executor::v1::PieceDone& piece : reply.done()) {
      float z = 0;
      if (piece.tasks() != 1 || piece.outputs_size() != 1 ||
          piece.outputs(0).inline_().size() != sizeof(z)) {
        Die(StrCat("a lease is not as it should be: ", piece.ShortDebugString()));
      }
      std::memcpy(&z, piece.outputs(0).inline_().data(), sizeof(z));
      const uint64_t job = piece.piece() % kJobsMax;
      if (z != Scale(job) * kX + kY) Die(StrCat("the result of job ", job, " is ", z));
    }
  }
  void Wake() {
    if (channel_ != nullptr) return channel_->WakeSelf();
    absl::MutexLock lock(&mu_);
    woken_ = true;
  }
  void Sleep() {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&woken_));
    woken_ = false;
  }

  const uint64_t jobs_;
  const worker::KernelForm form_;
  const ScratchFolder folder_;
  worker::KernelTable kernels_;
  LaunchLog log_;
  std::unique_ptr<worker::Channel> supervisor_, channel_;
  std::unique_ptr<worker::StagingFile> staging_file_;
  std::unique_ptr<worker::StagingAllocator> staging_;
  worker::BufferPool pool_{kPoolBytes};
  std::unique_ptr<worker::GpuDevice> device_;
  std::unique_ptr<worker::Executor> executor_;
  absl::Mutex mu_;
  bool woken_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
  executor::v1::ToExecutor message_;
  executor::v1::FromExecutor reply_;
  uint64_t last_piece_ = 0;
};

// All leases at once, and what the device did for them.
struct Sample {
  double seconds = 0, cpu_seconds = 0;
  GpuCounters did;
};
Sample RunAll(Bench* bench) {
  const GpuCounters before = bench->counters();
  const double cpu = OwnCpuSeconds();
  Sample sample;
  sample.seconds = bench->RunAll();
  sample.cpu_seconds = OwnCpuSeconds() - cpu;
  sample.did = bench->counters();
  sample.did.launches -= before.launches;
  sample.did.copies_up -= before.copies_up;
  sample.did.copies_down -= before.copies_down;
  return sample;
}

std::string Words(const char* how, double seconds, const GpuCounters& did) {
  return StrCat(how, " ", Readable(seconds * 1e3), " ms, ", did.launches, " launches, ",
                did.copies_up + did.copies_down, " copies");
}

}  // namespace

void MeasureMerging(const GpuUnderTest& gpu, uint64_t jobs, const Settings& settings,
                    Report* report) {
  Bench merged(gpu, settings, jobs, ~size_t{0});
  Bench apart(gpu, settings, jobs, 1);
  // In turn, so that both see the same machine. The first of each warms up.
  std::vector<double> merged_seconds, apart_seconds, merged_cpu, apart_cpu;
  GpuCounters merged_did, apart_did;
  for (int i = 0; i <= (settings.quick ? 1 : 5); ++i) {
    const Sample together = RunAll(&merged);
    const Sample alone = RunAll(&apart);
    if (i == 0) continue;
    merged_seconds.push_back(together.seconds);
    apart_seconds.push_back(alone.seconds);
    merged_cpu.push_back(together.cpu_seconds);
    apart_cpu.push_back(alone.cpu_seconds);
    merged_did = together.did;
    apart_did = alone.did;
  }
  const double together = Median(merged_seconds), alone = Median(apart_seconds);
  report->Add({.measure = StrCat(jobs, " one-task leases, merged, times as fast"),
               .value = alone / together,
               .unit = "x",
               .bound = Bound::kAtLeast,
               .threshold = kMergedLeast,
               .note = StrCat(Words("merged", together, merged_did), "; ",
                              Words("each by itself", alone, apart_did)),
               .details = {{"merged_s", merged_seconds},
                           {"apart_s", apart_seconds},
                           {"merged_cpu_s", merged_cpu},
                           {"apart_cpu_s", apart_cpu},
                           {"merged_launches", merged_did.launches},
                           {"merged_copies", merged_did.copies_up + merged_did.copies_down},
                           {"apart_launches", apart_did.launches},
                           {"apart_copies", apart_did.copies_up + apart_did.copies_down}}});
}

void MeasureLoneLease(const GpuUnderTest& gpu, const Settings& settings, Report* report) {
  constexpr uint64_t kJobs = 100;
  Bench bench(gpu, settings, kJobs, ~size_t{0});
  bench.RunAll();
  bench.Serve();
  std::vector<double> micros;
  for (uint64_t i = 0; i < (settings.quick ? 200 : 5000); ++i) {
    micros.push_back(bench.RunOne(i % kJobs + 1) * 1e6);
  }
  const double tenth = Quantile(micros, 0.9);
  report->Add({.measure = "a lone lease, from its message to its launch, p50",
               .value = Median(micros),
               .unit = "us",
               .bound = Bound::kAtMost,
               .threshold = kLoneMaxMicros,
               .note = StrCat("p90 ", Readable(tenth), " us"),
               .details = {{"p90_us", tenth}}});
}

}  // namespace tandem::bench
