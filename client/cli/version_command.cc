// `tandem version`: of this program, the master and its workers.
#include <algorithm>
#include <iostream>
#include <vector>

#include "client/cli/context.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::cli {
namespace {

struct Part {
  std::string what, name, version;
};

// All parts of the cluster; the error when no master answers.
absl::Status AddCluster(Context* context, std::vector<Part>* parts) {
  RETURN_IF_ERROR(context->Ready());
  ASSIGN_OR_RETURN(client::Client * client, context->client());
  ASSIGN_OR_RETURN(const client::MasterSummary master, client->GetMaster());
  parts->push_back({"master", context->address, master.version});
  ASSIGN_OR_RETURN(const auto workers, client->ListWorkers());
  for (const auto& worker : workers) parts->push_back({"worker", worker.name, worker.version});
  return absl::OkStatus();
}

absl::Status Version(Context* context, bool client_only) {
  std::vector<Part> parts{{"client", "tandem", kVersion}};
  const absl::Status reached = client_only ? absl::OkStatus() : AddCluster(context, &parts);
  Table table("versions", {{"PART"}, {"NAME"}, {"VERSION"}});
  for (const Part& part : parts) {
    table.Add({part.what, part.name, part.version},
              {{"part", part.what}, {"name", part.name}, {"version", part.version}});
  }
  std::cout << table.Render(context->format());
  RETURN_IF_ERROR(reached);
  for (const Part& part : parts) {
    if (part.version == kVersion) continue;
    return Error(absl::StatusCode::kFailedPrecondition, reason::kVersionSkew,
                 StrCat(part.what, " ", part.name, " is version ", part.version,
                        ", this program is ", kVersion, "; install one version everywhere"));
  }
  return absl::OkStatus();
}

}  // namespace

void AddVersionCommand(CLI::App* app, Context* context) {
  const auto client_only = std::make_shared<bool>(false);
  CLI::App* version = AddPlainCommand(
      app, context, "version", "Print the versions of this program, the master and its workers.",
      "  tandem version\n  tandem version --client -o json\n",
      [context, client_only] { return Version(context, *client_only); });
  version->add_flag("--client", *client_only, "Of this program only; asks no master");
  AddFormat(version, context);
}

}  // namespace tandem::cli
