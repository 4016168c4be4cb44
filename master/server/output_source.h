// ByteSources that put an output together from its pieces.
//
// Thread-safety: as ByteSource. Ownership: store and segments outlive the source.
#ifndef TANDEM_MASTER_SERVER_OUTPUT_SOURCE_H_
#define TANDEM_MASTER_SERVER_OUTPUT_SOURCE_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "common/data/byte_source.h"
#include "common/data/segment_store.h"
#include "common/model/bound_job.h"
#include "master/store/store.h"

namespace tandem::master {

// Asked about tasks that have no bytes: OK fills them with zeros.
using GapPolicy = std::function<absl::Status(uint64_t first_task, uint64_t task_count)>;

struct OutputRange {
  JobId job;
  uint32_t output = 0;
  uint64_t first_task = 0;
  uint64_t task_count = 0;
};

// A dense concatenated output. `output` is copied.
std::unique_ptr<ByteSource> MakeOutputSource(Store* store, SegmentStore* segments,
                                             const BoundOutput& output, const OutputRange& range,
                                             GapPolicy gap);

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_OUTPUT_SOURCE_H_
