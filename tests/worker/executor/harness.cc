#include "tests/worker/executor/harness.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/rng.h"
#include "common/base/strings.h"
#include "common/data/blob_sums.h"
#include "common/data/sha256.h"
#include "common/data/xxh3.h"
#include "common/wire/session.h"
#include "common/wire/usage.h"
#include "gtest/gtest.h"
#include "tests/support/fake_kernels.h"

namespace tandem::worker::testing {
namespace {

std::string NewFolder() {
  static std::atomic<int> last = 0;
  const std::string folder =
      StrCat(::testing::TempDir(), "/executor-", getpid(), "-", last.fetch_add(1));
  std::filesystem::create_directories(folder);
  return folder;
}

// Two groups over the same cores: enough to have two lanes on any machine.
std::vector<CoreGroup> TwoGroups(int threads) {
  const auto domains = ReadCacheDomains();
  CHECK_OK(domains);
  std::vector<int> cpus;
  for (const CacheDomain& domain : *domains) cpus.insert(cpus.end(), domain.begin(), domain.end());
  return {CoreGroup{cpus, threads}, CoreGroup{cpus, threads}};
}

}  // namespace

BlobLocator FakeSource::AddBlob(const std::string& bytes) {
  absl::MutexLock lock(&mu_);
  const BlobLocator blob = {Sha256Of(bytes), bytes.size()};
  blobs_[blob.id] = bytes;
  BlobSummer summer;
  summer.Update(bytes);
  sums_[blob.id] = summer.Finish();
  return blob;
}

void FakeSource::Damage(const BlobLocator& blob, uint64_t offset) {
  absl::MutexLock lock(&mu_);
  blobs_[blob.id][offset] ^= 1;
}

absl::StatusOr<std::vector<uint64_t>> FakeSource::BlobSums(const BlobLocator& blob) {
  absl::MutexLock lock(&mu_);
  return sums_[blob.id];
}

Region FakeSource::AddRegion(const std::string& bytes) {
  absl::MutexLock lock(&mu_);
  const uint64_t offset = regions_.size() * 1000;
  regions_[offset] = bytes;
  return {SegmentId(1), offset, bytes.size(), Xxh3(bytes)};
}

void FakeSource::Place(const BlobLocator& blob, const std::string& path) {
  absl::MutexLock lock(&mu_);
  places_[blob.id] = path;
}

void FakeSource::FailNext(int n) {
  absl::MutexLock lock(&mu_);
  failing_ = n;
}

uint64_t FakeSource::bytes_read() const {
  absl::MutexLock lock(&mu_);
  return bytes_read_;
}

absl::StatusOr<std::string> FakeSource::LocateBlob(const BlobLocator& blob) {
  absl::MutexLock lock(&mu_);
  return places_[blob.id];
}

absl::Status FakeSource::ReadBlob(const BlobLocator& blob, uint64_t offset, uint64_t length,
                                  char* to) {
  absl::MutexLock lock(&mu_);
  if (failing_ > 0) {
    --failing_;
    return absl::UnavailableError("the master is away");
  }
  const auto it = blobs_.find(blob.id);
  if (it == blobs_.end()) {
    return Error(absl::StatusCode::kNotFound, reason::kBlobNotFound, "no such blob");
  }
  CHECK(offset + length <= it->second.size());
  std::memcpy(to, it->second.data() + offset, length);
  bytes_read_ += length;
  return absl::OkStatus();
}

absl::Status FakeSource::ReadRegion(const Region& region, char* to) {
  absl::MutexLock lock(&mu_);
  if (failing_ > 0) {
    --failing_;
    return absl::UnavailableError("the master is away");
  }
  const auto it = regions_.find(region.offset);
  if (it == regions_.end()) {
    return Error(absl::StatusCode::kNotFound, reason::kSegmentNotFound, "no such region");
  }
  std::memcpy(to, it->second.data(), it->second.size());
  bytes_read_ += it->second.size();
  return absl::OkStatus();
}

Harness::Harness(bool local_data, uint64_t cache_bytes, const ExecutorLimits& limits)
    : Harness(
          HarnessOptions{.local_data = local_data, .cache_bytes = cache_bytes, .limits = limits}) {}

Harness::Harness(const HarnessOptions& options)
    : folder_(NewFolder()), source_(std::make_shared<FakeSource>()), pool_(1 << 20) {
  auto file = StagingFile::Create(uint64_t{1} << 30);
  CHECK_OK(file);
  staging_file_ = *std::move(file);
  staging_ = std::make_unique<StagingAllocator>(staging_file_.get());
  if (options.builtin_kernels) {
    CHECK_OK(kernels_.Add(tandem_builtin_kernels(), tandem_builtin_kernels_for("v2")));
  } else {
    CHECK_OK(kernels_.Add(tandem::testing::FakeKernels(), tandem::testing::FakeBaseline()));
  }
  if (options.emulated.has_value()) {
    auto gpu = std::make_unique<EmulatedGpu>(*options.emulated);
    emulated_ = gpu.get();
    GpuDeviceOptions device;
    device.kind = DeviceKind::kEmulated;
    device.cores = TwoGroups(options.threads_a_group).front();
    device.engine = options.engine;
    auto made = GpuDevice::Make(std::move(gpu), device, &log_);
    CHECK_OK(made);
    device_ = *std::move(made);
  } else {
    device_ = std::make_unique<CpuDevice>(TwoGroups(options.threads_a_group),
                                          MachineInfo{"test", 1 << 20}, &log_);
  }
  JobResources resources;
  resources.sources = [source = source_](const std::string&) { return source; };
  resources.cache = std::make_shared<BlobCache>(folder_ + "/cache", options.cache_bytes);
  resources.local_data = options.local_data;
  resources.pool = &pool_;
  executor_ = std::make_unique<Executor>(
      device_.get(), staging_.get(), &kernels_, std::move(resources),
      [this] {
        absl::MutexLock lock(&mu_);
        woken_ = true;
      },
      options.limits.value_or(ExecutorLimits::For(device_->properties())));
  executor_->SayReady();
  TakeReplies();
}

Harness::~Harness() {
  executor_.reset();
  std::filesystem::remove_all(folder_);
}

executor::v1::JobSetup Harness::MakeSetup(uint64_t job, JobSpec spec, BoundJob* bound) {
  const auto name = ParseKernelRef(spec.kernel);
  CHECK_OK(name);
  wire::JobDescription description;
  description.job = JobId(job);
  const auto table = kernels_.Find(name->name, 0);
  CHECK_OK(table);
  const auto kernel = DescribeKernel(**table);
  CHECK_OK(kernel);
  description.kernel = *kernel;
  spec.owner = "ada";
  Capabilities capabilities;
  capabilities.gpu_memory = true;
  const auto checked = ValidateAndBind(std::move(spec), *kernel, capabilities);
  CHECK_OK(checked);
  description.spec = checked->spec;
  if (bound != nullptr) *bound = *checked;
  executor::v1::JobSetup setup;
  wire::Encode(description, setup.mutable_description());
  setup.set_master_data_address("master:1");
  return setup;
}

BoundJob Harness::SetUp(uint64_t job, JobSpec spec) {
  BoundJob bound;
  executor::v1::ToExecutor message;
  *message.add_setups() = MakeSetup(job, std::move(spec), &bound);
  Send(std::move(message));
  return bound;
}

uint64_t Harness::AddPiece(uint64_t job, LeafRange leaves, executor::v1::ToExecutor* message) {
  executor::v1::RunPiece* run = message->add_runs();
  run->set_piece(++last_piece_);
  run->set_job(job);
  run->set_first_leaf(leaves.begin);
  run->set_leaf_count(leaves.size());
  run->set_group(static_cast<uint32_t>(last_piece_ % 2));
  run->set_inline_bytes_max(512);
  return last_piece_;
}

// Through its serialized form, as the ring carries it.
void Harness::Send(executor::v1::ToExecutor message) {
  executor::v1::ToExecutor parsed;
  CHECK(parsed.ParseFromString(message.SerializeAsString()));
  executor_->Handle(&parsed);
  executor_->Pump();
  TakeReplies();
}

void Harness::Until(const std::function<bool()>& condition) {
  while (!condition()) {
    if (!executor_->Pump() && executor_->PrepareToSleep()) {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(&woken_));
      woken_ = false;
    }
    executor_->Awake();
    TakeReplies();
  }
}

bool Harness::Reported(uint64_t piece) const {
  if (done_.contains(piece) || merges_.contains(piece)) return true;
  if (const auto it = shrunk_.find(piece); it != shrunk_.end() && it->second == 0) return true;
  for (const uint64_t id : returned_) {
    if (id == piece) return true;
  }
  for (const executor::v1::TooLarge& large : too_large_) {
    if (large.piece() == piece) return true;
  }
  for (const executor::v1::JobError& error : errors_) {
    for (const uint64_t id : error.pieces()) {
      if (id == piece) return true;
    }
  }
  return false;
}

uint64_t Harness::Run(uint64_t job, LeafRange leaves) {
  executor::v1::ToExecutor message;
  const uint64_t piece = AddPiece(job, leaves, &message);
  Send(std::move(message));
  Until([&] { return Reported(piece); });
  return piece;
}

std::string Harness::RunAll(uint64_t job, const std::vector<LeafRange>& pieces) {
  executor::v1::ToExecutor message;
  std::vector<uint64_t> ids;
  for (const LeafRange& leaves : pieces) ids.push_back(AddPiece(job, leaves, &message));
  Send(std::move(message));
  std::string bytes;
  for (const uint64_t id : ids) {
    Until([&] { return Reported(id); });
    if (!done_.contains(id)) {
      ADD_FAILURE() << "piece " << id << " did not run: "
                    << (errors_.empty() ? "" : errors_.back().ShortDebugString());
      continue;
    }
    bytes += OutputBytes(done_.at(id).outputs(0));
  }
  return bytes;
}

std::string Harness::OutputBytes(const tandem::v1::OutputPiece& piece) const {
  if (piece.has_inline_()) return piece.inline_();
  const auto bytes = staging_file_->Read(piece.region().offset(), piece.region().length());
  CHECK_OK(bytes);
  return std::string(*bytes);
}

std::string Harness::Path(const std::string& name) const { return folder_ + "/" + name; }

PathLocator Harness::WriteFile(const std::string& name, const std::string& bytes,
                               uint64_t data_offset, uint64_t slice_bytes) const {
  PathLocator locator;
  locator.path = Path(name);
  std::ofstream(locator.path, std::ios::binary) << std::string(data_offset, 'h') << bytes;
  struct stat info;
  CHECK(stat(locator.path.c_str(), &info) == 0);
  locator.file_size = static_cast<uint64_t>(info.st_size);
  locator.mtime_ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
  locator.data_offset = data_offset;
  locator.size = bytes.size();
  locator.slice_bytes = slice_bytes;
  for (size_t at = 0; at < bytes.size(); at += slice_bytes) {
    locator.slice_checksums.push_back(Xxh3(std::string_view(bytes).substr(at, slice_bytes)));
  }
  return locator;
}

uint64_t Harness::counter(const std::string& name) const {
  const auto it = counters_.find(name);
  return it == counters_.end() ? 0 : it->second;
}

tandem::v1::Usage Harness::usage(uint64_t job) const {
  const auto it = usages_.find(job);
  return it == usages_.end() ? tandem::v1::Usage() : it->second;
}

void Harness::TakeReplies() {
  executor::v1::FromExecutor reply;
  while (executor_->TakeReply(&reply)) {
    if (reply.has_ready()) ready_ = reply.ready();
    for (const auto& done : reply.done()) {
      EXPECT_TRUE(done_.emplace(done.piece(), done).second) << "piece reported twice";
    }
    for (const auto& merge : reply.merges()) merges_[merge.piece()] = merge;
    partials_.insert(partials_.end(), reply.partials().begin(), reply.partials().end());
    errors_.insert(errors_.end(), reply.job_errors().begin(), reply.job_errors().end());
    too_large_.insert(too_large_.end(), reply.too_large().begin(), reply.too_large().end());
    returned_.insert(returned_.end(), reply.returned_pieces().begin(),
                     reply.returned_pieces().end());
    for (const auto& shrunk : reply.shrunk()) shrunk_[shrunk.piece()] = shrunk.leaves();
    for (const auto& [name, n] : reply.counters()) counters_[name] += n;
    for (const tandem::v1::JobUsage& usage : reply.usages()) {
      wire::AddUsage(usage.usage(), &usages_[usage.job()]);
    }
  }
}

OperandSpec Dense(DType dtype, std::vector<int64_t> shape, Locator locator) {
  OperandSpec operand;
  operand.spec.dtype = dtype;
  operand.spec.shape.assign(shape.begin(), shape.end());
  operand.source = std::move(locator);
  return operand;
}

std::vector<LeafRange> RandomCut(uint64_t leaves, uint64_t seed) {
  Rng rng(seed);
  std::vector<LeafRange> cut;
  for (uint64_t at = 0; at < leaves;) {
    const uint64_t size = std::min(leaves - at, rng.Between(1, std::max<uint64_t>(leaves / 3, 1)));
    cut.push_back({at, at + size});
    at += size;
  }
  return cut;
}

std::vector<LeafRange> RandomNodes(const RangeTree& tree, uint64_t seed) {
  Rng rng(seed);
  std::vector<LeafRange> cut;
  const std::function<void(Node)> visit = [&](Node node) {
    if (!RangeTree::IsLeaf(node) && rng.Chance(0.6)) {
      visit(tree.Left(node));
      visit(tree.Right(node));
    } else {
      cut.push_back(tree.Leaves(node));
    }
  };
  if (!tree.empty()) visit(tree.root());
  return cut;
}

}  // namespace tandem::worker::testing
