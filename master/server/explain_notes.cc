#include "master/server/explain_notes.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "common/base/strings.h"

namespace tandem::master {
namespace {

v1::Finding Late(const worker::v1::LateRun& late, std::string what) {
  v1::Finding finding;
  finding.set_token("LATE");
  finding.set_what(StrCat(
      what, " for ",
      HumanDuration(absl::Floor(absl::Nanoseconds(late.running_ns()), absl::Milliseconds(100))),
      ", far longer than predicted: a task that takes its time, a kernel that never ends, or a "
      "device that hangs"));
  finding.set_advice(
      StrCat("a job's --time-limit ends such a task and its executor; without one, `tandem job "
             "cancel ",
             late.job(), "` does"));
  return finding;
}

}  // namespace

v1::Finding ExplainLateTasks(const worker::v1::LateRun& late, std::string_view worker,
                             uint64_t grain, uint64_t task_count) {
  std::string tasks = StrCat("task ", late.task_plus_1() - 1, " has run");
  if (late.task_plus_1() == 0) {
    const uint64_t leaves = (task_count - 1) / std::max<uint64_t>(grain, 1) + 1;
    const uint64_t first = std::min(late.first_leaf(), leaves);
    const uint64_t end = first + std::min(late.leaf_count(), leaves - first);
    tasks = StrCat("tasks [", std::min(first * grain, task_count), ",",
                   std::min(end * grain, task_count), ") have run");
  }
  return Late(late, StrCat(tasks, " on ", late.device(), " of worker ", worker));
}

v1::Finding ExplainLateLeaves(const worker::v1::LateRun& late) {
  return Late(late,
              StrCat("leaves [", late.first_leaf(), ",", late.first_leaf() + late.leaf_count(),
                     ") of job ", late.job(), " have run on ", late.device()));
}

}  // namespace tandem::master
