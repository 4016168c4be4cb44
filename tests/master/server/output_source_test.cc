// Outputs put together from pieces, against a plain array: any cut into pieces, inline or in
// segments, any range read, the split axis leading or inside.
#include "master/server/output_source.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/rng.h"
#include "common/data/xxh3.h"
#include "gtest/gtest.h"
#include "master/server/commit_check.h"
#include "master/server/row_cursor.h"
#include "master/store/memory_store.h"
#include "tests/master/server/bind.h"

namespace tandem::master {
namespace {

class OutputSourceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "tandem_output_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    dir_ = name;
    segments_ = *SegmentStore::Open(RealFileSystem(), dir_, {});
    appender_ = *segments_->NewAppender("ada");
    StoreLimits limits;
    limits.page_rows_max = 3;  // Pages end in the middle of everything.
    store_ = std::make_unique<MemoryStore>(limits);
    epoch_ = *store_->RaiseEpoch();
  }
  void TearDown() override {
    appender_.reset();
    std::filesystem::remove_all(dir_);
  }

  void Add(OutputRow row) {
    AppendBatch batch;
    batch.outputs.push_back(std::move(row));
    batch.records.push_back({"x"});
    ASSERT_TRUE(store_->Append(epoch_, absl::MakeConstSpan(&batch, 1)).ok());
  }
  std::variant<std::string, Region> Place(const std::string& bytes, bool inline_bytes) {
    if (inline_bytes) return bytes;
    return *appender_->Append(bytes);
  }
  absl::StatusOr<std::string> Read(const BoundOutput& output, uint64_t first, uint64_t count,
                                   GapPolicy gap, size_t chunk = 1000) {
    const auto source = MakeOutputSource(store_.get(), segments_.get(), output,
                                         {JobId(1), 0, first, count}, std::move(gap));
    std::string all;
    std::string buffer(chunk, '\0');
    while (true) {
      absl::StatusOr<size_t> got = source->Read(absl::MakeSpan(buffer.data(), buffer.size()));
      if (!got.ok()) return got.status();
      all.append(buffer, 0, *got);
      if (*got < buffer.size()) return all;
    }
  }
  static GapPolicy NoGaps() {
    return [](uint64_t, uint64_t) { return absl::InternalError("a gap"); };
  }

  std::string dir_;
  std::unique_ptr<SegmentStore> segments_;
  std::unique_ptr<SegmentAppender> appender_;
  std::unique_ptr<MemoryStore> store_;
  Epoch epoch_;
};

// value(i, task, j): an element of the whole output [outer, tasks, inner].
struct Oracle {
  uint64_t outer, tasks, inner;
  uint8_t At(uint64_t i, uint64_t task, uint64_t j) const {
    return static_cast<uint8_t>(Mix64(i * 1'000'003 + task * 1009 + j));
  }
  std::string Block(uint64_t first, uint64_t count) const {
    std::string bytes;
    for (uint64_t i = 0; i < outer; ++i) {
      for (uint64_t t = first; t < first + count; ++t) {
        for (uint64_t j = 0; j < inner; ++j) bytes.push_back(static_cast<char>(At(i, t, j)));
      }
    }
    return bytes;
  }
};

TEST_F(OutputSourceTest, AnyCutReadsAsTheWhole) {
  struct Case {
    const char* signature;
    const char* split;
    Oracle oracle;
  };
  const Case cases[] = {
      {"axis n, axis m -> y[n,m]:u8", "n", {1, 97, 13}},
      {"axis n, axis m -> y[m,n]:u8", "n", {13, 97, 1}},
      {"axis n, axis m, axis q -> y[m,n,q]:u8", "n", {5, 61, 3}},
  };
  Rng rng(5);
  uint32_t job = 0;
  for (const Case& c : cases) {
    for (int round = 0; round < 6; ++round) {
      SetUp();
      std::map<std::string, int64_t> axes = {{"n", static_cast<int64_t>(c.oracle.tasks)}};
      const auto rest = static_cast<int64_t>(c.oracle.outer == 1 ? c.oracle.inner : c.oracle.outer);
      axes["m"] = rest;
      if (std::string(c.signature).find("axis q") != std::string::npos) axes["q"] = 3;
      const auto accepted = AcceptedJob(++job, c.signature, axes, 1, c.split);
      const BoundOutput& output = accepted->bound->outputs[0];
      for (uint64_t at = 0; at < c.oracle.tasks;) {
        // A piece that covers more than its row, as after a partial retry.
        const uint64_t before = std::min(at, rng.Below(3));
        const uint64_t count = std::min(c.oracle.tasks - at, rng.Between(1, 9));
        const uint64_t after = std::min(c.oracle.tasks - at - count, rng.Below(3));
        const std::string bytes = c.oracle.Block(at - before, before + count + after);
        Add({JobId(1), 0, 0, at, count, before, before + count + after,
             Place(bytes, rng.Chance(0.5))});
        at += count;
      }
      for (int reads = 0; reads < 10; ++reads) {
        const uint64_t first = rng.Below(c.oracle.tasks);
        const uint64_t count = rng.Between(1, c.oracle.tasks - first);
        const absl::StatusOr<std::string> got =
            Read(output, first, count, NoGaps(), rng.Between(1, 400));
        ASSERT_TRUE(got.ok()) << got.status();
        ASSERT_EQ(*got, c.oracle.Block(first, count))
            << c.signature << " " << first << "+" << count;
      }
      TearDown();
    }
  }
  SetUp();
}

TEST_F(OutputSourceTest, GapsAreAskedAboutAndZeroed) {
  const auto accepted = AcceptedJob(1, "axis n -> y[n]:u8", {{"n", 10}}, 1);
  Add({JobId(1), 0, 0, 2, 3, 0, 3, std::string("abc")});
  std::vector<std::pair<uint64_t, uint64_t>> gaps;
  const absl::StatusOr<std::string> got =
      Read(accepted->bound->outputs[0], 0, 10, [&gaps](uint64_t first, uint64_t count) {
        gaps.emplace_back(first, count);
        return absl::OkStatus();
      });
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(*got, std::string("\0\0abc\0\0\0\0\0", 10));
  EXPECT_EQ(gaps.front(), (std::pair<uint64_t, uint64_t>(0, 2)));
  uint64_t asked = 0;
  for (const auto& [first, count] : gaps) asked += count;
  EXPECT_EQ(asked, 7u);
  EXPECT_EQ(Read(accepted->bound->outputs[0], 0, 10, NoGaps()).status().message(), "a gap");
}

TEST_F(OutputSourceTest, DamagedSegmentsAreFound) {
  const auto accepted = AcceptedJob(1, "axis n -> y[n]:u8", {{"n", 4}}, 1);
  Region region = *appender_->Append("abcd");
  region.xxh3 ^= 1;
  Add({JobId(1), 0, 0, 0, 4, 0, 4, region});
  const absl::Status status = Read(accepted->bound->outputs[0], 0, 4, NoGaps()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ReasonOf(status), reason::kChecksumMismatch);
}

TEST(FlattenRows, TheLargerGenerationCounts) {
  const auto row = [](uint64_t first, uint64_t count, uint32_t generation) {
    return OutputRow{JobId(1), 0, generation, first, count, 0, count, std::string()};
  };
  const std::vector<OutputRow> rows = {row(0, 10, 0), row(3, 2, 1), row(12, 3, 0)};
  const std::vector<RowRun> runs = FlattenRows(rows, 1, 20);
  ASSERT_EQ(runs.size(), 6u);
  const auto is = [&](size_t i, uint64_t first, uint64_t count, const OutputRow* from,
                      uint64_t skip) {
    EXPECT_EQ(runs[i].first_task, first) << i;
    EXPECT_EQ(runs[i].task_count, count) << i;
    EXPECT_EQ(runs[i].row, from) << i;
    EXPECT_EQ(runs[i].skip_tasks, skip) << i;
  };
  is(0, 1, 2, &rows[0], 1);
  is(1, 3, 2, &rows[1], 0);
  is(2, 5, 5, &rows[0], 5);
  is(3, 10, 2, nullptr, 0);
  is(4, 12, 3, &rows[2], 0);
  is(5, 15, 5, nullptr, 0);
}

OutputsHandle Outputs(std::vector<OutputPiece> pieces) {
  return std::make_shared<const CommitOutputs>(std::move(pieces));
}

TEST(CommitCheck, SizesOfDenseOutputsMustFit) {
  const auto accepted = AcceptedJob(1, "axis n -> y[n]:u64, z[n]:u8", {{"n", 10}}, 4);
  const BoundJob& job = *accepted->bound;
  Commit commit;
  commit.job = JobId(1);
  commit.runs = {{1, {1, 2}}};  // Leaves of 4 and 2 tasks.
  commit.outputs = Outputs({{0, std::string(48, 'y')}, {1, std::string(6, 'z')}});
  EXPECT_TRUE(CheckCommit(job, commit).ok());
  const auto refused = [&](OutputsHandle outputs) {
    Commit bad = commit;
    bad.outputs = std::move(outputs);
    return FieldOf(CheckCommit(job, bad));
  };
  EXPECT_EQ(refused(Outputs({{0, std::string(40, 'y')}, {1, std::string(6, 'z')}})),
            "outputs[0].where");
  EXPECT_EQ(refused(Outputs({{0, std::string(48, 'y')}})), "outputs");
  EXPECT_EQ(refused(Outputs({{0, std::string(48, 'y')}, {0, std::string(48, 'y')}})), "outputs[1]");
  EXPECT_EQ(refused(Outputs({{0, std::string(48, 'y')}, {2, std::string(6, 'z')}})), "outputs[1]");
  EXPECT_EQ(refused(nullptr), "outputs");
  commit.runs = {{1, {2, 2}}};
  EXPECT_EQ(FieldOf(CheckCommit(job, commit)), "runs[0]");
  commit.runs = {{1, {0, 1}}, {9, {2, 1}}};
  EXPECT_EQ(FieldOf(CheckCommit(job, commit)), "runs[1]");
}

TEST(CommitCheck, ARaggedPiecesTableMustBeWhole) {
  const auto accepted = AcceptedJob(1, "axis n -> y[n]:bytes", {{"n", 10}}, 2);
  const auto check = [&](std::vector<uint64_t> offsets, const std::string& bytes) {
    Commit commit;
    commit.job = JobId(1);
    commit.runs = {{1, {0, 1}}};
    std::string piece(reinterpret_cast<const char*>(offsets.data()), offsets.size() * 8);
    commit.outputs = Outputs({{0, piece + bytes}});
    return CheckCommit(*accepted->bound, commit).ok();
  };
  EXPECT_TRUE(check({0, 3, 5}, "abcde"));
  EXPECT_TRUE(check({0, 0, 0}, ""));
  EXPECT_FALSE(check({0, 3, 6}, "abcde"));
  EXPECT_FALSE(check({0, 6, 5}, "abcde"));
  EXPECT_FALSE(check({1, 3, 5}, "abcde"));
  EXPECT_FALSE(check({0, 3}, ""));
}

}  // namespace
}  // namespace tandem::master
