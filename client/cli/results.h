// A job's outputs into files, directories, or onto stdout.
//
//   --out call=@call.npy       a dense output as .npy, or raw bytes under any other name
//   --out edges=@edges/        a ragged output: a file an item in a directory
//   --out call=path:/shared/x  as @, at an absolute path that other servers see too
//   --out count=-              raw bytes on stdout
//
// Small dense outputs that nobody asked a file for are printed as `name value`.
// Thread-safety: one thread at a time.
#ifndef TANDEM_CLIENT_CLI_RESULTS_H_
#define TANDEM_CLIENT_CLI_RESULTS_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/client.h"

namespace tandem::cli {

struct OutTarget {
  std::string output;
  std::string path;  // "-": stdout
  bool directory = false;
};
// "name=@path", "name=@dir/", "name=path:/absolute", "name=-".
absl::StatusOr<OutTarget> ParseOut(std::string_view text);

// That the targets can be written, before anything runs: known outputs, one place each, no existing
// file unless `force`, a directory that is empty or new, one that is there to hold it, room.
absl::Status CheckTargets(const std::vector<OutTarget>& targets,
                          const std::vector<client::OutputInfo>& outputs, bool force);

// "4" or "10-19": tasks as people count them, both ends included. Errors: INVALID_ARGUMENT.
absl::StatusOr<client::TaskSelection> ParseTasks(std::string_view text);

// Writes the selected tasks of each target (a reduced output is whole or nothing); a file appears
// under its name only when it is whole. `item_names` names the files of ragged outputs (may be
// empty).
absl::Status WriteTargets(client::Client* client, const client::JobInfo& job,
                          const std::vector<OutTarget>& targets,
                          const std::vector<std::string>& item_names,
                          const client::TaskSelection& tasks);

// Does one of them go to stdout, so that nothing else may?
bool HasStdout(const std::vector<OutTarget>& targets);
// The names of a job's items that it keeps; empty where there are none.
std::vector<std::string> ItemNamesOf(const client::JobInfo& job);

// The most elements that are printed as JSON, or of an output that was asked for.
inline constexpr uint64_t kPrintedElementsMax = 4096;

// An output that is small enough to be printed.
struct SmallOutput {
  std::string name;
  nlohmann::ordered_json value;  // one value, or an array in row-major order
};
// Each dense output of at most `elements_max` elements that is no target.
absl::StatusOr<std::vector<SmallOutput>> SmallOutputs(client::Client* client,
                                                      const client::JobInfo& job,
                                                      const std::vector<OutTarget>& targets,
                                                      uint64_t elements_max,
                                                      const client::TaskSelection& tasks);
// What of an ended job is neither written nor small, and the command that fetches it, as a line;
// "" for nothing.
std::string LeftBehind(const client::JobInfo& job, const std::vector<OutTarget>& targets,
                       const std::vector<SmallOutput>& small);
// {"hits": 785398}
nlohmann::ordered_json SmallOutputsJson(const std::vector<SmallOutput>& outputs);
// "hits = 785398" in lines.
std::string SmallOutputsText(const std::vector<SmallOutput>& outputs);

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_RESULTS_H_
