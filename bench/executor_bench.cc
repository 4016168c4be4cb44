// What an executor costs: a piece from ring to ring, a thousand one-task leases, and how close to a
// bare tbb::parallel_for over the same kernel it comes.
//
//   executor_bench [--tasks 1000000000] [--genome-mib 210] [--repeat 5]
//
// Supervisor and executor are two threads of this process with the real ring between them.
// Output: one JSON line a measure; each ratio compares runs that took turns.
#include <malloc.h>
#include <poll.h>
#include <sys/resource.h>
#include <tbb/blocked_range.h>
#include <tbb/enumerable_thread_specific.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/base/strings.h"
#include "common/data/sha256.h"
#include "common/model/bound_job.h"
#include "common/wire/session.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/executor/executor.h"
#include "worker/executor/page_log.h"
#include "worker/executor/serve.h"
#include "worker/ring/channel.h"
#include "worker/ring/launch.h"

namespace tandem::worker {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

// Blobs in files of this host.
class LocalFiles final : public OperandSource {
 public:
  explicit LocalFiles(std::string folder) : folder_(std::move(folder)) {}
  BlobLocator Add(const std::string& bytes) {
    const BlobLocator blob = {Sha256Of(bytes), bytes.size()};
    std::ofstream(Path(blob), std::ios::binary) << bytes;
    return blob;
  }
  absl::StatusOr<std::string> LocateBlob(const BlobLocator& blob) override { return Path(blob); }
  absl::Status ReadBlob(const BlobLocator&, uint64_t, uint64_t, char*) override {
    return absl::UnimplementedError("everything is on this host");
  }
  absl::Status ReadRegion(const Region&, char*) override {
    return absl::UnimplementedError("nothing is merged here");
  }

 private:
  std::string Path(const BlobLocator& blob) const { return folder_ + "/" + blob.id.ToHex(); }
  const std::string folder_;
};

class Bench {
 public:
  Bench() : folder_(MakeFolder()), files_(std::make_shared<LocalFiles>(folder_)) {
    auto pair = MakeChannel();
    CHECK_OK(pair);
    supervisor_ = std::move(pair->supervisor);
    auto channel = Channel::Open(std::move(pair->executor_fds));
    CHECK_OK(channel);
    channel_ = *std::move(channel);
    auto file = StagingFile::Create(uint64_t{1} << 34);
    CHECK_OK(file);
    staging_file_ = *std::move(file);
    staging_ = std::make_unique<StagingAllocator>(staging_file_.get());
    CHECK_OK(kernels_.Add(tandem_builtin_kernels()));
    auto groups = FindCoreGroups({.cores = 0, .groups = 1});
    CHECK_OK(groups);
    auto page = StartPage::Create(folder_ + "/start", CpuDevice::SlotsOf(*groups));
    CHECK_OK(page);
    page_ = *std::move(page);
    log_ = std::make_unique<PageLog>(page_.get());
    device_ = std::make_unique<CpuDevice>(*groups, ReadMachineInfo(), log_.get());
    JobResources resources;
    resources.sources = [files = files_](const std::string&) { return files; };
    resources.cache = std::make_shared<BlobCache>(folder_ + "/cache", uint64_t{1} << 30);
    resources.pool = &pool_;
    executor_ = std::make_unique<Executor>(device_.get(), staging_.get(), &kernels_,
                                           std::move(resources), [this] { channel_->WakeSelf(); });
    thread_ = std::thread(
        [this] { CHECK_OK(Serve(channel_.get(), executor_.get(), [] { return false; })); });
    Receive([](const executor::v1::FromExecutor& from) { return from.has_ready(); });
  }
  ~Bench() {
    executor::v1::ToExecutor message;
    message.set_shutdown(true);
    CHECK_OK(supervisor_->Send(message));
    thread_.join();
    CHECK(std::system(StrCat("rm -rf ", folder_).c_str()) == 0);
  }

  LocalFiles* files() { return files_.get(); }
  const TandemKernelV1* Kernel(const std::string& name) {
    auto kernel = kernels_.Find(name, 0);
    CHECK_OK(kernel);
    return *kernel;
  }
  BoundJob SetUp(uint64_t job, JobSpec spec) {
    auto info = DescribeKernel(*Kernel(spec.kernel));
    CHECK_OK(info);
    spec.owner = "bench";
    auto bound = ValidateAndBind(std::move(spec), *info);
    CHECK_OK(bound);
    wire::JobDescription description;
    description.job = JobId(job);
    description.spec = bound->spec;
    description.kernel = *info;
    executor::v1::ToExecutor message;
    wire::Encode(description, message.add_setups()->mutable_description());
    CHECK_OK(supervisor_->Send(message));
    return *std::move(bound);
  }
  // Sends pieces of `leaves` leaves, `ahead` in flight, until all leaves of [0, total) are done.
  void RunPieces(uint64_t job, uint64_t total, uint64_t leaves, uint64_t ahead, bool spin) {
    uint64_t sent = 0;
    uint64_t in_flight = 0;
    executor::v1::ToExecutor message;
    while (sent < total || in_flight > 0) {
      message.Clear();
      while (sent < total && in_flight < ahead) {
        executor::v1::RunPiece* run = message.add_runs();
        run->set_piece(++last_piece_);
        run->set_job(job);
        run->set_first_leaf(sent);
        run->set_leaf_count(std::min(leaves, total - sent));
        run->set_inline_bytes_max(1 << 20);
        sent += run->leaf_count();
        ++in_flight;
      }
      if (message.runs_size() > 0) CHECK_OK(supervisor_->Send(message));
      Receive(
          [&](const executor::v1::FromExecutor& from) {
            CHECK_MSG(from.job_errors_size() == 0, from.ShortDebugString());
            in_flight -= static_cast<uint64_t>(from.done_size());
            return from.done_size() > 0;
          },
          spin);
    }
  }
  std::string Flush(uint64_t job) {
    executor::v1::ToExecutor message;
    message.add_flush_jobs(job);
    CHECK_OK(supervisor_->Send(message));
    std::string bytes;
    Receive([&](const executor::v1::FromExecutor& from) {
      if (from.partials_size() == 0) return false;
      const auto& output = from.partials(0).outputs(0);
      if (output.has_inline_()) {
        bytes = output.inline_();
      } else {
        bytes =
            std::string(*staging_file_->Read(output.region().offset(), output.region().length()));
        message.Clear();
        message.add_releases()->set_offset(output.region().offset());
        CHECK_OK(supervisor_->Send(message));
      }
      return true;
    });
    return bytes;
  }

 private:
  static std::string MakeFolder() {
    char name[] = "/tmp/executor_bench.XXXXXX";
    CHECK(mkdtemp(name) != nullptr);
    return name;
  }
  template <class F>
  void Receive(F enough, bool spin = false) {
    executor::v1::FromExecutor from;
    while (true) {
      auto received = supervisor_->Receive(&from);
      CHECK_OK(received);
      if (*received) {
        if (enough(from)) return;
        continue;
      }
      if (spin) continue;
      auto may_sleep = supervisor_->PrepareToSleep();
      CHECK_OK(may_sleep);
      if (*may_sleep) {
        pollfd fd = {supervisor_->wake_fd(), POLLIN, 0};
        (void)poll(&fd, 1, -1);
      }
      CHECK_OK(supervisor_->Awake());
    }
  }

  const std::string folder_;
  std::shared_ptr<LocalFiles> files_;
  std::unique_ptr<Channel> supervisor_, channel_;
  std::unique_ptr<StagingFile> staging_file_;
  std::unique_ptr<StagingAllocator> staging_;
  std::unique_ptr<StartPage> page_;
  std::unique_ptr<PageLog> log_;
  BufferPool pool_{size_t{1} << 30};
  KernelTable kernels_;
  std::unique_ptr<CpuDevice> device_;
  std::unique_ptr<Executor> executor_;
  std::thread thread_;
  uint64_t last_piece_ = 0;
};

void PrintPieces(const char* name, uint64_t leaves_a_piece, uint64_t pieces, double seconds,
                 double cpu) {
  const auto n = static_cast<double>(pieces);
  std::printf(
      "{\"measure\": \"%s\", \"leaves_a_piece\": %llu, \"us_a_piece\": %.2f, "
      "\"cpu_us_a_piece\": %.2f, \"leaves_per_second\": %.0f, \"cpu_us_a_leaf\": %.4f}\n",
      name, static_cast<unsigned long long>(leaves_a_piece), seconds / n * 1e6, cpu / n * 1e6,
      n * static_cast<double>(leaves_a_piece) / seconds,
      cpu / n / static_cast<double>(leaves_a_piece) * 1e6);
  std::fflush(stdout);
}

void BenchPieces(Bench* bench) {
  JobSpec spec;
  spec.kernel = "noop";
  spec.axis_extents["n"] = 1 << 24;
  spec.grain = 1;
  bench->SetUp(1, spec);
  bench->RunPieces(1, 1000, 1, 1, true);
  for (const auto& [name, leaves, pieces, ahead, spin] :
       {std::tuple{"one piece, awake", uint64_t{1}, uint64_t{100'000}, uint64_t{1}, true},
        std::tuple{"one piece, asleep", uint64_t{1}, uint64_t{20'000}, uint64_t{1}, false},
        std::tuple{"one piece, awake", uint64_t{1024}, uint64_t{10'000}, uint64_t{1}, true},
        std::tuple{"16 pieces in flight", uint64_t{1}, uint64_t{200'000}, uint64_t{16}, false},
        std::tuple{"2 pieces in flight", uint64_t{1024}, uint64_t{10'000}, uint64_t{2}, false}}) {
    const double start = Now();
    const double cpu = CpuSeconds();
    bench->RunPieces(1, leaves * pieces, leaves, ahead, spin);
    PrintPieces(name, leaves, pieces, Now() - start, CpuSeconds() - cpu);
  }
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Times {
  std::vector<double> seconds, cpu;
};

// On a machine that does other things as well, the ratio of CPU times is the steadier one.
void PrintRatio(const char* name, const Times& bare, const Times& executor, double tasks) {
  const double a = Median(bare.seconds);
  const double b = Median(executor.seconds);
  std::printf(
      "{\"measure\": \"%s\", \"tasks\": %.0f, \"bare_s\": %.4f, \"executor_s\": %.4f, "
      "\"ratio\": %.3f, \"cpu_ratio\": %.3f}\n",
      name, tasks, a, b, a / b, Median(bare.cpu) / Median(executor.cpu));
  std::fflush(stdout);
}

// The same kernel in a bare parallel_for, with a private partial a thread.
std::string RunBare(const TandemKernelV1* kernel, const ArgWords& args, int64_t tasks) {
  const auto bytes = static_cast<size_t>(kernel->partial_bytes(args.data(), tasks));
  const auto make = [&] {
    AlignedBuffer partial;
    partial.Ensure(bytes);
    kernel->partial_init(args.data(), partial.data());
    return partial;
  };
  tbb::enumerable_thread_specific<AlignedBuffer> partials(make);
  tbb::enumerable_thread_specific<AlignedBuffer> scratches;
  const int64_t scratch_bytes =
      kernel->scratch_bytes == nullptr ? 0 : kernel->scratch_bytes(args.data());
  tbb::parallel_for(
      tbb::blocked_range<int64_t>(0, tasks, 10'000), [&](const tbb::blocked_range<int64_t>& range) {
        const TandemPart part = {args.data(),
                                 {range.begin(), range.begin()},
                                 static_cast<int64_t>(range.size()),
                                 nullptr,
                                 partials.local().data()};
        kernel->range(&part, 1, scratches.local().Ensure(static_cast<size_t>(scratch_bytes)));
      });
  AlignedBuffer total;
  for (AlignedBuffer& partial : partials) {
    if (total.data() == nullptr) {
      total = std::move(partial);
    } else {
      kernel->merge(args.data(), total.data(), 0, partial.data(), 0);
    }
  }
  return std::string(reinterpret_cast<const char*>(total.data()), bytes);
}

// Pieces as the worker's pulls make them: about `leaves` a piece, two in flight.
void BenchReduction(Bench* bench, const char* name, uint64_t id, const BoundJob& job,
                    const void* operand, int64_t tasks, int repeat) {
  const TandemKernelV1* kernel = bench->Kernel(job.kernel.name);
  const ArgsTemplate layout(job);
  ArgWords args;
  std::vector<void*> outputs(job.outputs.size(), nullptr);
  std::vector<const void*> operands(job.operands.size(), operand);
  layout.Fill(operands, outputs, static_cast<uint64_t>(tasks), &args);
  Times bare, executor;
  const uint64_t leaves = job.tree.leaf_count();
  const uint64_t a_piece = std::max<uint64_t>(1, std::bit_ceil(leaves / 64));
  std::fprintf(stderr, "%s: %llu leaves, %llu a piece\n", name,
               static_cast<unsigned long long>(leaves), static_cast<unsigned long long>(a_piece));
  for (int i = 0; i <= repeat; ++i) {
    double start = Now();
    double cpu = CpuSeconds();
    const std::string expected = RunBare(kernel, args, tasks);
    const double bare_seconds = Now() - start;
    const double bare_cpu = CpuSeconds() - cpu;
    start = Now();
    cpu = CpuSeconds();
    bench->RunPieces(id, leaves, a_piece, 2, false);
    const std::string got = bench->Flush(id);
    const double executor_seconds = Now() - start;
    const double executor_cpu = CpuSeconds() - cpu;
    CHECK_MSG(std::memcmp(got.data(), expected.data(), got.size()) == 0, name);
    if (i == 0) continue;  // Warms both up.
    bare.seconds.push_back(bare_seconds);
    bare.cpu.push_back(bare_cpu);
    executor.seconds.push_back(executor_seconds);
    executor.cpu.push_back(executor_cpu);
  }
  PrintRatio(name, bare, executor, static_cast<double>(tasks));
}

void BenchKernels(Bench* bench, int64_t tasks, uint64_t genome_mib, int repeat) {
  JobSpec pi;
  pi.kernel = "monte_carlo_pi";
  pi.axis_extents["n"] = tasks;
  const BoundJob pi_job = bench->SetUp(2, pi);
  BenchReduction(bench, "monte_carlo_pi against parallel_for", 2, pi_job, nullptr, tasks, repeat);

  // Random words are the worst case for the counts' locality.
  Rng rng(11);
  std::string genome(genome_mib << 20, 'A');
  for (size_t i = 0; i < genome.size(); i += 16) {
    uint64_t word = rng.Next();
    for (size_t j = i; j < std::min(i + 16, genome.size()); ++j, word >>= 2) {
      genome[j] = "ACGT"[word & 3];
    }
  }
  JobSpec kmer;
  kmer.kernel = "kmer_count";
  kmer.scalars["k"] = Scalar::I64(11);
  OperandSpec base;
  base.spec.dtype = DType::kU8;
  base.spec.shape = {static_cast<int64_t>(genome.size())};
  base.source = Locator(bench->files()->Add(genome));
  kmer.operands["base"] = base;
  const BoundJob kmer_job = bench->SetUp(3, kmer);
  BenchReduction(bench, "kmer_count against parallel_for", 3, kmer_job, genome.data(),
                 static_cast<int64_t>(kmer_job.task_count()), repeat);
}

int Main(int argc, char** argv) {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  int64_t tasks = 1'000'000'000;
  uint64_t genome_mib = 210;
  int repeat = 5;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const long long value = std::atoll(argv[i + 1]);
    if (name == "--tasks") tasks = value;
    if (name == "--genome-mib") genome_mib = static_cast<uint64_t>(value);
    if (name == "--repeat") repeat = static_cast<int>(value);
  }
  Bench bench;
  BenchPieces(&bench);
  BenchKernels(&bench, tasks, genome_mib, repeat);
  return 0;
}

}  // namespace
}  // namespace tandem::worker

int main(int argc, char** argv) { return tandem::worker::Main(argc, argv); }
