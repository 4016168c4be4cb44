// `tandem job …`.
#include <iostream>
#include <memory>

#include "client/cli/context.h"
#include "client/cli/exit_code.h"
#include "client/cli/interrupt.h"
#include "client/cli/job_text.h"
#include "client/cli/results.h"
#include "client/cli/selectors.h"
#include "client/cli/wait.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::cli {
namespace {

constexpr uint64_t kPrintedElementsMax = 4096;

struct JobFlags {
  std::string selector;
  std::vector<std::string> states, outs;
  std::string name_prefix, tasks;
  uint64_t limit = 100;
  bool all_owners = false, force = false, quiet = false;
};

absl::StatusOr<std::vector<JobId>> Select(client::Client* client, const std::string& selector) {
  return SelectJobs(selector, [client]() -> absl::StatusOr<std::vector<JobId>> {
    client::ListFilter filter;
    filter.limit = kSelectedMax;
    ASSIGN_OR_RETURN(const auto jobs, client->List(filter));
    std::vector<JobId> ids;
    for (const auto& job : jobs) ids.push_back(job.id);
    return ids;
  });
}

absl::Status List(Context* context, const JobFlags& flags) {
  client::ListFilter filter;
  for (const std::string& name : flags.states) {
    const auto state = client::JobStateFromName(name);
    if (!state.has_value()) {
      return InvalidError(reason::kBadArgument, StrCat("--state ", name,
                                                       " is none of PENDING, RUNNING, MERGING, "
                                                       "SUCCEEDED, FAILED, CANCELLED"));
    }
    filter.states.push_back(*state);
  }
  filter.name_prefix = flags.name_prefix;
  filter.all_owners = flags.all_owners;
  filter.limit = flags.limit;
  ASSIGN_OR_RETURN(client::Client * client, context->client());
  ASSIGN_OR_RETURN(const auto jobs, client->List(filter));
  std::cout << JobTable(jobs).Render(context->format());
  return absl::OkStatus();
}

// Calls `work` for each selected job; goes on after an error and keeps the last exit code that is
// not 0.
absl::Status ForEach(Context* context, const JobFlags& flags,
                     absl::FunctionRef<absl::Status(client::Client*, JobId)> work) {
  ASSIGN_OR_RETURN(client::Client * client, context->client());
  ASSIGN_OR_RETURN(const auto jobs, Select(client, flags.selector));
  for (const JobId job : jobs) {
    const absl::Status status = work(client, job);
    if (!status.ok()) context->Fail(status);
  }
  return absl::OkStatus();
}

absl::Status Show(Context* context, client::Client* client, JobId job) {
  ASSIGN_OR_RETURN(const auto info, client->Get(job));
  std::cout << (context->json() ? RenderObject("job", JobJson(info)) : JobText(info));
  return absl::OkStatus();
}

absl::Status Wait(Context* context, client::Client* client, JobId job, bool quiet) {
  ASSIGN_OR_RETURN(const auto info, WaitWithProgress(client, job, quiet));
  if (!client::HasEnded(info.state)) {
    context->exit_code = kExitInterrupted;
    return absl::OkStatus();
  }
  SayEnd(client, info, {});
  if (context->json()) std::cout << RenderObject("job", JobJson(info));
  if (info.state != client::JobState::kSucceeded) context->exit_code = ExitCodeOf(info.state);
  return absl::OkStatus();
}

absl::Status Cancel(Context* context, client::Client* client, JobId job) {
  ASSIGN_OR_RETURN(const auto info, client->Cancel(job));
  if (context->json()) {
    std::cout << RenderObject("job", JobJson(info));
  } else {
    std::cerr << EndLine(info) << '\n';
  }
  return absl::OkStatus();
}

absl::Status Results(client::Client* client, JobId job, const JobFlags& flags) {
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
  RETURN_IF_ERROR(WriteTargets(client, info, targets, {}, tasks));
  if (!targets.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string small,
                   SmallOutputs(client, info, targets, kPrintedElementsMax, tasks));
  std::cout << small;
  if (small.empty()) {
    std::cerr << "job " << job.value()
              << " has no small output; write one to a file with --out NAME=@PATH\n";
  }
  return absl::OkStatus();
}

absl::Status Failures(Context* context, client::Client* client, JobId job, uint64_t limit) {
  ASSIGN_OR_RETURN(const auto failures, client->Failures(job, limit));
  std::cout << FailureTable(failures).Render(context->format());
  return absl::OkStatus();
}

}  // namespace

void AddJobCommands(CLI::App* app, Context* context) {
  CLI::App* job =
      app->add_subcommand("job", "Look at jobs, wait for them, cancel them, fetch their results.");
  job->require_subcommand(1);
  const auto flags = std::make_shared<JobFlags>();
  const auto add = [&](const std::string& name, const std::string& summary,
                       const std::string& examples, std::function<absl::Status()> work) {
    CLI::App* command = AddCommand(job, context, name, summary, examples, std::move(work));
    AddFormat(command, context);
    return command;
  };
  const auto selected = [&](CLI::App* command) {
    command->add_option("jobs", flags->selector, "7, 1-3, 2-10:2, 1,4,7-9, last or all")
        ->required()
        ->type_name("JOBS");
    return command;
  };
  CLI::App* list = add("ls", "List jobs, newest first.",
                       "  tandem job ls\n  tandem job ls --state RUNNING -o json\n",
                       [context, flags] { return List(context, *flags); });
  list->add_option("--state", flags->states, "Only jobs in this state; may be given again");
  list->add_option("--name", flags->name_prefix, "Only jobs whose name begins so");
  list->add_option("--limit", flags->limit, "At most so many");
  list->add_flag("--all-owners", flags->all_owners, "Everybody's jobs");
  selected(add("show", "Show a job.", "  tandem job show 7\n  tandem job show last -o json\n",
               [context, flags] {
                 return ForEach(context, *flags,
                                [&](client::Client* c, JobId id) { return Show(context, c, id); });
               }));
  selected(add("wait", "Wait for jobs with their progress.",
               "  tandem job wait last\n  tandem job wait 3-5\n",
               [context, flags] {
                 CatchInterrupts();
                 return ForEach(context, *flags, [&](client::Client* c, JobId id) {
                   return Wait(context, c, id, flags->quiet);
                 });
               }))
      ->add_flag("-q,--quiet", flags->quiet, "No progress");
  selected(add("cancel", "Cancel jobs. What is done stays readable.",
               "  tandem job cancel 7\n  tandem job cancel all\n", [context, flags] {
                 return ForEach(context, *flags, [&](client::Client* c, JobId id) {
                   return Cancel(context, c, id);
                 });
               }));
  CLI::App* results =
      selected(add("results", "Fetch a job's results, while it runs too.",
                   "  tandem job results last\n  tandem job results 7 --out call=@call.npy\n"
                   "  tandem job results 8 --out edges=@edges/ --tasks 100-199\n",
                   [context, flags] {
                     return ForEach(context, *flags, [&](client::Client* c, JobId id) {
                       return Results(c, id, *flags);
                     });
                   }));
  results->add_option("--out", flags->outs, "output=@file.npy, output=@directory/ or output=-")
      ->type_name("NAME=@PATH");
  results->add_option("--tasks", flags->tasks, "Only these tasks: 4 or 10-19, both included")
      ->type_name("TASKS");
  results->add_flag("--force", flags->force, "Overwrite what is there");
  selected(add("failures", "List the tasks that failed, with their reasons.",
               "  tandem job failures last\n",
               [context, flags] {
                 return ForEach(context, *flags, [&](client::Client* c, JobId id) {
                   return Failures(context, c, id, flags->limit);
                 });
               }))
      ->add_option("--limit", flags->limit, "At most so many");
}

}  // namespace tandem::cli
