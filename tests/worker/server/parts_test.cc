// The parts of the supervisor that need no process: identity, cores, backoff, translation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/strings.h"
#include "worker/server/backoff.h"
#include "worker/server/identity.h"
#include "worker/server/options.h"
#include "worker/server/translate.h"

namespace tandem::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

std::string Folder(const std::string& name) {
  const std::string folder = StrCat(testing::TempDir(), "/", name, "-", ::getpid());
  std::filesystem::remove_all(folder);
  return folder;
}

TEST(IdentityTest, AFolderIsOfOneProcessAndRemembersItsName) {
  const std::string folder = Folder("identity");
  std::string name;
  uint64_t incarnation = 0;
  {
    auto first = Identity::Claim(folder, "");
    ASSERT_TRUE(first.ok()) << first.status();
    name = first->name();
    incarnation = first->incarnation();
    EXPECT_EQ(ReasonOf(Identity::Claim(folder, "").status()), reason::kStoreLocked);
  }
  auto second = Identity::Claim(folder, "");
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->name(), name);
  EXPECT_NE(second->incarnation(), incarnation);
  std::filesystem::remove_all(folder);
}

TEST(IdentityTest, ANameOnTheCommandLineWinsAndABadOneIsRefused) {
  const std::string folder = Folder("named");
  EXPECT_EQ(Identity::Claim(folder, "w 1").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Identity::Claim(folder, "../w").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Identity::Claim(folder, "w1")->name(), "w1");
  EXPECT_EQ(Identity::Claim(folder, "")->name(), "w1");
  std::filesystem::remove_all(folder);
}

TEST(IdentityTest, WhatAnEarlierLifeWasRunningIsFoundUntilItIsDropped) {
  const std::string folder = Folder("leftovers");
  auto identity = Identity::Claim(folder, "w1");
  ASSERT_TRUE(identity.ok());
  {
    auto page = StartPage::Create(identity->StartPagePath(3), 2);
    ASSERT_TRUE(page.ok());
    (*page)->slot(1).Start(7, 100, 2);
  }
  EXPECT_THAT(identity->FindLeftovers(), ElementsAre(Started{1, 7, 100, 2, std::nullopt, 1}));
  // An executor of this life may have the same number.
  EXPECT_FALSE(std::filesystem::exists(identity->StartPagePath(1)));
  // Not lost before somebody was told.
  EXPECT_THAT(identity->FindLeftovers(), SizeIs(1));
  identity->DropLeftovers();
  EXPECT_THAT(identity->FindLeftovers(), ElementsAre());
  std::filesystem::remove_all(folder);
}

TEST(ChooseCoresTest, WhatIsAllowedIsCutToWhatIsWanted) {
  EXPECT_THAT(*ChooseCores({0, 1, 2, 3}, {}, 0), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(*ChooseCores({0, 1, 2, 3}, {2, 3}, 0), ElementsAre(2, 3));
  EXPECT_THAT(*ChooseCores({4, 5, 6}, {}, 2), ElementsAre(4, 5));
  EXPECT_EQ(ChooseCores({4, 5}, {6}, 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ChooseCores({}, {}, 0).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(BackoffTest, WaitsGrowToABoundAndStartAgainAfterASuccess) {
  Backoff backoff({}, 1);
  const absl::Duration first = backoff.Next();
  EXPECT_GE(first, absl::Milliseconds(25));
  EXPECT_LE(first, absl::Milliseconds(75));
  for (int i = 0; i < 30; ++i) EXPECT_LE(backoff.Next(), absl::Seconds(3));
  EXPECT_GE(backoff.Next(), absl::Seconds(1));
  backoff.Reset();
  EXPECT_LE(backoff.Next(), absl::Milliseconds(75));
}

// What one message says is done in a fixed order; effects of another order need several.
TEST(ToExecutorBuilderTest, MessagesKeepTheOrderOfEffects) {
  std::vector<executor::v1::ToExecutor> sent;
  const auto send = [&](const executor::v1::ToExecutor& message) { sent.push_back(message); };
  ToExecutorBuilder builder;
  executor::v1::JobSetup setup;
  builder.Add(SetupJob{1, JobId(7)}, setup, send);
  builder.Add(RunPiece{1, 1, JobId(7), {0, 4}, 1, 0, false, {}, 100}, send);
  builder.Add(RunPiece{1, 2, JobId(7), {4, 4}, 1, 0, false, {}, 100}, send);
  builder.Add(FlushJob{1, JobId(7)}, send);
  builder.Finish(send);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].runs_size(), 2);
  EXPECT_EQ(sent[0].runs(1).first_leaf(), 4u);

  sent.clear();
  builder.Add(ForgetJob{1, JobId(7)}, send);
  builder.Add(ReleaseStaging{1, 64, 10});
  builder.Add(SetupJob{1, JobId(7)}, setup, send);  // the same job, described anew
  builder.Add(RunPiece{1, 3, JobId(7), {0, 1}, 1, 0, false, {}, 100}, send);
  builder.Add(CancelPiece{1, 3}, send);
  builder.Finish(send);
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0].forget_jobs_size(), 1);
  EXPECT_EQ(sent[0].releases_size(), 1);
  EXPECT_EQ(sent[1].setups_size(), 1);
  EXPECT_EQ(sent[1].runs_size(), 1);
  EXPECT_EQ(sent[2].cancel_pieces_size(), 1);

  sent.clear();
  builder.Finish(send);
  EXPECT_TRUE(sent.empty());
}

TEST(ToEventsTest, BytesOutsideTheStagingFileAreAnErrorNotACrash) {
  auto staging = StagingFile::Create(1 << 20);
  ASSERT_TRUE(staging.ok());
  executor::v1::FromExecutor message;
  auto* region = message.add_done()->add_outputs()->mutable_region();
  region->set_offset(100);
  region->set_length(50);
  std::vector<Event> events;
  EXPECT_EQ(ToEvents(1, **staging, &message, &events).code(), absl::StatusCode::kDataLoss);
  ASSERT_TRUE((*staging)->Grow(4096).ok());
  events.clear();
  EXPECT_TRUE(ToEvents(1, **staging, &message, &events).ok());
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(std::get<PieceFinished>(events[0]).outputs[0].offset, 100u);
}

TEST(ToEventsTest, FinishedPiecesComeBeforeThePartialThatHoldsThem) {
  auto staging = StagingFile::Create(1 << 20);
  ASSERT_TRUE(staging.ok());
  executor::v1::FromExecutor message;
  auto* partial = message.add_partials();
  partial->set_job(7);
  partial->add_pieces(3);
  message.add_done()->set_piece(3);
  message.add_returned_pieces(4);
  std::vector<Event> events;
  ASSERT_TRUE(ToEvents(1, **staging, &message, &events).ok());
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(std::get<PieceFinished>(events[0]).piece, 3u);
  EXPECT_THAT(std::get<PartialFinished>(events[1]).pieces, ElementsAre(3));
  EXPECT_EQ(std::get<PieceReturned>(events[2]).piece, 4u);
}

}  // namespace
}  // namespace tandem::worker
