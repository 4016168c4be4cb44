#include <string>

#include "common/data/sha256.h"
#include "common/data/xxh3.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

// FIPS 180-4 example values.
TEST(Sha256, GivesThePublishedDigests) {
  EXPECT_EQ(Sha256Of("").ToHex(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Of("abc").ToHex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, OfPiecesIsThatOfTheWholeAndMayGoOnAfterFinish) {
  Sha256 hash;
  hash.Update("a");
  EXPECT_EQ(hash.Finish(), Sha256Of("a"));
  hash.Update("bc");
  EXPECT_EQ(hash.Finish(), Sha256Of("abc"));
  hash.Reset();
  EXPECT_EQ(hash.Finish(), Sha256Of(""));
}

// From the reference implementation's sanity checks (xxhsum): XXH3-64, seed 0, empty input.
TEST(Xxh3, GivesThePublishedDigestOfNothing) { EXPECT_EQ(Xxh3(""), 0x2d06800538d394c2u); }

TEST(Xxh3, OfPiecesIsThatOfTheWhole) {
  std::string text;
  for (int i = 0; i < 10000; ++i) text += static_cast<char>(i * 31 >> 3);
  for (size_t cut : {0u, 1u, 16u, 240u, 241u, 5000u, 10000u}) {
    Xxh3Stream stream;
    stream.Update(std::string_view(text).substr(0, cut));
    stream.Update(std::string_view(text).substr(cut));
    EXPECT_EQ(stream.Digest(), Xxh3(text)) << cut;
  }
  Xxh3Stream stream;
  stream.Update("x");
  stream.Reset();
  EXPECT_EQ(stream.Digest(), Xxh3(""));
}

}  // namespace
}  // namespace tandem
