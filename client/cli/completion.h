// What could come next on a command line: from the command's own tree, and names that only the
// cluster knows.
//
// The shells' scripts (`tandem completion bash`) hand the words so far to `tandem complete` and
// show what it prints, so a new option is completed as soon as it exists.
//
// Thread-safety: pure functions.
#ifndef TANDEM_CLIENT_CLI_COMPLETION_H_
#define TANDEM_CLIENT_CLI_COMPLETION_H_

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"

namespace tandem::cli {

struct Completion {
  // In place of the whole last word.
  std::vector<std::string> words;
  // File names may follow this part of the last word; nothing: no file belongs here.
  enum Files { kNone, kFiles, kDirectories } files = kNone;
  std::string before_file;
};

// Names of a kind ("KERNEL", "WORKER", "JOBS", "SETTING", or "NAME=VALUE" for the operands of
// `kernel`).
using NameLookup =
    absl::FunctionRef<std::vector<std::string>(std::string_view kind, const std::string& kernel)>;

// `words`: those behind the program's name, the last as far as it is typed.
Completion Complete(const CLI::App& app, const std::vector<std::string>& words, NameLookup names);

// One candidate a line; ":files BEFORE" or ":directories BEFORE" first where files belong.
std::string CompletionLines(const Completion& completion);

// The script for "bash", "zsh" or "fish".
std::string_view CompletionScript(std::string_view shell);

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_COMPLETION_H_
