// `tandem`: one command with subcommands. Data on stdout, talk on stderr; exit codes in
// exit_code.h.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <sstream>
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

// A list of subcommands shows the first line of each one's description: examples are in its own
// help.
class BriefFormatter : public CLI::Formatter {
 public:
  std::string make_subcommand(const CLI::App* command) const override {
    const std::string all = command->get_description();
    std::stringstream out;
    CLI::detail::format_help(out, command->get_name(), all.substr(0, all.find('\n')),
                             get_column_width());
    return out.str();
  }
};

// What to say of the first word that is no subcommand where one is expected; "" when there is none.
std::string UnknownCommand(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* level = &app;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--address") ++i;  // and its value
    if (word.empty() || word[0] == '-') continue;
    std::vector<std::string> names;
    const CLI::App* next = nullptr;
    for (const CLI::App* child : level->get_subcommands(nullptr)) {
      if (child->get_name() == word) next = child;
      names.push_back(child->get_name());
    }
    if (names.empty()) return "";
    if (next == nullptr) {
      const std::vector<std::string_view> views(names.begin(), names.end());
      const std::string_view near = Nearest(word, views);
      return StrCat(level->get_name(), " has no subcommand ", Quoted(word),
                    near.empty() ? "" : StrCat("; did you mean ", near, "?"));
    }
    level = next;
  }
  return "";
}

int UsageError(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  const std::string unknown = UnknownCommand(app, std::vector<std::string>(argv + 1, argv + argc));
  std::cerr << "tandem: " << (unknown.empty() ? std::string(error.what()) : unknown)
            << "\nSee tandem --help.\n";
  return kExitUsage;
}

int Main(int argc, char** argv) {
  rpc::RouteGrpcLog();
  Context context;
  CLI::App app(kExamples, "tandem");
  app.formatter(std::make_shared<BriefFormatter>());
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
