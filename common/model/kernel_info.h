// KernelInfo: what is known of a kernel without linking it: plain data that the master plans with.
//
// Identity = name + content hash (of signature, sources and SDK version), written `name@0123…`;
// a job pins it. Thread-safety: a value type, shared as shared_ptr<const KernelInfo>.
#ifndef TANDEM_COMMON_MODEL_KERNEL_INFO_H_
#define TANDEM_COMMON_MODEL_KERNEL_INFO_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/signature.h"

namespace tandem {

// Whose bytes are the same (docs/ARCHITECTURE.md).
enum class OutputClass : uint8_t {
  kUnspecified = 0,
  kExact,     // Any order of merging gives the same bytes.
  kBitwise,   // The same bytes for any partition into nodes of the tree, on every device.
  kTolerant,  // Within a stated bound.
};
// "exact", "bitwise", "tolerant", "unspecified".
std::string_view OutputClassName(OutputClass output_class);

struct CostHint {
  // Time of one unit of work on one core, before anything is measured; 0: unknown.
  double ns_per_unit = 0;
  // Units of work a task: a product of scalars, axes and numbers, "k * m"; "" is 1.
  std::string units;
  // Tasks in a leaf that suit the kernel; 0: derived from the cost.
  uint64_t grain = 0;
  friend bool operator==(const CostHint&, const CostHint&) = default;
};

struct KernelInfo {
  std::string name;
  Signature signature;
  uint64_t content_hash = 0;
  OutputClass output_class = OutputClass::kUnspecified;
  double tolerance = 0;  // Class tolerant: bound of the relative error.
  // Axes that a job may split, the first is the default; empty: the signature's task_axes().
  std::vector<std::string> split_axes;
  CostHint cost;
  bool whole_leaf = false;   // Float sums: partials merge up the range tree (TANDEM_WHOLE_LEAF).
  bool host_stages = false;  // Ragged, with stages on the host around the grid.
  std::string summary;       // One line for people.
  // fault_reasons[code] says why a task failed; [0] is "ok".
  std::vector<std::string> fault_reasons;

  // "black_scholes@00d1f3…": the name and 16 hexadecimal digits.
  std::string identity() const;
  // The text of a fault code, also for one beyond the table.
  std::string FaultReason(uint32_t code) const;
  // The class of one output: min, max and integers of a bitwise kernel are exact; own merges never.
  OutputClass ClassOf(const OutputSig& output) const;
  friend bool operator==(const KernelInfo&, const KernelInfo&) = default;
};

// Takes "name" or "name@hash" apart; the hash is 0 when absent. Errors: INVALID_ARGUMENT.
struct KernelRef {
  std::string name;
  uint64_t content_hash = 0;
};
absl::StatusOr<KernelRef> ParseKernelRef(std::string_view text);

// Units of work of one task: `units` evaluated, 1 for "". The names are looked up in the signature.
// Errors: INVALID_ARGUMENT BAD_SIGNATURE.
absl::StatusOr<double> UnitsPerTask(const CostHint& cost, const Signature& signature,
                                    absl::Span<const int64_t> axes,
                                    absl::Span<const Scalar> scalars);

// Tasks in a leaf when the user chose none: the hint, else about kLeafNanos of work, a power of 2.
inline constexpr double kLeafNanos = 200'000;
uint64_t DefaultGrain(const CostHint& cost, double ns_per_task);

}  // namespace tandem

#endif  // TANDEM_COMMON_MODEL_KERNEL_INFO_H_
