// Explanations as JSON: their shape, which only ever grows.
#include "client/cli/explain_text.h"

#include <gtest/gtest.h>

namespace tandem::cli {
namespace {

TEST(ExplanationJsonTest, LeasesAreGivenWhole) {
  client::JobExplanation explanation;
  explanation.job.id = JobId(7);
  client::LeaseNote& note = explanation.leases.emplace_back();
  note.worker = WorkerId(2);
  note.worker_name = "w";
  note.ended = absl::Milliseconds(1500);
  note.split = {JobId(7), 17, 2, {40, 80}, {{40, 60}, {70, 80}}, {}};
  note.split.shares = {{DeviceKind::kEmulated, "emulated:EMULATED-0", 30, 4,
                        absl::Milliseconds(250), absl::Milliseconds(500), absl::Seconds(1),
                        absl::Seconds(2), absl::Seconds(3), absl::Seconds(4), "copy down"}};
  const nlohmann::json expected = nlohmann::json::parse(R"([{
    "worker": 2, "name": "w", "lease": 17, "leases": 2,
    "granted": [40, 80], "kept": [[40, 60], [70, 80]], "tasks": 30, "ended_seconds": 1.5,
    "devices": [{
      "device": "emulated", "name": "emulated:EMULATED-0", "tasks": 30, "pieces": 4,
      "begin_seconds": 0.25, "end_seconds": 0.5,
      "host_seconds": 1.0, "up_seconds": 2.0, "grid_seconds": 3.0, "down_seconds": 4.0,
      "bound_by": "copy down"}]}])");
  EXPECT_EQ(nlohmann::json(ExplanationJson(explanation)["leases"]), expected);
}

TEST(ExplanationJsonTest, WithoutLeasesThereIsAnEmptyList) {
  const auto json = ExplanationJson(client::JobExplanation());
  ASSERT_TRUE(json["leases"].is_array());
  EXPECT_TRUE(json["leases"].empty());
}

}  // namespace
}  // namespace tandem::cli
