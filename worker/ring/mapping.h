// Mapping owns a shared memory mapping of a file.
//
// It may be larger than the file: addresses beyond the file's end become usable when the file is
// grown, so a file that grows is mapped once.
//
// Thread-safety: a movable value; the bytes belong to whoever agrees on them.
// Ownership: the mapping, not the descriptor it was made from.
#ifndef TANDEM_WORKER_RING_MAPPING_H_
#define TANDEM_WORKER_RING_MAPPING_H_

#include <cstddef>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"

namespace tandem::worker {

class Mapping {
 public:
  Mapping() = default;
  // Maps `bytes` of the file, readable and, when asked, writable. `what` names it in errors.
  // Errors: those of mmap.
  static absl::StatusOr<Mapping> Make(int fd, size_t bytes, bool writable, std::string_view what);

  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping() { Unmap(); }

  char* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  Mapping(char* data, size_t size) : data_(data), size_(size) {}
  void Unmap();

  char* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_RING_MAPPING_H_
