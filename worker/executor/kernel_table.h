// KernelTable: the kernels that an executor can run: the built-in ones and those of the libraries
// it was told to load; of those, for a CUDA device, their CUDA halves (`x.cuda.so` beside `x.so`).
//
//   KernelTable table;
//   RETURN_IF_ERROR(table.Add(tandem_builtin_kernels(), tandem_builtin_kernels_for("v2")));
//   RETURN_IF_ERROR(table.AddLibrary("/opt/kernels/wave.so"));
//   ASSIGN_OR_RETURN(const TandemKernelV1* kernel, table.Find("wave", hash));
//
// Identity is name and content hash; one process has one content of a name. A library is taken
// whole or not at all, and stays loaded until the process ends.
// Thread-safety: immutable after it is filled.
#ifndef TANDEM_WORKER_EXECUTOR_KERNEL_TABLE_H_
#define TANDEM_WORKER_EXECUTOR_KERNEL_TABLE_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model/kernel_info.h"
#include "kernels/sdk/include/tandem/abi.h"

namespace tandem::worker {

// Where bodies run: by `range` on the host, or by `launch` on a CUDA device.
enum class KernelForm { kHost, kCuda };

class KernelTable {
 public:
  static constexpr uint32_t kKernelsMax = 4096;  // of one library

  explicit KernelTable(KernelForm form = KernelForm::kHost) : form_(form) {}

  // Null is a library without a build for this machine's instruction set.
  // Errors: FAILED_PRECONDITION VERSION_SKEW for another major ABI (with both numbers);
  // INVALID_ARGUMENT BAD_SIGNATURE or BAD_FILE for a table that makes no sense; ALREADY_EXISTS
  // BAD_FILE for a kernel name that is there already.
  // `baseline`: the same kernels built for x86-64-v2, for pinned jobs; null: there is no such
  // build.
  absl::Status Add(const TandemLibraryV1* library, const TandemLibraryV1* baseline = nullptr);
  // dlopen()s a library, or the CUDA half that lies beside it: one without is passed over.
  // Errors: as Add, and INVALID_ARGUMENT BAD_FILE when it cannot be loaded.
  // REQUIRES: no other thread reads the environment meanwhile.
  absl::Status AddLibrary(const std::string& path);

  // `hash` 0: any content, the first of that name. Errors: NOT_FOUND UNKNOWN_KERNEL,
  // FAILED_PRECONDITION KERNEL_CHANGED (the name is there with another content).
  absl::StatusOr<const TandemKernelV1*> Find(std::string_view name, uint64_t hash) const;
  // The build for x86-64-v2. Errors: as Find, and FAILED_PRECONDITION UNSATISFIABLE without one.
  absl::StatusOr<const TandemKernelV1*> FindBaseline(std::string_view name, uint64_t hash) const;
  const std::vector<KernelInfo>& infos() const { return infos_; }

 private:
  void AddBaseline(const TandemLibraryV1* library);

  const KernelForm form_;
  using Tables = std::map<std::pair<std::string, uint64_t>, const TandemKernelV1*>;
  Tables kernels_;
  Tables baseline_;  // built for x86-64-v2
  std::vector<KernelInfo> infos_;
};

// What a table says of a kernel, as plain data. Errors: INVALID_ARGUMENT BAD_SIGNATURE, BAD_FILE.
absl::StatusOr<KernelInfo> DescribeKernel(const TandemKernelV1& kernel,
                                          KernelForm form = KernelForm::kHost);

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_KERNEL_TABLE_H_
