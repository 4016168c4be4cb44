// What simulated tasks do: their values, which of them fail or crash their executor, and how values
// of leaves and nodes follow from those of tasks. Pure functions of (job, task, attempt), so that
// the auditor can tell what any result must be without running anything.
//
// An ordered sum is modelled by a fold that is neither commutative nor associative: any other order
// than that of the range tree gives another value. 0 stands for "no value".
//
// Thread-safety: pure functions.
#ifndef TANDEM_TESTS_SIM_TASK_MODEL_H_
#define TANDEM_TESTS_SIM_TASK_MODEL_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "common/model/ids.h"
#include "common/model/range_tree.h"

namespace tandem::sim {

inline constexpr uint64_t kValueBytes = 8;

// Never 0.
uint64_t TaskValue(JobId job, uint64_t task);
// Fails by itself in this attempt: some tasks always, some at first.
bool TaskFails(JobId job, uint64_t task, uint32_t attempt);
// Takes its executor down with it: some tasks always, some at first.
bool TaskCrashes(JobId job, uint64_t task, uint32_t attempt);

// Takes its executor down before anything of the job has begun, always.
bool SetupCrashes(JobId job);

// The fold of two values; 0 on either side gives the other.
uint64_t Fold(uint64_t left, uint64_t right);
// The ordered value of a node, with `leaf` giving those of leaves.
uint64_t FoldNode(const RangeTree& tree, Node node, const std::function<uint64_t(uint64_t)>& leaf);
// The ordered value of one leaf without these tasks.
uint64_t LeafValue(JobId job, const RangeTree& tree, uint64_t leaf,
                   const std::set<uint64_t>& without);

std::string EncodeValue(uint64_t value);
uint64_t DecodeValue(const std::string& bytes, uint64_t index = 0);

}  // namespace tandem::sim

#endif  // TANDEM_TESTS_SIM_TASK_MODEL_H_
