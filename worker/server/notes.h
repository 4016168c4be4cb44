// Notes: what of this worker is not as it should be, for people to see at the master (`tandem
// worker show` and `explain`, `tandem job explain`): a device that is out of service, a driver that
// does not answer, something that runs late.
//
//   notes.Set("nvml", {"NVML", "no health data of GPUs: NVML hangs …", ""});
//   notes.Clear("nvml");
//   if (notes.Take(&message)) stream->Send(std::move(message));
//
// Thread-safety: one thread.
#ifndef TANDEM_WORKER_SERVER_NOTES_H_
#define TANDEM_WORKER_SERVER_NOTES_H_

#include <map>
#include <string>
#include <vector>

#include "tandem/worker/v1/worker.pb.h"
#include "worker/server/executor_fleet.h"

namespace tandem::worker {

struct Note {
  std::string token;   // stable
  std::string what;    // what is so, and why
  std::string advice;  // what mends it; may be empty
};

class Notes {
 public:
  // Another note under the same key is replaced.
  void Set(const std::string& key, Note note);
  void Clear(const std::string& key);
  // What runs late now, the longest first.
  void SetLate(const std::vector<LateStart>& late);
  // The master that listens now has not been told anything.
  void Forget() { changed_ = !notes_.empty() || late_.late_size() > 0; }

  // Adds all of them where there is something new; while something is late, there is.
  bool Take(worker::v1::WorkerMessage* message);

 private:
  std::map<std::string, Note> notes_;  // by key
  worker::v1::WorkerNotes late_;       // only what is late
  bool changed_ = false;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_SERVER_NOTES_H_
