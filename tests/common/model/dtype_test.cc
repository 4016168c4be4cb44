#include "common/model/dtype.h"

#include <gtest/gtest.h>

#include "common/model/ids.h"

namespace tandem {
namespace {

TEST(DTypeTest, NamesAndDescriptorsGoBothWays) {
  for (const DType dtype : kAllDTypes) {
    EXPECT_EQ(DTypeFromName(DTypeName(dtype)), dtype);
    if (!NpyDescr(dtype).empty()) {
      EXPECT_EQ(DTypeFromNpyDescr(NpyDescr(dtype)), dtype);
    }
  }
  EXPECT_FALSE(DTypeFromName("f31").has_value());
  EXPECT_FALSE(DTypeFromName("unspecified").has_value());
}

TEST(DTypeTest, BigEndianIsRefusedWhereOrderMatters) {
  EXPECT_FALSE(DTypeFromNpyDescr(">f4").has_value());
  EXPECT_EQ(DTypeFromNpyDescr(">u1"), DType::kU8);
  EXPECT_EQ(DTypeFromNpyDescr("=i8"), DType::kI64);
  EXPECT_FALSE(DTypeFromNpyDescr("<c8").has_value());
  EXPECT_FALSE(DTypeFromNpyDescr("").has_value());
}

TEST(DTypeTest, SizesAreThoseOfCpp) {
  EXPECT_EQ(DTypeSize(DType::kBool), sizeof(bool));
  EXPECT_EQ(DTypeSize(DType::kI16), sizeof(int16_t));
  EXPECT_EQ(DTypeSize(DType::kF32), sizeof(float));
  EXPECT_EQ(DTypeSize(DType::kU64), sizeof(uint64_t));
  EXPECT_EQ(DTypeSize(DType::kBytes), 0u);
}

TEST(LeaseIdTest, OrdersByEpochThenNumber) {
  EXPECT_LT((LeaseId{Epoch(1), 900}), (LeaseId{Epoch(2), 1}));
  EXPECT_LT((LeaseId{Epoch(2), 1}), (LeaseId{Epoch(2), 2}));
  EXPECT_EQ((LeaseId{Epoch(3), 17}).ToString(), "3.17");
  EXPECT_FALSE(LeaseId{}.valid());
}

TEST(BlobIdTest, HexGoesBothWays) {
  const std::string hex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
  const absl::StatusOr<BlobId> id = BlobId::FromHex(hex);
  ASSERT_TRUE(id.ok());
  EXPECT_EQ(id->ToHex(), hex);
  EXPECT_EQ(BlobId::FromRaw(id->raw()), *id);
  EXPECT_TRUE(id->valid());
  EXPECT_FALSE(BlobId().valid());
  EXPECT_FALSE(BlobId::FromHex(hex.substr(1)).ok());
}

}  // namespace
}  // namespace tandem
