// `tandem run` and `tandem submit`.
#include <iostream>
#include <memory>

#include "client/cli/context.h"
#include "client/cli/exit_code.h"
#include "client/cli/follow.h"
#include "client/cli/interrupt.h"
#include "client/cli/job_text.h"
#include "client/cli/results.h"
#include "client/cli/run_flags.h"
#include "client/cli/wait.h"
#include "client/lib/input_file.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/cli/option_types.h"

namespace tandem::cli {
namespace {

constexpr uint64_t kRunPrintedMax = 16;

// A job that the master has agreed to, with everything refused that can be refused before a byte is
// uploaded or a task runs.
struct Planned {
  client::PreparedJob job;
  client::JobPlan plan;
  std::vector<OutTarget> targets;
};

// Says of which argument, or of which flag, an error speaks, where the master's sentence does not.
absl::Status NameArgument(const absl::Status& status) {
  const std::string field = FieldOf(status);
  for (const std::string_view list : {"spec.operands.", "spec.scalars.", "spec.axis_extents."}) {
    if (!field.starts_with(list)) continue;
    const std::string name = field.substr(list.size(), field.find('.', list.size()) - list.size());
    if (ToStd(status.message()).find(name) == std::string_view::npos) {
      return WithContext(status, StrCat("argument ", name));
    }
  }
  return NameFlag(status);
}

// Errors: INTERRUPTED after Ctrl-C.
absl::Status CheckGoesOn() {
  if (!Interrupted()) return absl::OkStatus();
  return Error(absl::StatusCode::kCancelled, reason::kInterrupted, "nothing was submitted");
}

// Reads what is to be uploaded, or checked, until Ctrl-C.
absl::StatusOr<client::PreparedJob> Prepare(client::Client* client, const RunFlags& flags,
                                            JobSpec spec) {
  std::vector<client::Argument> arguments;
  for (const std::string& text : flags.arguments) {
    ASSIGN_OR_RETURN(arguments.emplace_back(), client::ParseArgument(text));
  }
  ASSIGN_OR_RETURN(const KernelInfo kernel, client->GetKernel(flags.kernel));
  const OnInterrupt on_interrupt(client::InputFile::StopReading);
  absl::StatusOr<client::PreparedJob> job = client::PrepareJob(kernel, std::move(spec), arguments);
  RETURN_IF_ERROR(CheckGoesOn());
  RETURN_IF_ERROR(job.status());
  for (const std::string& note : job->notes) std::cerr << note << '\n';
  return job;
}

absl::StatusOr<Planned> Plan(client::Client* client, const RunFlags& flags) {
  Planned planned;
  ASSIGN_OR_RETURN(JobSpec spec, SpecOf(flags));
  for (const std::string& out : flags.outs) {
    ASSIGN_OR_RETURN(planned.targets.emplace_back(), ParseOut(out));
  }
  ASSIGN_OR_RETURN(planned.job, Prepare(client, flags, std::move(spec)));
  planned.job.spec.request_id = flags.request_id;
  absl::StatusOr<client::JobPlan> plan = client->Plan(planned.job.spec);
  if (!plan.ok()) return NameArgument(plan.status());
  planned.plan = *std::move(plan);
  RETURN_IF_ERROR(CheckGoesOn());
  RETURN_IF_ERROR(CheckTargets(planned.targets, planned.plan.outputs, flags.force));
  return planned;
}

absl::Status UploadAll(client::Client* client, const client::PreparedJob& job,
                       Progress::Style style) {
  if (job.uploads.empty()) return absl::OkStatus();
  Progress progress(stderr, style, "upload", "bytes", Clock::Real());
  const OnInterrupt on_interrupt([client] { client->StopWaiting(); });
  return client
      ->Upload(job.uploads,
               [&](uint64_t sent, uint64_t total) { progress.Update(sent, total, ""); })
      .status();
}

absl::Status DryRun(Context* context, client::Client* client, const Planned& planned) {
  ASSIGN_OR_RETURN(const uint64_t bytes, client->BytesToUpload(planned.job.uploads));
  std::cout << PlanRecord(planned.plan, bytes).Render(context->format());
  std::cerr << "nothing was submitted\n";
  return absl::OkStatus();
}

absl::Status Finish(Context* context, client::Client* client, const client::JobInfo& job,
                    const std::vector<OutTarget>& targets, const std::vector<std::string>& names,
                    bool printed) {
  SayEnd(client, job, names);
  context->exit_code = ExitCodeOf(job.state);
  const bool whole = job.state == client::JobState::kSucceeded;
  // Of a failed job, concatenated outputs are still there; a reduced value is not.
  if (whole || job.state == client::JobState::kFailed) {
    std::vector<OutTarget> there;
    for (const OutTarget& target : targets) {
      for (const auto& output : job.outputs) {
        if (output.name == target.output && (whole || !output.reduced)) there.push_back(target);
      }
    }
    RETURN_IF_ERROR(WriteTargets(client, job, there, names, {}));
  }
  const bool shown = whole && !printed && !HasStdout(targets);
  std::vector<SmallOutput> small;
  if (shown && context->format() != Format::kName) {
    const uint64_t most = context->json() ? kPrintedElementsMax : kRunPrintedMax;
    ASSIGN_OR_RETURN(small, SmallOutputs(client, job, targets, most, {}));
  }
  if (context->json()) {
    nlohmann::ordered_json fields = JobJson(job);
    if (shown) fields["results"] = SmallOutputsJson(small);
    context->PrintJson("job", fields);
  } else if (context->format() == Format::kName) {
    context->Print(JobRecord(job));
  } else {
    std::cout << SmallOutputsText(small);
  }
  if (shown) std::cerr << LeftBehind(job, targets, small);
  return absl::OkStatus();
}

absl::StatusOr<client::JobInfo> WaitFor(Context* context, client::Client* client, JobId job,
                                        const RunFlags& flags, uint64_t* printed) {
  WaitOptions options{context->progress_style(flags.quiet)};
  options.on_ctrl_c = flags.on_ctrl_c == "ask" ? OnCtrlC::kAskToCancel : OnCtrlC::kDetach;
  if (!flags.follow) return WaitWithProgress(client, job, options);
  // A bar would be drawn through the lines.
  if (options.style == Progress::Style::kBar) options.style = Progress::Style::kNone;
  Follower follower(client, context->format());
  const auto info = WaitWithProgress(
      client, job, options, [&](const client::JobInfo& now) { return follower.Update(now); });
  *printed = follower.printed();
  return info;
}

absl::Status Run(Context* context, const RunFlags& flags) {
  ASSIGN_OR_RETURN(client::Client * client, context->client());
  CatchForWait(flags.on_ctrl_c == "ask" ? OnCtrlC::kAskToCancel : OnCtrlC::kDetach);
  ASSIGN_OR_RETURN(const Planned planned, Plan(client, flags));
  if (flags.dry_run) return DryRun(context, client, planned);
  const bool table = context->format() == Format::kTable || context->format() == Format::kWide;
  if (HasStdout(planned.targets) && (!table || flags.follow)) {
    return InvalidError(reason::kBadArgument,
                        StrCat("an output and ", flags.follow ? "--follow" : "-o",
                               " cannot both go to stdout; give the output a file"));
  }
  // Tasks are printed as they end: several things, of which the job is the last.
  if (flags.follow && context->json()) context->format_flag = "jsonl";
  RETURN_IF_ERROR(UploadAll(client, planned.job, context->progress_style(flags.quiet)));
  ASSIGN_OR_RETURN(client::JobInfo info, client->Submit(planned.job.spec, flags.request_id));
  if (!flags.quiet) std::cerr << "job " << info.id << " submitted\n";
  uint64_t printed = 0;
  ASSIGN_OR_RETURN(info, WaitFor(context, client, info.id, flags, &printed));
  const auto& names = planned.job.item_names;
  return Finish(context, client, info, planned.targets,
                names.empty() ? std::vector<std::string>() : names.begin()->second, printed > 0);
}

absl::Status Submit(Context* context, const RunFlags& flags) {
  ASSIGN_OR_RETURN(client::Client * client, context->client());
  CatchInterrupts();
  ASSIGN_OR_RETURN(const Planned planned, Plan(client, flags));
  if (flags.dry_run) return DryRun(context, client, planned);
  RETURN_IF_ERROR(UploadAll(client, planned.job, context->progress_style(flags.quiet)));
  ASSIGN_OR_RETURN(const client::JobInfo info, client->Submit(planned.job.spec, flags.request_id));
  std::cout << (context->json() ? JobRecord(info).Render(context->format())
                                : StrCat(info.id, "\n"));
  return absl::OkStatus();
}

}  // namespace

void AddRunCommands(CLI::App* app, Context* context) {
  const auto run_flags = std::make_shared<RunFlags>();
  CLI::App* run = AddCommand(
      app, context, "run", "Submit a job, wait for it, fetch its results.",
      "  tandem run monte_carlo_pi n=1000000000 seed=7\n"
      "  tandem run kmer_count base=@genome.fa k=11 --out count=@count.npy\n"
      "  tandem run image_sobel image=@photos/ --out edges=@edges/ --allow-failed\n"
      "  tandem run black_scholes spot='uniform(seed=1,lo=50,hi=150)' strike='constant(100)' \\\n"
      "      years='uniform(seed=2,lo=0.1,hi=2)' rate=0.03 volatility=0.2 n=10000000 --out "
      "call=@call.npy\n"
      "  tandem run kmer_count base=@genome.fa k=15 --dry-run\n",
      [context, run_flags] { return Run(context, *run_flags); });
  AddRunFlags(run, run_flags.get());
  run->add_option("--out", run_flags->outs,
                  "output=@file.npy, output=@directory/ or output=-; may be given again")
      ->type_name("NAME=@PATH")
      ->allow_extra_args(false);
  run->add_flag("--force", run_flags->force, "Overwrite what is there");
  run->add_flag("--follow", run_flags->follow,
                "Print each task's results, in order, as soon as they are there");
  run->add_option("--on-ctrl-c", run_flags->on_ctrl_c,
                  "detach: leave the job, which goes on; ask: a second Ctrl-C cancels it")
      ->check(OneOf({"detach", "ask"}));
  AddFormat(run, context);
  const auto submit_flags = std::make_shared<RunFlags>();
  CLI::App* submit =
      AddCommand(app, context, "submit", "Submit a job and print its number; do not wait.",
                 "  tandem submit monte_carlo_pi n=1000000000 seed=7 --name pi --label team=a\n"
                 "  tandem job wait last\n",
                 [context, submit_flags] { return Submit(context, *submit_flags); });
  AddRunFlags(submit, submit_flags.get());
  AddFormat(submit, context);
}

}  // namespace tandem::cli
