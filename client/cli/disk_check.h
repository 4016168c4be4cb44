// What `tandem doctor` finds about the folder where a master or worker keeps its data.
//
// Thread-safety: pure functions but for the folder.
#ifndef TANDEM_CLIENT_CLI_DISK_CHECK_H_
#define TANDEM_CLIENT_CLI_DISK_CHECK_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/finding.h"

namespace tandem::cli {

struct DiskFacts {
  uint64_t free_bytes = 0, total_bytes = 0;
  absl::Duration sync;  // the median of a small write with fdatasync
  bool in_memory = false, on_network = false;
};
// Writes into a file of its own, which is gone afterwards.
// Errors: PATH_UNWRITABLE, DISK_FULL.
absl::StatusOr<DiskFacts> MeasureDisk(const std::string& directory);

Finding CheckDisk(const std::string& directory, const absl::StatusOr<DiskFacts>& facts);

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_DISK_CHECK_H_
