#include "client/lib/fasta.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(FastaTest, RefusesWhatIsNone) {
  const struct {
    std::string text, says;
  } cases[] = {{"", "empty"},
               {"ACGT\n", "before any header"},
               {">only a header\n", "no letters"},
               {">x\nAC\x01GT\n", "line 2 has"},
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
