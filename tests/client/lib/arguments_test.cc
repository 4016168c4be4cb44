#include "client/lib/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <variant>

#include "client/lib/npy.h"
#include "common/base/error.h"
#include "common/data/sha256.h"

namespace tandem::client {
namespace {

using ::testing::HasSubstr;

KernelInfo Kernel(const std::string& signature) {
  KernelInfo kernel;
  kernel.name = "k";
  auto parsed = Signature::Parse(signature);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  kernel.signature = *std::move(parsed);
  return kernel;
}

class ArgumentsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::path(::testing::TempDir()) /
           ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
  }
  std::string Write(const std::string& name, const std::string& bytes) {
    const std::string path = dir_ / name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  static absl::StatusOr<PreparedJob> Prepare(const std::string& signature,
                                             const std::vector<Argument>& arguments) {
    return PrepareJob(Kernel(signature), {}, arguments);
  }
  std::filesystem::path dir_;
};

template <class T>
std::string BytesOf(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

TEST_F(ArgumentsTest, SmallFilesTravelInsideTheJob) {
  const std::string data = BytesOf<float>({1, 2, 3});
  const std::string path = Write("x.npy", MakeNpyHeader({DType::kF32, Shape{3}}) + data);
  const auto job = Prepare("x[n]:f32, a:f32 -> y[n]:f32", {{"x", "@" + path}, {"a", "2.5"}});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_TRUE(job->uploads.empty());
  const OperandSpec& x = job->spec.operands.at("x");
  EXPECT_EQ(x.spec, (TensorSpec{DType::kF32, Shape{3}}));
  EXPECT_EQ(std::get<InlineLocator>(std::get<Locator>(x.source)).bytes, data);
  EXPECT_EQ(job->spec.scalars.at("a").AsDouble(), 2.5);
}

TEST_F(ArgumentsTest, LargeFilesAreNamedByTheirContent) {
  const std::string data(100'000, 'A');
  const std::string path = Write("x.raw", data);
  const auto job = Prepare("x[n]:u8 -> y[n]:u8", {{"x", "@" + path}});
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_EQ(job->uploads.size(), 1u);
  EXPECT_EQ(job->uploads[0].id, Sha256Of(data));
  EXPECT_EQ(*job->uploads[0].source.ReadAll(), data);
}

TEST_F(ArgumentsTest, FortranOrderIsTurnedIntoCOrder) {
  // numpy.asfortranarray([[1, 2, 3], [4, 5, 6]]) lies as 1 4 2 5 3 6.
  std::string header = MakeNpyHeader({DType::kF32, Shape{2, 3}});
  header.replace(header.find("False"), 5, "True ");
  const std::string path = Write("f.npy", header + BytesOf<float>({1, 4, 2, 5, 3, 6}));
  const auto job = Prepare("x[n,d]:f32 -> y[n]:f32", {{"x", "@" + path}});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(std::get<InlineLocator>(std::get<Locator>(job->spec.operands.at("x").source)).bytes,
            BytesOf<float>({1, 2, 3, 4, 5, 6}));
}

TEST_F(ArgumentsTest, FastaBecomesLetters) {
  const std::string path = Write("g.fa", ">a\nACGT\nAC\n>b\nGG\n");
  const auto job =
      Prepare("base[n + k - 1]:u8, k:i32 = 3 -> count[4^k]:u32 : sum", {{"base", "@" + path}});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(std::get<InlineLocator>(std::get<Locator>(job->spec.operands.at("base").source)).bytes,
            "ACGTAC\nGG");
}

TEST_F(ArgumentsTest, RaggedOperandsAreTheFilesOfADirectoryInOrder) {
  Write("b.txt", "bb");
  Write("a.txt", "a");
  Write(".hidden", "no");
  const auto job = Prepare("item[n]:bytes -> out[n]:bytes", {{"item", "@" + dir_.string()}});
  ASSERT_TRUE(job.ok()) << job.status();
  const auto& packed = std::get<RaggedPacked>(job->spec.operands.at("item").source);
  EXPECT_EQ(packed.data_bytes, 3u);
  EXPECT_EQ(std::get<InlineLocator>(packed.data).bytes, "abb");
  EXPECT_EQ(std::get<InlineLocator>(packed.offsets).bytes, BytesOf<uint64_t>({0, 1, 3}));
  EXPECT_THAT(job->item_names.at("item"),
              ::testing::ElementsAre(HasSubstr("a.txt"), HasSubstr("b.txt")));
}

TEST_F(ArgumentsTest, GeneratorsTakeTheirShapeFromAxes) {
  const auto given = Prepare("x[n]:f32, y[n]:f32 -> z[n]:f32",
                             {{"x", "uniform(seed=7)"}, {"y", "iota"}, {"n", "1000"}});
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_EQ(given->spec.operands.at("x").spec.shape, Shape{1000});
  const auto learned =
      Prepare("x[n]:f32, y[n]:f32 -> z[n]:f32", {{"y", "constant(1)"}, {"x", "[1,2,3]"}});
  ASSERT_TRUE(learned.ok()) << learned.status();
  EXPECT_EQ(learned->spec.operands.at("y").spec.shape, Shape{3});
}

TEST_F(ArgumentsTest, PathsKeepTheirIdentity) {
  const std::string data = BytesOf<float>(std::vector<float>(400'000, 1.5f));
  const std::string path = Write("p.npy", MakeNpyHeader({DType::kF32, Shape{400'000}}) + data);
  const auto job = Prepare("x[n]:f32 -> y[n]:f32", {{"x", "path:" + path}});
  ASSERT_TRUE(job.ok()) << job.status();
  const auto& located = std::get<PathLocator>(std::get<Locator>(job->spec.operands.at("x").source));
  EXPECT_EQ(located.path, path);
  EXPECT_EQ(located.size, data.size());
  EXPECT_EQ(located.file_size, data.size() + located.data_offset);
  EXPECT_EQ(located.slice_checksums.size(), 2u);  // 1.6 MB in slices of 1 MiB
}

TEST_F(ArgumentsTest, AFileThatChangedAfterwardsIsNotUploaded) {
  const std::string path = Write("x.raw", std::string(100'000, 'A'));
  const auto job = Prepare("x[n]:u8 -> y[n]:u8", {{"x", "@" + path}});
  ASSERT_TRUE(job.ok()) << job.status();
  Write("x.raw", std::string(100'001, 'B'));
  const auto read = job->uploads[0].source.ReadAll();
  EXPECT_EQ(ReasonOf(read.status()), reason::kPathChanged);
}

TEST_F(ArgumentsTest, BadArgumentsAreNamedWithAReason) {
  const std::string f64 =
      Write("d.npy", MakeNpyHeader({DType::kF64, Shape{1}}) + std::string(8, 'x'));
  std::filesystem::create_directory(dir_ / "empty");
  const std::string signature = "spot[n]:f32, rate:f32 -> call[n]:f32";
  const struct {
    std::vector<Argument> arguments;
    std::string says, reason;
  } cases[] = {
      {{{"spott", "iota"}}, "did you mean spot?", "UNKNOWN_OPERAND"},
      {{{"rate", "1"}, {"rate", "2"}}, "given twice", "BAD_ARGUMENT"},
      {{{"rate", "fast"}}, "argument rate", "BAD_ARGUMENT"},
      {{{"spot", "iota"}, {"n", "4"}}, "needs rate", "MISSING_SCALAR"},
      {{{"spot", "iota"}, {"rate", "1"}}, "give the axis", "MISSING_AXIS_EXTENT"},
      {{{"spot", "3.5"}, {"rate", "1"}}, "constant(3.5)", "BAD_ARGUMENT"},
      {{{"spot", "@/no/such/file"}, {"rate", "1"}}, "No such file", "PATH_UNREADABLE"},
      {{{"spot", "@" + f64}, {"rate", "1"}}, "takes f32", "DTYPE_MISMATCH"},
      {{{"spot", "@" + dir_.string()}, {"rate", "1"}}, "directory", "PATH_UNREADABLE"},
      {{{"n", "-4"}, {"rate", "1"}}, "negative", "BAD_ARGUMENT"},
  };
  for (const auto& c : cases) {
    const auto job = Prepare(signature, c.arguments);
    ASSERT_FALSE(job.ok()) << c.says;
    EXPECT_THAT(std::string(job.status().message()), HasSubstr(c.says));
    EXPECT_EQ(ReasonOf(job.status()), c.reason) << job.status();
  }
  const auto empty = Prepare("i[n]:bytes -> o[n]:bytes", {{"i", "@" + (dir_ / "empty").string()}});
  EXPECT_THAT(std::string(empty.status().message()), HasSubstr("holds no files"));
}

}  // namespace
}  // namespace tandem::client
