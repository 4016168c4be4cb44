// Page tokens of the store's lists: where the next page begins, as text that callers pass back.
//
// Thread-safety: pure functions.
#ifndef TANDEM_MASTER_STORE_PAGE_TOKEN_H_
#define TANDEM_MASTER_STORE_PAGE_TOKEN_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/model/ids.h"

namespace tandem::master {

// A failure's place in its job: the page begins there.
struct FailurePlace {
  uint64_t task = 0;
  uint32_t attempt = 0;
};
std::string ToPageToken(const FailurePlace& place);
// An empty token is the beginning. Errors: INVALID_ARGUMENT (BAD_PAGE_TOKEN).
absl::StatusOr<FailurePlace> ParseFailurePlace(std::string_view token);

// The page holds jobs older than this one.
std::string ToPageToken(JobId older_than);
// An empty token is the beginning: larger than every id. Errors: INVALID_ARGUMENT (BAD_PAGE_TOKEN).
absl::StatusOr<JobId> ParseOlderThan(std::string_view token);

// What a caller gets who asks for `wanted` rows (0: as many as may be).
uint32_t PageRows(uint32_t wanted, uint32_t limit);

}  // namespace tandem::master

#endif  // TANDEM_MASTER_STORE_PAGE_TOKEN_H_
