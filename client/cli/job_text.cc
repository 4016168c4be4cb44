#include "client/cli/job_text.h"

#include <utility>

#include "client/cli/progress.h"
#include "common/base/strings.h"
#include "common/model/kernel_info.h"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string KernelName(const JobSpec& spec) {
  const auto kernel = ParseKernelRef(spec.kernel);
  return kernel.ok() ? kernel->name : spec.kernel;
}

Json TimeJson(const std::optional<absl::Time>& time) {
  if (!time.has_value()) return nullptr;
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", *time, absl::UTCTimeZone());
}

std::string TimeText(const std::optional<absl::Time>& time) {
  return time.has_value() ? absl::FormatTime("%Y-%m-%d %H:%M:%S", *time, absl::LocalTimeZone())
                          : "-";
}

std::optional<absl::Duration> Took(const client::JobInfo& job) {
  if (!job.submitted.has_value() || !job.ended.has_value()) return std::nullopt;
  return *job.ended - *job.submitted;
}

Json OutputsJson(const std::vector<client::OutputInfo>& outputs) {
  Json list = Json::array();
  for (const auto& output : outputs) {
    list.push_back(
        {{"name", output.name},
         {"dtype", DTypeName(output.tensor.dtype)},
         {"shape", std::vector<int64_t>(output.tensor.shape.begin(), output.tensor.shape.end())},
         {"reduced", output.reduced}});
  }
  return list;
}

std::string StateText(const client::JobInfo& job) {
  std::string text(client::JobStateName(job.state));
  if (!job.wait_reason.empty() && !client::HasEnded(job.state))
    text += " (" + job.wait_reason + ")";
  return text;
}

}  // namespace

Json JobJson(const client::JobInfo& job) {
  return {{"id", job.id.value()},
          {"name", job.spec.name},
          {"kernel", job.spec.kernel},
          {"owner", job.spec.owner},
          {"state", client::JobStateName(job.state)},
          {"wait_reason", job.wait_reason},
          {"reason", job.reason},
          {"tasks", job.task_count},
          {"tasks_done", job.tasks_done},
          {"tasks_failed", job.tasks_failed},
          {"leaves", job.leaf_count},
          {"grain", job.spec.grain},
          {"split_axis", job.spec.split_axis},
          {"leases", job.leases},
          {"retried_tasks", job.retried_tasks},
          {"busy_seconds", absl::ToDoubleSeconds(job.busy)},
          {"priority", job.spec.priority},
          {"labels", job.spec.labels},
          {"submitted", TimeJson(job.submitted)},
          {"started", TimeJson(job.started)},
          {"ended", TimeJson(job.ended)},
          {"outputs", OutputsJson(job.outputs)}};
}

Table JobTable(const std::vector<client::JobInfo>& jobs) {
  Table table("jobs", {{"ID"},
                       {"NAME"},
                       {"KERNEL"},
                       {"STATE"},
                       {"DONE"},
                       {"TASKS"},
                       {"FAILED"},
                       {"SUBMITTED", Column::kWide},
                       {"TOOK", Column::kWide},
                       {"OWNER", Column::kWide},
                       {"PRIORITY", Column::kWide}});
  for (const client::JobInfo& job : jobs) {
    const auto took = Took(job);
    table.Add({StrCat(job.id.value()), job.spec.name, KernelName(job.spec), StateText(job),
               HumanCount(static_cast<double>(job.tasks_done)),
               HumanCount(static_cast<double>(job.task_count)), StrCat(job.tasks_failed),
               TimeText(job.submitted), took.has_value() ? HumanDuration(*took) : "-",
               job.spec.owner, StrCat(job.spec.priority)},
              JobJson(job));
  }
  return table;
}

std::string JobText(const client::JobInfo& job) {
  std::string text = StrCat("job         ", job.id.value(), "\n");
  const auto line = [&](std::string_view title, std::string_view value) {
    if (value.empty()) return;
    text += title;
    text.append(12 - title.size(), ' ');
    StrAppend(&text, value, "\n");
  };
  line("name", job.spec.name);
  line("kernel", job.spec.kernel);
  line("owner", job.spec.owner);
  line("state", StateText(job));
  line("reason", job.reason);
  line("tasks",
       StrCat(job.task_count, " (", job.tasks_done, " done, ", job.tasks_failed, " failed)"));
  line("split", StrCat("axis ", job.spec.split_axis, ", ", job.leaf_count, " leaves of ",
                       job.spec.grain, " tasks"));
  line("leases", StrCat(job.leases));
  line("busy", HumanDuration(job.busy));
  line("submitted", TimeText(job.submitted));
  line("started", TimeText(job.started));
  line("ended", TimeText(job.ended));
  for (const auto& output : job.outputs) {
    line("output",
         StrCat(output.name, " ", output.tensor.ToString(), output.reduced ? ", reduced" : ""));
  }
  return text;
}

std::string EndLine(const client::JobInfo& job) {
  std::string line = StrCat("job ", job.id.value(), " ", client::JobStateName(job.state));
  if (!job.reason.empty()) StrAppend(&line, ": ", job.reason);
  StrAppend(&line, "; ", HumanCount(static_cast<double>(job.tasks_done)),
            job.tasks_done == 1 ? " task" : " tasks");
  if (job.tasks_failed > 0) StrAppend(&line, ", ", job.tasks_failed, " failed");
  const auto took = Took(job);
  if (took.has_value()) {
    StrAppend(&line, ", ", HumanDuration(*took));
    const double seconds = absl::ToDoubleSeconds(*took);
    if (seconds > 0)
      StrAppend(&line, " (", HumanCount(static_cast<double>(job.tasks_done) / seconds),
                " tasks/s)");
  }
  return line;
}

std::string PlanText(const client::JobPlan& plan) {
  std::string text =
      StrCat("kernel   ", plan.spec.kernel, "\nsplit    axis ", plan.spec.split_axis, ": ",
             plan.task_count, " tasks in ", plan.leaf_count, " leaves of ", plan.spec.grain, "\n");
  for (const auto& operand : plan.operands) {
    StrAppend(&text, "operand  ", operand.name, ": ", operand.how, ", ",
              HumanSize(operand.total_bytes), "\n");
  }
  for (const auto& output : plan.outputs) {
    StrAppend(&text, "output   ", output.name, ": ", output.tensor.ToString(),
              output.reduced ? ", reduced" : ", concatenated", "\n");
  }
  return text + "nothing was submitted\n";
}

Json PlanJson(const client::JobPlan& plan) {
  Json operands = Json::array();
  for (const auto& operand : plan.operands) {
    operands.push_back(
        {{"name", operand.name}, {"how", operand.how}, {"bytes", operand.total_bytes}});
  }
  return {{"kernel", plan.spec.kernel},
          {"split_axis", plan.spec.split_axis},
          {"tasks", plan.task_count},
          {"leaves", plan.leaf_count},
          {"grain", plan.spec.grain},
          {"operands", operands},
          {"outputs", OutputsJson(plan.outputs)}};
}

Table FailureTable(const std::vector<TaskFailure>& failures) {
  Table table("failures", {{"TASK"}, {"ATTEMPT"}, {"REASON"}});
  for (const TaskFailure& failure : failures) {
    table.Add({StrCat(failure.task), StrCat(failure.attempt), failure.reason},
              {{"task", failure.task}, {"attempt", failure.attempt}, {"reason", failure.reason}});
  }
  return table;
}

}  // namespace tandem::cli
