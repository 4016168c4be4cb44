// What people type behind a kernel's name (`spot=@spot.npy rate=0.05 n=1000`) as a job's operands,
// scalars and axes.
//
//   @FILE          uploaded: .npy; FASTA for u8 operands, by its name (.fa …); anything else is raw
//                  numbers, little-endian, row by row; `@x.raw:[100,3]` gives them a shape
//   @DIR/  @GLOB  @list:FILE  @list:-    ragged operands: one file an item (file_list.h)
//   path:…         the same files (no FASTA), read by the workers themselves from a shared file
//                  system; one that changes after the job was submitted fails what needs it
//   uniform(seed=7)  iota  constant(3.5)      computed where it is used
//   [1,2,3]        a short list
//   3.5            scalars, and the extents of axes that nothing else gives
//
// Preparing reads what it must (headers, names, bytes to hash) and uploads nothing: `uploads` says
// what the master must have before the job is submitted.
//
// Thread-safety: pure functions but for reading files.
#ifndef TANDEM_CLIENT_LIB_ARGUMENTS_H_
#define TANDEM_CLIENT_LIB_ARGUMENTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/byte_source.h"
#include "common/model/ids.h"
#include "common/model/job_spec.h"
#include "common/model/kernel_info.h"

namespace tandem::client {

struct Argument {
  std::string name;
  std::string value;
};
// "name=value". Errors: INVALID_ARGUMENT.
absl::StatusOr<Argument> ParseArgument(std::string_view text);

// Bytes that the master must hold under `id`.
struct Upload {
  BlobId id;
  ByteSource source;
  std::string what;  // "spot from @spot.npy": for messages
};

struct PreparedJob {
  JobSpec spec;
  std::vector<Upload> uploads;
  // Ragged operands: a name an item (a file's name).
  std::map<std::string, std::vector<std::string>> item_names;
  // What the user should hear though nothing is wrong: "image: 2 subdirectories … left out".
  std::vector<std::string> notes;
};

// Fills `spec` (policy fields stay as they are) from the arguments.
// Errors: INVALID_ARGUMENT naming the argument: unknown or repeated name (with the nearest), a form
// that does not fit, dtype or shape that does not fit, a file that cannot be used.
absl::StatusOr<PreparedJob> PrepareJob(const KernelInfo& kernel, JobSpec spec,
                                       const std::vector<Argument>& arguments);

}  // namespace tandem::client

#endif  // TANDEM_CLIENT_LIB_ARGUMENTS_H_
