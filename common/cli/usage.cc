#include "common/cli/usage.h"

#include <unistd.h>

#include <iostream>
#include <sstream>
#include <string_view>
#include <vector>

#include "absl/strings/str_join.h"
#include "common/base/error.h"
#include "common/base/strings.h"
#include "common/cli/environment.h"
#include "common/cli/exit_code.h"
#include "common/cli/option_types.h"

namespace tandem::cli {
namespace {

// The subcommand that the words had reached.
const CLI::App* Deepest(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().back();
  return app;
}

std::vector<std::string> Subcommands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* child : VisibleSubcommands(app)) names.push_back(child->get_name());
  return names;
}

bool LooksLikeOption(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && (word[1] < '0' || word[1] > '9');
}

absl::Status Refuse(const CLI::App& command, std::string_view reason, std::string_view what) {
  return InvalidError(reason, StrCat(what, what.ends_with('?') ? " See " : "; see ",
                                     CommandPath(command), " --help"));
}

absl::Status UnknownOption(const CLI::App& command, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& known : option->get_lnames()) names.push_back("--" + known);
  }
  return WithField(Refuse(command, reason::kUnknownOption,
                          StrCat(CommandPath(command), " has no option ", Quoted(name),
                                 DidYouMean(name, names))),
                   name);
}

absl::Status UnknownWord(const CLI::App& command, const std::string& word) {
  const std::vector<std::string> names = Subcommands(command);
  if (names.empty()) {
    return Refuse(command, reason::kUnexpectedArgument,
                  StrCat(CommandPath(command), " takes no further argument, but ", Quoted(word),
                         " is given"));
  }
  const std::string near = DidYouMean(word, names);
  return Refuse(command, reason::kUnknownCommand,
                StrCat(CommandPath(command), " has no subcommand ", Quoted(word),
                       near.empty() ? StrCat("; it has ", absl::StrJoin(names, ", ")) : near));
}

absl::Status Missing(const CLI::App& command) {
  if (const std::vector<std::string> names = Subcommands(command); !names.empty()) {
    return Refuse(
        command, reason::kMissingArgument,
        StrCat(CommandPath(command), " needs a subcommand: ", absl::StrJoin(names, ", ")));
  }
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_required() || option->count() > 0) continue;
    const std::string type = TypeOf(*option);
    const std::string name =
        option->get_positional() ? type : StrCat(option->get_name(), type.empty() ? "" : " ", type);
    return WithField(
        Refuse(command, reason::kMissingArgument,
               StrCat(CommandPath(command), " needs ", name, ": ", option->get_description())),
        option->get_single_name());
  }
  return Refuse(command, reason::kMissingArgument,
                StrCat(CommandPath(command), " needs more arguments"));
}

// CLI11's message begins with the option's name: "--name: 1 required TEXT missing".
absl::Status Mismatch(const CLI::App& command, const std::string& what) {
  const std::string option = what.substr(0, what.find(':'));
  const bool twice = what.find("At Most") != std::string::npos;
  return WithField(
      twice ? Refuse(command, reason::kBadArgument,
                     StrCat(option, " is given more than once; give it once"))
            : Refuse(command, reason::kMissingArgument, StrCat(option, " needs a value")),
      option);
}

class Help : public CLI::Formatter {
 public:
  // The first line of the description: examples are in the subcommand's own help.
  std::string make_subcommand(const CLI::App* command) const override {
    const std::string all = command->get_description();
    std::stringstream out;
    CLI::detail::format_help(out, command->get_name(), all.substr(0, all.find('\n')),
                             get_column_width());
    return out.str();
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string type = TypeOf(*option);
    std::string text = type.empty() || option->get_positional() ? "" : " " + type;
    if (!option->get_default_str().empty()) text += StrCat(" [", option->get_default_str(), "]");
    if (!option->get_envname().empty()) text += StrCat(" ($", option->get_envname(), ")");
    if (option->get_required() && !option->get_positional()) text += " (required)";
    return text;
  }
  std::string make_option_name(const CLI::Option* option, bool positional) const override {
    return positional ? TypeOf(*option) : CLI::Formatter::make_option_name(option, false);
  }
};

}  // namespace

absl::Status UsageError(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = *Deepest(&app);
  const std::vector<std::string> extra = app.remaining(true);
  for (const std::string& word : extra) {
    if (LooksLikeOption(word)) return UnknownOption(command, word);
  }
  if (!extra.empty()) return UnknownWord(command, extra.front());
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) return Missing(command);
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    return Mismatch(command, error.what());
  }
  const std::string what = error.what();
  const absl::Status refused = Refuse(command, reason::kBadArgument, what);
  return what.starts_with("--") ? WithField(refused, what.substr(0, what.find(':'))) : refused;
}

std::string CommandPath(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name()
                           : StrCat(CommandPath(*parent), " ", command.get_name());
}

std::vector<const CLI::App*> VisibleSubcommands(const CLI::App& command) {
  return command.get_subcommands([](const CLI::App* child) { return !child->get_group().empty(); });
}

std::string TypeOf(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return "";
  const std::string type = option.get_type_name();
  return type.substr(type.rfind(':') + 1);  // a check's own description comes last
}

std::optional<int> ParseCommandLine(CLI::App* app, int argc, char** argv) {
  app->formatter(HelpFormatter());
  WarnOfMistypedVariables(app->get_name(), environ, std::cerr);
  try {
    app->parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app->exit(help);
  } catch (const CLI::ParseError& error) {
    const absl::Status refused = UsageError(*app, error);
    std::cerr << ErrorLine(refused, app->get_name()) << '\n';
    return ExitCodeOf(refused);
  }
  return std::nullopt;
}

std::shared_ptr<CLI::FormatterBase> HelpFormatter() { return std::make_shared<Help>(); }

}  // namespace tandem::cli
