#include "common/model/locator.h"

#include <gtest/gtest.h>

#include "common/base/error.h"

namespace tandem {
namespace {

const BlobId kBlob = BlobId::FromRaw(std::string(32, 'b'));

OperandSpec Dense(Locator locator) {
  OperandSpec operand;
  operand.spec = {DType::kF32, {4}};
  operand.source = std::move(locator);
  return operand;
}

PathLocator Path() {
  PathLocator path;
  path.path = "/data/x.npy";
  path.file_size = 144;
  path.data_offset = 128;
  path.size = 16;
  path.slice_bytes = 8;
  path.slice_checksums = {1, 2};
  return path;
}

std::string ReasonFor(const OperandSpec& operand) { return ReasonOf(ValidateOperandSpec(operand)); }

TEST(LocatorTest, DenseLocatorsMustYieldTheShapesBytes) {
  EXPECT_EQ(ReasonFor(Dense(InlineLocator{std::string(16, 'x')})), "");
  EXPECT_EQ(ReasonFor(Dense(InlineLocator{std::string(15, 'x')})), reason::kShapeMismatch);
  EXPECT_EQ(ReasonFor(Dense(BlobLocator{kBlob, 16})), "");
  EXPECT_EQ(ReasonFor(Dense(BlobLocator{kBlob, 20})), reason::kShapeMismatch);
  EXPECT_EQ(ReasonFor(Dense(BlobLocator{BlobId(), 16})), reason::kBadLocator);
  EXPECT_EQ(ReasonFor(Dense(HeldLocator{WorkerId(1), SegmentId(2), 0, 16, 9})), "");
  EXPECT_EQ(ReasonFor(Dense(HeldLocator{WorkerId(1), SegmentId(2), ~uint64_t{0}, 16, 9})),
            reason::kBadLocator);
  EXPECT_EQ(ReasonFor(Dense(JobOutputLocator{JobId(3), "y"})), "");
  EXPECT_EQ(ReasonFor(Dense(JobOutputLocator{JobId(), "y"})), reason::kBadLocator);
  EXPECT_EQ(ReasonFor(Dense(Locator())), reason::kBadLocator);
}

TEST(LocatorTest, PathsAreAbsoluteWholeAndChecksummed) {
  EXPECT_EQ(ReasonFor(Dense(Path())), "");
  PathLocator path = Path();
  path.path = "x.npy";
  EXPECT_EQ(ReasonFor(Dense(path)), reason::kBadLocator);
  path = Path();
  path.slice_checksums = {1};
  EXPECT_EQ(ReasonFor(Dense(path)), reason::kBadLocator);
  path.slice_checksums = {};
  path.slice_bytes = 0;
  EXPECT_EQ(ReasonFor(Dense(path)), reason::kBadLocator);
  path = Path();
  path.data_offset = 129;
  EXPECT_EQ(ReasonFor(Dense(path)), reason::kBadLocator);
  path = Path();
  path.data_offset = ~uint64_t{0};
  EXPECT_EQ(ReasonFor(Dense(path)), reason::kBadLocator);
}

TEST(LocatorTest, GeneratorsMustFitTheDtype) {
  EXPECT_EQ(ReasonFor(Dense(GeneratorLocator{*ParseGenerator("iota", DType::kF32)})), "");
  EXPECT_EQ(ReasonFor(Dense(GeneratorLocator{*ParseGenerator("iota", DType::kF64)})),
            reason::kBadLocator);
}

TEST(LocatorTest, RaggedOperandsAreItemsOrOffsetsAndData) {
  OperandSpec ragged;
  ragged.spec = {DType::kBytes, {2}};
  ragged.source = RaggedItems{{InlineLocator{"a"}, BlobLocator{kBlob, 77}}};
  EXPECT_EQ(ReasonFor(ragged), "");
  ragged.item_names = {"a.png"};
  EXPECT_EQ(ReasonFor(ragged), reason::kBadSpec);
  ragged.item_names.clear();
  ragged.source = RaggedItems{{InlineLocator{"a"}}};
  EXPECT_EQ(ReasonFor(ragged), reason::kShapeMismatch);
  ragged.source = RaggedItems{{InlineLocator{"a"}, JobOutputLocator{JobId(1), "y"}}};
  EXPECT_EQ(ReasonFor(ragged), reason::kBadLocator);
  ragged.source = RaggedPacked{InlineLocator{std::string(24, '\0')}, BlobLocator{kBlob, 9}, 9};
  EXPECT_EQ(ReasonFor(ragged), "");
  ragged.source = RaggedPacked{InlineLocator{std::string(16, '\0')}, BlobLocator{kBlob, 9}, 9};
  EXPECT_EQ(ReasonFor(ragged), reason::kShapeMismatch);
  ragged.source = Locator(BlobLocator{kBlob, 9});
  EXPECT_EQ(ReasonFor(ragged), reason::kBadLocator);
  ragged.source = Locator(JobOutputLocator{JobId(1), "edges"});
  EXPECT_EQ(ReasonFor(ragged), "");
}

}  // namespace
}  // namespace tandem
