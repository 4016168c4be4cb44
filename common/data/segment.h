// One segment's state, shared by SegmentStore and the appender that writes it. Private to them.
//
// Thread-safety: the atomics from any thread; the rest as said at each field.
#ifndef TANDEM_COMMON_DATA_SEGMENT_H_
#define TANDEM_COMMON_DATA_SEGMENT_H_

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/base/clock.h"
#include "common/data/file_system.h"
#include "common/data/segment_store.h"
#include "common/model/ids.h"

namespace tandem {

struct SegmentStore::Segment {
  Segment(SegmentId id, std::string owner) : id(id), owner(std::move(owner)) {}

  const SegmentId id;
  const std::string owner;
  // Bytes that readers may see. Grows by its appender only.
  std::atomic<uint64_t> written{0};
  std::atomic<uint64_t> synced{0};
  std::atomic<bool> name_synced{false};
  std::atomic<bool> failed{false};
  std::atomic<bool> deleted{false};

  // Only the appender that holds the segment looks at these.
  uint64_t reserved = 0;
  uint64_t written_out = 0;

  // Guarded by the store's mutex.
  bool in_use = false;  // Something is being appended.
  MonoTime last_use;
  std::shared_ptr<File> file;
  bool recovered = false;  // Was there at Open.
  std::optional<std::list<SegmentHandle>::iterator> open;
};

}  // namespace tandem

#endif  // TANDEM_COMMON_DATA_SEGMENT_H_
