#include "master/server/explain_leases.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string_view>

#include "common/base/strings.h"
#include "master/server/explain_devices.h"
#include "master/server/explain_job.h"

namespace tandem::master {
namespace {

constexpr size_t kSaidMax = 4;

// From the first piece's begin to the last one's end.
struct TimeSpan {
  uint64_t begin = std::numeric_limits<uint64_t>::max(), end = 0;
  void Add(const v1::LeaseShare& share) {
    begin = std::min(begin, share.begin_ns());
    end = std::max(end, share.end_ns());
  }
  uint64_t ns() const { return end - std::min(begin, end); }
};

uint64_t Took(const v1::LeaseSplit& lease) {
  TimeSpan span;
  for (const v1::LeaseShare& share : lease.shares()) span.Add(share);
  return span.ns();
}

std::string SpanText(const v1::TaskSpan& span) {
  return StrCat("[", span.begin(), ",", span.end(), ")");
}

// Which tasks; and which were granted, where that is more.
std::string TasksText(const v1::LeaseSplit& lease) {
  std::string text = "tasks ";
  for (int i = 0; i < lease.kept_size(); ++i) {
    StrAppend(&text, i == 0 ? "" : " and ", SpanText(lease.kept(i)));
  }
  const bool whole = lease.kept_size() == 1 && lease.kept(0).begin() == lease.granted().begin() &&
                     lease.kept(0).end() == lease.granted().end();
  if (whole) return text;
  return StrCat(text, " of ", SpanText(lease.granted()), ", the rest went elsewhere,");
}

struct KindShare {
  uint64_t tasks = 0;
  uint32_t devices = 0;
  TimeSpan span;
  const v1::LeaseShare* largest = nullptr;
};

std::string BoundText(const KindShare& kind) {
  const std::string& by = kind.largest->bound_by();
  if (by == "grid") return "its grids";
  return by == "cpu" ? "the CPU" : by;
}

}  // namespace

std::string LeaseSentence(const v1::LeaseSplit& lease) {
  std::map<v1::DeviceKind, KindShare, std::greater<>> kinds;  // The CPU last.
  for (const v1::LeaseShare& share : lease.shares()) {
    KindShare& kind = kinds[share.device()];
    kind.tasks += share.tasks();
    ++kind.devices;
    kind.span.Add(share);
    if (kind.largest == nullptr || kind.largest->tasks() < share.tasks()) kind.largest = &share;
  }
  const bool alone = kinds.size() == 1;
  std::string shares, bounds;
  for (const auto& [kind, of] : kinds) {
    StrAppend(&shares, shares.empty() ? "" : ", ", KindName(kind));
    if (of.devices > 1) StrAppend(&shares, " (", of.devices, " devices)");
    StrAppend(&shares, alone ? " alone, " : " ", Grouped(of.tasks), " in ",
              ThreeDigits(static_cast<double>(of.span.ns())));
    if (of.largest->bound_by().empty() || (kind == v1::DEVICE_CPU && !alone)) continue;
    StrAppend(&bounds, "; ", alone ? "" : KindName(kind), alone ? "" : " is ", "bound by ",
              BoundText(of));
  }
  return StrCat(TasksText(lease), lease.worker_name().empty() ? "" : " at ", lease.worker_name(),
                ": ", shares, bounds);
}

std::vector<v1::Finding> ExplainLeases(const std::vector<v1::LeaseSplit>& leases) {
  const bool devices = std::ranges::any_of(leases, [](const v1::LeaseSplit& lease) {
    return std::any_of(
        lease.shares().begin(), lease.shares().end(),
        [](const v1::LeaseShare& share) { return share.device() != v1::DEVICE_CPU; });
  });
  if (!devices) return {};
  std::vector<const v1::LeaseSplit*> said;
  for (const v1::LeaseSplit& lease : leases) said.push_back(&lease);
  std::ranges::stable_sort(said, std::greater<>(),
                           [](const v1::LeaseSplit* lease) { return Took(*lease); });
  said.resize(std::min(said.size(), kSaidMax));
  std::ranges::sort(said);  // They are elements of one vector: in its order again.
  std::vector<v1::Finding> findings;
  for (const v1::LeaseSplit* lease : said) {
    v1::Finding& finding = findings.emplace_back();
    finding.set_token("LEASE");
    finding.set_what(LeaseSentence(*lease));
  }
  return findings;
}

}  // namespace tandem::master
