// OperandSource: where an executor gets bytes that are not on its server: the Data service of the
// master (or of a worker), seen as blocking reads.
//
// Thread-safety: implementations are called from several threads at once.
// Errors of all: UNAVAILABLE (worth trying again), NOT_FOUND, DATA_LOSS, OUT_OF_RANGE.
#ifndef TANDEM_WORKER_EXECUTOR_OPERAND_SOURCE_H_
#define TANDEM_WORKER_EXECUTOR_OPERAND_SOURCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model/locator.h"
#include "common/model/outputs.h"

namespace tandem::worker {

class OperandSource {
 public:
  virtual ~OperandSource() = default;
  // A file of this host that holds the blob; "" where there is none to be had.
  virtual absl::StatusOr<std::string> LocateBlob(const BlobLocator& blob) = 0;
  // XXH3-64 of each MiB of the blob; nothing where the sums are not known.
  virtual absl::StatusOr<std::vector<uint64_t>> BlobSums(const BlobLocator&) {
    return std::vector<uint64_t>();
  }
  // Bytes [offset, offset + length) of a blob.
  virtual absl::Status ReadBlob(const BlobLocator& blob, uint64_t offset, uint64_t length,
                                char* to) = 0;
  // All bytes of a region of the master's segments, checked against its checksum.
  virtual absl::Status ReadRegion(const Region& region, char* to) = 0;
};

// The source behind an address; the same object for the same address. Never null.
using OperandSources = std::function<std::shared_ptr<OperandSource>(const std::string& address)>;

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_OPERAND_SOURCE_H_
