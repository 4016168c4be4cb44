// What a worker keeps over restarts of how long work takes on its devices, as bytes and as a file.
//
//   ASSIGN_OR_RETURN(std::vector<KeptDevice> kept, DecodeLearned(bytes, wall_now));
//   LearnedThatFits fits = KeepWhatFits(std::move(kept), hardware, kernels);   // → the core
//
//   LearnedKeeper keeper(path);        // a thread: a disk that stalls holds up nobody
//   keeper.Save(EncodeLearned(kept, wall_now));
//
// The file is a line "tandem learned VERSION", the XXH3-64 of what follows, and a
// tandem.worker.v1.Learned. It is in place whole or not at all, and what it says is never relied
// on: a worker without it learns anew.
#ifndef TANDEM_WORKER_SERVER_LEARNED_FILE_H_
#define TANDEM_WORKER_SERVER_LEARNED_FILE_H_

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/data/file_system.h"
#include "worker/core/device_model.h"

namespace tandem::worker {

inline constexpr size_t kLearnedBytesMax = 8 << 20;

struct KeptDevice {
  LearnedDevice learned;
  std::string hardware;  // what the device is: what was learned holds for no other
  friend bool operator==(const KeptDevice&, const KeptDevice&) = default;
};

// Thread-safety: pure functions.
std::string EncodeLearned(const std::vector<KeptDevice>& devices, absl::Time now);
// Errors: DATA_LOSS: BAD_FILE with what is wrong: cut short, other bytes, another version.
absl::StatusOr<std::vector<KeptDevice>> DecodeLearned(std::string_view bytes, absl::Time now);

// What holds for the devices (name → hardware) and kernels (identities) that are there.
struct LearnedThatFits {
  std::vector<LearnedDevice> devices;
  size_t kernels = 0;           // in `devices`, with their extents
  size_t kernels_dropped = 0;   // there is no such kernel any more: another build, another library
  std::string devices_dropped;  // gone or replaced
};
LearnedThatFits KeepWhatFits(std::vector<KeptDevice> kept,
                             const std::map<std::string, std::string>& hardware,
                             const std::set<std::string>& kernels);

// Writes the file by a thread of its own: the latest of what is to be saved.
// Thread-safety: one thread calls it. Ownership: the file system outlives it.
class LearnedKeeper {
 public:
  explicit LearnedKeeper(std::string path, FileSystem* files = RealFileSystem());
  // Waits until the last is saved.
  ~LearnedKeeper();

  // NOT_FOUND: there is none. Errors: those of DecodeLearned and of the file system.
  absl::StatusOr<std::vector<KeptDevice>> Read(absl::Time now) const;
  void Save(std::string bytes);

 private:
  void Run();
  bool Woken() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return stopping_ || !next_.empty(); }
  absl::Status Write(const std::string& bytes);

  const std::string path_;
  FileSystem* const files_;
  absl::Mutex mu_;
  std::string next_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // the last: it uses all of the above
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_SERVER_LEARNED_FILE_H_
