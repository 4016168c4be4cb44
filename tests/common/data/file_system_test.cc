// The real file system and the one for tests, held against the same expectations.
#include "common/data/file_system.h"

#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fault_file_system.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using Mode = FileSystem::Mode;

class FileSystemTest : public ::testing::TestWithParam<bool> {
 protected:
  FileSystemTest() {
    if (GetParam()) {
      root_ = ::testing::TempDir() + "/tandem_fs_XXXXXX";
      EXPECT_NE(mkdtemp(root_.data()), nullptr);
      fs_ = RealFileSystem();
    } else {
      root_ = "/root";
      EXPECT_TRUE(fault_.CreateDirectory(root_).ok());
      fs_ = &fault_;
    }
  }
  ~FileSystemTest() override {
    std::error_code ignored;
    if (GetParam()) std::filesystem::remove_all(root_, ignored);
  }
  std::unique_ptr<File> Open(const std::string& name, Mode mode) {
    auto file = fs_->Open(root_ + "/" + name, mode);
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }
  absl::StatusCode OpenCode(const std::string& name, Mode mode) {
    return fs_->Open(root_ + "/" + name, mode).status().code();
  }

  std::string root_;
  FaultFileSystem fault_;
  FileSystem* fs_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Both, FileSystemTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Real" : "Fault"; });

TEST_P(FileSystemTest, ModesSayWhatMustBeThere) {
  EXPECT_EQ(OpenCode("f", Mode::kRead), absl::StatusCode::kNotFound);
  EXPECT_EQ(OpenCode("f", Mode::kReadWrite), absl::StatusCode::kNotFound);
  EXPECT_EQ(OpenCode("f", Mode::kCreate), absl::StatusCode::kOk);
  EXPECT_EQ(OpenCode("f", Mode::kCreate), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(OpenCode("f", Mode::kRead), absl::StatusCode::kOk);
  EXPECT_EQ(OpenCode("g", Mode::kOpenAlways), absl::StatusCode::kOk);
  EXPECT_EQ(OpenCode("none/f", Mode::kCreate), absl::StatusCode::kNotFound);
}

TEST_P(FileSystemTest, WhatIsWrittenIsReadAndTheEndIsSeen) {
  auto file = Open("f", Mode::kCreate);
  std::vector<std::string> parts;
  std::string whole;
  for (int i = 0; i < 200; ++i) {
    parts.push_back(std::to_string(i));
    whole += parts.back();
  }
  ASSERT_TRUE(WriteFully(*file, 3, std::vector<std::string_view>(parts.begin(), parts.end())).ok());
  EXPECT_EQ(*file->Size(), whole.size() + 3);
  EXPECT_EQ(*ReadFully(*file, 3, whole.size()), whole);
  EXPECT_EQ(*ReadFully(*file, 0, 3), std::string(3, '\0'));
  EXPECT_EQ(ReadFully(*file, 3, whole.size() + 1).status().code(), absl::StatusCode::kOutOfRange);
  char buffer[8];
  EXPECT_EQ(*file->ReadAt(whole.size(), buffer, 8), 3u);
  EXPECT_EQ(*file->ReadAt(whole.size() + 99, buffer, 8), 0u);
  EXPECT_TRUE(file->Sync().ok());
}

TEST_P(FileSystemTest, ReservingDoesNotChangeTheSize) {
  auto file = Open("f", Mode::kCreate);
  ASSERT_TRUE(WriteFully(*file, 0, "abc").ok());
  ASSERT_TRUE(file->Reserve(1 << 20).ok());
  EXPECT_EQ(*file->Size(), 3u);
  ASSERT_TRUE(file->Truncate(2).ok());
  EXPECT_EQ(*file->Size(), 2u);
  EXPECT_LT(fs_->Stat(root_ + "/f")->allocated, 1u << 20);
}

TEST_P(FileSystemTest, LinksCountNamesAndRenameReplaces) {
  ASSERT_TRUE(WriteFully(*Open("a", Mode::kCreate), 0, "A").ok());
  ASSERT_TRUE(fs_->Link(root_ + "/a", root_ + "/b").ok());
  EXPECT_EQ(fs_->Stat(root_ + "/a")->links, 2u);
  EXPECT_EQ(fs_->Link(root_ + "/a", root_ + "/b").code(), absl::StatusCode::kAlreadyExists);
  ASSERT_TRUE(WriteFully(*Open("c", Mode::kCreate), 0, "C").ok());
  ASSERT_TRUE(fs_->Rename(root_ + "/c", root_ + "/a").ok());
  EXPECT_EQ(*ReadFully(*Open("a", Mode::kRead), 0, 1), "C");
  EXPECT_EQ(*ReadFully(*Open("b", Mode::kRead), 0, 1), "A");
  EXPECT_EQ(fs_->Stat(root_ + "/b")->links, 1u);
  EXPECT_THAT(*fs_->List(root_), ElementsAre("a", "b"));
  ASSERT_TRUE(fs_->Remove(root_ + "/a").ok());
  EXPECT_EQ(fs_->Remove(root_ + "/a").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(fs_->Stat(root_ + "/a").status().code(), absl::StatusCode::kNotFound);
}

TEST_P(FileSystemTest, DirectoriesAreMadeWithTheirParents) {
  ASSERT_TRUE(CreateDirectories(*fs_, root_ + "/x/y/z").ok());
  ASSERT_TRUE(CreateDirectories(*fs_, root_ + "/x/y/z").ok());
  EXPECT_TRUE(fs_->Stat(root_ + "/x/y/z")->directory);
  EXPECT_THAT(*fs_->List(root_ + "/x"), ElementsAre("y"));
  EXPECT_EQ(fs_->List(root_ + "/none").status().code(), absl::StatusCode::kNotFound);
}

TEST_P(FileSystemTest, AnErrorNamesThePath) {
  const absl::Status status = fs_->Open(root_ + "/missing", Mode::kRead).status();
  EXPECT_NE(status.message().find("missing"), absl::string_view::npos);
  EXPECT_EQ(ReasonOf(status), reason::kPathUnreadable);
}

}  // namespace
}  // namespace tandem
