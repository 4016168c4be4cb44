#include "worker/server/notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/base/strings.h"

namespace tandem::worker {
namespace {

using ::testing::SizeIs;

LateStart Late(uint64_t job, absl::Duration running) {
  LateStart late;
  late.device = "emulated:EMULATED-0";
  late.started.job = job;
  late.started.first_leaf = 3;
  late.started.leaf_count = 2;
  late.running = running;
  return late;
}

TEST(NotesTest, AreTakenWholeAndOnlyWhenTheyHaveChanged) {
  Notes notes;
  worker::v1::WorkerMessage message;
  EXPECT_FALSE(notes.Take(&message));
  notes.Set("a", {"A", "what\na", "advice"});
  notes.Set("b", {"B", "what b", ""});
  EXPECT_TRUE(notes.Take(&message));
  EXPECT_FALSE(notes.Take(&message));
  ASSERT_THAT(message.notes(), SizeIs(1));
  ASSERT_THAT(message.notes(0).findings(), SizeIs(2));
  EXPECT_EQ(message.notes(0).findings(0).what(), "what a");  // a line
  EXPECT_EQ(message.notes(0).findings(0).advice(), "advice");
  notes.Clear("a");
  notes.Clear("c");
  message.Clear();
  EXPECT_TRUE(notes.Take(&message));
  ASSERT_THAT(message.notes(0).findings(), SizeIs(1));
  EXPECT_EQ(message.notes(0).findings(0).token(), "B");
  notes.Clear("b");
  message.Clear();
  EXPECT_TRUE(notes.Take(&message));  // that there are none any more
  EXPECT_THAT(message.notes(0).findings(), SizeIs(0));
}

TEST(NotesTest, AnotherMasterIsToldAnew) {
  Notes notes;
  worker::v1::WorkerMessage message;
  notes.Forget();
  EXPECT_FALSE(notes.Take(&message));
  notes.Set("a", {"A", "", ""});
  notes.Take(&message);
  notes.Forget();
  EXPECT_TRUE(notes.Take(&message));
}

TEST(NotesTest, WhatIsLateIsToldAsLongAsItIs) {
  Notes notes;
  worker::v1::WorkerMessage message;
  notes.SetLate({});
  EXPECT_FALSE(notes.Take(&message));
  notes.SetLate({Late(7, absl::Seconds(2)), Late(8, absl::Seconds(1))});
  EXPECT_TRUE(notes.Take(&message));
  ASSERT_THAT(message.notes(0).late(), SizeIs(2));
  EXPECT_EQ(message.notes(0).late(0).job(), 7u);
  EXPECT_EQ(message.notes(0).late(0).device(), "emulated:EMULATED-0");
  EXPECT_EQ(message.notes(0).late(0).running_ns(), 2'000'000'000);
  EXPECT_EQ(message.notes(0).late(0).task_plus_1(), 0u);
  notes.SetLate({Late(7, absl::Seconds(3))});
  EXPECT_TRUE(notes.Take(&message));
  notes.SetLate({});
  message.Clear();
  EXPECT_TRUE(notes.Take(&message));
  EXPECT_THAT(message.notes(0).late(), SizeIs(0));
  notes.SetLate({});
  EXPECT_FALSE(notes.Take(&message));
}

TEST(NotesTest, AreNoMoreThanAMasterTakes) {
  Notes notes;
  for (int i = 0; i < 200; ++i) notes.Set(StrCat(i), {"T", std::string(5000, 'x'), ""});
  notes.SetLate(std::vector<LateStart>(100, Late(1, absl::Seconds(1))));
  worker::v1::WorkerMessage message;
  notes.Take(&message);
  EXPECT_THAT(message.notes(0).findings(), SizeIs(64));
  EXPECT_THAT(message.notes(0).late(), SizeIs(16));
  EXPECT_LE(message.notes(0).findings(0).what().size(), 1024u);
}

}  // namespace
}  // namespace tandem::worker
