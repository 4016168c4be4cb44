#include "client/lib/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/base/error.h"

namespace tandem::client {
namespace {

using ::testing::HasSubstr;

// A version 1.0 file as numpy writes it, from the format's description.
std::string File(const std::string& dict, const std::string& data, char major = 1) {
  std::string file = "\x93NUMPY";
  file += major;
  file += '\0';
  file += static_cast<char>(dict.size() & 0xff);
  file += static_cast<char>(dict.size() >> 8);
  if (major > 1) file += std::string(2, '\0');
  return file + dict + data;
}

absl::StatusOr<NpyHeader> Parse(const std::string& file) {
  return ParseNpyHeader(file, file.size());
}

TEST(NpyTest, ReadsWhatNumpyWrites) {
  const auto header = Parse(File("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  \n",
                                 std::string(24, 'x')));
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->spec, (TensorSpec{DType::kF32, Shape{2, 3}}));
  EXPECT_FALSE(header->fortran_order);
  EXPECT_EQ(header->data_offset, 72u);  // where the 24 bytes begin
}

TEST(NpyTest, ReadsVersionsTwoAndThreeAndScalars) {
  for (const char major : {2, 3}) {
    const auto header = Parse(File("{'descr':'|u1','fortran_order':True,'shape':()}", "x", major));
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_TRUE(header->spec.shape.empty());
    EXPECT_TRUE(header->fortran_order);
  }
}

TEST(NpyTest, ReadsZeroSizes) {
  const auto header = Parse(File("{'descr': '<i8', 'fortran_order': False, 'shape': (0, 7)}", ""));
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->spec.shape, (Shape{0, 7}));
}

TEST(NpyTest, SaysWhichByteOrderTheNumbersHave) {
  const auto big = Parse(File("{'descr': '>i2', 'fortran_order': False, 'shape': (2,)}", "abcd"));
  ASSERT_TRUE(big.ok()) << big.status();
  EXPECT_EQ(big->spec, (TensorSpec{DType::kI16, Shape{2}}));
  EXPECT_TRUE(big->big_endian);
  EXPECT_EQ(big->descr, ">i2");
  const auto byte = Parse(File("{'descr': '>u1', 'fortran_order': False, 'shape': (4,)}", "abcd"));
  ASSERT_TRUE(byte.ok()) << byte.status();
  EXPECT_FALSE(byte->big_endian);
}

TEST(NpyTest, RoundTripsItsOwnHeaders) {
  for (const Shape& shape : {Shape{}, Shape{5}, Shape{2, 3, 4}, Shape{0}}) {
    const TensorSpec spec{DType::kF64, shape};
    const std::string header = MakeNpyHeader(spec);
    EXPECT_EQ(header.size() % 64, 0u);
    const auto parsed = ParseNpyHeader(header, header.size() + *spec.Bytes());
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->spec, spec);
    EXPECT_EQ(parsed->data_offset, header.size());
  }
}

struct BadCase {
  std::string name, file, says;
};
class NpyBadTest : public ::testing::TestWithParam<BadCase> {};
TEST_P(NpyBadTest, IsRefusedWithItsReason) {
  const auto header = Parse(GetParam().file);
  ASSERT_FALSE(header.ok());
  EXPECT_EQ(header.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(header.status().message()), HasSubstr(GetParam().says));
  EXPECT_NE(ReasonOf(header.status()), "");
}
INSTANTIATE_TEST_SUITE_P(
    Npy, NpyBadTest,
    ::testing::Values(
        BadCase{"Empty", "", "at least 10 bytes"},
        BadCase{"Magic", "hello, world", "does not begin"},
        BadCase{"Version", File("{}", "", 9), "version 9"},
        BadCase{"CutHeader",
                File("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "").substr(0, 30),
                "within its header"},
        BadCase{"GiantHeader", std::string("\x93NUMPY\x02\x00\xff\xff\xff\x7f", 12), "at most"},
        BadCase{"Object", File("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "x"),
                "Python objects"},
        BadCase{"Structured",
                File("{'descr': [('a','<f4')], 'fortran_order': False, 'shape': (1,)}", "x"),
                "structured"},
        BadCase{"TextAfterwards",
                File("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", "abcd"),
                "goes on"},
        BadCase{"Text", File("{'descr': '<U5', 'fortran_order': False, 'shape': (1,)}", "abcd"),
                "is none of"},
        BadCase{"Negative", File("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", ""),
                "negative"},
        BadCase{
            "Overflow",
            File("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", ""),
            "2^63"},
        BadCase{
            "ProductOverflow",
            File("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9)}", ""),
            ""},
        BadCase{"TooShort", File("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "abcd"),
                "cut off"},
        BadCase{"TooLong",
                File("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "abcdefgh"),
                "bytes more"},
        BadCase{"NoShape", File("{'descr': '<f4', 'fortran_order': False}", "abcd"), "lacks"},
        BadCase{"UnknownKey", File("{'hello': '<f4'}", ""), "unknown key"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tandem::client
