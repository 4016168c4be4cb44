// The libraries of kernels that a worker was told to load, each looked at before it is used.
//
//   ASSIGN_OR_RETURN(const KernelLibraries found, FindKernelLibraries(options));
//   launch.kernel_libraries = found.files;
//
// A worker never loads a library itself: `tandem-executor --probe` does, in a process of its own
// with a time limit. A file that was named is needed: when it is refused, so is the worker's start.
// One that lies in a folder is logged and left out; the others go on. The order is that of the
// paths, and of names inside a folder.
//
// Thread-safety: blocks; called once, at the start, from the thread that lives as long as the
// program (its death is the probe's).
#ifndef TANDEM_WORKER_SERVER_KERNEL_LIBRARIES_H_
#define TANDEM_WORKER_SERVER_KERNEL_LIBRARIES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tandem/v1/cluster.pb.h"

namespace tandem::worker {

struct KernelLibraryOptions {
  std::string executor;            // the program that probes
  std::vector<std::string> paths;  // folders (each `*.so` but `*.cuda.so`) and files
  absl::Duration load_limit = absl::Seconds(10);
};

struct KernelLibraries {
  std::vector<std::string> files;           // good ones, absolute
  std::vector<tandem::v1::Kernel> kernels;  // all of theirs
};

// Errors: INVALID_ARGUMENT PATH_UNREADABLE for a path that cannot be read; those of ProbeLibrary
// for a file that was named.
absl::StatusOr<KernelLibraries> FindKernelLibraries(const KernelLibraryOptions& options);

// The kernels of one library. Errors, each with the file's path: INVALID_ARGUMENT BAD_FILE when it
// is refused, crashes, takes longer than the limit or says what a master would not accept.
absl::StatusOr<std::vector<tandem::v1::Kernel>> ProbeLibrary(const std::string& executor,
                                                             const std::string& file,
                                                             absl::Duration load_limit);

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_SERVER_KERNEL_LIBRARIES_H_
