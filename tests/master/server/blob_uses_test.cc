#include "master/server/blob_uses.h"

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/data/sha256.h"
#include "common/model/locator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::master {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const BlobId kX = Sha256Of("x"), kY = Sha256Of("y");

JobSpec Spec(const std::string& owner, const std::vector<BlobId>& blobs) {
  JobSpec spec;
  spec.owner = owner;
  for (size_t i = 0; i < blobs.size(); ++i) {
    spec.operands["o" + std::to_string(i)].source = Locator(BlobLocator{blobs[i], 1});
  }
  return spec;
}

class BlobUsesTest : public ::testing::Test {
 protected:
  absl::Status Remove(const std::string& owner, const BlobId& blob) {
    return uses_.RemoveUnused(owner, blob, [this] {
      ++removed_;
      return absl::OkStatus();
    });
  }
  BlobUses uses_;
  int removed_ = 0;
};

TEST_F(BlobUsesTest, EveryFormOfOperandNamesItsBlobs) {
  JobSpec spec = Spec("ada", {kX, kX});
  spec.operands["packed"].source =
      RaggedPacked{Locator(BlobLocator{kY, 8}), Locator(BlobLocator{kX, 9}), 9};
  RaggedItems items;
  items.items = {Locator(BlobLocator{Sha256Of("z"), 1}), Locator(InlineLocator{"i"})};
  spec.operands["items"].source = items;
  EXPECT_THAT(BlobsOf(spec), testing::UnorderedElementsAre(kX, kY, Sha256Of("z")));
}

TEST_F(BlobUsesTest, ABlobIsInUseUntilItsLastJobHasEnded) {
  uses_.Add(JobId(1), Spec("ada", {kX}));
  uses_.Add(JobId(2), Spec("ada", {kX, kY}));
  const absl::Status refused = Remove("ada", kX);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(refused), reason::kBlobInUse);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("job 1 and 1 more"));
  uses_.Ended(JobId(1));
  EXPECT_FALSE(Remove("ada", kX).ok());
  uses_.Ended(JobId(2));
  EXPECT_TRUE(Remove("ada", kX).ok());
  EXPECT_EQ(removed_, 1);
}

TEST_F(BlobUsesTest, UsesNameTheJobsNewestFirstAndForgetThem) {
  for (uint64_t job = 1; job <= 20; ++job) uses_.Add(JobId(job), Spec("ada", {kX}));
  uses_.Ended(JobId(20));
  DataBooks::Uses uses = uses_.UsesOf("ada", kX);
  EXPECT_EQ(uses.count, 20u);
  EXPECT_TRUE(uses.live);
  ASSERT_EQ(uses.jobs.size(), DataBooks::kJobsListed);
  EXPECT_EQ(uses.jobs.front(), JobId(20));
  for (uint64_t job = 1; job <= 19; ++job) uses_.Remove(JobId(job));
  uses = uses_.UsesOf("ada", kX);
  EXPECT_THAT(uses.jobs, ElementsAre(JobId(20)));
  EXPECT_FALSE(uses.live);
  uses_.Remove(JobId(20));
  EXPECT_EQ(uses_.UsesOf("ada", kX).count, 0u);
}

TEST_F(BlobUsesTest, AnotherOwnersJobsDoNotShow) {
  uses_.Add(JobId(1), Spec("ada", {kX}));
  EXPECT_EQ(uses_.UsesOf("bob", kX).count, 0u);
  EXPECT_TRUE(Remove("bob", kX).ok());
}

TEST_F(BlobUsesTest, WhatIsPinnedIsNotRemovedBetweenTheLookAndTheJob) {
  std::shared_ptr<void> first = uses_.Pin(Spec("ada", {kX, kY}));
  std::shared_ptr<void> second = uses_.Pin(Spec("ada", {kX}));
  EXPECT_EQ(ReasonOf(Remove("ada", kX)), reason::kBlobInUse);
  first.reset();
  EXPECT_TRUE(Remove("ada", kY).ok());
  EXPECT_FALSE(Remove("ada", kX).ok());
  uses_.Add(JobId(1), Spec("ada", {kX}));
  second.reset();
  EXPECT_FALSE(Remove("ada", kX).ok());
  EXPECT_EQ(uses_.Pin(Spec("ada", {})), nullptr);
}

TEST_F(BlobUsesTest, AFailedRemovalIsToldAsItIs) {
  const absl::Status status =
      uses_.RemoveUnused("ada", kX, [] { return absl::NotFoundError("gone"); });
  EXPECT_TRUE(absl::IsNotFound(status));
}

}  // namespace
}  // namespace tandem::master
