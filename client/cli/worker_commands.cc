// `tandem worker ls | show | drain | resume | explain | forget | top`.
#include <unistd.h>

#include <iostream>
#include <memory>
#include <utility>

#include "client/cli/context.h"
#include "client/cli/exit_code.h"
#include "client/cli/explain_text.h"
#include "client/cli/interrupt.h"
#include "client/cli/progress.h"
#include "client/cli/worker_text.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/cli/option_types.h"

namespace tandem::cli {
namespace {

constexpr absl::Duration kDrainPoll = absl::Milliseconds(100);

struct WorkerFlags {
  std::string name, kernel;
  std::string timeout = "unlimited", every = "1s";
  bool wait = false, once = false;
};
using WorkerFlagsPtr = std::shared_ptr<WorkerFlags>;

absl::Status ListWorkers(Context* context) {
  ASSIGN_OR_RETURN(client::Client * client, context->client());
  ASSIGN_OR_RETURN(const auto workers, client->ListWorkers());
  Table table("workers", {{"NAME"},
                          {"STATE"},
                          {"DEVICES"},
                          {"LEASES"},
                          {"LEAVES DONE"},
                          {"CALLS FROM", Column::kWide},
                          {"VERSION", Column::kWide}});
  for (const auto& worker : workers) {
    table.Add({worker.name, worker.state, DevicesText(worker.devices), StrCat(worker.leases),
               HumanCount(static_cast<double>(worker.leaves_done)), worker.address, worker.version},
              WorkerJson(worker));
  }
  std::cout << table.Render(context->format());
  return absl::OkStatus();
}

absl::Status ShowWorker(Context* context, const WorkerFlags& flags) {
  ASSIGN_OR_RETURN(client::Client * client, context->client());
  ASSIGN_OR_RETURN(const client::WorkerSummary worker, client->GetWorker(flags.name));
  std::cout << WorkerRecord(worker).Render(context->format());
  return absl::OkStatus();
}

absl::Status Say(Context* context, const client::WorkerSummary& worker, const std::string& what) {
  std::cerr << "worker " << worker.name << " " << what << '\n';
  if (context->json()) std::cout << WorkerRecord(worker).Render(context->format());
  return absl::OkStatus();
}

// A worker that went away holds nothing either.
bool IsDrained(const client::WorkerSummary& worker) {
  return worker.state == "DRAINED" || worker.state == "LOST";
}

absl::Status AwaitDrained(client::Client* client, const WorkerFlags& flags,
                          client::WorkerSummary* worker) {
  ASSIGN_OR_RETURN(const absl::Duration timeout, ParseDuration(flags.timeout));
  const absl::Time give_up = absl::Now() + timeout;
  while (!IsDrained(*worker)) {
    if (absl::Now() >= give_up) {
      return Error(absl::StatusCode::kDeadlineExceeded, reason::kTimeLimit,
                   StrCat("worker ", worker->name, " still holds ", worker->leases,
                          worker->leases == 1 ? " lease" : " leases", " after ", flags.timeout,
                          "; it stays drained: wait again with `tandem worker drain ", worker->name,
                          " --wait`"));
    }
    if (AwaitInterrupts(1, kDrainPoll)) {
      return Error(absl::StatusCode::kCancelled, reason::kInterrupted,
                   StrCat("worker ", worker->name, " stays drained; `tandem worker resume ",
                          worker->name, "` undoes it"));
    }
    ASSIGN_OR_RETURN(*worker, client->GetWorker(flags.name));
  }
  return absl::OkStatus();
}

absl::Status Drain(Context* context, const WorkerFlags& flags) {
  if (flags.wait) CatchInterrupts();
  ASSIGN_OR_RETURN(client::Client * client, context->client());
  ASSIGN_OR_RETURN(client::WorkerSummary worker, client->DrainWorker(flags.name));
  if (flags.wait) RETURN_IF_ERROR(AwaitDrained(client, flags, &worker));
  if (IsDrained(worker)) return Say(context, worker, "is drained: it holds nothing");
  return Say(context, worker,
             StrCat("takes no more work; ", worker.leases,
                    worker.leases == 1 ? " lease is" : " leases are", " still out"));
}

absl::Status Resume(Context* context, const WorkerFlags& flags) {
  ASSIGN_OR_RETURN(client::Client * client, context->client());
  ASSIGN_OR_RETURN(const client::WorkerSummary worker, client->ResumeWorker(flags.name));
  return Say(context, worker, "takes work again");
}

// That a worker can have learned of the kernel: the master knows it, or the worker tells of rates
// of it, of a build that is no longer there. Errors: UNKNOWN_KERNEL.
absl::Status CheckLearned(client::Client* client, const WorkerFlags& flags) {
  const absl::Status known = client->GetKernel(flags.kernel).status();
  if (known.ok()) return known;
  ASSIGN_OR_RETURN(const client::WorkerSummary worker, client->GetWorker(flags.name));
  for (const KernelRate& rate : worker.rates) {
    if (rate.kernel == flags.kernel || rate.kernel.starts_with(flags.kernel + "@")) {
      return absl::OkStatus();
    }
  }
  return known;
}

absl::Status Forget(Context* context, const WorkerFlags& flags) {
  ASSIGN_OR_RETURN(client::Client * client, context->client());
  if (!flags.kernel.empty()) RETURN_IF_ERROR(CheckLearned(client, flags));
  ASSIGN_OR_RETURN(const client::WorkerSummary worker,
                   client->ForgetRates(flags.name, flags.kernel));
  return Say(context, worker,
             StrCat("has forgotten how long ", flags.kernel.empty() ? "work" : flags.kernel,
                    " takes, and learns it anew"));
}

absl::Status ExplainWorker(Context* context, const WorkerFlags& flags) {
  ASSIGN_OR_RETURN(client::Client * client, context->client());
  ASSIGN_OR_RETURN(const client::WorkerExplanation explanation, client->ExplainWorker(flags.name));
  if (context->json()) {
    std::cout << RenderObject("worker_explanation", ExplanationJson(explanation),
                              context->format() == Format::kJsonl);
  } else {
    std::cout << ExplanationText(explanation);
  }
  return absl::OkStatus();
}

// On a terminal each table takes the place of the one before; elsewhere they follow one another.
absl::Status Top(Context* context, const WorkerFlags& flags) {
  ASSIGN_OR_RETURN(const absl::Duration every, ParseDuration(flags.every));
  if (every < absl::Milliseconds(100)) {
    return WithField(InvalidError(reason::kBadDuration,
                                  StrCat("--every ", flags.every, " is too often; at least 100ms")),
                     "--every");
  }
  CatchInterrupts();
  ASSIGN_OR_RETURN(client::Client * client, context->client());
  const bool redraw = !flags.once && !context->json() && isatty(STDOUT_FILENO) == 1;
  ASSIGN_OR_RETURN(auto before, client->ListWorkers());
  absl::Time then = absl::Now();
  while (!AwaitInterrupts(1, every)) {
    ASSIGN_OR_RETURN(auto now, client->ListWorkers());
    const absl::Time at = absl::Now();
    const std::string text = TopTable(before, now, at - then).Render(context->format());
    if (redraw) std::cout << "\x1b[H\x1b[2J";
    std::cout << text;
    if (!flags.once && !redraw && !context->json()) std::cout << '\n';
    std::cout.flush();
    if (flags.once || !std::cout.good()) break;
    before = std::move(now);
    then = at;
  }
  return absl::OkStatus();
}

CLI::App* AddNamed(CLI::App* worker, Context* context, const WorkerFlagsPtr& flags,
                   const std::string& name, const std::string& summary, const std::string& examples,
                   absl::Status (*work)(Context*, const WorkerFlags&)) {
  CLI::App* command = AddCommand(worker, context, name, summary, examples,
                                 [context, flags, work] { return work(context, *flags); });
  command->add_option("name", flags->name, "Its name or number")->required()->type_name("WORKER");
  AddFormat(command, context);
  return command;
}

}  // namespace

void AddWorkerSubcommands(CLI::App* worker, Context* context) {
  const auto flags = std::make_shared<WorkerFlags>();
  AddFormat(AddCommand(worker, context, "ls", "List workers.",
                       "  tandem worker ls\n  tandem worker ls -o wide\n",
                       [context] { return ListWorkers(context); }),
            context);
  AddNamed(worker, context, flags, "show", "Show a worker: devices, leases, learned rates.",
           "  tandem worker show w1\n", ShowWorker);
  CLI::App* drain =
      AddNamed(worker, context, flags, "drain",
               "Let a worker finish what runs and take no more; it lasts until it is resumed.",
               "  tandem worker drain w1\n  tandem worker drain w1 --wait --timeout 10m\n", Drain);
  drain->add_flag("--wait", flags->wait, "Until it holds nothing and may be stopped");
  drain->add_option("--timeout", flags->timeout, "With --wait: at most this long")
      ->type_name("DURATION");
  AddNamed(worker, context, flags, "resume", "Let a drained worker work again.",
           "  tandem worker resume w1\n", Resume);
  AddNamed(worker, context, flags, "explain", "Say why a worker gets, or does not get, work.",
           "  tandem worker explain w1\n", ExplainWorker);
  AddNamed(worker, context, flags, "forget",
           "Let a worker forget what it has learned of how long work takes.",
           "  tandem worker forget w1\n  tandem worker forget w1 --kernel black_scholes\n", Forget)
      ->add_option("--kernel", flags->kernel, "Of this kernel alone, by name or identity")
      ->type_name("KERNEL");
  CLI::App* top = AddCommand(worker, context, "top", "Watch what workers do; Ctrl-C ends it.",
                             "  tandem worker top\n  tandem worker top --once -o json\n",
                             [context, flags] { return Top(context, *flags); });
  top->add_flag("--once", flags->once, "One look, over --every");
  top->add_option("--every", flags->every, "How often")->type_name("DURATION");
  AddFormat(top, context);
}

}  // namespace tandem::cli
