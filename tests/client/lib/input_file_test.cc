#include "client/lib/input_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "client/lib/byte_source.h"
#include "common/base/error.h"

namespace tandem::client {
namespace {

using ::testing::HasSubstr;

class InputFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::path(::testing::TempDir()) / "input_file" /
           ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
  }
  std::string Write(const std::string& name, const std::string& bytes) {
    std::ofstream(dir_ / name, std::ios::binary) << bytes;
    return dir_ / name;
  }
  std::filesystem::path dir_;
};

TEST_F(InputFileTest, WhatHasNoSizeIsRefusedWithASentenceEach) {
  const std::string fifo = dir_ / "fifo", bound = dir_ / "socket";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  sockaddr_un address{AF_UNIX, {}};
  ASSERT_LT(bound.size(), sizeof address.sun_path);
  bound.copy(address.sun_path, bound.size());
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const struct {
    std::string path, says;
  } cases[] = {{dir_, "directory"},
               {fifo, "pipe"},
               {bound, "socket"},
               {"/dev/null", "device"},
               {"/proc/self/mem", "cannot read"},
               {"/proc/self/status", "no size"},
               {dir_ / "none", "No such file"},
               {"", "missing"},
               {std::string("a\0b", 3), "rename it"},
               {"caf\xe9.npy", "not UTF-8"},
               {"bell\x07.npy", "control characters"},
               {"tab\t.npy", "control characters"},
               {"line\n.npy", "control characters"},
               {std::string(5000, 'x'), "bytes long"}};
  for (const auto& c : cases) {
    const auto file = InputFile::Open(c.path);
    ASSERT_FALSE(file.ok()) << c.path;
    EXPECT_EQ(ReasonOf(file.status()), reason::kPathUnreadable) << c.path;
    EXPECT_THAT(std::string(file.status().message()), HasSubstr(c.says)) << c.path;
  }
  close(listener);
}

TEST_F(InputFileTest, AFileThatWasWrittenWhileItWasReadIsFound) {
  const std::string path = Write("x", "before");
  const auto file = InputFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->CheckUnchanged().ok());
  Write("x", "after that");
  EXPECT_EQ(ReasonOf(file->CheckUnchanged()), reason::kPathChanged);
  EXPECT_EQ(ReasonOf(InputFile::OpenAgain(path, file->identity()).status()), reason::kPathChanged);
}

TEST_F(InputFileTest, AFileThatShrinksIsAnErrorAndNotASilentEnd) {
  const std::string path = Write("x", std::string(100, 'x'));
  const auto file = InputFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(truncate(path.c_str(), 10), 0);
  EXPECT_EQ(ReasonOf(file->ReadPrefix(100).status()), reason::kPathChanged);
}

TEST_F(InputFileTest, ASourceThatIsTouchedWhileItIsReadFails) {
  const std::string path = Write("x", std::string(3 << 20, 'x'));
  const auto source = ByteSource::OfFile(path);
  ASSERT_TRUE(source.ok()) << source.status();
  int chunks = 0;
  const absl::Status status = source->Read(0, [&](std::string_view) {
    const timespec times[2] = {{5, 0}, {5, 0}};
    if (++chunks == 1) {
      EXPECT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
    }
    return absl::OkStatus();
  });
  EXPECT_EQ(chunks, 3);
  EXPECT_EQ(ReasonOf(status), reason::kPathChanged);
}

TEST_F(InputFileTest, ASourceGoesOnFromAnyByteOfAnyPiece) {
  ByteSource all = ByteSource::OfMemory("abc");
  all.Append(ByteSource::OfMemory(""));
  all.Append(*ByteSource::OfFile(Write("x", "0123456"), 2));
  const std::string whole = "abc23456";
  EXPECT_EQ(*all.ReadAll(), whole);
  for (uint64_t from = 0; from <= whole.size(); ++from) {
    std::string rest;
    ASSERT_TRUE(all.Read(from,
                         [&](std::string_view chunk) {
                           rest += chunk;
                           return absl::OkStatus();
                         })
                    .ok());
    EXPECT_EQ(rest, whole.substr(from));
  }
}

TEST_F(InputFileTest, AWholeFileIsReadUpToALimit) {
  EXPECT_EQ(*ReadWholeFile(Write("x", "12345"), 5), "12345");
  EXPECT_EQ(ReasonOf(ReadWholeFile(dir_ / "x", 4).status()), reason::kLimitExceeded);
}

}  // namespace
}  // namespace tandem::client
