// Taking unstarted leaves back from workers. Thread-safety: as turn.h.
#ifndef TANDEM_MASTER_CORE_RECALL_H_
#define TANDEM_MASTER_CORE_RECALL_H_

#include "master/core/turn.h"

namespace tandem::master {

// Asks the worker for all unstarted leaves of jobs below this priority.
void RecallBelow(Turn& turn, Worker& worker, int32_t priority);
// If the worker is idle: asks the one that would end last for part of what it has not started.
void StealFor(Turn& turn, Worker& worker);
// Keeps State::tails: unfinished jobs of which nothing is free and something is out.
void RefreshTail(State& state, const Job& job);

}  // namespace tandem::master

#endif  // TANDEM_MASTER_CORE_RECALL_H_
