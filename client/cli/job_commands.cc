// `tandem job …`.
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "client/cli/context.h"
#include "client/cli/exit_code.h"
#include "client/cli/explain_text.h"
#include "client/cli/interrupt.h"
#include "client/cli/job_text.h"
#include "client/cli/results.h"
#include "client/cli/run_flags.h"
#include "client/cli/selectors.h"
#include "client/cli/wait.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/cli/option_types.h"

namespace tandem::cli {
namespace {

struct JobFlags {
  std::string selector;
  std::vector<std::string> states, outs, labels;
  std::string owner, kernel, since, page;
  std::string name_prefix, tasks, on_ctrl_c = "detach";
  uint64_t limit = 100;
  bool all_owners = false, force = false, quiet = false, wait = false;
};

// With `ended`, those of `all` that have ended are counted there instead.
absl::StatusOr<std::vector<JobId>> Select(client::Client* client, const std::string& selector,
                                          uint64_t* ended) {
  return SelectJobs(selector, [&]() -> absl::StatusOr<std::vector<JobId>> {
    client::ListFilter filter;
    filter.limit = selector == "last" ? 1 : kSelectedMax;
    ASSIGN_OR_RETURN(const auto jobs, client->List(filter));
    std::vector<JobId> ids;
    for (const auto& job : jobs) {
      if (ended != nullptr && selector == "all" && client::HasEnded(job.state)) {
        ++*ended;
      } else {
        ids.push_back(job.id);
      }
    }
    return ids;
  });
}

absl::Status List(Context* context, const JobFlags& flags) {
  client::ListFilter filter;
  for (const std::string& name : flags.states) {
    const auto state = client::JobStateFromName(name);
    if (state.has_value()) filter.states.push_back(*state);  // --state has checked it
  }
  filter.name_prefix = flags.name_prefix;
  ASSIGN_OR_RETURN(filter.labels, ParseLabels(flags.labels));
  if (!flags.since.empty()) {
    ASSIGN_OR_RETURN(const absl::Duration since, ParseDuration(flags.since));
    filter.submitted_since = absl::Now() - since;
  }
  filter.owner = flags.owner;
  filter.kernel = flags.kernel;
  filter.all_owners = flags.all_owners;
  filter.limit = flags.limit;
  filter.page_token = flags.page;
  ASSIGN_OR_RETURN(client::Client * client, context->client());
  std::string next_page;
  ASSIGN_OR_RETURN(const auto jobs, client->List(filter, &next_page));
  std::cout << JobTable(jobs).Render(context->format());
  if (!next_page.empty()) std::cerr << "there are more: add --page " << next_page << '\n';
  return absl::OkStatus();
}

// That several jobs do not write over one another; their bytes may follow one another on stdout.
absl::Status CheckPlaces(const std::vector<std::string>& outs, size_t jobs) {
  for (const std::string& out : outs) {
    if (jobs < 2 || out.ends_with("=-")) continue;
    return InvalidError(reason::kBadArgument,
                        StrCat("--out ", Quoted(out), " is one place, for the results of ", jobs,
                               " jobs; fetch them a job at a time, each to its own file or "
                               "directory"));
  }
  return absl::OkStatus();
}

// Calls `work` for each selected job; goes on after an error and keeps the last exit code that is
// not 0. A selector that may name several jobs gives one list as JSON, of `kind`. `ended`: as with
// Select.
absl::Status ForEach(Context* context, const JobFlags& flags, std::string_view kind,
                     absl::FunctionRef<absl::Status(client::Client*, JobId)> work,
                     uint64_t* ended = nullptr) {
  ASSIGN_OR_RETURN(client::Client * client, context->client());
  ASSIGN_OR_RETURN(const auto jobs, Select(client, flags.selector, ended));
  RETURN_IF_ERROR(CheckPlaces(flags.outs, jobs.size()));
  if (!NamesOne(flags.selector)) context->BeginList(kind);
  for (const JobId job : jobs) {
    const absl::Status status = work(client, job);
    if (!status.ok()) context->Fail(status);
    if (ReasonOf(status) == reason::kInterrupted) break;
  }
  context->EndList();
  return absl::OkStatus();
}

// Of a job that waits for its build of a kernel: the builds that workers have.
absl::StatusOr<std::string> OtherBuilds(client::Client* client, const client::JobInfo& job) {
  std::string builds;
  if (job.wait_reason != "NO_KERNEL") return builds;
  const std::string_view name =
      std::string_view(job.spec.kernel).substr(0, job.spec.kernel.find('@'));
  ASSIGN_OR_RETURN(const auto kernels, client->ListKernels());
  for (const auto& [kernel, builtin, current, workers] : kernels) {
    if (kernel.name != name || workers == 0) continue;
    StrAppend(&builds, builds.empty() ? "workers have " : ", ", kernel.identity());
  }
  if (!builds.empty()) builds += "; cancel the job and submit it again to run with that build";
  return builds;
}

absl::Status Show(Context* context, client::Client* client, JobId job) {
  ASSIGN_OR_RETURN(const auto info, client->Get(job));
  Record record = JobRecord(info);
  ASSIGN_OR_RETURN(const std::string builds, OtherBuilds(client, info));
  record.Line("builds", builds);
  context->Print(record);
  return absl::OkStatus();
}

absl::Status Wait(Context* context, client::Client* client, JobId job, const JobFlags& flags) {
  WaitOptions options{context->progress_style(flags.quiet)};
  if (flags.on_ctrl_c == "ask") options.on_ctrl_c = OnCtrlC::kAskToCancel;
  CatchForWait(options.on_ctrl_c);
  ASSIGN_OR_RETURN(const auto info, WaitWithProgress(client, job, options));
  SayEnd(client, info, ItemNamesOf(info));
  if (context->json()) context->Print(JobRecord(info));
  if (info.state != client::JobState::kSucceeded) context->exit_code = ExitCodeOf(info.state);
  return absl::OkStatus();
}

// One line on how far it is; does not wait.
absl::Status ShowProgress(Context* context, client::Client* client, JobId job) {
  ASSIGN_OR_RETURN(const auto info, client->Get(job));
  if (context->format() == Format::kTable || context->format() == Format::kWide) {
    std::cout << ProgressLine(info) << '\n';
  } else {
    context->Print(JobRecord(info));
  }
  return absl::OkStatus();
}

// With `ended`, a job that had ended is counted there instead of said.
absl::Status CancelOne(Context* context, client::Client* client, JobId job, uint64_t* ended) {
  absl::StatusOr<client::JobInfo> info = client->Cancel(job);
  const bool had_ended = ReasonOf(info.status()) == reason::kJobFinished;
  if (had_ended) info = client->Get(job);  // what was asked for is so: it does not run
  RETURN_IF_ERROR(info.status());
  if (had_ended && ended != nullptr) {
    ++*ended;
  } else {
    std::cerr << (had_ended ? "it had already ended: " : "") << EndLine(*info) << '\n';
  }
  if (context->json()) context->Print(JobRecord(*info));
  return absl::OkStatus();
}

absl::Status Cancel(Context* context, const JobFlags& flags) {
  uint64_t ended = 0;
  uint64_t* const count = NamesOne(flags.selector) ? nullptr : &ended;
  RETURN_IF_ERROR(ForEach(
      context, flags, "jobs",
      [&](client::Client* client, JobId job) { return CancelOne(context, client, job, count); },
      count));
  if (ended > 0) std::cerr << ended << (ended == 1 ? " job" : " jobs") << " had already ended\n";
  return absl::OkStatus();
}

absl::Status Delete(Context* context, client::Client* client, JobId job) {
  ASSIGN_OR_RETURN(const client::JobInfo info, client->Delete(job));
  std::cerr << "job " << job << ": its results are deleted\n";
  if (context->json()) context->Print(JobRecord(info));
  return absl::OkStatus();
}

absl::Status PrintSmall(Context* context, client::Client* client, const client::JobInfo& job,
                        const client::TaskSelection& tasks) {
  ASSIGN_OR_RETURN(const auto small, SmallOutputs(client, job, {}, kPrintedElementsMax, tasks));
  if (small.empty() && !job.outputs.empty()) {
    // No output was asked for: are they there at all?
    const uint64_t last = job.task_count == 0 ? 0 : job.task_count - 1;
    RETURN_IF_ERROR(client->DoneUntil(job.id, job.outputs.front().name, last).status());
  }
  if (context->json()) {
    context->PrintJson("results", {{"job", job.id.value()}, {"outputs", SmallOutputsJson(small)}});
    return absl::OkStatus();
  }
  std::cout << SmallOutputsText(small);
  std::cerr << LeftBehind(job, {}, small);
  return absl::OkStatus();
}

// Says that some of what was shown or written is no result. Of a reduction none is.
absl::Status SayFailures(client::Client* client, const client::JobInfo& job,
                         const client::TaskSelection& tasks) {
  bool arrays = false, files = false;
  for (const client::OutputInfo& output : job.outputs) {
    (output.tensor.ragged() ? files : arrays) |= !output.reduced;
  }
  if (job.tasks_failed == 0 || !(arrays || files)) return absl::OkStatus();
  uint64_t failed = job.tasks_failed;
  if (tasks.task_count > 0) {
    ASSIGN_OR_RETURN(const auto failures, client->Failures(job.id, job.tasks_failed));
    failed = static_cast<uint64_t>(
        std::count_if(failures.begin(), failures.end(), [&](const TaskFailure& failure) {
          return failure.task - tasks.first_task < tasks.task_count;  // a smaller one wraps around
        }));
  }
  if (failed == 0) return absl::OkStatus();
  const std::string its = failed == 1 ? "its" : "their";
  std::cerr << failed << (failed == 1 ? " task" : " tasks") << " failed; "
            << (arrays ? StrCat(its, " values are zeros") : StrCat(its, " files are left out"))
            << ": tandem job failures " << job.id.value() << '\n';
  return absl::OkStatus();
}

absl::Status Results(Context* context, client::Client* client, JobId job, const JobFlags& flags) {
  ASSIGN_OR_RETURN(const auto info, client->Get(job));
  std::vector<OutTarget> targets;
  for (const std::string& out : flags.outs) {
    ASSIGN_OR_RETURN(targets.emplace_back(), ParseOut(out));
  }
  client::TaskSelection tasks;
  if (!flags.tasks.empty()) {
    ASSIGN_OR_RETURN(tasks, ParseTasks(flags.tasks));
  }
  RETURN_IF_ERROR(CheckTargets(targets, info.outputs, flags.force));
  RETURN_IF_ERROR(targets.empty() ? PrintSmall(context, client, info, tasks)
                                  : WriteTargets(client, info, targets, ItemNamesOf(info), tasks));
  return SayFailures(client, info, tasks);
}

absl::Status Failures(Context* context, client::Client* client, JobId job, uint64_t limit) {
  ASSIGN_OR_RETURN(const auto info, client->Get(job));
  ASSIGN_OR_RETURN(const auto failures, client->Failures(job, limit));
  context->Print(FailureTable(info, failures, ItemNamesOf(info)));
  return absl::OkStatus();
}

absl::Status Explain(Context* context, client::Client* client, JobId job) {
  ASSIGN_OR_RETURN(const client::JobExplanation explanation, client->Explain(job));
  if (context->json()) {
    context->PrintJson("job_explanation", ExplanationJson(explanation));
  } else {
    std::cout << ExplanationText(explanation);
  }
  return absl::OkStatus();
}

using Flags = std::shared_ptr<JobFlags>;

// A command on the jobs that a selector names.
CLI::App* AddSelecting(CLI::App* job, Context* context, const Flags& flags, const std::string& name,
                       const std::string& summary, const std::string& examples,
                       std::function<absl::Status()> work) {
  CLI::App* command = AddCommand(job, context, name, summary, examples, std::move(work));
  command->add_option("jobs", flags->selector, "7, 1-3, 2-10:2, 1,4,7-9, last or all")
      ->required()
      ->type_name("JOBS");
  AddFormat(command, context);
  return command;
}

// The same: `work` is called for each job. `kind`: of the list that they make as JSON.
CLI::App* AddSelecting(CLI::App* job, Context* context, const Flags& flags, const std::string& name,
                       const std::string& summary, const std::string& examples,
                       std::function<absl::Status(client::Client*, JobId)> work,
                       std::string_view kind = "jobs") {
  return AddSelecting(job, context, flags, name, summary, examples,
                      [context, flags, kind, work = std::move(work)] {
                        return ForEach(context, *flags, kind, work);
                      });
}

void AddList(CLI::App* job, Context* context, const Flags& flags) {
  CLI::App* list = AddCommand(job, context, "ls", "List jobs, newest first.",
                              "  tandem job ls\n  tandem job ls --state RUNNING -o json\n"
                              "  tandem job ls --kernel kmer_count --since 2h --label team=a\n",
                              [context, flags] { return List(context, *flags); });
  list->add_option("--state", flags->states, "Only jobs in this state; may be given again")
      ->check(OneOf({"PENDING", "RUNNING", "MERGING", "SUCCEEDED", "FAILED", "CANCELLED"}))
      ->allow_extra_args(false);
  list->add_option("--name", flags->name_prefix, "Only jobs whose name begins so");
  list->add_option("--kernel", flags->kernel, "Only jobs of this kernel")->type_name("KERNEL");
  list->add_option("--label", flags->labels, "Only jobs with this label; may be given again")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  list->add_option("--since", flags->since, "Only jobs submitted within the last …: 2h, 3-00:00:00")
      ->type_name("DURATION");
  list->add_option("--owner", flags->owner, "Only this owner's jobs")->type_name("OWNER");
  list->add_option("--limit", flags->limit, "At most so many")->check(Count(1));
  list->add_option("--page", flags->page, "Go on where an earlier list ended")->type_name("PAGE");
  list->add_flag("--all-owners", flags->all_owners, "Everybody's jobs");
  AddFormat(list, context);
}

void AddWait(CLI::App* job, Context* context, const Flags& flags) {
  const auto wait = [context, flags](client::Client* client, JobId id) {
    return Wait(context, client, id, *flags);
  };
  CLI::App* waiting =
      AddSelecting(job, context, flags, "wait", "Wait for jobs with their progress.",
                   "  tandem job wait last\n  tandem job wait 3-5\n", wait);
  waiting->add_flag("-q,--quiet", flags->quiet, "No progress");
  waiting
      ->add_option("--on-ctrl-c", flags->on_ctrl_c,
                   "detach: leave the job, which goes on; ask: a second Ctrl-C cancels it")
      ->check(OneOf({"detach", "ask"}));
  AddSelecting(job, context, flags, "progress", "Say how far jobs are, in a line each.",
               "  tandem job progress last\n  tandem job progress all\n"
               "  tandem job progress last --wait\n",
               [context, flags, wait](client::Client* client, JobId id) {
                 return flags->wait ? wait(client, id) : ShowProgress(context, client, id);
               })
      ->add_flag("--wait", flags->wait, "Stay until they have ended, as `tandem job wait` does");
}

void AddResults(CLI::App* job, Context* context, const Flags& flags) {
  CLI::App* results = AddSelecting(
      job, context, flags, "results", "Fetch a job's results, while it runs too.",
      "  tandem job results last\n  tandem job results 7 --out call=@call.npy\n"
      "  tandem job results 8 --out edges=@edges/ --tasks 100-199\n",
      [context, flags](client::Client* client, JobId id) {
        CatchInterrupts();
        return Results(context, client, id, *flags);
      },
      "job_results");
  results->add_option("--out", flags->outs, "output=@file.npy, output=@directory/ or output=-")
      ->type_name("NAME=@PATH")
      ->allow_extra_args(false);
  results->add_option("--tasks", flags->tasks, "Only these tasks: 4 or 10-19, both included")
      ->type_name("TASKS");
  results->add_flag("--force", flags->force, "Overwrite what is there");
}

}  // namespace

void AddJobCommands(CLI::App* app, Context* context) {
  CLI::App* job =
      AddGroup(app, context, "job",
               "Look at jobs, wait for them, cancel them, fetch or delete their results.",
               "  tandem job ls\n  tandem job wait last\n  tandem job results last\n");
  const auto flags = std::make_shared<JobFlags>();
  AddList(job, context, flags);
  AddSelecting(job, context, flags, "show", "Show a job, and why it waits.",
               "  tandem job show 7\n  tandem job show last -o json\n",
               [context](client::Client* client, JobId id) { return Show(context, client, id); });
  AddSelecting(
      job, context, flags, "explain", "Say where a job's time went, and what would make it faster.",
      "  tandem job explain last\n  tandem job explain 7 -o json\n",
      [context](client::Client* client, JobId id) { return Explain(context, client, id); },
      "job_explanations");
  AddWait(job, context, flags);
  AddSelecting(job, context, flags, "cancel",
               "Cancel jobs that have not ended. What is done stays readable.",
               "  tandem job cancel 7\n  tandem job cancel all\n",
               [context, flags] { return Cancel(context, *flags); });
  AddResults(job, context, flags);
  AddSelecting(job, context, flags, "rm", "Delete the results of jobs that have ended.",
               "  tandem job rm 7\n  tandem job rm 1-6 -o json\n",
               [context](client::Client* client, JobId id) { return Delete(context, client, id); });
  AddSelecting(
      job, context, flags, "failures", "List the tasks that failed, with their reasons.",
      "  tandem job failures last\n",
      [context, flags](client::Client* client, JobId id) {
        return Failures(context, client, id, flags->limit);
      },
      "failures")
      ->add_option("--limit", flags->limit, "At most so many")
      ->check(Count(1));
}

}  // namespace tandem::cli
