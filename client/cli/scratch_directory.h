// The directory of a cluster that `tandem up` runs: the user's, which is kept, or a fresh one that
// goes with the object.
//
// A fresh one is locked while it is in use, so that the next `tandem up` can remove what one that
// was killed has left behind.
//
// Thread-safety: one thread. Ownership: of the directory, where it is fresh.
#ifndef TANDEM_CLIENT_CLI_SCRATCH_DIRECTORY_H_
#define TANDEM_CLIENT_CLI_SCRATCH_DIRECTORY_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"

namespace tandem::cli {

class ScratchDirectory {
 public:
  // "": a fresh one. Errors: PATH_UNWRITABLE.
  static absl::StatusOr<ScratchDirectory> Make(const std::string& asked);
  ScratchDirectory(ScratchDirectory&& other) noexcept;
  ScratchDirectory& operator=(ScratchDirectory&&) = delete;
  ~ScratchDirectory();

  const std::string& path() const { return path_; }
  bool temporary() const { return lock_.ok(); }

  // Removes this user's fresh directories under `parent` that no process holds any more; returns
  // how many.
  static int RemoveAbandoned(const std::string& parent);

 private:
  ScratchDirectory() = default;

  std::string path_;
  UniqueFd lock_;  // of a fresh one
};

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_SCRATCH_DIRECTORY_H_
