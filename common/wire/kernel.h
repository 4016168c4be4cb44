// Kernels between model (common/model/kernel_info.h) and proto (tandem/v1/cluster.proto).
//
// Decoding parses the signature, so a kernel that a worker announces is either whole or refused
// (INVALID_ARGUMENT with the field's path). Thread-safety: pure functions.
#ifndef TANDEM_COMMON_WIRE_KERNEL_H_
#define TANDEM_COMMON_WIRE_KERNEL_H_

#include "absl/status/status.h"
#include "common/model/kernel_info.h"
#include "tandem/v1/cluster.pb.h"

namespace tandem::wire {

// `builtin` is the master's to say: it is neither set nor read here.
void Encode(const KernelInfo& from, v1::Kernel* to);
absl::Status Decode(v1::Kernel* from, KernelInfo* to);

}  // namespace tandem::wire

#endif  // TANDEM_COMMON_WIRE_KERNEL_H_
