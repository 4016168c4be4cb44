// KernelBook: every kernel that a job may name: the built-in ones and those that workers have
// announced.
//
// A name stands for the built-in kernel, else for the content announced last; "name@hash" insists
// on one content. Thread-safety: safe from any thread.
#ifndef TANDEM_MASTER_SERVER_KERNEL_BOOK_H_
#define TANDEM_MASTER_SERVER_KERNEL_BOOK_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/model/kernel_info.h"
#include "kernels/catalog.h"

namespace tandem::master {

struct KnownKernel {
  std::shared_ptr<const KernelInfo> info;
  bool builtin = false;
};

// Errors: INVALID_ARGUMENT for a signature that does not parse.
absl::StatusOr<KernelInfo> KernelOfEntry(const kernels::CatalogEntry& entry);

class KernelBook {
 public:
  // With the built-in kernels. CHECKs that they parse: a test holds the catalog.
  KernelBook();

  void Announce(std::shared_ptr<const KernelInfo> kernel);
  // A worker has come that has these: of builds of one name new jobs take the one that came last.
  void Prefer(const std::vector<KernelInfo>& kernels);
  // Errors: NOT_FOUND UNKNOWN_KERNEL with the nearest name; FAILED_PRECONDITION KERNEL_CHANGED when
  // the name is known with another content only; INVALID_ARGUMENT.
  absl::StatusOr<std::shared_ptr<const KernelInfo>> Find(std::string_view reference) const;
  // In order of names, then contents, from the first after `after` ("": from the start).
  std::vector<KnownKernel> List(std::string_view after, size_t count) const;

 private:
  void Add(KnownKernel kernel) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;
  std::map<std::string, KnownKernel, std::less<>> by_identity_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, KnownKernel, std::less<>> by_name_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_KERNEL_BOOK_H_
