#include "master/server/job_finder.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "master/store/page_token.h"

namespace tandem::master {

absl::StatusOr<JobView> JobFinder::Find(JobId job, std::string_view owner) const {
  if (!job.valid()) {
    return WithField(InvalidError(reason::kBadArgument, "the job's id is missing"), "id");
  }
  std::optional<JobView> view = board_->Find(job);
  if (!view) {
    if (board_->Has(job)) return NoSuchJob(job);  // Not durable yet.
    absl::StatusOr<JobRow> row = store_->FindJob(job);
    if (absl::IsNotFound(row.status())) return NoSuchJob(job);
    RETURN_IF_ERROR(row.status());
    ASSIGN_OR_RETURN(view, ViewOf(*row));
  }
  if (view->bound().spec.owner != owner) return NoSuchJob(job);
  return *std::move(view);
}

absl::StatusOr<JobFinder::Page> JobFinder::List(const JobFilter& filter, uint32_t page_size,
                                                std::string_view page_token) const {
  ASSIGN_OR_RETURN(const JobId before, ParseOlderThan(page_token));
  Page page;
  for (JobView& view : board_->List(filter, before, page_size + 1)) {
    const JobId id = view.status.job;
    page.entries.push_back({id, std::move(view), {}});
  }
  // History's rows, but for jobs that the board knows better.
  size_t wanted = page_size + 1;
  std::string token(page_token);
  while (wanted > 0) {
    ASSIGN_OR_RETURN(JobPage rows, store_->ListJobs(filter, page_size + 1, token));
    for (JobRow& row : rows.rows) {
      if (wanted == 0) break;
      if (board_->Has(row.id)) continue;
      --wanted;
      const JobId id = row.id;
      page.entries.push_back({id, std::nullopt, std::move(row)});
    }
    token = rows.next_page_token;
    if (token.empty()) break;
  }
  std::ranges::sort(page.entries, std::greater<>(), &Entry::id);
  if (page.entries.size() > page_size) {
    page.entries.resize(page_size);
    page.next_page_token = ToPageToken(page.entries.back().id);
  }
  return page;
}

}  // namespace tandem::master
