#include "client/lib/fasta.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "common/base/error.h"

namespace tandem::client {
namespace {

using ::testing::HasSubstr;

TEST(FastaTest, JoinsLinesOfARecordAndKeepsRecordsApart) {
  const auto fasta = ParseFasta(">one first\nACGT\r\nacgn\n\n>two\r\nTT\n");
  ASSERT_TRUE(fasta.ok()) << fasta.status();
  EXPECT_EQ(fasta->records, 2u);
  EXPECT_EQ(fasta->letters, "ACGTacgn\nTT");
}

TEST(FastaTest, TakesALastLineWithoutAnEnd) {
  const auto fasta = ParseFasta(">x\n; a comment\nAC");
  ASSERT_TRUE(fasta.ok()) << fasta.status();
  EXPECT_EQ(fasta->letters, "AC");
}

TEST(FastaTest, SkipsAByteOrderMark) {
  const auto fasta = ParseFasta("\xEF\xBB\xBF>x\nAC\n");
  ASSERT_TRUE(fasta.ok()) << fasta.status();
  EXPECT_EQ(fasta->letters, "AC");
}

TEST(FastaTest, ChunksMayBeCutAnywhere) {
  const std::string text = "\xEF\xBB\xBF>one\r\nAC\r\n;note\n\nGT  \n>two\n>three\nNn";
  const std::string whole = ParseFasta(text)->letters;
  EXPECT_EQ(whole, "ACGT\n\nNn");
  for (size_t size = 1; size <= text.size(); ++size) {
    FastaParser parser;
    std::string letters;
    for (size_t at = 0; at < text.size(); at += size) {
      ASSERT_TRUE(parser.Take(std::string_view(text).substr(at, size), &letters).ok());
    }
    ASSERT_TRUE(parser.Finish().ok());
    EXPECT_EQ(letters, whole) << size;
  }
}

TEST(FastaTest, WhatIsShorterThanAMarkIsJudgedToo) {
  for (const std::string_view text : {"A", ">\n", "\xEF\xBB", "\x1f\x8b", "\n"}) {
    const absl::Status status = ParseFasta(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_NE(ParseFasta("A").status().message().find("before any header"), std::string::npos);
  EXPECT_NE(ParseFasta("\x1f\x8b").status().message().find("gunzip"), std::string::npos);
}

TEST(FastaTest, AFileIsReadInChunksAndFromAnyByte) {
  const std::string path = ::testing::TempDir() + "/chunks.fa";
  std::string text, letters;
  for (int record = 0; record < 3; ++record) {
    letters += record == 0 ? "" : "\n";
    text += ">record\n";
    for (int line = 0; line < 9000; ++line) {
      const std::string bases(60, "ACGT"[(record + line) % 4]);
      text += bases + "\r\n";
      letters += bases;
    }
  }
  std::ofstream(path, std::ios::binary) << text;
  const auto file = OpenFasta(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->records, 3u);
  EXPECT_EQ(file->letters.size(), letters.size());
  for (const uint64_t from : {uint64_t{0}, uint64_t{1'200'000}, letters.size() - 1}) {
    std::string rest;
    ASSERT_TRUE(file->letters
                    .Read(from,
                          [&](std::string_view chunk) {
                            EXPECT_LE(chunk.size(), kChunkBytes);
                            rest += chunk;
                            return absl::OkStatus();
                          })
                    .ok());
    EXPECT_EQ(rest, letters.substr(from));
  }
}

TEST(FastaTest, NamesAreKnownInEitherCase) {
  for (const char* name : {"a.fa", "b.FASTA", "c.x.Fna"}) EXPECT_TRUE(IsFastaName(name)) << name;
  for (const char* name : {"a.txt", "fa", ".fa", "a.fa.gz"})
    EXPECT_FALSE(IsFastaName(name)) << name;
}

TEST(FastaTest, RefusesWhatIsNone) {
  const struct {
    std::string text, says;
  } cases[] = {{"", "empty"},
               {"ACGT\n", "before any header"},
               {">only a header\n", "no letters"},
               {">x\nAC\x01GT\n", "line 2 has"},
               {">x\rACGT\rAC\r", "CR alone"},
               {">x\nACGT\rAC\r", "line 2 ends with CR alone"},
               {">x\nAC GT\n", "line 2 has a blank"},
               {"@read\nACGT\n+\nIIII\n", "FASTQ"},
               {std::string("\0\x01\x02", 3), "binary"},
               {"\x1f\x8b\x08", "gunzip"}};
  for (const auto& c : cases) {
    const auto fasta = ParseFasta(c.text);
    ASSERT_FALSE(fasta.ok()) << c.text;
    EXPECT_THAT(std::string(fasta.status().message()), HasSubstr(c.says));
    EXPECT_EQ(ReasonOf(fasta.status()), reason::kBadFile);
  }
}

}  // namespace
}  // namespace tandem::client
