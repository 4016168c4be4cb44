// `tandem`: one command with subcommands. Data on stdout, talk on stderr; exit codes in
// exit_code.h.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "client/cli/context.h"
#include "client/cli/exit_code.h"
#include "common/base/strings.h"
#include "common/rpc/channel.h"

namespace tandem::cli {
namespace {

constexpr char kExamples[] =
    "Tandem runs batches of work over CPUs and GPUs of many servers.\n"
    "\n"
    "Examples:\n"
    "  tandem up --workers 2                              a cluster on this machine\n"
    "  tandem kernel ls                                   what can be run\n"
    "  tandem run monte_carlo_pi n=1000000000 seed=7      submit, wait, print\n"
    "  tandem run kmer_count base=@genome.fa k=11 --out count=@count.npy\n"
    "  tandem job ls                                      what was run\n";

// The subcommand nearest to a mistyped one, at the level where it was typed.
std::string NearestCommand(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* level = &app;
  for (const std::string& word : words) {
    if (word.empty() || word[0] == '-') break;
    std::vector<std::string> names;
    const CLI::App* next = nullptr;
    for (const CLI::App* child : level->get_subcommands(nullptr)) {
      if (child->get_name() == word) next = child;
      names.push_back(child->get_name());
    }
    if (next == nullptr) {
      const std::vector<std::string_view> views(names.begin(), names.end());
      return names.empty() ? "" : std::string(Nearest(word, views));
    }
    level = next;
  }
  return "";
}

int UsageError(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  const std::string near = NearestCommand(app, std::vector<std::string>(argv + 1, argv + argc));
  std::cerr << "tandem: " << error.what();
  if (!near.empty()) std::cerr << "; did you mean " << near << "?";
  std::cerr << "\nSee tandem --help.\n";
  return kExitUsage;
}

int Main(int argc, char** argv) {
  rpc::RouteGrpcLog();
  Context context;
  CLI::App app(kExamples, "tandem");
  app.require_subcommand(1);
  app.set_version_flag("--version", kVersion);
  app.add_option("--address", context.address, "The master's address")
      ->envname("TANDEM_ADDRESS")
      ->type_name("HOST:PORT");
  AddUpCommand(&app, &context);
  AddRunCommands(&app, &context);
  AddJobCommands(&app, &context);
  AddClusterCommands(&app, &context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForAllHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& version) {
    return app.exit(version);
  } catch (const CLI::ParseError& error) {
    return UsageError(app, error, argc, argv);
  }
  return context.exit_code;
}

}  // namespace
}  // namespace tandem::cli

int main(int argc, char** argv) {
  try {
    return tandem::cli::Main(argc, argv);
  } catch (const std::exception& error) {  // of a library; ours use statuses
    std::cerr << "tandem: " << error.what() << '\n';
    return tandem::cli::kExitJobFailed;
  }
}
