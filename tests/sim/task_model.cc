#include "tests/sim/task_model.h"

#include <cstring>

#include "common/base/rng.h"

namespace tandem::sim {
namespace {

uint64_t Dice(JobId job, uint64_t task, uint64_t what) {
  return Mix64(Mix64(job.value() * 0x9e3779b97f4a7c15u + task) + what);
}

}  // namespace

uint64_t TaskValue(JobId job, uint64_t task) { return Dice(job, task, 1) | 1; }

bool TaskFails(JobId job, uint64_t task, uint32_t attempt) {
  const uint64_t dice = Dice(job, task, 2) % 1000;
  return dice < 4 || (dice < 20 && attempt <= 2);
}

bool TaskCrashes(JobId job, uint64_t task, uint32_t attempt) {
  const uint64_t dice = Dice(job, task, 3) % 1000;
  const uint64_t poison = Dice(job, 0, 4) % 8 == 0 ? 50 : 2;  // Some jobs are full of it.
  return dice < poison || (dice < poison + 3 && attempt <= 2);
}

bool SetupCrashes(JobId job) { return Dice(job, 0, 5) % 16 == 0; }

uint64_t Fold(uint64_t left, uint64_t right) {
  if (left == 0) return right;
  if (right == 0) return left;
  return Mix64(3 * left + 5 * right + 7) | 1;
}

uint64_t FoldNode(const RangeTree& tree, Node node, const std::function<uint64_t(uint64_t)>& leaf) {
  if (RangeTree::IsLeaf(node)) return leaf(node.first_leaf);
  return Fold(FoldNode(tree, tree.Left(node), leaf), FoldNode(tree, tree.Right(node), leaf));
}

uint64_t LeafValue(JobId job, const RangeTree& tree, uint64_t leaf,
                   const std::set<uint64_t>& without) {
  const TaskRange tasks = tree.Tasks(LeafRange{leaf, leaf + 1});
  uint64_t value = 0;
  for (uint64_t task = tasks.begin; task < tasks.end; ++task) {
    if (!without.contains(task)) value = Fold(value, TaskValue(job, task));
  }
  return value;
}

std::string EncodeValue(uint64_t value) {
  std::string bytes(kValueBytes, '\0');
  std::memcpy(bytes.data(), &value, kValueBytes);
  return bytes;
}

uint64_t DecodeValue(const std::string& bytes, uint64_t index) {
  uint64_t value = 0;
  if ((index + 1) * kValueBytes <= bytes.size()) {
    std::memcpy(&value, bytes.data() + index * kValueBytes, kValueBytes);
  }
  return value;
}

}  // namespace tandem::sim
