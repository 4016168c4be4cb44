#include "client/lib/file_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "common/base/error.h"

namespace tandem::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FileListTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::path(::testing::TempDir()) / "file_list" /
           ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
  }
  std::string Touch(const std::string& name) {
    std::ofstream(dir_ / name) << name;
    return dir_ / name;
  }
  std::string Path(const std::string& name) const { return dir_ / name; }
  std::filesystem::path dir_;
};

TEST_F(FileListTest, ADirectoryIsItsFilesByNameAndSaysWhatItLeavesOut) {
  const std::string ten = Touch("10.png"), two = Touch("2.png"), upper = Touch("B.png");
  Touch(".hidden");
  std::filesystem::create_directory(dir_ / "sub");
  std::filesystem::create_symlink(dir_ / "2.png", dir_ / "link.png");
  for (const std::string& named : {dir_.string(), dir_.string() + "/"}) {
    const auto list = FilesNamed(named);
    ASSERT_TRUE(list.ok()) << list.status();
    EXPECT_THAT(list->files, ElementsAre(ten, two, upper, Path("link.png")));
    EXPECT_THAT(list->left_out, HasSubstr("1 subdirectory and 1 hidden file of "));
  }
}

TEST_F(FileListTest, WhatIsNoFileInADirectoryIsAnError) {
  Touch("a.png");
  std::filesystem::create_symlink(dir_ / "nowhere", dir_ / "dangling.png");
  const auto dangling = FilesNamed(dir_.string());
  EXPECT_EQ(ReasonOf(dangling.status()), reason::kPathUnreadable);
  EXPECT_THAT(std::string(dangling.status().message()), HasSubstr("dangling.png"));
  EXPECT_THAT(std::string(dangling.status().message()), HasSubstr("a link to a file that is not"));
  std::filesystem::remove(dir_ / "dangling.png");
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(std::string(FilesNamed(dir_.string()).status().message()), HasSubstr("a pipe"));
}

TEST_F(FileListTest, DirectoriesAndPatternsWithoutFilesAreErrors) {
  std::filesystem::create_directory(dir_ / "sub");
  EXPECT_THAT(std::string(FilesNamed(dir_.string()).status().message()),
              HasSubstr("holds no files but 1 subdirectory"));
  EXPECT_THAT(std::string(FilesNamed(Path("*.png")).status().message()),
              HasSubstr("no file match"));
  EXPECT_THAT(std::string(FilesNamed(Path("s*")).status().message()), HasSubstr("1 subdirectory"));
}

TEST_F(FileListTest, APatternIsSortedToo) {
  const std::string b = Touch("b1"), a = Touch("a1");
  Touch("c2");
  const auto list = FilesNamed(Path("?1"));
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_THAT(list->files, ElementsAre(a, b));
}

TEST_F(FileListTest, AFileMayHaveTheNameOfAPattern) {
  const std::string star = Touch("[1]*");
  EXPECT_THAT(FilesNamed(star)->files, ElementsAre(star));
}

TEST_F(FileListTest, AListKeepsItsOrder) {
  std::ofstream(dir_ / "list") << "b\r\n\nsub/a\n b ";
  const auto list = FilesNamed("list:" + Path("list"));
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_THAT(list->files, ElementsAre("b", "sub/a", " b "));
  EXPECT_THAT(ParseFileList(std::string("a\nb\0c\0", 6)), ElementsAre("a\nb", "c"));
  Touch("empty");
  std::ofstream(dir_ / "empty") << "\n\n";
  EXPECT_THAT(std::string(FilesNamed("list:" + Path("empty")).status().message()),
              HasSubstr("names no files"));
  EXPECT_EQ(ReasonOf(FilesNamed("list:" + Path("none")).status()), reason::kPathUnreadable);
}

}  // namespace
}  // namespace tandem::client
