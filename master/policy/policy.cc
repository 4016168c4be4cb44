#include "master/policy/policy.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "absl/strings/str_format.h"
#include "common/base/strings.h"

namespace tandem::master {
namespace {

// A positive quotient as a count: at least `least`, and never beyond what a double counts exactly.
uint64_t Count(double quotient, uint64_t least) {
  if (!(quotient > static_cast<double>(least))) return least;
  return static_cast<uint64_t>(std::min(quotient, 0x1p53));
}

struct Size {
  uint64_t leaves = 1;
  GrantBound bound = GrantBound::kSeconds;
  void Limit(uint64_t to, GrantBound by) {
    if (to < leaves) {
      leaves = to;
      bound = by;
    }
  }
};

double BridgeSeconds(const PolicyOptions& options, const GrantView& view) {
  return options.latency_factor * view.latency_seconds;
}

Size LeaseSize(const PolicyOptions& options, const GrantView& view) {
  Size size;
  size.leaves = std::numeric_limits<uint64_t>::max();
  size.Limit(Count(options.lease_seconds_max / view.leaf_seconds, 1), GrantBound::kSeconds);
  if (!view.measured) size.Limit(std::max<uint64_t>(view.probe_leaves, 1), GrantBound::kProbing);
  if (!view.proven) {
    constexpr double kOfBridge = 0.5;
    const double seconds = kOfBridge * BridgeSeconds(options, view);
    size.Limit(Count(seconds / view.leaf_seconds, 1), GrantBound::kUnproven);
  }
  const double share = static_cast<double>(view.free_leaves) * view.share;
  const double seconds_min = view.share < 1
                                 ? view.latency_seconds
                                 : std::max(view.latency_seconds, options.alone_seconds_min);
  const double least = std::min(share, seconds_min / view.leaf_seconds);
  size.Limit(Count(std::max(share * options.end_fraction, least), 1), GrantBound::kShare);
  if (view.max_lease_leaves > 0) size.Limit(view.max_lease_leaves, GrantBound::kOwnersBound);
  size.leaves = std::bit_floor(size.leaves);  // Nodes are powers of two.
  return size;
}

}  // namespace

GrantPlan PlanGrant(const PolicyOptions& options, const GrantView& view) {
  GrantPlan plan;
  if (view.free_leaves == 0) return plan;
  if (view.held_leases >= view.max_leases) {
    plan.bound = GrantBound::kLeasesFull;
    return plan;
  }
  const Size size = LeaseSize(options, view);
  plan.lease_leaves = size.leaves;
  plan.bound = size.bound;
  const double lease_seconds = view.leaf_seconds * static_cast<double>(size.leaves);
  // Leases that run at once, and those that bridge the latency beyond them.
  const uint64_t running = std::max<uint64_t>(1, view.parallel / size.leaves);
  const double bridge_seconds = BridgeSeconds(options, view);
  const bool timed = view.measured && lease_seconds > 0;
  const uint64_t bridge = timed ? Count(std::ceil(bridge_seconds / lease_seconds), 1) : 1;
  const uint64_t queue = std::min(running + bridge, view.max_leases);
  plan.queue_leases = queue;
  // Leases already queued may be of other sizes: what counts is their time, where it is known.
  const uint64_t queued =
      timed ? Count(std::ceil(view.queued_seconds / lease_seconds), 0) : view.queued_leases;
  const uint64_t refill_at = running < queue ? running + (queue - running) / 2 : queue / 2;
  if (queued > refill_at || queued >= queue) {
    plan.bound = GrantBound::kQueueFull;
    return plan;
  }
  plan.leases = std::min(queue - queued, view.max_leases - view.held_leases);
  // Towards the end no worker takes more than its share of what is left.
  const double share = static_cast<double>(view.free_leaves) * view.share;
  plan.leases =
      std::min(plan.leases, Count(std::ceil(share / static_cast<double>(plan.lease_leaves)), 1));
  return plan;
}

std::string ExplainGrant(const PolicyOptions& options, const GrantView& view) {
  static constexpr const char* kBounds[] = {
      "no leaf is free",
      "the queue is long enough",
      "the worker holds as many leases as it takes",
      "not measured here yet: starts at one leaf and doubles",
      "nothing of this job is finished yet: no more than bridges the latency",
      "no lease over the longest time",
      "half of the worker's share of what is free",
      "the job's own bound",
  };
  const GrantPlan plan = PlanGrant(options, view);
  const std::string numbers = absl::StrFormat(
      " (%.3g s a leaf%s, share %.2g of %d free leaves, queue %d leases or %.3g s of %d wanted, "
      "latency %.3g s)",
      view.leaf_seconds, view.measured && view.proven ? "" : " guessed", view.share,
      view.free_leaves, view.queued_leases, view.queued_seconds, plan.queue_leases,
      view.latency_seconds);
  const std::string what = plan.leases == 0 ? std::string("nothing")
                                            : StrCat(plan.leases, " leases of ", plan.lease_leaves,
                                                     plan.lease_leaves == 1 ? " leaf" : " leaves");
  return StrCat(what, ": ", kBounds[static_cast<size_t>(plan.bound)], numbers);
}

uint64_t PlanSteal(const PolicyOptions& options, const StealView& view) {
  if (view.victim_leaves <= view.victim_parallel) return 0;  // All may have started.
  const double left = static_cast<double>(view.victim_leaves) * view.victim_leaf_seconds;
  const double floor = std::max(options.steal_seconds_min, 2 * view.latency_seconds);
  if (!(left > floor)) return 0;
  // Both end together when the thief takes the part of the victim's rest that its speed is of both.
  const double both = view.victim_leaf_seconds + view.thief_leaf_seconds;
  const double part = both > 0 ? view.victim_leaf_seconds / both : 0.5;
  const uint64_t leaves = Count(static_cast<double>(view.victim_leaves) * part, 1);
  return std::min(leaves, view.victim_leaves - view.victim_parallel);
}

}  // namespace tandem::master
