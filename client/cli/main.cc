// `tandem`: one command with subcommands. Data on stdout, talk on stderr; exit codes in
// exit_code.h.
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "client/cli/app.h"
#include "client/cli/exit_code.h"
#include "common/base/error.h"
#include "common/rpc/channel.h"

int main(int argc, char** argv) {
  tandem::rpc::RouteGrpcLog();
  try {
    return tandem::cli::RunCommand(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& error) {  // of a library; ours use statuses
    const absl::Status status =
        tandem::Error(absl::StatusCode::kInternal, tandem::reason::kInternal, error.what());
    std::cerr << tandem::cli::ErrorLine(status) << '\n';
    return tandem::cli::ExitCodeOf(status);
  }
}
