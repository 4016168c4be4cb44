// `tandem run` and `tandem submit`.
#include <iostream>
#include <memory>

#include "client/cli/context.h"
#include "client/cli/exit_code.h"
#include "client/cli/interrupt.h"
#include "client/cli/job_text.h"
#include "client/cli/progress.h"
#include "client/cli/results.h"
#include "client/cli/wait.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::cli {
namespace {

constexpr uint64_t kPrintedElementsMax = 16;

struct RunFlags {
  std::string kernel;
  std::vector<std::string> arguments, outs, labels;
  std::string split, name, request_id, device = "auto", time_limit, cpus, memory;
  uint64_t grain = 0, max_lease_leaves = 0;
  uint32_t retries = 0, crash_limit = 3;
  std::optional<uint64_t> max_failures;
  int32_t priority = 0;
  bool allow_failed = false, reproducible = false, dry_run = false, force = false, quiet = false;
};

void AddFlags(CLI::App* command, RunFlags* flags) {
  command->add_option("kernel", flags->kernel, "The kernel's name")
      ->required()
      ->type_name("KERNEL");
  command
      ->add_option("arguments", flags->arguments,
                   "operand=@file|path:file|generator, scalar=3.5, axis=1000")
      ->type_name("NAME=VALUE");
  command->add_option("--split", flags->split, "The axis to split the job along")
      ->type_name("AXIS");
  command->add_option("--grain", flags->grain,
                      "Tasks a leaf: the least that is leased or committed");
  command->add_option("--name", flags->name, "A name, for people");
  command->add_option("--label", flags->labels, "A label, KEY=VALUE; may be given again")
      ->type_name("KEY=VALUE");
  command->add_option("--priority", flags->priority, "Larger goes first");
  command->add_option("--retries", flags->retries, "Runs again after a task's own failure");
  command->add_option("--crash-limit", flags->crash_limit,
                      "Strikes before a task that crashes its executor is given up");
  command->add_option("--max-failures", flags->max_failures,
                      "End the job when more tasks than this have failed");
  command->add_option("--time-limit", flags->time_limit,
                      "End the job after this long: 90s, 1h30m, 2-00:30:00");
  command->add_option("--device", flags->device, "auto, cpu or gpu")
      ->check(CLI::IsMember({"auto", "cpu", "gpu"}));
  command->add_option("--cpus", flags->cpus, "Cores a task needs");
  command->add_option("--mem", flags->memory, "Memory a task needs: 2GiB");
  command->add_option("--max-lease", flags->max_lease_leaves,
                      "The most leaves one lease may hold (0: the policy's choice)");
  command->add_option("--request-id", flags->request_id,
                      "Submitting again with the same id names the same job");
  command->add_flag("--allow-failed", flags->allow_failed, "Succeed even if tasks fail");
  command->add_flag("--reproducible", flags->reproducible,
                    "Pin one implementation and device kind");
  command->add_flag("--dry-run", flags->dry_run, "Say what would be done; submit nothing");
  command->add_flag("-q,--quiet", flags->quiet, "No progress");
}

absl::StatusOr<JobSpec> SpecOf(const RunFlags& flags) {
  JobSpec spec;
  spec.name = flags.name;
  spec.split_axis = flags.split;
  spec.grain = flags.grain;
  spec.priority = flags.priority;
  spec.retries = flags.retries;
  spec.crash_limit = flags.crash_limit;
  spec.max_task_failures = flags.max_failures;
  spec.allow_failed = flags.allow_failed;
  spec.reproducible = flags.reproducible;
  spec.max_lease_leaves = flags.max_lease_leaves;
  if (flags.device == "cpu") spec.device = DeviceChoice::kCpu;
  if (flags.device == "gpu") spec.device = DeviceChoice::kGpu;
  if (!flags.time_limit.empty()) {
    ASSIGN_OR_RETURN(spec.time_limit, ParseDuration(flags.time_limit));
  }
  if (!flags.memory.empty()) {
    ASSIGN_OR_RETURN(spec.resources.memory_bytes, ParseSize(flags.memory));
  }
  if (!flags.cpus.empty()) {
    ASSIGN_OR_RETURN(const Scalar cpus, Scalar::Parse(flags.cpus, DType::kF64));
    if (!(cpus.AsDouble() > 0) || cpus.AsDouble() > 1e6) {
      return InvalidError(reason::kBadResources,
                          StrCat("--cpus ", flags.cpus, " is no number of cores; give 0.5 or 2"));
    }
    spec.resources.cpus_e4 = static_cast<int64_t>(cpus.AsDouble() * kWholeUnit + 0.5);
  }
  for (const std::string& label : flags.labels) {
    ASSIGN_OR_RETURN(const client::Argument pair, client::ParseArgument(label));
    spec.labels[pair.name] = pair.value;
  }
  return spec;
}

absl::StatusOr<client::PreparedJob> PrepareFrom(client::Client* client, const RunFlags& flags) {
  ASSIGN_OR_RETURN(JobSpec spec, SpecOf(flags));
  std::vector<client::Argument> arguments;
  for (const std::string& text : flags.arguments) {
    ASSIGN_OR_RETURN(arguments.emplace_back(), client::ParseArgument(text));
  }
  ASSIGN_OR_RETURN(const KernelInfo kernel, client->GetKernel(flags.kernel));
  return client::PrepareJob(kernel, std::move(spec), arguments);
}

absl::Status UploadAll(client::Client* client, const client::PreparedJob& job, bool quiet) {
  if (job.uploads.empty()) return absl::OkStatus();
  Progress progress(stderr, quiet ? Progress::Style::kNone : Progress::StyleFor(stderr), "upload",
                    "bytes", Clock::Real());
  return client
      ->Upload(job.uploads,
               [&](uint64_t sent, uint64_t total) { progress.Update(sent, total, ""); })
      .status();
}

absl::Status DryRun(Context* context, client::Client* client, const client::PreparedJob& job) {
  // The master looks for blobs too; a dry run says so instead of uploading.
  ASSIGN_OR_RETURN(const client::JobPlan plan, client->Plan(job.spec));
  std::cout << (context->json() ? RenderObject("plan", PlanJson(plan)) : PlanText(plan));
  return absl::OkStatus();
}

absl::Status Finish(Context* context, client::Client* client, const client::JobInfo& job,
                    const std::vector<OutTarget>& targets, const std::vector<std::string>& names) {
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
  if (context->json()) {
    std::cout << RenderObject("job", JobJson(job));
  } else if (whole) {
    ASSIGN_OR_RETURN(const std::string small,
                     SmallOutputs(client, job, targets, kPrintedElementsMax, {}));
    std::cout << small;
  }
  return absl::OkStatus();
}

absl::Status Run(Context* context, const RunFlags& flags) {
  ASSIGN_OR_RETURN(client::Client * client, context->client());
  std::vector<OutTarget> targets;
  for (const std::string& out : flags.outs) {
    ASSIGN_OR_RETURN(targets.emplace_back(), ParseOut(out));
  }
  ASSIGN_OR_RETURN(const client::PreparedJob job, PrepareFrom(client, flags));
  if (flags.dry_run) return DryRun(context, client, job);
  // All that can be refused is refused before a byte is uploaded or a task runs.
  ASSIGN_OR_RETURN(const client::JobPlan plan, client->Plan(job.spec));
  RETURN_IF_ERROR(CheckTargets(targets, plan.outputs, flags.force));
  RETURN_IF_ERROR(UploadAll(client, job, flags.quiet));
  CatchInterrupts();
  ASSIGN_OR_RETURN(client::JobInfo info, client->Submit(job.spec, flags.request_id));
  if (!flags.quiet) std::cerr << "job " << info.id.value() << " submitted\n";
  ASSIGN_OR_RETURN(info, WaitWithProgress(client, info.id, flags.quiet));
  if (!client::HasEnded(info.state)) {
    std::cerr << "\njob " << info.id.value() << " goes on; come back with `tandem job wait "
              << info.id.value() << "`, end it with `tandem job cancel " << info.id.value()
              << "`\n";
    context->exit_code = kExitInterrupted;
    return absl::OkStatus();
  }
  const auto names =
      job.item_names.empty() ? std::vector<std::string>() : job.item_names.begin()->second;
  return Finish(context, client, info, targets, names);
}

absl::Status Submit(Context* context, const RunFlags& flags) {
  ASSIGN_OR_RETURN(client::Client * client, context->client());
  ASSIGN_OR_RETURN(const client::PreparedJob job, PrepareFrom(client, flags));
  if (flags.dry_run) return DryRun(context, client, job);
  RETURN_IF_ERROR(client->Plan(job.spec).status());
  RETURN_IF_ERROR(UploadAll(client, job, flags.quiet));
  ASSIGN_OR_RETURN(const client::JobInfo info, client->Submit(job.spec, flags.request_id));
  std::cout << (context->json() ? RenderObject("job", JobJson(info))
                                : StrCat(info.id.value(), "\n"));
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
      "call=@call.npy\n",
      [context, run_flags] { return Run(context, *run_flags); });
  AddFlags(run, run_flags.get());
  run->add_option("--out", run_flags->outs,
                  "output=@file.npy, output=@directory/ or output=-; may be given again")
      ->type_name("NAME=@PATH");
  run->add_flag("--force", run_flags->force, "Overwrite what is there");
  AddFormat(run, context);
  const auto submit_flags = std::make_shared<RunFlags>();
  CLI::App* submit =
      AddCommand(app, context, "submit", "Submit a job and print its number; do not wait.",
                 "  tandem submit monte_carlo_pi n=1000000000 seed=7\n"
                 "  tandem job wait last\n",
                 [context, submit_flags] { return Submit(context, *submit_flags); });
  AddFlags(submit, submit_flags.get());
  AddFormat(submit, context);
}

}  // namespace tandem::cli
