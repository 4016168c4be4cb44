#include "client/cli/follow.h"

#include <algorithm>
#include <iostream>

#include "client/cli/values.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;

// What one read asks for at most: results come in bounded portions.
constexpr uint64_t kTasksAtOnce = 4096;

// What one task has of an output: a value, or several.
Json Values(const client::OutputInfo& output, std::string_view bytes) {
  const Json values = ValuesOf(output.tensor.dtype, bytes);
  return values.size() == 1 ? values[0] : values;
}

// "12 call=3.5 put=[1,2]", "13 failed: TRUNCATED"
std::string Text(const Json& line) {
  std::string text = line["task"].dump();
  if (line.contains("failed")) return StrCat(text, " failed: ", ValueText(line["failed"]), "\n");
  for (const auto& [name, value] : line["outputs"].items()) {
    StrAppend(&text, " ", name, "=", ValueText(value));
  }
  return text + "\n";
}

bool IsFollowed(const client::OutputInfo& output) {
  // The split axis leads: a task's elements are next to each other.
  return !output.reduced && (output.tensor.ragged() || output.split_dim == 0);
}

}  // namespace

absl::StatusOr<uint64_t> Follower::DoneUntil(const client::JobInfo& job) {
  uint64_t least = job.task_count;
  bool any = false;
  for (const client::OutputInfo& output : job.outputs) {
    if (!IsFollowed(output)) continue;
    any = true;
    uint64_t until = next_;
    for (uint64_t before = ~uint64_t{0}; before != until && until < job.task_count;) {
      before = until;
      ASSIGN_OR_RETURN(until, client_->DoneUntil(job.id, output.name, until));
      while (FailureOf(until) != nullptr) ++until;
    }
    least = std::min(least, until);
  }
  return any ? least : next_;
}

const TaskFailure* Follower::FailureOf(uint64_t task) const {
  const auto found =
      std::lower_bound(failures_.begin(), failures_.end(), task,
                       [](const TaskFailure& failure, uint64_t t) { return failure.task < t; });
  return found != failures_.end() && found->task == task ? &*found : nullptr;
}

absl::Status Follower::Update(const client::JobInfo& job) {
  if (job.tasks_done == 0 || next_ == job.task_count) return absl::OkStatus();
  if (job.tasks_failed > failures_.size()) {
    ASSIGN_OR_RETURN(failures_, client_->Failures(job.id, job.tasks_failed));
  }
  ASSIGN_OR_RETURN(const uint64_t end, DoneUntil(job));
  while (next_ < end) {
    RETURN_IF_ERROR(Print(job, std::min(end, next_ + kTasksAtOnce)));
  }
  std::cout.flush();
  return absl::OkStatus();
}

absl::Status Follower::Read(const client::JobInfo& job, const client::OutputInfo& output,
                            std::vector<Json>* rows) {
  const client::TaskSelection tasks{next_, rows->size(), true};
  if (output.tensor.ragged()) {
    return client_->ReadItems(job.id, output.name, tasks,
                              [&](uint64_t task, std::string_view bytes) {
                                (*rows)[task - next_][output.name] = HumanSize(bytes.size());
                                return absl::OkStatus();
                              });
  }
  std::string bytes;
  RETURN_IF_ERROR(client_->ReadOutput(job.id, output.name, tasks, [&](std::string_view chunk) {
    bytes += chunk;
    return absl::OkStatus();
  }));
  const size_t one = bytes.size() / rows->size();
  for (size_t i = 0; i < rows->size(); ++i) {
    (*rows)[i][output.name] = Values(output, std::string_view(bytes).substr(i * one, one));
  }
  return absl::OkStatus();
}

absl::Status Follower::Print(const client::JobInfo& job, uint64_t end) {
  std::vector<Json> rows(end - next_, Json::object());
  for (const client::OutputInfo& output : job.outputs) {
    if (IsFollowed(output)) RETURN_IF_ERROR(Read(job, output, &rows));
  }
  for (const Json& row : rows) {
    const TaskFailure* failure = FailureOf(next_);
    Json line = {{"task", next_++}};
    if (failure != nullptr) line["failed"] = failure->reason;
    if (failure == nullptr) line["outputs"] = row;
    std::cout << (format_ == Format::kJson || format_ == Format::kJsonl
                      ? RenderObject("task_result", line, true)
                      : Text(line));
  }
  return absl::OkStatus();
}

}  // namespace tandem::cli
