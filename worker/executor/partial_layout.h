// PartialLayout: where each reduced output lies in a kernel's partial (kernels/sdk abi.h): in the
// signature's order, each aligned to 64 bytes.
//
// Thread-safety: a value type.
#ifndef TANDEM_WORKER_EXECUTOR_PARTIAL_LAYOUT_H_
#define TANDEM_WORKER_EXECUTOR_PARTIAL_LAYOUT_H_

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "common/model/bound_job.h"
#include "kernels/sdk/include/tandem/abi.h"

namespace tandem::worker {

struct PartialField {
  uint32_t output = 0;  // index in the signature
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

struct PartialLayout {
  absl::InlinedVector<PartialField, 2> fields;
  uint64_t bytes = 0;  // with padding

  // Of a partial that counts `tasks` tasks.
  static PartialLayout Of(const BoundJob& job, uint64_t tasks) {
    PartialLayout layout;
    for (size_t i = 0; i < job.outputs.size(); ++i) {
      if (!job.outputs[i].reduced()) continue;
      const uint64_t bytes = job.outputs[i].PieceBytes(tasks);
      layout.fields.push_back({static_cast<uint32_t>(i), layout.bytes, bytes});
      layout.bytes +=
          (bytes + TANDEM_PARTIAL_ALIGN - 1) / TANDEM_PARTIAL_ALIGN * TANDEM_PARTIAL_ALIGN;
    }
    return layout;
  }
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_PARTIAL_LAYOUT_H_
