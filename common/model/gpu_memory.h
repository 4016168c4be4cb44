// GpuMemory: how much of each device's memory a worker may use, as people write it:
//
//   90%                                   of what is free when it is asked for: the default
//   20GiB                                 of each
//   80%,GPU-1f0e=20GiB,EMULATED-1=64MiB   of each, but of those that are named
//
// A device is named by its UUID, or by the beginning of it.
//
//   ASSIGN_OR_RETURN(const GpuMemory memory, GpuMemory::Parse("80%,GPU-1f0e=20GiB"));
//   memory.For("GPU-1f0e8c5a-…").Of(free_bytes)
//
// Thread-safety: value types.
#ifndef TANDEM_COMMON_MODEL_GPU_MEMORY_H_
#define TANDEM_COMMON_MODEL_GPU_MEMORY_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tandem {

inline constexpr char kGpuMemoryDefault[] = "90%";
inline constexpr char kGpuMemoryVariable[] = "TANDEM_GPU_MEMORY";

// A size, or a share of what is free.
struct MemoryShare {
  uint64_t bytes = 0;   // 0: the share
  double percent = 90;  // above 0, at most 100

  // Errors: INVALID_ARGUMENT (BAD_SIZE, AMBIGUOUS; BAD_ARGUMENT for nothing or more than all).
  static absl::StatusOr<MemoryShare> Parse(std::string_view text);
  uint64_t Of(uint64_t free_bytes) const;
  // "20GiB", "90% of what is free".
  std::string Words() const;
  // As Parse reads it, to the byte.
  std::string ToString() const;
  friend bool operator==(const MemoryShare&, const MemoryShare&) = default;
};

class GpuMemory {
 public:
  static constexpr size_t kEntriesMax = 256;

  // Errors: those of MemoryShare::Parse; INVALID_ARGUMENT (BAD_ARGUMENT) for a device, or all of
  // them, that is given twice, and for too many entries.
  static absl::StatusOr<GpuMemory> Parse(std::string_view text);

  // The longest name that begins the UUID counts.
  const MemoryShare& For(std::string_view uuid) const;
  // Errors: INVALID_ARGUMENT (BAD_ARGUMENT) when its share is more than a device of this name has.
  absl::Status CheckAgainst(std::string_view uuid, uint64_t memory_bytes) const;
  // The names that begin none of the UUIDs.
  std::vector<std::string> UnknownNames(const std::vector<std::string>& uuids) const;

 private:
  struct Entry {
    std::string name;
    MemoryShare share;
  };
  MemoryShare all_;
  std::vector<Entry> named_;
};

}  // namespace tandem

#endif  // TANDEM_COMMON_MODEL_GPU_MEMORY_H_
