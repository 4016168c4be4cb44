#include "client/cli/scratch_directory.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "common/base/error.h"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

class ScratchDirectoryTest : public ::testing::Test {
 protected:
  ScratchDirectoryTest() {
    std::string name = (fs::temp_directory_path() / "tandem-scratch-XXXXXX").string();
    parent_ = mkdtemp(name.data());
    setenv("TMPDIR", parent_.c_str(), 1);
  }
  ~ScratchDirectoryTest() override {
    unsetenv("TMPDIR");
    fs::remove_all(parent_);
  }
  std::string parent_;
};

TEST_F(ScratchDirectoryTest, AFreshOneGoesWithItsObject) {
  std::string path;
  {
    const auto made = ScratchDirectory::Make("");
    ASSERT_TRUE(made.ok()) << made.status();
    path = made->path();
    EXPECT_TRUE(made->temporary());
    EXPECT_TRUE(fs::is_directory(path));
    std::ofstream(path + "/data") << "x";
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(ScratchDirectoryTest, TheUsersIsKept) {
  {
    const auto made = ScratchDirectory::Make(parent_ + "/a/b");
    ASSERT_TRUE(made.ok());
    EXPECT_FALSE(made->temporary());
  }
  EXPECT_TRUE(fs::is_directory(parent_ + "/a/b"));
}

TEST_F(ScratchDirectoryTest, OnlyAbandonedOnesAreRemoved) {
  auto held = ScratchDirectory::Make("");
  ASSERT_TRUE(held.ok());
  fs::create_directories(parent_ + "/tandem-up-dead00");
  std::ofstream(parent_ + "/tandem-up-dead00/up.lock") << "";
  fs::create_directories(parent_ + "/tandem-up-alien0");  // no lock: not one of ours
  fs::create_directories(parent_ + "/other");
  std::ofstream(parent_ + "/other/up.lock") << "";
  EXPECT_EQ(ScratchDirectory::RemoveAbandoned(parent_), 1);
  EXPECT_TRUE(fs::exists(held->path()));
  EXPECT_FALSE(fs::exists(parent_ + "/tandem-up-dead00"));
  EXPECT_TRUE(fs::exists(parent_ + "/tandem-up-alien0"));
  EXPECT_TRUE(fs::exists(parent_ + "/other"));
}

TEST_F(ScratchDirectoryTest, WhatCannotBeMadeSaysWhy) {
  std::ofstream(parent_ + "/file") << "";
  EXPECT_EQ(ReasonOf(ScratchDirectory::Make(parent_ + "/file/x").status()), "PATH_UNWRITABLE");
}

}  // namespace
}  // namespace tandem::cli
