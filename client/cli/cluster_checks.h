// What `tandem doctor` finds about the way to the master: its port, versions, clocks.
//
// Thread-safety: pure functions but for CheckPort, which tries the port.
#ifndef TANDEM_CLIENT_CLI_CLUSTER_CHECKS_H_
#define TANDEM_CLIENT_CLI_CLUSTER_CHECKS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/finding.h"
#include "client/lib/client.h"

namespace tandem::cli {

// How a master answered.
struct MasterAnswer {
  absl::StatusOr<client::MasterSummary> master = absl::UnknownError("not asked");
  absl::Time asked, answered;
  std::vector<client::WorkerSummary> workers;
};

// Where no master answers: is the port free, for one to start? Nothing for an address that is not
// this host's.
std::optional<Finding> CheckPort(const std::string& address);
// `expected`: somebody has set this address, so a master should be there.
Finding CheckMaster(const std::string& address, const MasterAnswer& answer, bool expected);
Finding CheckVersions(std::string_view client_version, const MasterAnswer& answer);
// `synchronised`: what the kernel says of its clock.
Finding CheckClock(bool synchronised, const MasterAnswer& answer);
bool ClockIsSynchronised();

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_CLUSTER_CHECKS_H_
