// Jobs as people name them: `7`, `1-3`, `2-10:2`, `1,4,7-9`, `last`, `all`.
//
// Thread-safety: pure functions.
#ifndef TANDEM_CLIENT_CLI_SELECTORS_H_
#define TANDEM_CLIENT_CLI_SELECTORS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/model/ids.h"

namespace tandem::cli {

// The most jobs that one selector may name.
inline constexpr uint64_t kSelectedMax = 100'000;

// `newest_first`: all the caller's jobs; asked only for `last` and `all`.
// Errors: INVALID_ARGUMENT; NOT_FOUND for `last` when there is none.
absl::StatusOr<std::vector<JobId>> SelectJobs(
    std::string_view text, absl::FunctionRef<absl::StatusOr<std::vector<JobId>>()> newest_first);

// Does it name one job, however many there are: `7` or `last`?
bool NamesOne(std::string_view text);

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_SELECTORS_H_
