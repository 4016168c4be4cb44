#include "client/cli/selectors.h"

#include <charconv>
#include <system_error>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::cli {
namespace {

absl::Status Bad(std::string_view text) {
  return InvalidError(
      reason::kBadArgument,
      StrCat(Quoted(text), " names no jobs; give 7, 1-3, 2-10:2, 1,4,7-9, last or all"));
}

absl::StatusOr<uint64_t> Number(std::string_view digits, std::string_view whole) {
  uint64_t value = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (failed != std::errc() || end != digits.data() + digits.size() || value == 0) {
    return Bad(whole);
  }
  return value;
}

absl::Status AddInterval(std::string_view part, std::vector<JobId>* jobs) {
  std::string_view range = part;
  uint64_t step = 1;
  if (const size_t colon = part.find(':'); colon != std::string_view::npos) {
    ASSIGN_OR_RETURN(step, Number(part.substr(colon + 1), part));
    range = part.substr(0, colon);
  }
  const size_t dash = range.find('-');
  if (dash == std::string_view::npos) {
    if (range.size() != part.size()) return Bad(part);
    ASSIGN_OR_RETURN(const uint64_t id, Number(range, part));
    jobs->push_back(JobId(id));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const uint64_t first, Number(range.substr(0, dash), part));
  ASSIGN_OR_RETURN(const uint64_t last, Number(range.substr(dash + 1), part));
  if (last < first) {
    return InvalidError(
        reason::kBadArgument,
        StrCat(Quoted(part), " names no jobs: the end comes before the beginning; give ", last, "-",
               first, part.substr(range.size())));
  }
  if ((last - first) / step >= kSelectedMax) {
    return Error(absl::StatusCode::kResourceExhausted, reason::kLimitExceeded,
                 StrCat(Quoted(part), " names over ", kSelectedMax, " jobs; name fewer at once"));
  }
  for (uint64_t id = first;; id += step) {
    jobs->push_back(JobId(id));
    if (last - id < step) return absl::OkStatus();
  }
}

}  // namespace

absl::StatusOr<std::vector<JobId>> SelectJobs(
    std::string_view text, absl::FunctionRef<absl::StatusOr<std::vector<JobId>>()> newest_first) {
  if (text == "all") return newest_first();
  if (text == "last") {
    ASSIGN_OR_RETURN(const std::vector<JobId> jobs, newest_first());
    if (jobs.empty()) {
      return Error(absl::StatusCode::kNotFound, reason::kJobNotFound,
                   "there is no last job: none was submitted");
    }
    return std::vector<JobId>{jobs.front()};
  }
  std::vector<JobId> jobs;
  for (const std::string_view part : Split(text, ',')) RETURN_IF_ERROR(AddInterval(part, &jobs));
  return jobs;
}

bool NamesOne(std::string_view text) {
  return text == "last" || text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace tandem::cli
