#include "tests/master/core/trace.h"

#include "common/base/strings.h"

namespace tandem::master {
namespace {

std::string Of(const LeafInterval& leaves) {
  return StrCat("[", leaves.first, ",", leaves.first + leaves.count, ")");
}
template <class Intervals>
std::string OfAll(const Intervals& intervals) {
  std::string text;
  for (const LeafInterval& leaves : intervals) text += Of(leaves);
  return text;
}

struct RecordLine {
  std::string operator()(const JobAccepted& r) const { return StrCat("JobAccepted job ", r.job); }
  std::string operator()(const LeavesDone& r) const {
    std::string text = StrCat("LeavesDone job ", r.job, " ", OfAll(r.leaves));
    if (r.tasks_failed > 0) text += StrCat(" failed ", r.tasks_failed);
    if (r.partial_id > 0) text += StrCat(" partial ", r.partial_id);
    return text;
  }
  std::string operator()(const PartialsMerged& r) const {
    return StrCat("PartialsMerged job ", r.job, " ", r.consumed.size(), " into ", r.result.id);
  }
  std::string operator()(const LeavesRetried& r) const {
    std::string text =
        StrCat("LeavesRetried job ", r.job, " ", Of(r.leaves), " attempt ", r.attempt);
    if (r.failures > 0) text += StrCat(" failures ", r.failures);
    if (r.strikes > 0) text += StrCat(" strikes ", r.strikes);
    if (r.task_known) text += StrCat(" task ", r.task, " strikes ", r.task_strikes);
    if (r.suspect) text += " suspect";
    return text + (r.level > 0 ? StrCat(" level ", static_cast<int>(r.level)) : "");
  }
  std::string operator()(const JobCancelled& r) const { return StrCat("JobCancelled job ", r.job); }
  std::string operator()(const JobEnded& r) const {
    static constexpr const char* kStates[] = {"?", "?", "?", "SUCCEEDED", "FAILED", "CANCELLED"};
    return StrCat("JobEnded job ", r.job, " ", kStates[r.state]);
  }
  std::string operator()(const JobDeleted& r) const { return StrCat("JobDeleted job ", r.job); }
  std::string operator()(const WorkerKnown& r) const {
    return StrCat("WorkerKnown ", r.worker, " ", r.name);
  }
  std::string operator()(const WorkerForgotten& r) const {
    return StrCat("WorkerForgotten ", r.worker);
  }
  std::string operator()(const KernelAnnounced& r) const {
    return StrCat("KernelAnnounced ", r.kernel->name);
  }
  std::string operator()(const IdsIssued&) const { return "IdsIssued"; }
  std::string operator()(const WorkerDrained& r) const {
    return StrCat("WorkerDrained ", r.name, r.drain ? "" : " resumed");
  }
};

std::string GrantText(const Grant& g) {
  std::string text = StrCat("job ", g.job, " n ", g.first_n, " leaf ", g.first_leaf, " level ",
                            static_cast<int>(g.level), " x", g.count, " attempt ", g.attempt);
  if (g.suspect) text += " suspect";
  if (g.suspect_set > 0) text += StrCat(" of ", g.suspect_set);
  for (uint64_t task : g.skip_tasks) text += StrCat(" skip ", task);
  return text;
}

struct MessageLine {
  std::string operator()(const WelcomeWorker& m) const {
    std::string text = StrCat("Welcome epoch ", m.epoch);
    for (const Grant& grant : m.adopted) text += StrCat("; adopted ", GrantText(grant));
    return text;
  }
  std::string operator()(const Grant& m) const { return StrCat("Grant ", GrantText(m)); }
  std::string operator()(const MergeGrant& m) const {
    return StrCat("MergeGrant job ", m.job, " n ", m.n, " of ", m.inputs.size());
  }
  std::string operator()(const Recall& m) const {
    return StrCat("Recall job ", m.job, " ", Of(m.leaves));
  }
  std::string operator()(const Outlook& m) const {
    return StrCat("Outlook job ", m.job, " ", m.share_leaves);
  }
};

}  // namespace

std::string TraceOf(const Effects& effects) {
  std::string text;
  const auto line = [&](const std::string& what) { text += what + "\n"; };
  for (const Record& r : effects.records) line("  log " + std::visit(RecordLine{}, r));
  for (const DescribeJob& d : effects.describes) {
    line(StrCat("  -> ", d.worker, " Describe job ", d.job));
  }
  for (const ToWorker& m : effects.to_workers) {
    line(StrCat("  -> ", m.worker, " ", std::visit(MessageLine{}, m.what)));
  }
  for (const SetDrain& d : effects.drains) line(StrCat("  -> ", d.worker, " Drain ", d.drain));
  for (const DropJob& d : effects.drops) {
    line(StrCat("  durable -> ", d.worker, " Drop job ", d.job));
  }
  for (const AckReport& a : effects.acks)
    line(StrCat("  durable -> ", a.worker, " Ack ", a.number));
  for (const Reply& r : effects.replies) {
    line(StrCat("  durable reply ", r.result.ok() ? StrCat("job ", *r.result)
                                                  : std::string(r.result.status().message())));
  }
  return text;
}

}  // namespace tandem::master
