// UploadSweeper: a thread that forgets uploads that nobody goes on with.
//
// Thread-safety: none needed. Ownership: the store outlives it; the destructor joins the thread.
#ifndef TANDEM_MASTER_SERVER_UPLOAD_SWEEPER_H_
#define TANDEM_MASTER_SERVER_UPLOAD_SWEEPER_H_

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/data/blob_store.h"

namespace tandem::master {

class UploadSweeper {
 public:
  // Looks a few times within `keep`; an upload goes once its last byte is older than that.
  UploadSweeper(BlobStore* blobs, absl::Duration keep, const Clock* clock);
  ~UploadSweeper();

 private:
  void Run();

  BlobStore* const blobs_;
  const absl::Duration keep_;
  const Clock* const clock_;
  absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_UPLOAD_SWEEPER_H_
