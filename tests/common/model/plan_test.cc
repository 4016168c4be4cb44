// Any cut of any job merges to the unsplit result. (Cuts as workers make them:
// tests/worker/core/drain_test.cc.)
#include "common/model/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/base/rng.h"
#include "tests/common/model/plan_cases.h"

namespace tandem {
namespace {

using plan_cases::Assembly;
using plan_cases::Case;
using plan_cases::Cases;
using plan_cases::Instance;
using plan_cases::Make;
using plan_cases::RunPlan;
using plan_cases::RunWhole;

TEST(PlanTest, AnyCutIntoRangesMergesToTheUnsplitResult) {
  Rng rng(17);
  for (const Case& c : Cases()) {
    for (int round = 0; round < 40; ++round) {
      const uint64_t tasks = 1 + rng.Below(50);
      const Instance instance = Make(c, tasks, 1, &rng);
      std::vector<TaskRange> ranges;
      for (uint64_t begin = 0; begin < tasks;) {
        const uint64_t end = rng.Between(begin + 1, std::min(tasks, begin + 12));
        ranges.push_back({begin, end});
        begin = end;
      }
      std::shuffle(ranges.begin(), ranges.end(), rng);
      Assembly assembly(c, instance.job);
      for (const TaskRange range : ranges) {
        const Plan plan = PlanRange(instance.job, range);
        assembly.Take(plan, RunPlan(c, instance, plan));
      }
      ASSERT_EQ(assembly.results(), RunWhole(c, instance)) << c.name << ", " << tasks << " tasks";
    }
  }
}

TEST(PlanTest, AnEmptyRangeNeedsNothing) {
  Rng rng(19);
  for (const Case& c : Cases()) {
    const Instance instance = Make(c, 10, 1, &rng);
    const Plan plan = PlanRange(instance.job, {4, 4});
    for (const OperandPart& part : plan.operands) {
      if (part.kind != OperandPart::Kind::kSlice) continue;
      EXPECT_EQ(part.slice.bytes(), 0u) << c.name;
    }
    for (size_t i = 0; i < plan.outputs.size(); ++i) {
      if (plan.outputs[i].kind == OutputPart::Kind::kPlaced) {
        EXPECT_EQ(plan.outputs[i].bytes, 0u) << c.name;
      }
    }
  }
}

TEST(PlanTest, RaggedListsGoByItems) {
  KernelInfo kernel;
  kernel.name = "sobel";
  kernel.signature = *Signature::Parse("image[n]:bytes, mask[m]:bytes -> edges[n]:bytes");
  JobSpec spec;
  spec.kernel = "sobel";
  OperandSpec images;
  images.spec = {DType::kBytes, {5}};
  images.source = RaggedItems{std::vector<Locator>(5, InlineLocator{"png"})};
  spec.operands["image"] = images;
  images.spec.shape = {2};
  images.source = RaggedItems{std::vector<Locator>(2, InlineLocator{"png"})};
  spec.operands["mask"] = images;
  const absl::StatusOr<BoundJob> job = ValidateAndBind(spec, kernel);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->operands[0].bytes, 15u);
  const Plan plan = PlanRange(*job, {1, 4});
  EXPECT_EQ(plan.operands[0].kind, OperandPart::Kind::kItems);
  EXPECT_EQ(plan.operands[0].first_index, 1u);
  EXPECT_EQ(plan.operands[0].count, 3u);
  EXPECT_EQ(plan.operands[1].kind, OperandPart::Kind::kBroadcast);
  EXPECT_EQ(plan.operands[1].count, 2u);
  EXPECT_EQ(plan.outputs[0].kind, OutputPart::Kind::kItems);
  EXPECT_EQ(plan.outputs[0].first_index, 1u);
  EXPECT_EQ(plan.outputs[0].count, 3u);
}

}  // namespace
}  // namespace tandem
