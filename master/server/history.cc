#include "master/server/history.h"

#include "master/server/timestamps.h"

namespace tandem::master {

std::optional<JobRow> History::Note(const JobView& view, MonoTime now) {
  const auto [it, first] = written_.try_emplace(view.status.job);
  Written& written = it->second;
  const bool due = first || written.state != view.status.state || now >= written.at + every_;
  if (!due) return std::nullopt;
  written = {view.status.state, now};
  if (HasEnded(view.status.state)) written_.erase(it);
  return RowOf(view, first);
}

}  // namespace tandem::master
