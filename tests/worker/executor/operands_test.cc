// Operands from every kind of locator, sliced in every way, against a plain computation.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/executor/harness.h"

namespace tandem::worker::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

enum class Kind { kInline, kCachedBlob, kLocalBlob, kPath, kPathBehindHeader };

class OperandTest : public ::testing::TestWithParam<Kind> {
 protected:
  OperandTest() : h_(/*local_data=*/GetParam() == Kind::kLocalBlob) {}

  // The bytes, behind a locator of the kind under test.
  Locator Put(const std::string& bytes) {
    switch (GetParam()) {
      case Kind::kInline:
        return InlineLocator{bytes};
      case Kind::kCachedBlob:
        return h_.source()->AddBlob(bytes);
      case Kind::kLocalBlob: {
        const BlobLocator blob = h_.source()->AddBlob(bytes);
        const std::string path = h_.Path(blob.id.ToHex());
        std::ofstream(path, std::ios::binary) << bytes;
        h_.source()->Place(blob, path);
        return blob;
      }
      case Kind::kPath:
        return h_.WriteFile(StrCat("file-", files_++), bytes);
      case Kind::kPathBehindHeader:
        // An odd offset: nothing in the file is aligned.
        return h_.WriteFile(StrCat("file-", files_++), bytes, 17, 100);
    }
    return {};
  }

  Harness h_;
  int files_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Kinds, OperandTest,
                         ::testing::Values(Kind::kInline, Kind::kCachedBlob, Kind::kLocalBlob,
                                           Kind::kPath, Kind::kPathBehindHeader));

TEST_P(OperandTest, SlicesOfATensorReachTheirTasks) {
  std::vector<float> x(5000), expected(5000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) + 0.5f;
  for (size_t i = 0; i < x.size(); ++i) expected[i] = 2 * x[i];
  JobSpec spec;
  spec.kernel = "double_it";
  spec.grain = 13;
  spec.operands["x"] = Dense(DType::kF32, {5000}, Put(BytesOf(x)));
  const BoundJob job = h_.SetUp(1, spec);
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    EXPECT_EQ(ValuesOf<float>(h_.RunAll(1, RandomCut(job.tree.leaf_count(), seed))), expected);
  }
  EXPECT_THAT(h_.errors(), IsEmpty());
}

TEST_P(OperandTest, WindowsReachBeyondTheirRange) {
  Rng rng(3);
  std::vector<uint8_t> base(3000);
  for (uint8_t& value : base) value = static_cast<uint8_t>(rng.Below(256));
  const size_t width = 11;
  std::vector<uint32_t> expected;
  for (size_t i = 0; i + width <= base.size(); ++i) {
    uint32_t total = 0;
    for (size_t j = 0; j < width; ++j) total += base[i + j];
    expected.push_back(total);
  }
  JobSpec spec;
  spec.kernel = "window_sum";
  spec.grain = 7;
  spec.scalars["width"] = Scalar::I64(width);
  spec.operands["base"] = Dense(DType::kU8, {3000}, Put(BytesOf(base)));
  const BoundJob job = h_.SetUp(1, spec);
  ASSERT_EQ(job.task_count(), expected.size());
  EXPECT_EQ(ValuesOf<uint32_t>(h_.RunAll(1, RandomCut(job.tree.leaf_count(), 9))), expected);
}

TEST_P(OperandTest, StridedSlicesArePacked) {
  const size_t rows = 9;
  const size_t columns = 700;
  std::vector<float> x(rows * columns), expected(columns, 0);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 97);
  for (size_t j = 0; j < columns; ++j) {
    for (size_t i = 0; i < rows; ++i) expected[j] += x[i * columns + j];
  }
  JobSpec spec;
  spec.kernel = "column_sum";
  spec.grain = 10;
  spec.operands["x"] = Dense(DType::kF32, {rows, columns}, Put(BytesOf(x)));
  const BoundJob job = h_.SetUp(1, spec);
  EXPECT_EQ(ValuesOf<float>(h_.RunAll(1, RandomCut(job.tree.leaf_count(), 4))), expected);
}

std::string Upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(c));
  return text;
}

// What a ragged output's bytes are by definition.
std::string Packed(const std::vector<std::string>& items) {
  std::vector<uint64_t> offsets = {0};
  std::string bytes;
  for (const std::string& item : items) {
    bytes += item;
    offsets.push_back(bytes.size());
  }
  return BytesOf(offsets) + bytes;
}

TEST_P(OperandTest, PackedItemsAndListedItemsAreTheSameToAKernel) {
  std::vector<std::string> items = {"alpha", "be", "Gamma ray", "d"};
  for (int i = 1; i < 60; ++i) items.push_back(std::string(static_cast<size_t>(i) * 30, 'e'));
  const std::string table = Packed(items);
  const size_t table_bytes = (items.size() + 1) * 8;
  const auto count = static_cast<int64_t>(items.size());

  OperandSpec packed;
  packed.spec = {DType::kBytes, {count}};
  packed.source = RaggedPacked{Put(table.substr(0, table_bytes)), Put(table.substr(table_bytes)),
                               table.size() - table_bytes};
  OperandSpec listed;
  listed.spec = {DType::kBytes, {count}};
  RaggedItems list;
  for (const std::string& item : items) list.items.push_back(Put(item));
  listed.source = list;

  uint64_t job = 0;
  for (const OperandSpec& operand : {packed, listed}) {
    JobSpec spec;
    spec.kernel = "shout";
    spec.grain = 5;
    spec.operands["text"] = operand;
    const BoundJob bound = h_.SetUp(++job, spec);
    for (const LeafRange& leaves : RandomCut(bound.tree.leaf_count(), job)) {
      const TaskRange tasks = bound.tree.Tasks(leaves);
      std::vector<std::string> loud;
      for (uint64_t i = tasks.begin; i < tasks.end; ++i) loud.push_back(Upper(items[i]));
      EXPECT_EQ(h_.RunAll(job, {leaves}), Packed(loud));
    }
  }
}

TEST_P(OperandTest, ABroadcastOperandIsReadOnceForAllPieces) {
  std::vector<float> x(400, 2), table(100);
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i);
  JobSpec spec;
  spec.kernel = "scaled";
  spec.grain = 10;
  spec.operands["x"] = Dense(DType::kF32, {400}, InlineLocator{BytesOf(x)});
  spec.operands["table"] = Dense(DType::kF32, {100}, Put(BytesOf(table)));
  const BoundJob job = h_.SetUp(1, spec);
  std::vector<float> expected;
  for (size_t i = 0; i < x.size(); ++i) expected.push_back(2 * table[i % 100]);
  EXPECT_EQ(ValuesOf<float>(h_.RunAll(1, RandomCut(job.tree.leaf_count(), 2))), expected);
  if (GetParam() == Kind::kCachedBlob) {
    EXPECT_EQ(h_.source()->bytes_read(), 400u);
  }
}

TEST(GeneratedOperandTest, AnySliceIsWhatTheWholeWouldBe) {
  Harness h;
  const size_t n = 40'000;
  for (const char* text : {"uniform(seed=7)", "iota(start=3, step=0.25)", "constant(4.5)"}) {
    const auto generator = ParseGenerator(text, DType::kF32);
    ASSERT_TRUE(generator.ok()) << generator.status();
    std::vector<float> whole(n);
    Generate(*generator, DType::kF32, 0, n, whole.data());
    for (float& value : whole) value *= 2;
    JobSpec spec;
    spec.kernel = "double_it";
    spec.grain = 17;
    spec.operands["x"] = Dense(DType::kF32, {n}, GeneratorLocator{*generator});
    static uint64_t id = 0;
    const BoundJob job = h.SetUp(++id, spec);
    EXPECT_EQ(ValuesOf<float>(h.RunAll(id, RandomCut(job.tree.leaf_count(), id))), whole) << text;
  }
}

TEST(GeneratedOperandTest, StridedSlicesAreGeneratedInPlace) {
  Harness h;
  const size_t rows = 5;
  const size_t columns = 300;
  const auto generator = ParseGenerator("iota(start=0, step=1)", DType::kF32);
  ASSERT_TRUE(generator.ok());
  std::vector<float> expected(columns, 0);
  for (size_t j = 0; j < columns; ++j) {
    for (size_t i = 0; i < rows; ++i) expected[j] += static_cast<float>(i * columns + j);
  }
  JobSpec spec;
  spec.kernel = "column_sum";
  spec.grain = 16;
  spec.operands["x"] = Dense(DType::kF32, {rows, columns}, GeneratorLocator{*generator});
  const BoundJob job = h.SetUp(1, spec);
  EXPECT_EQ(ValuesOf<float>(h.RunAll(1, RandomCut(job.tree.leaf_count(), 4))), expected);
}

TEST(BlobOperandTest, OnlyTheBlocksThatPiecesTouchAreFetchedAndOnce) {
  Harness h;
  std::vector<float> x((8 << 20) / sizeof(float), 1);
  JobSpec spec;
  spec.kernel = "double_it";
  spec.grain = 1024;
  spec.operands["x"] =
      Dense(DType::kF32, {static_cast<int64_t>(x.size())}, h.source()->AddBlob(BytesOf(x)));
  h.SetUp(1, spec);
  h.RunAll(1, {{0, 1}, {1, 2}});  // both in the first block
  EXPECT_EQ(h.source()->bytes_read(), 1u << 20);
  h.RunAll(1, {{0, 1}, {1024, 1025}});  // 1024 leaves of 4 KiB further: block 4
  EXPECT_EQ(h.source()->bytes_read(), 2u << 20);
  EXPECT_EQ(h.counter("bytes_fetched"), 2u << 20);
  const tandem::v1::Usage usage = h.usage(1);
  EXPECT_EQ(usage.fetched_bytes(), 2u << 20);
  EXPECT_EQ(usage.mapped_bytes() + usage.path_bytes() + usage.generated_bytes(), 0u);
  EXPECT_EQ(usage.pieces(), 4u);
  EXPECT_EQ(usage.tasks(), 4u * 1024);
  EXPECT_EQ(usage.inline_output_bytes() + usage.pushed_output_bytes(), 4u * 1024 * sizeof(float));
  EXPECT_GT(usage.body_ns(), 0u);
  EXPECT_GT(usage.fetch_ns(), 0u);
  // The groups had nothing else to do meanwhile.
  EXPECT_GT(usage.stall_ns(), 0u);
  EXPECT_EQ(h.usage(2).pieces(), 0u);
}

TEST(BlobOperandTest, AnUnavailableMasterIsWaitedFor) {
  Harness h;
  const std::vector<float> x(10, 4);
  JobSpec spec;
  spec.kernel = "double_it";
  spec.operands["x"] = Dense(DType::kF32, {10}, h.source()->AddBlob(BytesOf(x)));
  h.SetUp(1, spec);
  h.source()->FailNext(2);
  EXPECT_EQ(ValuesOf<float>(h.RunAll(1, {{0, 1}})), std::vector<float>(10, 8));
}

TEST(BlobOperandTest, ABlobThatIsGoneFailsTheJobWithItsName) {
  Harness h;
  JobSpec spec;
  spec.kernel = "double_it";
  spec.operands["x"] =
      Dense(DType::kF32, {10}, BlobLocator{BlobId::FromRaw(std::string(32, 'z')), 40});
  h.SetUp(1, spec);
  const uint64_t piece = h.Run(1, {0, 1});
  ASSERT_EQ(h.errors().size(), 1u);
  EXPECT_THAT(h.errors()[0].reason(), StartsWith("BLOB_NOT_FOUND: operand x"));
  EXPECT_TRUE(h.errors()[0].fatal());
  EXPECT_THAT(h.errors()[0].pieces(), ElementsAre(piece));
}

// A blob of 3 MiB and some, a task a float, in leaves of 64 Ki tasks: four to a block.
class DamagedBlobTest : public ::testing::TestWithParam<Kind> {
 protected:
  static constexpr uint64_t kMiB = uint64_t{1} << 20;

  DamagedBlobTest() : h_(/*local_data=*/GetParam() == Kind::kLocalBlob) {
    std::vector<float> x(3 * kMiB / 4 + 100);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 1000);
    bytes_ = BytesOf(x);
    blob_ = h_.source()->AddBlob(bytes_);
    if (GetParam() != Kind::kLocalBlob) return;
    file_ = h_.Path(blob_.id.ToHex());
    std::ofstream(file_, std::ios::binary) << bytes_;
    h_.source()->Place(blob_, file_);
  }
  void SetUpJob(uint64_t job) {
    JobSpec spec;
    spec.kernel = "double_it";
    spec.grain = 64 << 10;
    spec.operands["x"] = Dense(DType::kF32, {static_cast<int64_t>(blob_.size / 4)}, blob_);
    h_.SetUp(job, spec);
  }
  static void Flip(const std::string& path, uint64_t offset) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(static_cast<std::streamoff>(offset));
    const auto byte = static_cast<char>(file.get() ^ 1);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(byte);
    file.close();
    // A file system's clock is coarse; the disk's own damage leaves no time at all.
    std::filesystem::last_write_time(
        path, std::filesystem::last_write_time(path) + std::chrono::seconds(1));
  }
  void Damage(uint64_t offset) {
    if (GetParam() == Kind::kLocalBlob) return Flip(file_, offset);
    h_.source()->Damage(blob_, offset);
  }
  void ExpectDamageIn(uint64_t job, LeafRange leaves, std::string_view where) {
    const size_t before = h_.errors().size();
    const uint64_t piece = h_.Run(job, leaves);
    ASSERT_EQ(h_.errors().size(), before + 1);
    const executor::v1::JobError& error = h_.errors().back();
    EXPECT_THAT(error.reason(), StartsWith("CHECKSUM_MISMATCH: operand x"));
    EXPECT_THAT(error.reason(), HasSubstr(blob_.id.ToHex()));
    EXPECT_THAT(error.reason(), HasSubstr(std::string(where)));
    EXPECT_THAT(error.reason(), HasSubstr("tandem data rm"));
    EXPECT_TRUE(error.fatal());
    EXPECT_THAT(error.pieces(), ElementsAre(piece));
  }

  Harness h_;
  std::string bytes_, file_;
  BlobLocator blob_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, DamagedBlobTest,
                         ::testing::Values(Kind::kCachedBlob, Kind::kLocalBlob));

TEST_P(DamagedBlobTest, EveryBlockIsCheckedBeforeItIsUsed) {
  Damage(2 * kMiB + 7);
  SetUpJob(1);
  // What lies before it is good.
  EXPECT_EQ(h_.RunAll(1, {{0, 4}, {4, 8}}).size(), 2 * kMiB);
  EXPECT_THAT(h_.errors(), IsEmpty());
  ExpectDamageIn(1, {9, 10}, StrCat("[", 2 * kMiB, ", ", 3 * kMiB, ")"));
}

TEST_P(DamagedBlobTest, TheLastBlockIsShorter) {
  Damage(blob_.size - 1);
  SetUpJob(1);
  ExpectDamageIn(1, {12, 13}, StrCat(", ", blob_.size, ")"));
}

TEST_P(DamagedBlobTest, DamageThatComesBetweenTwoJobsIsFoundToo) {
  SetUpJob(1);
  const std::string all = h_.RunAll(1, {{0, 13}});
  EXPECT_EQ(all.size(), blob_.size);
  if (GetParam() == Kind::kLocalBlob) {
    Damage(kMiB + 1);
    SetUpJob(2);
    ExpectDamageIn(2, {4, 5}, StrCat("[", kMiB, ", ", 2 * kMiB, ")"));
    return;
  }
  // A damaged file of the worker's own cache: its block is fetched again.
  executor::v1::ToExecutor forget;
  forget.add_forget_jobs(1);
  h_.Send(forget);
  const uint64_t read = h_.source()->bytes_read();
  Flip(h_.Path(StrCat("cache/", blob_.id.ToHex(), ".blob")), kMiB + 1);
  SetUpJob(2);
  EXPECT_EQ(h_.RunAll(2, {{0, 13}}), all);
  EXPECT_EQ(h_.source()->bytes_read() - read, kMiB);
}

TEST_P(DamagedBlobTest, ASmallBlobIsCheckedByItsName) {
  const std::string bytes = BytesOf(std::vector<float>(1000, 1));
  blob_ = h_.source()->AddBlob(bytes);
  if (GetParam() == Kind::kLocalBlob) {
    file_ = h_.Path(blob_.id.ToHex());
    std::ofstream(file_, std::ios::binary) << bytes;
    h_.source()->Place(blob_, file_);
  }
  Damage(999);
  SetUpJob(1);
  ExpectDamageIn(1, {0, 1}, "[0, 4000)");
}

class ChangedFileTest : public ::testing::Test {
 protected:
  void SetUpJob() {
    locator_ = h_.WriteFile("x", BytesOf(std::vector<float>(5000, 1)));
    JobSpec spec;
    spec.kernel = "double_it";
    spec.grain = 1000;
    spec.operands["x"] = Dense(DType::kF32, {5000}, locator_);
    h_.SetUp(1, spec);
  }
  void ExpectChanged(std::string_view how) {
    h_.Run(1, {0, 1});
    ASSERT_EQ(h_.errors().size(), 1u);
    EXPECT_THAT(h_.errors()[0].reason(), StartsWith("PATH_CHANGED: operand x"));
    EXPECT_THAT(h_.errors()[0].reason(), HasSubstr(std::string(how)));
    EXPECT_TRUE(h_.errors()[0].fatal());
  }
  void RestoreTimes() {
    const timespec times[2] = {
        {locator_.mtime_ns / 1'000'000'000, locator_.mtime_ns % 1'000'000'000},
        {locator_.mtime_ns / 1'000'000'000, locator_.mtime_ns % 1'000'000'000}};
    ASSERT_EQ(utimensat(AT_FDCWD, locator_.path.c_str(), times, 0), 0);
  }
  Harness h_;
  PathLocator locator_;
};

TEST_F(ChangedFileTest, ATruncatedFileIsAnErrorAndNoCrash) {
  SetUpJob();
  EXPECT_EQ(h_.RunAll(1, {{1, 2}}).size(), 4000u);
  ASSERT_EQ(truncate(locator_.path.c_str(), 100), 0);
  ExpectChanged("another size");
}

TEST_F(ChangedFileTest, AModifiedFileIsAnErrorAlsoAfterItWasReadOnce) {
  SetUpJob();
  EXPECT_EQ(h_.RunAll(1, {{0, 1}}).size(), 4000u);
  const timespec times[2] = {{5, 0}, {5, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, locator_.path.c_str(), times, 0), 0);
  ExpectChanged("was modified");
}

TEST_F(ChangedFileTest, OtherContentUnderTheSameSizeAndTimeIsFoundByItsChecksum) {
  SetUpJob();
  const int fd = open(locator_.path.c_str(), O_WRONLY);
  ASSERT_EQ(pwrite(fd, "!", 1, 1234), 1);
  close(fd);
  RestoreTimes();
  ExpectChanged("another content");
}

TEST_F(ChangedFileTest, AFileThatHasGoneFromItsDirectoryIsAnError) {
  SetUpJob();
  std::filesystem::remove(locator_.path);
  ExpectChanged("has gone");
}

TEST_F(ChangedFileTest, AMissingDirectoryIsThisWorkersTrouble) {
  locator_ = h_.WriteFile("x", BytesOf(std::vector<float>(10, 1)));
  locator_.path = h_.Path("not_mounted/x");
  JobSpec spec;
  spec.kernel = "double_it";
  spec.operands["x"] = Dense(DType::kF32, {10}, locator_);
  h_.SetUp(1, spec);
  h_.Run(1, {0, 1});
  ASSERT_EQ(h_.errors().size(), 1u);
  EXPECT_THAT(h_.errors()[0].reason(), StartsWith("PATH_UNREADABLE: operand x"));
  EXPECT_FALSE(h_.errors()[0].fatal());
}

TEST_F(ChangedFileTest, AChangedItemFailsItsTaskAlone) {
  RaggedItems list;
  for (int i = 0; i < 4; ++i) list.items.push_back(h_.WriteFile(StrCat("item", i), "text"));
  OperandSpec operand;
  operand.spec = {DType::kBytes, {4}};
  operand.source = list;
  JobSpec spec;
  spec.kernel = "shout";
  spec.grain = 4;
  spec.operands["text"] = operand;
  h_.SetUp(1, spec);
  std::ofstream(h_.Path("item2")) << "another text";
  const uint64_t piece = h_.Run(1, {0, 1});
  ASSERT_TRUE(h_.done().contains(piece));
  const executor::v1::PieceDone& done = h_.done().at(piece);
  ASSERT_EQ(done.failures_size(), 1);
  EXPECT_EQ(done.failures(0).task(), 2u);
  EXPECT_THAT(done.failures(0).reason(), StartsWith("PATH_CHANGED: "));
  EXPECT_EQ(done.tasks(), 3u);
  EXPECT_EQ(h_.OutputBytes(done.outputs(0)), Packed({"TEXT", "TEXT", "", "TEXT"}));
}

TEST(RaggedOperandTest, OffsetsThatDoNotAscendFailTheJobAndCrashNothing) {
  Harness h;
  OperandSpec operand;
  operand.spec = {DType::kBytes, {3}};
  operand.source = RaggedPacked{InlineLocator{BytesOf(std::vector<uint64_t>{0, 900, 2, 3})},
                                InlineLocator{"abc"}, 3};
  JobSpec spec;
  spec.kernel = "shout";
  spec.operands["text"] = operand;
  h.SetUp(1, spec);
  h.Run(1, {0, 1});
  ASSERT_EQ(h.errors().size(), 1u);
  EXPECT_THAT(h.errors()[0].reason(), StartsWith("BAD_FILE: operand text: the offsets"));
}

}  // namespace
}  // namespace tandem::worker::testing
