// The environment variables that Tandem's programs read, and those that are probably meant to be
// one: a name that nobody reads changes nothing, and nobody says so.
//
//   WarnOfMistypedVariables("tandem", environ, std::cerr);
//
// Thread-safety: nobody may change the environment meanwhile.
#ifndef TANDEM_COMMON_CLI_ENVIRONMENT_H_
#define TANDEM_COMMON_CLI_ENVIRONMENT_H_

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::cli {

// In order of the environment: "TANDEM_ADRESS is read by no program; did you mean
// TANDEM_ADDRESS?". Only of names that begin with TANDEM_ and are nearly one of ours.
std::vector<std::string> MistypedVariables(const char* const* environment);

// A line each, behind the program's name.
void WarnOfMistypedVariables(std::string_view program, const char* const* environment,
                             std::ostream& out);

}  // namespace tandem::cli

#endif  // TANDEM_COMMON_CLI_ENVIRONMENT_H_
