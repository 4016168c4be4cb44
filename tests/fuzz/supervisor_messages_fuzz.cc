// What a supervisor says, from a hostile one, to an executor with the tests' small kernels: nothing
// in a message stops the process, and what the executor answers is possible.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/strings.h"
#include "common/model/all_capabilities.h"
#include "common/wire/lease_messages.h"
#include "common/wire/session.h"
#include "google/protobuf/stubs/logging.h"
#include "tandem/executor/v1/executor.pb.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/fake_kernels.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/executor/executor.h"
#include "worker/ring/staging.h"
#include "worker/server/translate.h"

namespace tandem::worker {
namespace {

// Larger jobs would only take long.
constexpr uint64_t kTasksMax = 4096;
constexpr uint64_t kBytesMax = 1 << 20;

class NothingThere final : public OperandSource {
 public:
  absl::StatusOr<std::string> LocateBlob(const BlobLocator&) override { return std::string(); }
  absl::Status ReadBlob(const BlobLocator&, uint64_t, uint64_t, char*) override {
    return Error(absl::StatusCode::kNotFound, reason::kBlobNotFound, "no such blob");
  }
  absl::Status ReadRegion(const Region&, char*) override {
    return Error(absl::StatusCode::kNotFound, reason::kSegmentNotFound, "no such region");
  }
};

class NoLog final : public StartLog {
 public:
  void Begin(uint32_t, uint64_t, uint64_t, uint64_t, uint64_t) override {}
  void End(uint32_t) override {}
};

// All of the small kernels but the one that is made to die.
const KernelTable& Kernels() {
  static const KernelTable* const table = [] {
    static std::vector<const TandemKernelV1*> kept;
    static TandemLibraryV1 library = *tandem::testing::FakeKernels();
    for (uint32_t i = 0; i < library.kernel_count; ++i) {
      if (std::string_view(library.kernels[i]->name) != "die_at")
        kept.push_back(library.kernels[i]);
    }
    library.kernel_count = static_cast<uint32_t>(kept.size());
    library.kernels = kept.data();
    auto* made = new KernelTable();
    CHECK_OK(made->Add(&library));
    return made;
  }();
  return *table;
}

CpuDevice* Device() {
  static NoLog log;
  static auto* const device =
      new CpuDevice({CoreGroup{{0}, 1}, CoreGroup{{0}, 1}}, MachineInfo{"test", 1 << 20}, &log);
  return device;
}

struct CacheFolder {
  const std::string path =
      StrCat(std::filesystem::temp_directory_path().string(), "/tandem-fuzz-", ::getpid());
  ~CacheFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

// One executor, from its beginning to its end.
class World {
 public:
  World() : pool_(1 << 20) {
    auto file = StagingFile::Create(uint64_t{1} << 24);
    CHECK_OK(file);
    staging_file_ = *std::move(file);
    staging_ = std::make_unique<StagingAllocator>(staging_file_.get());
    JobResources resources;
    resources.sources = [](const std::string&) { return std::make_shared<NothingThere>(); };
    static const CacheFolder folder;
    resources.cache = std::make_shared<BlobCache>(folder.path, kBytesMax);
    resources.local_data = false;
    resources.pool = &pool_;
    ExecutorLimits limits;
    limits.io_threads = 1;
    executor_ = std::make_unique<Executor>(
        Device(), staging_.get(), &Kernels(), std::move(resources), [this] { Wake(); }, limits);
  }

  void Say(executor::v1::ToExecutor message) {
    for (const auto& run : message.runs()) known_.insert(run.piece());
    for (const auto& merge : message.merges()) known_.insert(merge.piece());
    executor_->Handle(&message);
    executor_->Pump();
    TakeReplies();
  }
  void Finish() {
    executor::v1::ToExecutor shutdown;
    shutdown.set_shutdown(true);
    executor_->Handle(&shutdown);
    while (!executor_->finished()) {
      if (!executor_->Pump() && executor_->PrepareToSleep()) {
        absl::MutexLock lock(&mu_);
        mu_.Await(absl::Condition(&woken_));
        woken_ = false;
      }
      executor_->Awake();
      TakeReplies();
    }
  }

 private:
  void Wake() {
    absl::MutexLock lock(&mu_);
    woken_ = true;
  }
  // Whatever it says is about pieces that it was given, and a supervisor can read it.
  void TakeReplies() {
    executor::v1::FromExecutor reply;
    while (executor_->TakeReply(&reply)) {
      for (const auto& done : reply.done()) CHECK(known_.contains(done.piece()));
      for (const auto& merge : reply.merges()) CHECK(known_.contains(merge.piece()));
      for (const uint64_t piece : reply.returned_pieces()) CHECK(known_.contains(piece));
      executor::v1::FromExecutor received;
      CHECK(received.ParseFromString(reply.SerializeAsString()));
      std::vector<Event> events;
      CHECK_OK(ToEvents(1, *staging_file_, &received, &events));
    }
  }

  BufferPool pool_;
  std::unique_ptr<StagingFile> staging_file_;
  std::unique_ptr<StagingAllocator> staging_;
  absl::Mutex mu_;
  bool woken_ = false;
  std::set<uint64_t> known_;
  std::unique_ptr<Executor> executor_;  // goes first
};

bool Small(const BoundJob& job) {
  if (job.task_count() > kTasksMax) return false;
  for (const BoundOperand& operand : job.operands) {
    if (operand.bytes > kBytesMax) return false;
    if (!operand.spec.ragged()) continue;
    for (const int64_t items : operand.spec.shape) {
      if (items > int64_t{kTasksMax}) return false;
    }
  }
  for (const BoundOutput& output : job.outputs) {
    if (output.kind != BoundOutput::Kind::kRaggedConcat && output.PieceBytes(1) > kBytesMax) {
      return false;
    }
  }
  return true;
}

bool NamesAFile(const Locator& locator) { return std::holds_alternative<PathLocator>(locator); }
bool NamesAFile(const OperandSpec& operand) {
  if (const auto* plain = std::get_if<Locator>(&operand.source)) return NamesAFile(*plain);
  if (const auto* packed = std::get_if<RaggedPacked>(&operand.source)) {
    return NamesAFile(packed->offsets) || NamesAFile(packed->data);
  }
  const auto& items = std::get<RaggedItems>(operand.source).items;
  return std::any_of(items.begin(), items.end(), [](const Locator& l) { return NamesAFile(l); });
}

// Is this a job whose work has a bound, and that reads no file?
bool Bounded(executor::v1::JobSetup setup) {
  wire::JobDescription description;
  if (!wire::Decode(setup.mutable_description(), &description).ok()) return true;  // refused
  for (const auto& [name, operand] : description.spec.operands) {
    if (NamesAFile(operand)) return false;
  }
  const auto job = ValidateAndBind(description.spec, description.kernel, kAllCapabilities);
  return !job.ok() || Small(*job);
}

void AddSetup(uint64_t id, JobSpec spec, executor::v1::ToExecutor* message) {
  wire::JobDescription description;
  description.job = JobId(id);
  const auto kernel = DescribeKernel(*tandem::testing::FakeKernel(spec.kernel));
  CHECK_OK(kernel);
  description.kernel = *kernel;
  spec.owner = "ada";
  const auto bound = ValidateAndBind(std::move(spec), *kernel);
  CHECK_OK(bound);
  description.spec = bound->spec;
  executor::v1::JobSetup* setup = message->add_setups();
  wire::Encode(description, setup->mutable_description());
  setup->set_master_data_address("master:1");
}

OperandSpec Iota(DType dtype, int64_t count) {
  OperandSpec operand;
  operand.spec = {dtype, {count}};
  const auto generator = ParseGenerator("iota", dtype);
  CHECK_OK(generator);
  operand.source = Locator(GeneratorLocator{*generator});
  return operand;
}

executor::v1::ToExecutor Setups() {
  executor::v1::ToExecutor message;
  JobSpec map, sum, folded;
  map.kernel = "double_it";
  map.operands["x"] = Iota(DType::kF32, 20);
  map.grain = 2;
  AddSetup(1, map, &message);
  sum.kernel = "tally";
  sum.axis_extents["n"] = 20;
  sum.grain = 1;
  AddSetup(2, sum, &message);
  folded.kernel = "float_sum";
  folded.operands["x"] = Iota(DType::kF32, 16);
  folded.grain = 1;
  AddSetup(3, folded, &message);
  return message;
}

executor::v1::ToExecutor Runs() {
  executor::v1::ToExecutor message;
  for (uint64_t job = 1; job <= 3; ++job) {
    executor::v1::RunPiece* run = message.add_runs();
    run->set_piece(job);
    run->set_job(job);
    run->set_leaf_count(4);
    run->set_inline_bytes_max(job == 1 ? 0 : 512);
  }
  message.add_flush_jobs(2);
  return message;
}

executor::v1::ToExecutor Merges() {
  executor::v1::ToExecutor message;
  executor::v1::MergePiece* merge = message.add_merges();
  merge->set_piece(9);
  merge->set_job(3);
  for (uint64_t id : {1, 2}) {
    Partial partial;
    partial.id = id;
    partial.leaves = {{(id - 1) * 4, 4}};
    partial.tasks = 4;
    partial.outputs =
        std::make_shared<const CommitOutputs>(CommitOutputs{{0, std::string(8, '\0')}});
    wire::Encode(partial, merge->add_inputs());
  }
  return message;
}

std::string Part(const executor::v1::ToExecutor& message) {
  const std::string bytes = message.SerializeAsString();
  const auto size = static_cast<uint16_t>(bytes.size());
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + bytes;
}

// Messages, each behind its length of two bytes. Three jobs are set up before the first.
FUZZ_SEEDS(supervisor_messages) {
  executor::v1::ToExecutor odd;
  odd.add_cancel_pieces(1);
  odd.add_discard_accumulators(2);
  odd.add_forget_jobs(1);
  odd.add_releases()->set_offset(64);
  executor::v1::ToExecutor beyond = Runs();
  beyond.mutable_runs(0)->set_first_leaf(~uint64_t{0});
  beyond.mutable_runs(1)->set_leaf_count(~uint64_t{0});
  beyond.mutable_runs(2)->set_group(77);
  executor::v1::ToExecutor suspect = Runs();
  suspect.mutable_runs(0)->set_suspect(true);
  suspect.mutable_runs(0)->add_skip_tasks(1);
  return {Part(Runs()), Part(Merges()), Part(Runs()) + Part(odd),
          Part(beyond), Part(suspect),  Part(Setups()) + Part(Runs())};
}

FUZZ_TARGET(supervisor_messages) {
  static const google::protobuf::LogSilencer quiet;
  World world;
  static const executor::v1::ToExecutor setups = Setups();
  world.Say(setups);
  while (input.size() > 2) {
    uint16_t size = 0;
    std::memcpy(&size, input.data(), sizeof size);
    const std::string_view bytes = input.substr(2, size);
    input.remove_prefix(2 + bytes.size());
    executor::v1::ToExecutor message;
    if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) continue;
    auto* list = message.mutable_setups();
    for (int i = list->size(); i-- > 0;) {
      if (!Bounded(list->Get(i))) list->DeleteSubrange(i, 1);
    }
    world.Say(std::move(message));
  }
  world.Finish();
}

}  // namespace
}  // namespace tandem::worker
