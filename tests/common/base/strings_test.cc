#include "common/base/strings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/base/strong_id.h"
#include "common/base/utf8.h"

namespace tandem {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(StrCatTest, TakesStdStringViewIdsAndWords) {
  using Id = StrongId<struct TestTag>;
  const std::string_view view = "view";
  EXPECT_EQ(StrCat(view, " ", Id(7), " ", true, ' ', 2.5, " ", std::string("s")),
            "view 7 true 2.5 s");
  EXPECT_EQ(StrCat(absl::Minutes(90), " ", absl::NotFoundError("gone")), "1h30m NOT_FOUND: gone");
  std::string text = "a";
  StrAppend(&text, view, 1);
  EXPECT_EQ(text, "aview1");
}

TEST(HexTest, GoesBothWaysAndRefusesOtherText) {
  const unsigned char bytes[] = {0x00, 0x1f, 0xa0, 0xff};
  EXPECT_EQ(ToHex(bytes, 4), "001fa0ff");
  unsigned char back[4] = {};
  EXPECT_TRUE(FromHex("001FA0ff", back, 4));
  EXPECT_EQ(std::string_view(reinterpret_cast<char*>(back), 4),
            std::string_view(reinterpret_cast<const char*>(bytes), 4));
  EXPECT_FALSE(FromHex("001fa0f", back, 4));
  EXPECT_FALSE(FromHex("001fa0fg", back, 4));
}

TEST(SplitTest, KeepsEmptyPieces) {
  EXPECT_THAT(Split("a,,b,", ','), ::testing::ElementsAre("a", "", "b", ""));
  EXPECT_THAT(Split("", ','), ::testing::ElementsAre(""));
}

TEST(NearestTest, FindsASlipAndNothingElse) {
  EXPECT_EQ(Nearest("stirke", {"spot", "strike", "years"}), "strike");
  EXPECT_EQ(Nearest("jbo", {"run", "job", "up"}), "job");  // neighbours swapped are one slip
  EXPECT_EQ(Nearest("volatility", {"spot", "strike", "years"}), "");
}

TEST(QuotedTest, EscapesAndShortens) {
  EXPECT_EQ(Quoted("a\"b\n"), "\"a\\\"b\\x0a\"");
  EXPECT_LT(Quoted(std::string(1000, 'x')).size(), 100u);
  // What goes into a message is UTF-8, whatever was typed and wherever it is cut.
  EXPECT_EQ(Quoted("caf\xc3\xa9 \xe9"), "\"caf\xc3\xa9 \\xe9\"");
  for (size_t size = 70; size < 90; ++size) {
    EXPECT_TRUE(IsUtf8(Quoted(std::string(size, 'x') + "\xf0\x9f\x98\x80 and more"))) << size;
  }
}

struct SizeCase {
  const char* text;
  uint64_t bytes;
};

TEST(ParseSizeTest, ReadsWholeAndFractionalSizes) {
  for (const SizeCase& c :
       std::initializer_list<SizeCase>{{"0", 0},
                                       {"4096", 4096},
                                       {"512B", 512},
                                       {"4GiB", uint64_t{4} << 30},
                                       {"4 gib", uint64_t{4} << 30},
                                       {"1.5KiB", 1536},
                                       {"10GB", 10'000'000'000},
                                       {"64kB", 64'000},
                                       {"16383PiB", uint64_t{16383} << 50},
                                       {"18446744073709551615", ~uint64_t{0}}}) {
    const absl::StatusOr<uint64_t> bytes = ParseSize(c.text);
    ASSERT_TRUE(bytes.ok()) << c.text << ": " << bytes.status();
    EXPECT_EQ(*bytes, c.bytes) << c.text;
  }
}

TEST(ParseSizeTest, RefusesWhatIsNoSize) {
  for (const char* text : {"", "GiB", "-1", "1.5", "1.0001KiB", "4XiB", "18446744073709551616",
                           "16384PiB", "1e3", "0x10", "4GiB4"}) {
    const absl::StatusOr<uint64_t> bytes = ParseSize(text);
    ASSERT_FALSE(bytes.ok()) << text;
    EXPECT_EQ(ReasonOf(bytes.status()), reason::kBadSize) << text;
  }
}

TEST(ParseSizeTest, NamesBothReadingsOfABareLetter) {
  const absl::StatusOr<uint64_t> bytes = ParseSize("4G");
  EXPECT_EQ(ReasonOf(bytes.status()), reason::kAmbiguous);
  EXPECT_THAT(std::string(bytes.status().message()), AllOf(HasSubstr("4GB"), HasSubstr("4GiB")));
  EXPECT_EQ(ReasonOf(ParseSize("4KB").status()), reason::kAmbiguous);
  EXPECT_EQ(ReasonOf(ParseSize("4m").status()), reason::kAmbiguous);
}

TEST(HumanSizeTest, IsShortAndExactWhereItCanBe) {
  EXPECT_EQ(HumanSize(0), "0B");
  EXPECT_EQ(HumanSize(512), "512B");
  EXPECT_EQ(HumanSize(uint64_t{4} << 30), "4GiB");
  EXPECT_EQ(HumanSize(1536), "1.50KiB");
  EXPECT_EQ(HumanSize(~uint64_t{0}), "16.0EiB");
}

TEST(ParseDurationTest, ReadsUnitsAndSlurmsForm) {
  struct Case {
    const char* text;
    absl::Duration duration;
  };
  for (const Case& c :
       std::initializer_list<Case>{{"90s", absl::Seconds(90)},
                                   {"1h30m", absl::Minutes(90)},
                                   {"1.5h", absl::Minutes(90)},
                                   {"250ms", absl::Milliseconds(250)},
                                   {"2d", absl::Hours(48)},
                                   {"0", absl::ZeroDuration()},
                                   {"unlimited", absl::InfiniteDuration()},
                                   {"01:30:05", absl::Seconds(5405)},
                                   {"100:00:00", absl::Hours(100)},
                                   {"2-00:30:00", absl::Hours(48) + absl::Minutes(30)},
                                   {"1-12", absl::Hours(36)},
                                   {"1-12:30", absl::Hours(36) + absl::Minutes(30)}}) {
    const absl::StatusOr<absl::Duration> duration = ParseDuration(c.text);
    ASSERT_TRUE(duration.ok()) << c.text << ": " << duration.status();
    EXPECT_EQ(*duration, c.duration) << c.text;
  }
}

TEST(ParseDurationTest, RefusesWhatIsNoDuration) {
  for (const char* text : {"", "s", "5x", "30m1h", "1s1s", "1-24:00:00", "1-00:60:00", "1:2:3:4",
                           "-5s", "1h30", "400000d", "0.1ns", "x-1"}) {
    const absl::StatusOr<absl::Duration> duration = ParseDuration(text);
    ASSERT_FALSE(duration.ok()) << text;
    EXPECT_EQ(ReasonOf(duration.status()), reason::kBadDuration) << text << duration.status();
  }
}

TEST(ParseDurationTest, NamesBothReadingsOfWhatIsAmbiguous) {
  EXPECT_THAT(std::string(ParseDuration("90").status().message()),
              AllOf(HasSubstr("90s"), HasSubstr("90m")));
  EXPECT_THAT(std::string(ParseDuration("1:30").status().message()),
              AllOf(HasSubstr("1h30m"), HasSubstr("1m30s")));
  EXPECT_EQ(ReasonOf(ParseDuration("1:30").status()), reason::kAmbiguous);
}

TEST(HumanDurationTest, ReadsBackNearly) {
  EXPECT_EQ(HumanDuration(absl::Minutes(90)), "1h30m");
  EXPECT_EQ(HumanDuration(absl::Seconds(60)), "1m");
  EXPECT_EQ(HumanDuration(absl::Hours(51)), "2d3h");
  EXPECT_EQ(HumanDuration(absl::InfiniteDuration()), "unlimited");
  for (const int64_t nanos :
       {int64_t{0}, int64_t{999}, int64_t{1'499}, int64_t{999'499'000}, int64_t{59'900'000'000},
        int64_t{61'000'000'000}, int64_t{90'061'000'000'000}}) {
    const absl::Duration duration = absl::Nanoseconds(nanos);
    const absl::StatusOr<absl::Duration> back = ParseDuration(HumanDuration(duration));
    ASSERT_TRUE(back.ok()) << HumanDuration(duration) << back.status();
    EXPECT_LE(absl::AbsDuration(*back - duration), duration * 0.02) << HumanDuration(duration);
  }
}

}  // namespace
}  // namespace tandem
