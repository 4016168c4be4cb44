// Identity: a worker's own folder: locked by one process, remembering the worker's name.
//
//   ASSIGN_OR_RETURN(Identity identity, Identity::Claim(directory, name_flag));
//
// Layout: `lock` (held as long as the process lives) · `name` · `start/` (start pages, one an
// executor) · `owners/OWNER/` (what is cached for an owner) · `learned` (learned_file.h).
//
// Thread-safety: immutable. Ownership: holds the lock.
#ifndef TANDEM_WORKER_SERVER_IDENTITY_H_
#define TANDEM_WORKER_SERVER_IDENTITY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"
#include "worker/ring/start_page.h"

namespace tandem::worker {

class Identity {
 public:
  // Makes the folder, takes its lock, and settles the name: `wanted`, or the one remembered, or a
  // new one of host name and chance. Errors: FAILED_PRECONDITION (ADDRESS_IN_USE) when another
  // process has the folder; INVALID_ARGUMENT for a bad name; those of the file system.
  static absl::StatusOr<Identity> Claim(const std::string& directory, const std::string& wanted);

  const std::string& name() const { return name_; }
  uint64_t incarnation() const { return incarnation_; }
  const std::string& directory() const { return directory_; }
  std::string StartPagePath(uint64_t executor) const;
  std::string OwnerDirectory(const std::string& owner) const;

  // What earlier lives of this worker were running when they ended. Their start pages are set aside
  // and read again by the next life, until they are dropped.
  std::vector<Started> FindLeftovers() const;
  void DropLeftovers() const;

 private:
  std::string name_;
  uint64_t incarnation_ = 0;
  std::string directory_;
  UniqueFd lock_;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_SERVER_IDENTITY_H_
