#include "master/core/suspects.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "common/base/check.h"

namespace tandem::master {
namespace {

uint64_t TogetherMax(const Retry& retry) { return uint64_t{1} << retry.level; }

// Those that run together: no more leaves than the least level among them allows.
class Company {
 public:
  Company(size_t nodes_max, uint64_t looks) : nodes_max_(nodes_max), looks_(looks) {}

  bool full() const { return leaves_ >= leaves_max_ || nodes_.size() >= nodes_max_ || looks_ == 0; }
  std::vector<SuspectNode> Take() { return std::move(nodes_); }

  void AddFrom(Job& job) {
    for (LeafRange rest : job.free_suspects) {
      while (!rest.empty() && !full()) {
        --looks_;
        const RetryTable::Found equal = job.retries.Find(rest.begin, rest);
        CHECK(equal.retry != nullptr && equal.retry->suspect);
        AddEqual(job, equal);
        rest.begin = equal.leaves.end;
      }
      if (full()) return;
    }
  }

 private:
  void AddEqual(Job& job, const RetryTable::Found& equal) {
    const uint64_t bound = job.spec().max_lease_leaves;
    LeafRange rest = equal.leaves;
    const uint64_t most = std::min(leaves_max_, TogetherMax(*equal.retry));
    while (!rest.empty() && leaves_ < most && !full()) {
      const uint64_t room = most - leaves_;
      const Node node =
          job.tree().LargestNodeAt(rest.begin, bound > 0 ? std::min(bound, room) : room, rest);
      nodes_.push_back({&job, node});
      leaves_ += job.tree().LeafCount(node);
      leaves_max_ = most;
      rest.begin = job.tree().Leaves(node).end;
    }
  }

  const size_t nodes_max_;
  uint64_t looks_;
  uint64_t leaves_max_ = uint64_t{1} << kSuspectLevelMax;
  uint64_t leaves_ = 0;
  std::vector<SuspectNode> nodes_;
};

}  // namespace

uint8_t LevelAfterLoss(const Retry& before, uint64_t suspected_leaves, bool overdue) {
  constexpr uint32_t kOverdueAlone = 4;  // So many of them soon run one by one.
  const auto lost =
      static_cast<uint32_t>(std::bit_width(std::max<uint64_t>(suspected_leaves, 2) - 1));
  uint32_t level = lost - 1;
  if (overdue) level = lost <= kOverdueAlone ? 0 : lost / 2;
  if (before.suspect) level = std::min<uint32_t>(level, before.level > 0 ? before.level - 1 : 0);
  return static_cast<uint8_t>(std::min(level, kSuspectLevelMax));
}

std::vector<SuspectNode> NextSuspects(const State& state, Job& first, size_t nodes_max,
                                      absl::FunctionRef<bool(const Job&)> may_join) {
  Company company(nodes_max, state.options.limits.suspects_looked_at_max);
  company.AddFrom(first);
  for (JobId id : state.suspect_jobs) {
    if (company.full()) break;
    Job& job = *state.jobs.at(id);
    if (id == first.id || job.spec().owner != first.spec().owner || !may_join(job)) continue;
    company.AddFrom(job);
  }
  return company.Take();
}

}  // namespace tandem::master
