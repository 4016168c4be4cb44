// IoPool: a few threads for work that may wait for a disk, so that gRPC's threads never do.
//
//   IoPool pool(4);
//   pool.Run([reactor] { reactor->FillNextChunk(); });
//
// The queue is bounded by its users: each stream has at most one task in it.
//
// Thread-safety: safe from any thread. The destructor runs what is queued, then joins.
#ifndef TANDEM_COMMON_DATA_IO_POOL_H_
#define TANDEM_COMMON_DATA_IO_POOL_H_

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace tandem {

class IoPool {
 public:
  explicit IoPool(int threads);
  ~IoPool();
  IoPool(const IoPool&) = delete;
  IoPool& operator=(const IoPool&) = delete;

  void Run(std::function<void()> task);

 private:
  void Work();
  bool Ready() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return stopping_ || !queue_.empty(); }

  absl::Mutex mu_;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace tandem

#endif  // TANDEM_COMMON_DATA_IO_POOL_H_
