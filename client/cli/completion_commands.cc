// `tandem completion SHELL`, and `tandem complete`, which its scripts call.
#include <iostream>
#include <memory>

#include "client/cli/completion.h"
#include "client/cli/context.h"
#include "common/base/strings.h"
#include "common/cli/option_types.h"

namespace tandem::cli {
namespace {

// Whoever presses TAB does not wait for a master that is away.
constexpr absl::Duration kAnswerPatience = absl::Seconds(1);
constexpr uint64_t kJobsOffered = 20;

// Names that only the cluster knows; none where it does not answer.
class ClusterNames {
 public:
  explicit ClusterNames(Context* context) {
    if (!context->Ready().ok()) return;
    auto client = client::Client::Connect({.address = context->address,
                                           .patience = absl::ZeroDuration(),
                                           .deadline = kAnswerPatience});
    if (client.ok()) client_ = *std::move(client);
  }

  std::vector<std::string> Of(std::string_view kind, const std::string& kernel) {
    std::vector<std::string> names;
    if (kind == "SETTING") {
      for (const SettingInfo& setting : KnownSettings()) names.push_back(setting.key);
    }
    if (client_ == nullptr) return names;
    if (kind == "KERNEL") {
      const auto kernels = client_->ListKernels();
      for (const auto& known : kernels.ok() ? *kernels : Kernels()) {
        if (known.current) names.push_back(known.kernel.name);
      }
    } else if (kind == "NAME=VALUE") {
      AddArguments(kernel, &names);
    } else if (kind == "WORKER") {
      const auto workers = client_->ListWorkers();
      for (const auto& worker : workers.ok() ? *workers : Workers()) names.push_back(worker.name);
    } else if (kind == "JOBS") {
      client::ListFilter filter;
      filter.limit = kJobsOffered;
      const auto jobs = client_->List(filter);
      for (const auto& job : jobs.ok() ? *jobs : Jobs()) names.push_back(StrCat(job.id.value()));
    }
    return names;
  }

 private:
  using Kernels = std::vector<client::KernelSummary>;
  using Workers = std::vector<client::WorkerSummary>;
  using Jobs = std::vector<client::JobInfo>;

  void AddArguments(const std::string& kernel, std::vector<std::string>* names) {
    const auto info = client_->GetKernel(kernel);
    if (!info.ok()) return;
    for (const auto& operand : info->signature.operands()) names->push_back(operand.name + "=");
    for (const auto& scalar : info->signature.scalars()) names->push_back(scalar.name + "=");
    for (const auto& axis : info->signature.axes()) names->push_back(StrCat(axis, "="));
  }

  std::unique_ptr<client::Client> client_;
};

}  // namespace

void AddCompletionCommands(CLI::App* app, Context* context) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* completion = AddPlainCommand(
      app, context, "completion", "Print what makes a shell complete tandem's words.",
      "  source <(tandem completion bash)\n"
      "  tandem completion bash > ~/.local/share/bash-completion/completions/tandem\n"
      "  tandem completion fish | source\n",
      [shell] {
        std::cout << CompletionScript(*shell);
        return absl::OkStatus();
      });
  completion->add_option("shell", *shell, "The shell")
      ->required()
      ->check(OneOf({"bash", "zsh", "fish"}));

  CLI::App* complete = app->add_subcommand("complete", "What could come next; for the scripts.");
  complete->group("");  // not in the help
  complete->prefix_command();
  complete->set_help_flag();
  complete->callback([app, context, complete] {
    ClusterNames names(context);
    std::cout << CompletionLines(Complete(
        *app, complete->remaining(),
        [&](std::string_view kind, const std::string& kernel) { return names.Of(kind, kernel); }));
  });
}

}  // namespace tandem::cli
