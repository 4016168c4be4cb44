// The committer's view of the segment store.
//
// Thread-safety: as SegmentStore. Ownership: the store outlives it.
#ifndef TANDEM_MASTER_SERVER_SYNCER_H_
#define TANDEM_MASTER_SERVER_SYNCER_H_

#include "common/data/segment_store.h"
#include "master/server/event_loop.h"
#include "master/store/committer.h"

namespace tandem::master {

struct EventLoop::Syncer final : public SegmentSyncer {
  explicit Syncer(SegmentStore* segments) : segments(segments) {}
  absl::Status Sync(absl::Span<const SegmentExtent> dirty) override {
    return segments->SyncUpTo(dirty);
  }
  SegmentStore* const segments;
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_SYNCER_H_
