#include "client/cli/explain_text.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "client/cli/job_text.h"
#include "client/cli/progress.h"
#include "client/cli/table.h"
#include "client/cli/worker_text.h"
#include "common/base/strings.h"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string TimeOrDash(absl::Duration duration) {
  return duration <= absl::ZeroDuration() ? "-" : ShortTime(duration);
}
std::string SizeOrDash(uint64_t bytes) { return bytes == 0 ? "-" : HumanSize(bytes); }

double Seconds(absl::Duration duration) { return absl::ToDoubleSeconds(duration); }

std::string FindingsText(const std::vector<client::Finding>& findings) {
  std::string text;
  for (const client::Finding& finding : findings) {
    StrAppend(&text, "  ", finding.token);
    if (finding.share > 0) {
      StrAppend(&text, " ", static_cast<int>(std::lround(100 * finding.share)), "%");
    }
    StrAppend(&text, "  ", finding.what, "\n");
    if (!finding.advice.empty()) StrAppend(&text, "      ", finding.advice, "\n");
  }
  return text;
}

Json UsageJson(const client::Usage& usage) {
  return {{"pieces", usage.pieces},
          {"tasks", usage.tasks},
          {"body_seconds", Seconds(usage.body)},
          {"host_seconds", Seconds(usage.host)},
          {"stall_seconds", Seconds(usage.stall)},
          {"fetch_seconds", Seconds(usage.fetch)},
          {"fetched_bytes", usage.fetched_bytes},
          {"mapped_bytes", usage.mapped_bytes},
          {"path_bytes", usage.path_bytes},
          {"generated_bytes", usage.generated_bytes},
          {"inline_output_bytes", usage.inline_output_bytes},
          {"pushed_output_bytes", usage.pushed_output_bytes},
          {"pushes", usage.pushes},
          {"push_seconds", Seconds(usage.push)},
          {"merges", usage.merges},
          {"merge_seconds", Seconds(usage.merge)},
          {"partials", usage.partials},
          {"up_seconds", Seconds(usage.up)},
          {"grid_seconds", Seconds(usage.grid)},
          {"down_seconds", Seconds(usage.down)},
          {"bytes_up", usage.bytes_up},
          {"bytes_down", usage.bytes_down}};
}

Json AccountJson(const client::JobAccount& account) {
  Json waits = Json::array();
  for (const auto& [reason, duration] : account.waits) {
    waits.push_back({{"reason", reason}, {"seconds", Seconds(duration)}});
  }
  Json workers = Json::array();
  for (const client::WorkerUsage& worker : account.workers) {
    Json line = {{"worker", worker.worker.value()},
                 {"name", worker.name},
                 {"device", KindName(worker.device)},
                 {"groups", worker.groups},
                 {"leases", worker.leases},
                 {"leaves", worker.leaves},
                 {"returned_leaves", worker.returned_leaves},
                 {"first_seconds", Seconds(worker.first)},
                 {"last_seconds", Seconds(worker.last)},
                 {"other_seconds", Seconds(worker.other)}};
    line.update(UsageJson(worker.usage));
    workers.push_back(std::move(line));
  }
  return {{"pending_seconds", Seconds(account.pending)},
          {"running_seconds", Seconds(account.running)},
          {"merging_seconds", Seconds(account.merging)},
          {"waits", std::move(waits)},
          {"workers", std::move(workers)},
          {"commits", account.commits},
          {"commit_wait_seconds", Seconds(account.commit_wait)},
          {"commit_wait_max_seconds", Seconds(account.commit_wait_max)},
          {"merge_grants", account.merge_grants},
          {"crashes", account.crashes},
          {"partial", account.partial}};
}

Json LeaseJson(const client::LeaseNote& note) {
  const auto range = [](const TaskRange& tasks) { return Json{tasks.begin, tasks.end}; };
  const LeaseSplit& split = note.split;
  uint64_t tasks = 0;
  Json kept = Json::array(), devices = Json::array();
  for (const TaskRange& part : split.kept) {
    tasks += part.size();
    kept.push_back(range(part));
  }
  for (const LeaseShare& share : split.shares) {
    devices.push_back({{"device", KindName(share.device)},
                       {"name", share.device_name},
                       {"tasks", share.tasks},
                       {"pieces", share.pieces},
                       {"begin_seconds", Seconds(share.begin)},
                       {"end_seconds", Seconds(share.end)},
                       {"host_seconds", Seconds(share.host)},
                       {"up_seconds", Seconds(share.up)},
                       {"grid_seconds", Seconds(share.grid)},
                       {"down_seconds", Seconds(share.down)},
                       {"bound_by", share.bound_by}});
  }
  return {{"worker", note.worker.value()},
          {"name", note.worker_name},
          {"lease", split.lease},
          {"leases", split.leases},
          {"granted", range(split.granted)},
          {"kept", std::move(kept)},
          {"tasks", tasks},
          {"ended_seconds", Seconds(note.ended)},
          {"devices", std::move(devices)}};
}

std::string WorkersText(const client::JobAccount& account) {
  Table table("workers", {{"WORKER"},
                          {"DEVICE"},
                          {"GROUPS"},
                          {"LEASES"},
                          {"LEAVES"},
                          {"TASKS"},
                          {"BODY"},
                          {"HOST"},
                          {"STALLED"},
                          {"FETCHED"},
                          {"MAPPED"},
                          {"FROM PATHS"},
                          {"GENERATED"},
                          {"PUSHED"},
                          {"PUSHING"},
                          {"MERGES"},
                          {"MERGING"},
                          {"OTHER JOBS"}});
  WorkerId last;
  for (const client::WorkerUsage& worker : account.workers) {
    const client::Usage& usage = worker.usage;
    // Leases are a worker's, whichever of its devices ran them.
    const bool another = worker.worker.valid() && worker.worker == last;
    const auto of_worker = [&](uint64_t count) -> std::string {
      return another ? "" : HumanCount(static_cast<double>(count));
    };
    last = worker.worker;
    table.Add({worker.worker.valid() ? worker.name : "others",
               worker.worker.valid() ? std::string(KindName(worker.device)) : "-",
               StrCat(worker.groups), of_worker(worker.leases), of_worker(worker.leaves),
               HumanCount(static_cast<double>(usage.tasks)), TimeOrDash(usage.body),
               TimeOrDash(usage.host), TimeOrDash(usage.stall), SizeOrDash(usage.fetched_bytes),
               SizeOrDash(usage.mapped_bytes), SizeOrDash(usage.path_bytes),
               SizeOrDash(usage.generated_bytes), SizeOrDash(usage.pushed_output_bytes),
               TimeOrDash(usage.push), StrCat(usage.merges), TimeOrDash(usage.merge),
               TimeOrDash(worker.other)},
              Json::object());
  }
  return table.Render(Format::kTable);
}

}  // namespace

Json ExplanationJson(const client::JobExplanation& explanation) {
  Json fields = {{"job", explanation.job.id.value()},
                 {"state", client::JobStateName(explanation.job.state)},
                 {"findings", FindingsJson(explanation.findings)}};
  fields["account"] = explanation.account ? AccountJson(*explanation.account) : Json();
  Json leases = Json::array();
  for (const client::LeaseNote& note : explanation.leases) leases.push_back(LeaseJson(note));
  fields["leases"] = std::move(leases);
  return fields;
}

std::string ExplanationText(const client::JobExplanation& explanation) {
  const client::JobInfo& job = explanation.job;
  std::string text = StrCat(client::HasEnded(job.state) ? EndLine(job) : ProgressLine(job), "\n",
                            FindingsText(explanation.findings));
  if (!explanation.account) return text;
  const client::JobAccount& account = *explanation.account;
  StrAppend(&text, "\ntime     pending ", TimeOrDash(account.pending), ", running ",
            TimeOrDash(account.running), ", merging ", TimeOrDash(account.merging), "\n");
  for (const auto& [reason, duration] : account.waits) {
    StrAppend(&text, "waited   ", reason, " ", ShortTime(duration), "\n");
  }
  if (account.commits > 0) {
    StrAppend(&text, "commits  ", account.commits, ", durable after ",
              ShortTime(account.commit_wait / static_cast<int64_t>(account.commits)),
              " in the mean, ", ShortTime(account.commit_wait_max), " at most\n");
  }
  if (job.retried_tasks > 0 || account.crashes > 0) {
    StrAppend(&text, "again    ", job.retried_tasks, " tasks, after ", account.crashes,
              " reports of crashes\n");
  }
  if (account.partial) {
    text += "The master was restarted meanwhile: counted since then.\n";
  }
  if (!account.workers.empty()) text += "\n" + WorkersText(account);
  return text;
}

Json ExplanationJson(const client::WorkerExplanation& explanation) {
  Json jobs = Json::array();
  for (const client::JobAtWorker& job : explanation.jobs) {
    jobs.push_back({{"job", job.job.value()},
                    {"leases", job.leases},
                    {"leaves", job.leaves},
                    {"free_leaves", job.free_leaves},
                    {"note", job.note}});
  }
  return {{"worker", WorkerJson(explanation.worker)},
          {"findings", FindingsJson(explanation.findings)},
          {"jobs", std::move(jobs)}};
}

std::string ExplanationText(const client::WorkerExplanation& explanation) {
  const client::WorkerSummary& worker = explanation.worker;
  std::string text =
      StrCat("worker ", worker.name, " ", worker.state, "\n", FindingsText(explanation.findings));
  if (!worker.rates.empty()) {
    text += "\nlearned rates\n" + RatesTable(worker.rates).Render(Format::kTable);
  }
  if (explanation.jobs.empty()) return text;
  Table table("jobs", {{"JOB"}, {"LEASES"}, {"LEAVES"}, {"FREE"}, {"NEXT"}});
  for (const client::JobAtWorker& job : explanation.jobs) {
    table.Add({StrCat(job.job), StrCat(job.leases), HumanCount(static_cast<double>(job.leaves)),
               HumanCount(static_cast<double>(job.free_leaves)), job.note},
              Json::object());
  }
  return text + "\n" + table.Render(Format::kTable);
}

}  // namespace tandem::cli
