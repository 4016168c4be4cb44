#include "master/store/page_token.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "common/base/error.h"
#include "common/base/strings.h"

namespace tandem::master {
namespace {

// SQLite's integers are signed; no id or task number reaches this.
constexpr uint64_t kLargest = INT64_MAX;

absl::Status BadToken(std::string_view token) {
  return InvalidError(reason::kBadPageToken,
                      StrCat(Quoted(token),
                             " is not a page token of this list: pass back the "
                             "next_page_token of the page before, or none"));
}

bool Parse(std::string_view text, uint64_t* number) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos &&
         absl::SimpleAtoi(ToAbsl(text), number) && *number <= kLargest;
}

}  // namespace

std::string ToPageToken(const FailurePlace& place) {
  return StrCat(place.task, ".", place.attempt);
}

absl::StatusOr<FailurePlace> ParseFailurePlace(std::string_view token) {
  if (token.empty()) return FailurePlace();
  const size_t dot = token.find('.');
  FailurePlace place;
  uint64_t attempt = 0;
  if (dot == std::string_view::npos || !Parse(token.substr(0, dot), &place.task) ||
      !Parse(token.substr(dot + 1), &attempt) || attempt > UINT32_MAX) {
    return BadToken(token);
  }
  place.attempt = static_cast<uint32_t>(attempt);
  return place;
}

std::string ToPageToken(JobId older_than) { return older_than.ToString(); }

absl::StatusOr<JobId> ParseOlderThan(std::string_view token) {
  uint64_t number = kLargest;
  if (!token.empty() && !Parse(token, &number)) return BadToken(token);
  return JobId(number);
}

uint32_t PageRows(uint32_t wanted, uint32_t limit) {
  return wanted == 0 ? limit : std::min(wanted, limit);
}

}  // namespace tandem::master
