// What an executor says, from a hostile one: into events, into the worker's core. The core keeps
// its invariants, and whatever one owner's executor says, another owner's pieces stay as they are.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/error.h"
#include "google/protobuf/stubs/logging.h"
#include "tandem/executor/v1/executor.pb.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/worker/core/core_driver.h"
#include "worker/ring/staging.h"
#include "worker/server/translate.h"

namespace tandem::worker {
namespace {

constexpr uint64_t kStagingBytes = 64 << 10;
constexpr uint64_t kConcat = 1, kSum = 2, kFolded = 3, kOthers = 4;  // jobs; the last is bob's

// A worker in the midst of three jobs of ada's and one of bob's.
struct World {
  CoreDriver driver;
  std::vector<RunPiece> pieces;
  ExecutorId hostile = 0;
  std::vector<RunPiece> others;

  World() {
    JobDescribed folded = SumJob(kFolded, 100);
    folded.accumulates = false;
    JobDescribed bobs = ConcatJob(kOthers, 10);
    bobs.owner = "bob";
    driver.Attach({ConcatJob(kConcat, 100), SumJob(kSum, 100), folded, bobs});
    Give(kConcat, 1, 0, 3);
    Give(kSum, 10, 0, 3);
    Give(kFolded, 20, 0, 4);
    Give(kOthers, 30, 0, 2);
    CHECK(!pieces.empty());
  }
  void Give(uint64_t job, uint64_t n, uint64_t first, uint64_t count) {
    driver.Give(job, n, first, count);
    Learn();
  }
  // Pieces that were handed out by the last step.
  void Learn() {
    for (const RunPiece& piece : driver.pieces()) {
      (piece.job == JobId(kOthers) ? others : pieces).push_back(piece);
      if (piece.job != JobId(kOthers)) hostile = piece.executor;
    }
  }
};

void CheckOthersAreUntouched(const CoreDriver& driver) {
  for (const Commit& commit : driver.commits()) {
    CHECK_MSG(commit.job != JobId(kOthers), "an executor finished another owner's piece");
  }
  for (const Return& back : driver.returns()) {
    CHECK_MSG(back.job != JobId(kOthers), "an executor gave back another owner's piece");
  }
}

StagingFile* Staging() {
  static StagingFile* const file = [] {
    auto made = StagingFile::Create(kStagingBytes);
    CHECK_OK(made);
    CHECK_OK((*made)->Grow(kStagingBytes));
    return made->release();
  }();
  return file;
}

std::string Part(const executor::v1::FromExecutor& message) {
  const std::string bytes = message.SerializeAsString();
  const auto size = static_cast<uint16_t>(bytes.size());
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + bytes;
}

// Messages, each behind its length of two bytes.
FUZZ_SEEDS(executor_messages) {
  World world;
  executor::v1::FromExecutor finish, accumulate, partial, strange;
  for (const RunPiece& piece : world.pieces) {
    executor::v1::PieceDone* done = finish.add_done();
    done->set_piece(piece.piece);
    done->set_busy_ns(1000);
    done->set_tasks(piece.leaves.count);
    tandem::v1::OutputPiece* output = done->add_outputs();
    output->mutable_region()->set_offset(64);
    output->mutable_region()->set_length(8);
    executor::v1::PieceDone* held = accumulate.add_done();
    held->set_piece(piece.piece);
    held->set_accumulated(true);
    partial.add_partials()->set_job(kSum);
    partial.mutable_partials(0)->add_pieces(piece.piece);
  }
  partial.mutable_partials(0)->add_outputs()->set_inline_("12345678");
  strange.add_returned_pieces(world.pieces[0].piece);
  strange.add_merges()->set_piece(world.pieces[0].piece);
  strange.add_job_errors()->set_job(kConcat);
  strange.mutable_job_errors(0)->set_reason("BAD_FILE: it was");
  strange.mutable_job_errors(0)->add_pieces(world.pieces.back().piece);
  executor::v1::FromExecutor thief;
  for (const RunPiece& piece : world.others) {
    thief.add_done()->set_piece(piece.piece);
    thief.add_returned_pieces(piece.piece);
    thief.add_job_errors()->set_job(kOthers);
    thief.mutable_job_errors(0)->add_pieces(piece.piece);
    thief.add_partials()->set_job(kOthers);
    thief.mutable_partials(0)->add_pieces(piece.piece);
  }
  return {Part(finish), Part(accumulate) + Part(partial), Part(strange),
          Part(finish) + Part(strange), Part(thief)};
}

FUZZ_TARGET(executor_messages) {
  static const google::protobuf::LogSilencer quiet;
  World world;
  while (input.size() > 2) {
    uint16_t size = 0;
    std::memcpy(&size, input.data(), sizeof size);
    const std::string_view bytes = input.substr(2, size);
    input.remove_prefix(2 + bytes.size());
    executor::v1::FromExecutor message;
    if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) continue;
    std::vector<Event> events;
    const absl::Status status = ToEvents(world.hostile, *Staging(), &message, &events);
    if (!status.ok()) {
      CHECK(absl::IsDataLoss(status));
      events.clear();
      events.push_back(ExecutorLost{world.hostile, "killed", {}});
    }
    world.driver.DoAll(std::move(events));
    CheckOthersAreUntouched(world.driver);
    world.Learn();
  }
  world.driver.After(absl::Seconds(2));
  world.driver.Do(ExecutorLost{world.hostile, "SIGKILL", {}});
  CheckOthersAreUntouched(world.driver);
}

}  // namespace
}  // namespace tandem::worker
