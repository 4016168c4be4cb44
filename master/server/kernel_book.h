// KernelBook: every kernel that a job may name: the built-in ones and those that workers have
// announced.
//
// "name@hash" insists on one content, a build. A bare name stands for the *current* build: of those
// that a worker has that takes work, or of all when there is no such, the built-in one, else the
// one that a worker came with last. Thread-safety: safe from any thread.
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
#include "master/core/core.h"

namespace tandem::master {

struct KnownKernel {
  std::shared_ptr<const KernelInfo> info;
  bool builtin = false;
  bool current = false;  // What the bare name stands for.
  uint64_t workers = 0;  // That take work and have it.
  uint64_t came = 0;     // Larger: later.
};

// Errors: INVALID_ARGUMENT for a signature that does not parse.
absl::StatusOr<KernelInfo> KernelOfEntry(const kernels::CatalogEntry& entry);

class KernelBook {
 public:
  // With the built-in kernels. CHECKs that they parse: a test holds the catalog.
  KernelBook();

  void Announce(std::shared_ptr<const KernelInfo> kernel);
  // A worker has come with these.
  void Prefer(const std::vector<KernelInfo>& kernels);
  // How many workers have each build now.
  void Count(const std::vector<KernelView>& kernels);
  // Errors: NOT_FOUND UNKNOWN_KERNEL with the nearest name; FAILED_PRECONDITION KERNEL_CHANGED when
  // the name is known with another content only; INVALID_ARGUMENT.
  absl::StatusOr<std::shared_ptr<const KernelInfo>> Find(std::string_view reference) const;
  // In order of names, then contents, from the first after `after` ("": from the start).
  std::vector<KnownKernel> List(std::string_view after, size_t count) const;

 private:
  using ByIdentity = std::map<std::string, KnownKernel, std::less<>>;

  void Add(std::shared_ptr<const KernelInfo> kernel, bool builtin)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Is `a` rather than `b` what a bare name means?
  static bool GoesBefore(const KnownKernel& a, const KnownKernel& b);
  void Choose(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;
  ByIdentity by_identity_ ABSL_GUARDED_BY(mu_);
  // The builds of a name, and which one is current.
  struct Builds {
    std::vector<KnownKernel*> all;
    const KnownKernel* current = nullptr;
  };
  std::map<std::string, Builds, std::less<>> by_name_ ABSL_GUARDED_BY(mu_);
  uint64_t last_came_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_KERNEL_BOOK_H_
