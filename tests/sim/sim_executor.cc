#include "tests/sim/sim_executor.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "tests/sim/task_model.h"

namespace tandem::sim {
namespace {

LeafRange RangeOf(const LeafInterval& leaves) {
  return {leaves.first, leaves.first + leaves.count};
}

}  // namespace

SimExecutor::SimExecutor(World* world, worker::ExecutorId id, std::string owner, uint32_t groups,
                         absl::Duration task_time, bool merges, Emit emit)
    : world_(world),
      id_(id),
      owner_(std::move(owner)),
      task_time_(task_time),
      merges_(merges),
      emit_(std::move(emit)),
      groups_(groups) {}

void SimExecutor::Tell(worker::Event event) {
  // The ring keeps its order: a moment that is the same for all.
  world_->queue.After(absl::Microseconds(5), [self = shared_from_this(), event = std::move(event)] {
    if (self->emit_) self->emit_(event);
  });
}

void SimExecutor::SetUp(JobId job, std::shared_ptr<const BoundJob> bound) {
  world_->Expect(bound->spec.owner == owner_, "an executor is given another owner's job");
  jobs_[job].bound = std::move(bound);
  if (!alive_ || !SetupCrashes(job)) return;
  world_->queue.After(absl::Microseconds(10),
                      [self = shared_from_this()] { self->Die("SIGABRT", false); });
}

void SimExecutor::Run(const worker::RunPiece& run) {
  if (!alive_) return;
  world_->Expect(jobs_.contains(run.job), "a piece before its job was set up");
  Queue(run.group, {.id = run.piece,
                    .job = run.job,
                    .leaves = run.leaves,
                    .attempt = run.attempt,
                    .suspect = run.suspect,
                    .skip = {run.skip_tasks.begin(), run.skip_tasks.end()},
                    .inline_bytes_max = run.inline_bytes_max,
                    .merge = false,
                    .inputs = {}});
}

void SimExecutor::Merge(const worker::RunMerge& run) {
  if (!alive_) return;
  world_->Expect(jobs_.contains(run.job), "a merge before its job was set up");
  Piece piece;
  piece.id = run.piece;
  piece.job = run.job;
  piece.merge = true;
  piece.inputs = run.inputs;
  piece.inline_bytes_max = 512;
  Queue(run.group, std::move(piece));
}

void SimExecutor::Queue(uint32_t group, Piece piece) {
  groups_.at(group).queue.push_back(std::move(piece));
  if (groups_[group].queue.size() == 1) StartNext(group);
}

std::optional<uint64_t> SimExecutor::Poison(const Piece& piece) const {
  if (piece.merge) return std::nullopt;
  const TaskRange tasks = jobs_.at(piece.job).bound->tree.Tasks(RangeOf(piece.leaves));
  for (uint64_t task = tasks.begin; task < tasks.end; ++task) {
    if (!piece.skip.contains(task) && TaskCrashes(piece.job, task, piece.attempt)) return task;
  }
  return std::nullopt;
}

void SimExecutor::StartNext(uint32_t index) {
  Group& group = groups_[index];
  if (group.queue.empty() || !alive_) return;
  group.started = world_->now();
  const Piece& piece = group.queue.front();
  absl::Duration time = absl::Microseconds(20);
  if (piece.merge) {
    time += absl::Microseconds(50) * static_cast<double>(piece.inputs.size());
  } else {
    const RangeTree& tree = jobs_.at(piece.job).bound->tree;
    time += task_time_ * static_cast<double>(tree.Tasks(RangeOf(piece.leaves)).size());
  }
  time *= 0.5 + world_->rng.NextDouble();
  const std::optional<uint64_t> poison = Poison(piece);
  // So often in a row that a merge is given up is more than weather.
  constexpr double kMergeCrashMax = 0.02;
  const double chance = world_->weather.executor_crash;
  const bool crash = poison.has_value() ||
                     world_->rng.Chance(piece.merge ? std::min(chance, kMergeCrashMax) : chance);
  if (crash) time *= world_->rng.NextDouble();
  world_->queue.After(time, [self = shared_from_this(), index, id = piece.id, crash, poison] {
    const Group& now = self->groups_[index];
    if (!self->alive_ || now.queue.empty() || now.queue.front().id != id) return;
    const bool was_given_back = poison.has_value() && self->Poison(now.queue.front()) != poison;
    if (!crash || was_given_back) return self->Finish(index);
    self->poison_ = poison;
    self->Die("SIGSEGV", false);
  });
}

void SimExecutor::Finish(uint32_t index) {
  Group& group = groups_[index];
  const Piece piece = std::move(group.queue.front());
  group.queue.pop_front();
  const absl::Duration busy = world_->now() - group.started;
  piece.merge ? FinishMerge(piece, busy) : FinishLeaves(piece, busy);
  StartNext(index);
}

std::vector<worker::StagedOutput> SimExecutor::Output(std::string bytes,
                                                      uint64_t inline_bytes_max) {
  worker::StagedOutput output;
  if (bytes.size() <= inline_bytes_max) {
    output.inline_bytes = std::move(bytes);
  } else {
    output.offset = staging_end_;
    output.length = bytes.size();
    staging_end_ += bytes.size();
    staging_[output.offset] = std::move(bytes);
  }
  return {output};
}

void SimExecutor::FinishLeaves(const Piece& piece, absl::Duration busy) {
  JobSetup& setup = jobs_.at(piece.job);
  const RangeTree& tree = setup.bound->tree;
  const TaskRange tasks = tree.Tasks(RangeOf(piece.leaves));
  worker::PieceFinished finished;
  finished.executor = id_;
  finished.piece = piece.id;
  finished.busy = busy;
  std::set<uint64_t> failed;
  std::string bytes;
  uint64_t sum = 0;
  for (uint64_t task = tasks.begin; task < tasks.end; ++task) {
    const bool skipped = piece.skip.contains(task);
    if (skipped || TaskFails(piece.job, task, piece.attempt)) {
      failed.insert(task);
      finished.failures.push_back({task, piece.attempt, skipped ? "CRASH_LIMIT" : "bad luck"});
      bytes += EncodeValue(0);
      continue;
    }
    ++finished.tasks;
    sum += TaskValue(piece.job, task);
    bytes += EncodeValue(TaskValue(piece.job, task));
  }
  const std::string& kernel = setup.bound->kernel.name;
  if (kernel == "map") {
    finished.outputs = Output(std::move(bytes), piece.inline_bytes_max);
  } else if (kernel == "count" && !piece.suspect) {
    finished.accumulated = true;
    setup.accumulator.pieces.push_back(piece.id);
    setup.accumulator.value += sum;
    setup.accumulator.tasks += finished.tasks;
  } else if (kernel == "count") {
    finished.outputs = Output(EncodeValue(sum), piece.inline_bytes_max);
  } else {
    Node node;
    world_->Expect(tree.NodeOf(RangeOf(piece.leaves), &node), "an ordered piece is no node");
    const uint64_t value = FoldNode(
        tree, node, [&](uint64_t leaf) { return LeafValue(piece.job, tree, leaf, failed); });
    finished.outputs = Output(EncodeValue(value), piece.inline_bytes_max);
  }
  Tell(std::move(finished));
}

void SimExecutor::FinishMerge(const Piece& piece, absl::Duration busy) {
  const JobSetup& setup = jobs_.at(piece.job);
  const RangeTree& tree = setup.bound->tree;
  worker::MergeFinished finished;
  finished.executor = id_;
  finished.piece = piece.id;
  finished.busy = busy;
  std::map<Node, uint64_t> values;
  uint64_t sum = 0, first = UINT64_MAX, last = 0;
  for (const Partial& input : piece.inputs) {
    finished.tasks += input.tasks;
    finished.failed += input.failed;
    if (input.outputs == nullptr || input.outputs->empty()) continue;  // Leaves that were given up.
    // Values come inline here: partials of the simulator are 8 bytes.
    const uint64_t value = DecodeValue(std::get<std::string>(input.outputs->front().where));
    sum += value;
    if (setup.bound->kernel.name != "sum") continue;
    Node node;
    world_->Expect(input.leaves.size() == 1 && tree.NodeOf(RangeOf(input.leaves[0]), &node),
                   "an ordered merge of something that is no node");
    values[node] = value;
    first = std::min(first, input.leaves[0].first);
    last = std::max(last, input.leaves[0].first + input.leaves[0].count);
  }
  if (!values.empty()) {
    // The least node that holds all inputs; parts without a value are passed over.
    Node node = tree.root();
    const auto inside = [&](Node n) {
      return tree.Leaves(n).begin <= first && last <= tree.Leaves(n).end;
    };
    while (!RangeTree::IsLeaf(node) && !values.contains(node)) {
      if (inside(tree.Left(node))) {
        node = tree.Left(node);
      } else if (inside(tree.Right(node))) {
        node = tree.Right(node);
      } else {
        break;
      }
    }
    const std::function<uint64_t(Node)> fold = [&](Node n) -> uint64_t {
      if (const auto it = values.find(n); it != values.end()) return it->second;
      return RangeTree::IsLeaf(n) ? 0 : Fold(fold(tree.Left(n)), fold(tree.Right(n)));
    };
    sum = fold(node);
  }
  finished.outputs = Output(EncodeValue(sum), piece.inline_bytes_max);
  Tell(std::move(finished));
}

void SimExecutor::Cancel(worker::PieceId id) {
  if (!alive_) return;
  for (uint32_t index = 0; index < groups_.size(); ++index) {
    auto& queue = groups_[index].queue;
    const auto it = std::find_if(queue.begin(), queue.end(),
                                 [id](const Piece& piece) { return piece.id == id; });
    if (it == queue.end()) continue;
    const bool running = it == queue.begin();
    // A piece that runs is stopped only now and then.
    if (running && world_->rng.Chance(0.5)) return;
    queue.erase(it);
    worker::PieceReturned returned;
    returned.executor = id_;
    returned.piece = id;
    Tell(returned);
    if (running) StartNext(index);
    return;
  }
}

void SimExecutor::Shrink(worker::PieceId id, uint64_t leaves) {
  if (!alive_) return;
  for (Group& group : groups_) {
    for (auto piece = group.queue.begin(); piece != group.queue.end(); ++piece) {
      if (piece->id != id) continue;
      const bool running = piece == group.queue.begin();
      const uint64_t begun = running ? 1 + world_->rng.Below(piece->leaves.count) : 0;
      piece->leaves.count = std::min(piece->leaves.count, std::max(leaves, begun));
      worker::PieceShrunk shrunk;
      shrunk.executor = id_;
      shrunk.piece = id;
      shrunk.leaves = piece->leaves.count;
      if (shrunk.leaves == 0) group.queue.erase(piece);
      return Tell(shrunk);
    }
  }
}

void SimExecutor::Flush(JobId job) {
  const auto it = jobs_.find(job);
  if (!alive_ || it == jobs_.end()) return;
  Accumulator accumulator = std::exchange(it->second.accumulator, {});
  worker::PartialFinished finished;
  finished.executor = id_;
  finished.job = job;
  finished.pieces = std::move(accumulator.pieces);
  finished.tasks = accumulator.tasks;
  finished.outputs = Output(EncodeValue(accumulator.value), 512);
  Tell(std::move(finished));
}

void SimExecutor::Discard(JobId job) {
  if (alive_ && jobs_.contains(job)) jobs_.at(job).accumulator = {};
}

void SimExecutor::Forget(JobId job) {
  if (!alive_) return;
  Discard(job);
  for (const Group& group : groups_) {
    for (const Piece& piece : group.queue) {
      if (piece.job == job) return;  // Still runs; the rest is forgotten with the process.
    }
  }
  jobs_.erase(job);
}

worker::Suspect SimExecutor::SuspectOf(const Piece& piece, std::optional<uint64_t> task) {
  const RangeTree& tree = jobs_.at(piece.job).bound->tree;
  worker::Suspect suspect;
  suspect.job = piece.job;
  const uint64_t leaf = task.has_value()
                            ? tree.LeafOfTask(*task)
                            : piece.leaves.first + world_->rng.Below(piece.leaves.count);
  suspect.leaves = {leaf, 1};
  // Alone, it runs task by task.
  if (piece.suspect && task.has_value()) {
    suspect.task_known = true;
    suspect.task = *task;
  }
  return suspect;
}

std::vector<worker::Suspect> SimExecutor::StartPage() {
  std::vector<worker::Suspect> suspects;
  for (const Group& group : groups_) {
    for (const Piece& piece : group.queue) {
      if (piece.merge || SetupCrashes(piece.job)) break;
      if (merges_ && !piece.suspect) {
        suspects.push_back({piece.job, piece.leaves});
        continue;
      }
      const TaskRange tasks = jobs_.at(piece.job).bound->tree.Tasks(RangeOf(piece.leaves));
      const bool killer = poison_.has_value() && Poison(piece) == poison_ &&
                          tasks.begin <= *poison_ && *poison_ < tasks.end;
      suspects.push_back(SuspectOf(piece, killer ? poison_ : std::nullopt));
      break;
    }
  }
  return suspects;
}

std::vector<worker::Suspect> SimExecutor::Vanish() {
  if (!alive_) return {};
  alive_ = false;
  return StartPage();
}

void SimExecutor::Die(const std::string& how, bool wanted) {
  if (!alive_) return;
  worker::ExecutorLost lost;
  lost.executor = id_;
  lost.how = how;
  if (!wanted) lost.suspects = StartPage();
  world_->Trace("executor ", id_, " of ", owner_, " dies: ", how, ", suspects ",
                lost.suspects.size());
  Tell(std::move(lost));
  alive_ = false;
}

const std::string* SimExecutor::Staged(uint64_t offset) const {
  const auto it = staging_.find(offset);
  return it == staging_.end() ? nullptr : &it->second;
}

}  // namespace tandem::sim
