// Suspects: leaves that had started and not finished when their executor or its worker was lost.
//
// Which one of them is guilty is found by bisection. What was lost together runs again in halves,
// each with nothing beside it; only a half that is lost again is halved further, down to one leaf,
// which runs task by task. So one guilty leaf of n costs about log2(n) losses before it is alone.
//
// A half is no fixed set: `Retry::level` of a leaf says how many suspects may run together with it,
// whatever jobs of the owner they are of. So many jobs that shared one grid are bisected as one
// job's leaves are, and after a restart as before it.
//
// What ran longer than the job's time limit costs that limit each time that it is lost: there what
// was lost runs again in many smaller parts, so that about log2(log2(n)) of them are lost.
//
// Thread-safety: as turn.h.
#ifndef TANDEM_MASTER_CORE_SUSPECTS_H_
#define TANDEM_MASTER_CORE_SUSPECTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/model/range_tree.h"
#include "master/core/retry_table.h"
#include "master/core/state.h"

namespace tandem::master {

// The level of leaves after they were lost, when so many leaves were suspected of it together.
// `before`: their attributes until then. Each loss of suspects lowers it, while it is not 0.
uint8_t LevelAfterLoss(const Retry& before, uint64_t suspected_leaves, bool overdue);

struct SuspectNode {
  Job* job = nullptr;
  Node node;
};
// Nodes of free suspects that are to run together next: from the first one of `first` on, then of
// those of its owner's jobs that may join. At most `nodes_max` of them.
// REQUIRES: first.free_suspects is not empty.
std::vector<SuspectNode> NextSuspects(const State& state, Job& first, size_t nodes_max,
                                      absl::FunctionRef<bool(const Job&)> may_join);

}  // namespace tandem::master

#endif  // TANDEM_MASTER_CORE_SUSPECTS_H_
