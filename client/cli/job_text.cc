#include "client/cli/job_text.h"

#include <cstdio>
#include <utility>

#include "absl/time/clock.h"
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

std::optional<absl::Duration> Took(const client::JobInfo& job) {
  if (!job.submitted.has_value() || !job.ended.has_value()) return std::nullopt;
  return *job.ended - *job.submitted;
}

// null where the items' sizes are not known yet.
Json BytesJson(const TensorSpec& tensor) {
  const auto bytes = tensor.ragged() ? absl::UnknownError("") : tensor.Bytes();
  return bytes.ok() ? Json(*bytes) : Json(nullptr);
}

std::string SizeText(const TensorSpec& tensor) {
  const Json bytes = BytesJson(tensor);
  return bytes.is_null() ? "as large as its items" : HumanSize(bytes.get<uint64_t>());
}

Json OutputsJson(const std::vector<client::OutputInfo>& outputs) {
  Json list = Json::array();
  for (const auto& output : outputs) {
    list.push_back(
        {{"name", output.name},
         {"dtype", DTypeName(output.tensor.dtype)},
         {"shape", std::vector<int64_t>(output.tensor.shape.begin(), output.tensor.shape.end())},
         {"bytes", BytesJson(output.tensor)},
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

Json TimeJson(const std::optional<absl::Time>& time) {
  if (!time.has_value()) return nullptr;
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", *time, absl::UTCTimeZone());
}

std::string TimeText(const std::optional<absl::Time>& time) {
  return time.has_value() ? absl::FormatTime("%Y-%m-%d %H:%M:%S", *time, absl::LocalTimeZone())
                          : "-";
}

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

std::string WaitText(std::string_view wait_reason) {
  static constexpr std::pair<std::string_view, std::string_view> kTexts[] = {
      {"NO_WORKER", "no worker is attached; start one with `tandem worker start`"},
      {"NO_KERNEL",
       "no attached worker has this build of the kernel; start one that has it (`tandem worker "
       "start --kernel-path`)"},
      {"RESOURCES",
       "no attached worker has a device of the kind, and with the memory, that it asks for; add "
       "one that has, or submit the job with --device auto"},
      {"DEPENDENCY", "a job that it comes after has not succeeded yet"},
      {"QUOTA", "its owner has used up a quota; it starts when others of theirs end"},
      {"PRIORITY", "jobs of a higher priority go first"},
      {"UNSATISFIABLE",
       "each attached worker that has its kernel refused it; `tandem job explain` says why"},
      {"DRAINED", "every worker that could run it is drained; `tandem worker resume` one"},
  };
  for (const auto& [reason, text] : kTexts) {
    if (reason == wait_reason) return std::string(text);
  }
  return "";
}

Record JobRecord(const client::JobInfo& job) {
  Record record("job", StrCat(job.id.value()), JobJson(job));
  record.Line("job", StrCat(job.id.value()));
  record.Line("name", job.spec.name);
  record.Line("kernel", job.spec.kernel);
  record.Line("owner", job.spec.owner);
  record.Line("state", StateText(job));
  if (!client::HasEnded(job.state)) record.Line("waits", WaitText(job.wait_reason));
  record.Line("reason", job.reason);
  for (const auto& [key, value] : job.spec.labels) record.Line("label", StrCat(key, "=", value));
  record.Line("tasks", StrCat(job.task_count, " (", job.tasks_done, " done, ", job.tasks_failed,
                              " failed)"));
  record.Line("split", StrCat("axis ", job.spec.split_axis, ", ", job.leaf_count, " leaves of ",
                              job.spec.grain, " tasks"));
  record.Line("leases", StrCat(job.leases));
  record.Line("busy", HumanDuration(job.busy));
  record.Line("submitted", TimeText(job.submitted));
  record.Line("started", TimeText(job.started));
  record.Line("ended", TimeText(job.ended));
  for (const auto& output : job.outputs) {
    record.Line("output", StrCat(output.name, " ", output.tensor.ToString(),
                                 output.reduced ? ", reduced" : ""));
  }
  return record;
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

std::string ProgressLine(const client::JobInfo& job) {
  if (client::HasEnded(job.state)) return EndLine(job);
  const double share = job.task_count == 0 ? 1.0
                                           : static_cast<double>(job.tasks_done) /
                                                 static_cast<double>(job.task_count);
  char percent[16];
  std::snprintf(percent, sizeof percent, "%.1f%%", share * 100);
  std::string line =
      StrCat("job ", job.id, " ", client::JobStateName(job.state), ": ",
             HumanCount(static_cast<double>(job.tasks_done)), " of ",
             HumanCount(static_cast<double>(job.task_count)), " tasks (", percent, ")");
  if (job.tasks_failed > 0) StrAppend(&line, ", ", job.tasks_failed, " failed");
  if (job.submitted.has_value()) {
    StrAppend(&line, ", for ", HumanDuration(absl::Now() - *job.submitted));
  }
  if (!job.wait_reason.empty()) {
    StrAppend(&line, "; waits (", job.wait_reason, "): ", WaitText(job.wait_reason));
  }
  return line;
}

Record PlanRecord(const client::JobPlan& plan, uint64_t upload_bytes) {
  Json operands = Json::array();
  for (const auto& operand : plan.operands) {
    const auto spec = plan.spec.operands.find(operand.name);
    operands.push_back(
        {{"name", operand.name},
         {"tensor", spec == plan.spec.operands.end() ? "" : spec->second.spec.ToString()},
         {"how", operand.how},
         {"bytes", operand.total_bytes}});
  }
  Record record("plan", plan.spec.kernel,
                {{"kernel", plan.spec.kernel},
                 {"split_axis", plan.spec.split_axis},
                 {"tasks", plan.task_count},
                 {"leaves", plan.leaf_count},
                 {"grain", plan.spec.grain},
                 {"upload_bytes", upload_bytes},
                 {"operands", operands},
                 {"outputs", OutputsJson(plan.outputs)}});
  record.Line("kernel", plan.spec.kernel);
  record.Line("split", StrCat("axis ", plan.spec.split_axis, ": ", plan.task_count, " tasks in ",
                              plan.leaf_count, " leaves of ", plan.spec.grain));
  for (const Json& operand : operands) {
    record.Line("operand", StrCat(operand["name"].get<std::string>(), " ",
                                  operand["tensor"].get<std::string>(), ": ",
                                  HumanSize(operand["bytes"].get<uint64_t>()), ", ",
                                  operand["how"].get<std::string>()));
  }
  for (const auto& output : plan.outputs) {
    record.Line("output",
                StrCat(output.name, " ", output.tensor.ToString(), ": ", SizeText(output.tensor),
                       output.reduced ? ", reduced" : ", concatenated"));
  }
  record.Line("to upload", HumanSize(upload_bytes));
  return record;
}

Table FailureTable(const client::JobInfo& job, const std::vector<TaskFailure>& failures,
                   const std::vector<std::string>& item_names) {
  std::vector<Column> columns = {{"TASK"}, {"ATTEMPT"}, {"REASON"}};
  if (!item_names.empty()) columns.insert(columns.begin() + 2, {"ITEM"});
  Table table("failures", std::move(columns));
  for (const TaskFailure& failure : failures) {
    Json item = {{"task", failure.task},
                 {"attempt", failure.attempt},
                 {"reason", failure.reason},
                 {"job", job.id.value()},
                 {"item", nullptr}};
    std::vector<std::string> cells = {StrCat(failure.task), StrCat(failure.attempt)};
    if (!item_names.empty()) {
      const bool named = failure.task < item_names.size();
      cells.push_back(named ? item_names[failure.task] : "-");
      if (named) item["item"] = item_names[failure.task];
    }
    cells.push_back(failure.reason);
    table.Add(std::move(cells), std::move(item));
  }
  return table;
}

}  // namespace tandem::cli
