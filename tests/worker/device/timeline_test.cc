#include "worker/device/emulated/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "common/base/rng.h"

namespace tandem::worker {
namespace {

using Op = Timeline::Op;

std::map<Op, double> RunAll(Timeline* timeline) {
  std::vector<Timeline::Ended> ended;
  timeline->Advance(1e9, &ended);
  std::map<Op, double> ends;
  for (const Timeline::Ended& end : ended) ends[end.op] = end.at;
  return ends;
}

TEST(TimelineTest, OneStreamDoesOneThingAfterTheOther) {
  Timeline timeline(1);
  const StreamId stream = timeline.NewStream();
  const Op up = timeline.Add(stream, Line::kUp, 2, 0);
  const Op grid = timeline.Add(stream, Line::kGrid, 3, 0);
  const Op down = timeline.Add(stream, Line::kDown, 1, 0);
  EXPECT_DOUBLE_EQ(timeline.next(), 2);
  const auto ends = RunAll(&timeline);
  EXPECT_DOUBLE_EQ(ends.at(up), 2);
  EXPECT_DOUBLE_EQ(ends.at(grid), 5);
  EXPECT_DOUBLE_EQ(ends.at(down), 6);
}

TEST(TimelineTest, CopiesAndGridsOfTwoStreamsOverlap) {
  Timeline timeline(1);
  const StreamId streams[] = {timeline.NewStream(), timeline.NewStream()};
  constexpr int kPieces = 200;
  constexpr double kUp = 3, kGrid = 4, kDown = 2;
  for (int i = 0; i < kPieces; ++i) {
    timeline.Add(streams[i % 2], Line::kUp, kUp, 0);
    timeline.Add(streams[i % 2], Line::kGrid, kGrid, 0);
    timeline.Add(streams[i % 2], Line::kDown, kDown, 0);
  }
  double last = 0;
  for (const auto& [op, end] : RunAll(&timeline)) last = std::max(last, end);
  // Two streams hide at most one stage behind another: (3 + 4 + 2) / 2 a piece is what they allow.
  EXPECT_LE(last, kPieces * 4.5 + kUp + kDown);
  EXPECT_GE(last, kPieces * kGrid);
}

TEST(TimelineTest, ThreeStreamsHideEverythingBehindTheSlowestStage) {
  Timeline timeline(1);
  const StreamId streams[] = {timeline.NewStream(), timeline.NewStream(), timeline.NewStream()};
  constexpr int kPieces = 300;
  for (int i = 0; i < kPieces; ++i) {
    timeline.Add(streams[i % 3], Line::kUp, 3, 0);
    timeline.Add(streams[i % 3], Line::kGrid, 4, 0);
    timeline.Add(streams[i % 3], Line::kDown, 2, 0);
  }
  double last = 0;
  for (const auto& [op, end] : RunAll(&timeline)) last = std::max(last, end);
  EXPECT_GE(kPieces * 4 / last, 0.98);
}

TEST(TimelineTest, AnEventHoldsUpWhatWaitsForIt) {
  Timeline timeline(1);
  const StreamId a = timeline.NewStream(), b = timeline.NewStream();
  const EventId event = timeline.NewEvent();
  timeline.Wait(b, event, 0);  // never recorded: holds nothing up
  const Op free = timeline.Add(b, Line::kUp, 1, 0);
  timeline.Add(a, Line::kGrid, 5, 0);
  timeline.Record(a, event, 0);
  timeline.Wait(b, event, 0);
  const Op held = timeline.Add(b, Line::kDown, 1, 0);
  const auto ends = RunAll(&timeline);
  EXPECT_DOUBLE_EQ(ends.at(free), 1);
  EXPECT_DOUBLE_EQ(ends.at(held), 6);
}

TEST(TimelineTest, WhatNeverEndsHoldsUpItsStreamAndLineAlone) {
  Timeline timeline(1);
  const StreamId a = timeline.NewStream(), b = timeline.NewStream();
  const Op hangs = timeline.Add(a, Line::kGrid, Timeline::kNever, 0);
  const Op behind = timeline.Add(a, Line::kDown, 1, 0);
  const Op beside = timeline.Add(b, Line::kUp, 1, 0);
  const Op grid = timeline.Add(b, Line::kGrid, 1, 0);
  const auto ends = RunAll(&timeline);
  EXPECT_EQ(ends.size(), 1u);
  EXPECT_TRUE(ends.contains(beside));
  EXPECT_EQ(timeline.next(), Timeline::kNever);
  EXPECT_EQ(timeline.Abandon(), (std::vector<Op>{hangs, behind, grid}));
}

// A program of random operations, kept here with what each must wait for; the timeline's answer is
// checked against the rules, not against a schedule.
struct Program {
  struct Item {
    Op op = 0;
    Line line = Line::kNone;
    double seconds = 0;
    double added = 0;
    std::vector<Op> after;
  };
  std::map<Op, Item> items;
  std::vector<Timeline::Ended> ended;
};

Program RunRandom(uint64_t seed, bool timed) {
  Rng rng(seed);
  Timeline timeline(seed);
  Program program;
  const int streams = 4, events = 3;
  std::vector<std::vector<Op>> last(streams);
  std::vector<std::vector<Op>> recorded(events);
  for (int i = 0; i < streams; ++i) timeline.NewStream();
  for (int i = 0; i < events; ++i) timeline.NewEvent();
  double now = 0;
  for (int i = 0; i < 300; ++i) {
    const auto stream = static_cast<StreamId>(rng.Below(streams));
    const auto event = static_cast<EventId>(rng.Below(events));
    if (timed && rng.Chance(0.1)) {
      now += rng.NextDouble();
      timeline.Advance(now, &program.ended);
    }
    Program::Item item;
    item.after = last[stream];
    item.added = now;
    const uint64_t what = rng.Below(6);
    if (what == 0) {
      item.op = timeline.Record(stream, event, now);
      recorded[event] = {item.op};
    } else if (what == 1) {
      item.after.insert(item.after.end(), recorded[event].begin(), recorded[event].end());
      item.op = timeline.Wait(stream, event, now);
    } else {
      item.line = static_cast<Line>(1 + rng.Below(3));
      item.seconds = timed ? rng.NextDouble() : 0;
      item.op = timeline.Add(stream, item.line, item.seconds, now);
    }
    last[stream] = {item.op};
    program.items[item.op] = item;
  }
  timeline.Advance(1e9, &program.ended);
  return program;
}

TEST(TimelineTest, AnyProgramKeepsTheRules) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const Program program = RunRandom(seed, true);
    ASSERT_EQ(program.ended.size(), program.items.size()) << "seed " << seed;
    std::map<Op, double> ends;
    std::map<Line, std::vector<std::pair<double, double>>> lines;
    double before = 0;
    for (const Timeline::Ended& end : program.ended) {
      ASSERT_GE(end.at, before) << "seed " << seed << ": not in order of time";
      before = end.at;
      const Program::Item& item = program.items.at(end.op);
      double ready = item.added;
      for (const Op after : item.after) {
        ASSERT_TRUE(ends.contains(after)) << "seed " << seed << ": before what it waits for";
        ready = std::max(ready, ends.at(after));
      }
      const double begin = end.at - item.seconds;
      ASSERT_GE(begin, ready - 1e-9) << "seed " << seed;
      if (item.line == Line::kNone) {
        ASSERT_DOUBLE_EQ(begin, ready) << "seed " << seed << ": held up by nothing";
      } else if (begin > ready + 1e-9) {
        // Its line was busy up to the moment at which it began.
        ASSERT_FALSE(lines[item.line].empty());
        ASSERT_NEAR(lines[item.line].back().second, begin, 1e-9) << "seed " << seed;
      }
      if (item.line != Line::kNone) {
        const double free = lines[item.line].empty() ? 0 : lines[item.line].back().second;
        ASSERT_GE(begin, free - 1e-9) << "seed " << seed << ": two at a time on a line";
        lines[item.line].emplace_back(begin, end.at);
      }
      ends[end.op] = end.at;
    }
  }
}

TEST(TimelineTest, WithoutTimesTheOrderIsAnyThatIsLeftOpen) {
  std::vector<Op> first;
  bool differs = false;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Timeline timeline(seed);
    std::vector<Op> order;
    for (int i = 0; i < 3; ++i) timeline.Add(timeline.NewStream(), static_cast<Line>(1 + i), 0, 0);
    std::vector<Timeline::Ended> ended;
    timeline.Advance(0, &ended);
    for (const Timeline::Ended& end : ended) order.push_back(end.op);
    if (first.empty()) first = order;
    differs |= order != first;
  }
  EXPECT_TRUE(differs);
}

}  // namespace
}  // namespace tandem::worker
