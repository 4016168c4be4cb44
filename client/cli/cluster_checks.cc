#include "client/cli/cluster_checks.h"

#include <sys/timex.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "client/cli/listen.h"
#include "common/base/strings.h"
#include "common/rpc/channel.h"

namespace tandem::cli {
namespace {

using absl::StatusCode;

constexpr absl::Duration kClockGood = absl::Seconds(1);

}  // namespace

std::optional<Finding> CheckPort(const std::string& address) {
  const auto parsed = rpc::ParseAddress(address);
  if (!parsed.ok() || parsed->unix_socket || !rpc::IsLoopback(*parsed)) return std::nullopt;
  Finding finding{.check = "port", .facts = {{"address", address}}};
  const int error = TryListen(*parsed);
  if (error == 0) {
    finding.found = StrCat(address, " is free");
    return finding;
  }
  finding.found = error == EADDRINUSE
                      ? StrCat("something that is no master listens at ", address)
                      : StrCat("cannot listen at ", address, ": ", std::strerror(error));
  return std::move(finding).Fail(
      error == EACCES ? StatusCode::kPermissionDenied : StatusCode::kUnavailable,
      reason::kAddressInUse, "start the master at another port: tandem up --port 0");
}

Finding CheckMaster(const std::string& address, const MasterAnswer& answer, bool expected) {
  Finding finding{.check = "master", .facts = {{"address", address}}};
  if (answer.master.ok()) {
    finding.found = StrCat("answers at ", address, " with ", answer.master->workers, " workers");
    finding.facts["workers"] = answer.master->workers;
    if (answer.master->workers > 0) return finding;
    return std::move(finding).Warn(
        StrCat("start a worker: tandem worker start --master ", address, " --dir DIR"));
  }
  finding.found = StrCat("none answers at ", address);
  if (!expected) return std::move(finding).Warn("start one: tandem up");
  return std::move(finding).Fail(
      StatusCode::kUnavailable, reason::kMasterUnavailable,
      "start it, or name the right one: tandem config set address HOST:PORT");
}

Finding CheckVersions(std::string_view client_version, const MasterAnswer& answer) {
  Finding finding{.check = "versions", .facts = {{"client", client_version}}};
  std::string others;
  const auto compare = [&](std::string_view what, std::string_view version) {
    if (version != client_version) StrAppend(&others, "; ", what, " is ", version);
  };
  if (answer.master.ok()) {
    finding.facts["master"] = answer.master->version;
    compare("the master", answer.master->version);
    for (const auto& worker : answer.workers) compare(worker.name, worker.version);
  }
  finding.found = StrCat("this program is ", client_version,
                         !others.empty()      ? others
                         : answer.master.ok() ? ", and so are the master and its workers"
                                              : "");
  if (others.empty()) return finding;
  return std::move(finding).Fail(StatusCode::kFailedPrecondition, reason::kVersionSkew,
                                 "install one version everywhere");
}

Finding CheckClock(bool synchronised, const MasterAnswer& answer) {
  Finding finding{.check = "clock", .facts = {{"synchronised", synchronised}}};
  finding.found = synchronised ? "synchronised" : "not known to be synchronised";
  if (answer.master.ok() && answer.master->now.has_value()) {
    const absl::Duration trip = answer.answered - answer.asked;
    const absl::Duration offset = *answer.master->now - (answer.asked + trip / 2);
    const absl::Duration size = absl::AbsDuration(offset);
    finding.facts["offset_seconds"] = absl::ToDoubleSeconds(offset);
    StrAppend(&finding.found, ", ", HumanDuration(size),
              offset < absl::ZeroDuration() ? " after" : " before", " the master's");
    if (size <= kClockGood + trip / 2) return finding;
    finding.error = Error(StatusCode::kFailedPrecondition, reason::kClockSkew, finding.found);
    return std::move(finding).Warn(
        "synchronise both clocks, as chrony does: times of jobs would not compare");
  }
  if (synchronised) return finding;
  return std::move(finding).Warn("synchronise it, as chrony does, if this is no container");
}

bool ClockIsSynchronised() {
  timex state{};
  return adjtimex(&state) >= 0 && (state.status & STA_UNSYNC) == 0;
}

}  // namespace tandem::cli
