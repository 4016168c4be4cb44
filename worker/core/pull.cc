#include "worker/core/pull.h"

#include <algorithm>

namespace tandem::worker {
namespace {

// Below this many fixed costs a piece's overhead outweighs what an earlier end would gain.
constexpr double kFixedCostsMin = 2;
constexpr double kTasksMax = 1e18;

}  // namespace

double PullEstimate::careful_seconds_per_task() const {
  if (source == Source::kHint || proven()) return seconds_per_task;
  return hinted_seconds_per_task > 0 ? std::max(hinted_seconds_per_task, seconds_per_task) : 0;
}

uint64_t PullTasks(const PullOptions& options, const PullEstimate& estimate, double remaining_tasks,
                   uint32_t groups) {
  const double seconds_per_task = estimate.careful_seconds_per_task();
  if (seconds_per_task <= 0) return 1;
  double target = absl::ToDoubleSeconds(options.probe);
  const double most_of_probe = target / seconds_per_task;
  double most = kTasksMax;
  if (estimate.proven()) {
    const double fixed =
        std::max(estimate.fixed_seconds, absl::ToDoubleSeconds(options.piece_overhead));
    const double share = remaining_tasks * seconds_per_task / std::max(groups, 1u);
    const bool alone = groups <= 1;
    const double of_rest = alone ? options.quantum_of_rest_alone : options.quantum_of_rest;
    const double quantum = std::max(options.quantum_fixed_costs * fixed, of_rest * share);
    const double least = (alone ? options.quantum_fixed_costs : kFixedCostsMin) * fixed;
    target = std::max(std::min(quantum, share / 2), least);
    target = std::min(target, absl::ToDoubleSeconds(options.piece_max));
    if (estimate.proven_tasks > 0) {
      most =
          std::min(kTasksMax, std::max(options.growth_max * estimate.proven_tasks, most_of_probe));
    }
  }
  return static_cast<uint64_t>(std::clamp(target / seconds_per_task, 1.0, most));
}

}  // namespace tandem::worker
