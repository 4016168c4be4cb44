// `tandem doctor`: one line for each thing that Tandem needs of this machine, with its mend.
#include <filesystem>
#include <iostream>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/time/clock.h"
#include "client/cli/cluster_checks.h"
#include "client/cli/context.h"
#include "client/cli/disk_check.h"
#include "client/cli/exit_code.h"
#include "client/cli/gpu_checks.h"
#include "client/cli/machine_checks.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/model/gpu_memory.h"

namespace tandem::cli {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(2);

MasterAnswer AskMaster(const Context& context) {
  MasterAnswer answer;
  const auto client = client::Client::Connect(
      {.address = context.address, .patience = absl::ZeroDuration(), .deadline = kDeadline});
  if (!client.ok()) {
    answer.master = client.status();
    return answer;
  }
  (void)(*client)->GetMaster();  // connects, so that the next call's time is the network's
  answer.asked = absl::Now();
  answer.master = (*client)->GetMaster();
  answer.answered = absl::Now();
  if (!answer.master.ok()) return answer;
  auto workers = (*client)->ListWorkers();
  if (workers.ok()) answer.workers = *std::move(workers);
  return answer;
}

struct DoctorFlags {
  std::string directory;
  std::string gpu_limit = "30s";
};

std::vector<Finding> Examine(const Context& context, const std::string& directory,
                             absl::Duration gpu_limit) {
  std::vector<Finding> findings = CheckMachine(Context::BinaryDirectory());
  GpuProbe gpus = ProbeGpus(Context::BinaryDirectory(), gpu_limit);
  const Settings::Value& memory = context.settings.Get("gpu_memory");
  gpus.memory = GpuMemory::Parse(memory.text).value_or(GpuMemory());  // checked when it was set
  gpus.memory_origin = memory.where.empty() ? OriginName(memory.origin) : memory.where;
  for (Finding& finding : CheckGpus(gpus)) {
    findings.push_back(std::move(finding));
  }
  findings.push_back(CheckDisk(directory, MeasureDisk(directory)));
  const MasterAnswer answer = AskMaster(context);
  if (!answer.master.ok()) {
    if (auto port = CheckPort(context.address)) findings.push_back(*std::move(port));
  }
  const bool expected = context.settings.Get("address").origin != Origin::kDefault;
  findings.push_back(CheckMaster(context.address, answer, expected));
  findings.push_back(CheckVersions(kVersion, answer));
  findings.push_back(CheckClock(ClockIsSynchronised(), answer));
  return findings;
}

absl::Status Doctor(Context* context, const DoctorFlags& flags) {
  ASSIGN_OR_RETURN(const absl::Duration gpu_limit, ParseDuration(flags.gpu_limit));
  std::string directory = flags.directory;
  if (directory.empty()) {
    std::error_code failed;
    directory = std::filesystem::temp_directory_path(failed).string();
  }
  Table table("findings", {{"CHECK"}, {"VERDICT"}, {"FOUND"}, {"MEND"}, {"REASON", Column::kWide}});
  for (const Finding& finding : Examine(*context, directory, gpu_limit)) {
    const std::string reason = ReasonOf(finding.error);
    table.Add({finding.check, std::string(VerdictName(finding.verdict)), finding.found,
               finding.mend, reason},
              {{"check", finding.check},
               {"verdict", VerdictName(finding.verdict)},
               {"found", finding.found},
               {"mend", finding.mend},
               {"reason", reason},
               {"facts", finding.facts}});
    if (finding.verdict == Finding::Verdict::kFailure && context->exit_code == kExitOk) {
      context->exit_code = ExitCodeOf(finding.error);
    }
  }
  std::cout << table.Render(context->format());
  return absl::OkStatus();
}

}  // namespace

void AddDoctorCommand(CLI::App* app, Context* context) {
  const auto flags = std::make_shared<DoctorFlags>();
  CLI::App* doctor =
      AddCommand(app, context, "doctor",
                 "Check what Tandem needs of this machine, and say how to mend what is not well.",
                 "  tandem doctor\n  tandem doctor --dir /var/lib/tandem -o json\n",
                 [context, flags] { return Doctor(context, *flags); });
  doctor
      ->add_option("--dir", flags->directory,
                   "Where data would be kept (default: the temporary folder)")
      ->type_name("DIR");
  doctor
      ->add_option("--gpu-time-limit", flags->gpu_limit,
                   "How long the driver may take to answer for a GPU; longer, and it hangs")
      ->type_name("DURATION")
      ->capture_default_str();
  AddFormat(doctor, context);
}

}  // namespace tandem::cli
