// Applying records: the only way in which durable state changes, live and at replay alike.
//
// Thread-safety: none needed; pure functions of the state.
#ifndef TANDEM_MASTER_CORE_APPLY_H_
#define TANDEM_MASTER_CORE_APPLY_H_

#include "master/core/records.h"
#include "master/core/state.h"

namespace tandem::master {

// REQUIRES: the record follows from the state: jobs and partials that it names are there.
void Apply(State& state, const JobAccepted& record);
void Apply(State& state, const LeavesDone& record);
void Apply(State& state, const PartialsMerged& record);
void Apply(State& state, const LeavesRetried& record);
void Apply(State& state, const JobCancelled& record);
void Apply(State& state, const JobEnded& record);
void Apply(State& state, const JobDeleted& record);
void Apply(State& state, const WorkerKnown& record);
void Apply(State& state, const WorkerForgotten& record);
void Apply(State& state, const KernelAnnounced& record);
void Apply(State& state, const IdsIssued& record);
void Apply(State& state, const WorkerDrained& record);

// The shortest records that make the durable state.
void AppendSnapshot(const State& state, std::vector<Record>* records);
// Equal for equal durable states, however they came about.
uint64_t HashDurable(const State& state);

}  // namespace tandem::master

#endif  // TANDEM_MASTER_CORE_APPLY_H_
