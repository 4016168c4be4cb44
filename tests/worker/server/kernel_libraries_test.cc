#include "worker/server/kernel_libraries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/strings.h"

namespace tandem::worker {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

class KernelLibrariesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_FALSE(Environment("TANDEM_EXECUTOR").empty());
    folder_ = fs::path(::testing::TempDir()) /
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string Bad(const std::string& name) {
    return StrCat(Environment("TANDEM_BAD_KERNELS"), "/", name, ".so");
  }
  std::string CopyInto(const std::string& name, const std::string& as) {
    const std::string to = (folder_ / as).string();
    fs::copy_file(Bad(name), to);
    return to;
  }
  static absl::StatusOr<KernelLibraries> Find(std::vector<std::string> paths,
                                              absl::Duration limit = absl::Seconds(60)) {
    return FindKernelLibraries({.executor = Environment("TANDEM_EXECUTOR"),
                                .paths = std::move(paths),
                                .load_limit = limit});
  }
  // Why a library that was named is refused.
  static std::string Refusal(const std::string& name, absl::Duration limit = absl::Seconds(60)) {
    const auto found = Find({Bad(name)}, limit);
    if (found.ok()) return "it was taken";
    EXPECT_EQ(ReasonOf(found.status()), reason::kBadFile) << found.status();
    EXPECT_THAT(std::string(found.status().message()), HasSubstr(Bad(name)));
    return std::string(found.status().message());
  }

  fs::path folder_;
};

TEST_F(KernelLibrariesTest, AGoodLibraryIsTakenWithItsKernels) {
  const auto found = Find({Bad("nothing")});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->files, ElementsAre(Bad("nothing")));
  ASSERT_EQ(found->kernels.size(), 1u);
  EXPECT_EQ(found->kernels[0].name(), "harmless");
}

TEST_F(KernelLibrariesTest, AnotherAbiIsRefusedWithBothNumbers) {
  EXPECT_THAT(Refusal("abi"), AllOf(HasSubstr("ABI 7.0"), HasSubstr("this executor 1.0")));
}

TEST_F(KernelLibrariesTest, TablesThatMakeNoSenseAreRefused) {
  EXPECT_THAT(Refusal("library_table"), HasSubstr("16 bytes"));
  EXPECT_THAT(Refusal("kernel_table"), HasSubstr("48 bytes"));
  EXPECT_THAT(Refusal("signature"), HasSubstr("kernel harmless"));
  EXPECT_THAT(Refusal("class"), HasSubstr("output_class"));
  EXPECT_THAT(Refusal("no_symbol"), HasSubstr("tandem_library_v1"));
}

TEST_F(KernelLibrariesTest, WhatIsNoLibraryIsRefused) {
  const std::string text = (folder_ / "text.so").string();
  std::ofstream(text) << "not a library";
  const auto found = Find({text});
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(std::string(found.status().message()), HasSubstr(text));
}

TEST_F(KernelLibrariesTest, ALibraryThatMisbehavesWhileItIsLoadedHarmsOnlyItsProbe) {
  EXPECT_THAT(Refusal("constructor_crashes"), HasSubstr("ended the process that loaded it"));
  EXPECT_THAT(Refusal("constructor_leaves"), HasSubstr("has no kernels"));
  EXPECT_THAT(Refusal("constructor_hangs", absl::Milliseconds(200)),
              AllOf(HasSubstr("was not loaded within 200ms"), HasSubstr("--kernel-load-limit")));
}

TEST_F(KernelLibrariesTest, TheNameOfABuiltInKernelIsTaken) {
  EXPECT_THAT(Refusal("name_of_a_builtin"), HasSubstr("a kernel named noop is there already"));
}

TEST_F(KernelLibrariesTest, TwoLibrariesWithOneKernelNameAreRefusedByBothNames) {
  const std::string one = CopyInto("nothing", "one.so"), two = CopyInto("nothing", "two.so");
  const auto found = Find({one, two});
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(std::string(found.status().message()),
              AllOf(HasSubstr(one), HasSubstr(two), HasSubstr("harmless")));
}

TEST_F(KernelLibrariesTest, AFolderGivesWhatIsGoodInOrderOfNames) {
  CopyInto("abi", "a.so");
  const std::string good = CopyInto("nothing", "b.so");
  CopyInto("nothing", "c.so");       // the same kernel again
  CopyInto("nothing", "d.cuda.so");  // not for a CPU
  std::ofstream(folder_ / "notes.txt") << "no library";
  const auto found = Find({folder_.string()});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->files, ElementsAre(good));
}

TEST_F(KernelLibrariesTest, AFileNamedTwiceIsTakenOnce) {
  const std::string good = CopyInto("nothing", "b.so");
  const auto found = Find({folder_.string(), good, good});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->files, ElementsAre(good));
}

TEST_F(KernelLibrariesTest, APathThatIsNotThereIsNamed) {
  EXPECT_EQ(ReasonOf(Find({"/nowhere/x.so"}).status()), reason::kPathUnreadable);
  const auto none = Find({folder_.string()});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_THAT(none->files, IsEmpty());
}

}  // namespace
}  // namespace tandem::worker
