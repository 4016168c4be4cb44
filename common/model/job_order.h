// What the bytes of a bound job's results depend on besides its operands.
//
//   if (OwnMerge(job)) …     // partials are merged in the order of their tasks, and may grow
//   if (Pinned(job)) …       // one build on CPUs runs all of it, leaf by leaf
//
// Thread-safety: pure functions.
#ifndef TANDEM_COMMON_MODEL_JOB_ORDER_H_
#define TANDEM_COMMON_MODEL_JOB_ORDER_H_

#include <algorithm>

#include "common/model/bound_job.h"

namespace tandem {

// The kernel merges its partials itself.
inline bool OwnMerge(const BoundJob& job) {
  return std::any_of(job.outputs.begin(), job.outputs.end(), [](const BoundOutput& output) {
    return output.kind == BoundOutput::Kind::kMerge;
  });
}

// A reproducible job with outputs that depend on what runs it: the build for x86-64-v2 on CPUs runs
// all of it, and which tasks share a call of the kernel follows from the grain alone.
inline bool Pinned(const BoundJob& job) {
  return job.spec.reproducible &&
         std::any_of(job.outputs.begin(), job.outputs.end(), [](const BoundOutput& output) {
           return output.output_class != OutputClass::kExact &&
                  output.output_class != OutputClass::kBitwise;
         });
}

}  // namespace tandem

#endif  // TANDEM_COMMON_MODEL_JOB_ORDER_H_
