#include "client/cli/app.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iostream>

#include "client/cli/exit_code.h"
#include "client/cli/stdout_buffer.h"
#include "common/base/error.h"
#include "common/base/strings.h"
#include "common/cli/environment.h"
#include "common/cli/usage.h"

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

// The format asked for by words that could not be parsed as a whole; "" for none.
std::string FormatAskedFor(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    std::string value;
    for (const std::string_view flag : {"-o", "--output"}) {
      if (words[i] == flag && i + 1 < words.size()) value = words[i + 1];
      if (words[i].starts_with(StrCat(flag, "="))) value = words[i].substr(flag.size() + 1);
    }
    if (value.empty() && words[i].starts_with("-o")) value = words[i].substr(2);
    if (FormatFromName(value).has_value()) return value;
  }
  return "";
}

// All that was printed must have arrived: a full disk is no success.
absl::Status Printed(int error) {
  if (error == 0) return absl::OkStatus();
  const bool full = error == ENOSPC || error == EDQUOT;
  return Error(full ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kPermissionDenied,
               full ? reason::kDiskFull : reason::kPathUnwritable,
               StrCat("not all output could be written to stdout: ", std::strerror(error),
                      "; what is there is not complete"));
}

int Parse(CLI::App* app, Context* context, const std::vector<std::string>& words) {
  try {
    std::vector<std::string> reversed(words.rbegin(), words.rend());
    app->parse(reversed);
  } catch (const CLI::Success& help) {
    return app->exit(help);
  } catch (const CLI::ParseError& error) {
    context->format_flag = FormatAskedFor(words);
    (void)context->Ready();  // for its output format; what is wrong with settings can wait
    context->Fail(UsageError(*app, error));
  }
  return context->exit_code;
}

}  // namespace

std::unique_ptr<CLI::App> MakeApp(Context* context) {
  auto app = std::make_unique<CLI::App>(kExamples, "tandem");
  app->formatter(HelpFormatter());
  app->require_subcommand(1);
  app->set_version_flag("--version", StrCat("tandem ", kVersion), "Print the version and exit");
  app->add_option("--address", context->address_flag, "The master's address")->type_name("ADDRESS");
  AddFormat(app.get(), context);
  AddUpCommand(app.get(), context);
  AddRunCommands(app.get(), context);
  AddJobCommands(app.get(), context);
  AddDataCommands(app.get(), context);
  AddClusterCommands(app.get(), context);
  AddDoctorCommand(app.get(), context);
  AddConfigCommands(app.get(), context);
  AddVersionCommand(app.get(), context);
  AddCompletionCommands(app.get(), context);
  return app;
}

int RunCommand(const std::vector<std::string>& words) {
  // What a shell asks for completions shows no words of ours.
  if (words.empty() || words[0] != "complete") {
    WarnOfMistypedVariables("tandem", environ, std::cerr);
  }
  StdoutBuffer buffer;
  Context context;
  const std::unique_ptr<CLI::App> app = MakeApp(&context);
  const int code = Parse(app.get(), &context, words);
  const absl::Status printed = Printed(buffer.Finish());
  if (printed.ok()) return code;
  std::cerr << ErrorLine(printed) << '\n';
  return code == kExitOk ? ExitCodeOf(printed) : code;
}

}  // namespace tandem::cli
