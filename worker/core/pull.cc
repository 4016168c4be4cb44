#include "worker/core/pull.h"

#include <algorithm>

namespace tandem::worker {
namespace {

// Below this many fixed costs a piece's overhead outweighs what an earlier end would gain.
constexpr double kFixedCostsMin = 2;
constexpr double kTasksMax = 1e18;

}  // namespace

uint64_t PullTasks(const PullOptions& options, const PullEstimate& estimate, double remaining_tasks,
                   uint32_t groups) {
  using Source = PullEstimate::Source;
  if (estimate.seconds_per_task <= 0) return 1;
  double target = absl::ToDoubleSeconds(options.probe);
  if (estimate.source != Source::kHint) {
    const double fixed =
        std::max(estimate.fixed_seconds, absl::ToDoubleSeconds(options.piece_overhead));
    const double share = remaining_tasks * estimate.seconds_per_task / std::max(groups, 1u);
    const bool alone = groups <= 1;
    const double of_rest = alone ? options.quantum_of_rest_alone : options.quantum_of_rest;
    const double quantum = std::max(options.quantum_fixed_costs * fixed, of_rest * share);
    const double least = (alone ? options.quantum_fixed_costs : kFixedCostsMin) * fixed;
    const double longest = absl::ToDoubleSeconds(
        estimate.source == Source::kJob ? options.piece_max : options.unproven_max);
    target = std::max(std::min(quantum, share / 2), least);
    target = std::min(target, longest);
  }
  return static_cast<uint64_t>(std::clamp(target / estimate.seconds_per_task, 1.0, kTasksMax));
}

}  // namespace tandem::worker
