#include "master/server/upload_sweeper.h"

#include <algorithm>

#include "common/base/log.h"
#include "common/base/strings.h"

namespace tandem::master {
namespace {

constexpr absl::Duration kPeriodMin = absl::Milliseconds(100);
constexpr absl::Duration kPeriodMax = absl::Minutes(10);

}  // namespace

UploadSweeper::UploadSweeper(BlobStore* blobs, absl::Duration keep, const Clock* clock)
    : blobs_(blobs), keep_(keep), clock_(clock), thread_([this] { Run(); }) {}

UploadSweeper::~UploadSweeper() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  thread_.join();
}

void UploadSweeper::Run() {
  const absl::Duration period = std::clamp(keep_ / 4, kPeriodMin, kPeriodMax);
  while (true) {
    {
      absl::MutexLock lock(&mu_);
      if (mu_.AwaitWithTimeout(absl::Condition(&stopping_), period)) return;
    }
    const absl::StatusOr<uint64_t> swept = blobs_->SweepUploads(clock_->WallNow() - keep_);
    if (!swept.ok()) {
      TLOG(Warning, "uploads_not_swept", "why", ToStd(swept.status().message()));
    } else if (*swept > 0) {
      TLOG(Info, "uploads_swept", "uploads", *swept, "kept_for", HumanDuration(keep_));
    }
  }
}

}  // namespace tandem::master
