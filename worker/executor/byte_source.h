// ByteSource: the bytes behind one locator, wherever they are.
//
// Three kinds by how one gets at them: *mapped* sources give a pointer once the bytes are resident
// (inline bytes, blobs); *read* sources copy them out (a path: file, which may be truncated under
// our eyes, so it is never mapped); *computed* sources make them (generators), which costs a core
// and never waits.
//
//   if (!source->Resident(offset, length)) RETURN_IF_ERROR(source->Fetch(offset, length));
//   const char* bytes = source->Mapped(offset);          // or source->Read(offset, length, to)
//
// Thread-safety: every method may be called from several threads at once.
// Ownership: a mapped pointer lives as long as its source.
#ifndef TANDEM_WORKER_EXECUTOR_BYTE_SOURCE_H_
#define TANDEM_WORKER_EXECUTOR_BYTE_SOURCE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/error.h"
#include "common/model/dtype.h"
#include "common/model/generator.h"
#include "common/model/locator.h"
#include "worker/device/buffers.h"
#include "worker/executor/operand_source.h"

namespace tandem::worker {

// What a wait for bytes asks now and then: true ends it with CANCELLED.
using Abandoned = std::function<bool()>;

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // All its bytes.
  virtual uint64_t size() const = 0;
  virtual bool computed() const { return false; }
  // Can the bytes be had without waiting? REQUIRES (also below): offset + length <= size().
  virtual bool Resident(uint64_t offset, uint64_t length) const = 0;
  // Waits until they are. Errors: see operand_source.h; PATH_CHANGED comes from Read.
  virtual absl::Status Fetch(uint64_t offset, uint64_t length) = 0;
  // Null for sources that are not mapped. REQUIRES: the bytes that are read are resident.
  virtual const char* Mapped(uint64_t offset) const = 0;
  virtual absl::Status Read(uint64_t offset, uint64_t length, char* to) = 0;
};

// Bytes in memory; holds them.
class InlineSource final : public ByteSource {
 public:
  explicit InlineSource(std::string bytes);
  uint64_t size() const override { return size_; }
  bool Resident(uint64_t, uint64_t) const override { return true; }
  absl::Status Fetch(uint64_t, uint64_t) override { return absl::OkStatus(); }
  const char* Mapped(uint64_t offset) const override {
    return reinterpret_cast<const char*>(bytes_.data()) + offset;
  }
  absl::Status Read(uint64_t offset, uint64_t length, char* to) override;

 private:
  uint64_t size_;
  AlignedBuffer bytes_;
};

// Elements of a generated tensor, little-endian and dense.
class GeneratedSource final : public ByteSource {
 public:
  // REQUIRES: ValidateGenerator(generator, dtype) is OK.
  GeneratedSource(Generator generator, DType dtype, uint64_t bytes)
      : generator_(std::move(generator)), dtype_(dtype), bytes_(bytes) {}
  uint64_t size() const override { return bytes_; }
  bool computed() const override { return true; }
  bool Resident(uint64_t, uint64_t) const override { return true; }
  absl::Status Fetch(uint64_t, uint64_t) override { return absl::OkStatus(); }
  const char* Mapped(uint64_t) const override { return nullptr; }
  // REQUIRES: offset and length are multiples of the element size.
  absl::Status Read(uint64_t offset, uint64_t length, char* to) override;

 private:
  const Generator generator_;
  const DType dtype_;
  const uint64_t bytes_;
};

// A region of a segment that the master holds, read whole on first use.
class RegionSource final : public ByteSource {
 public:
  RegionSource(Region region, std::shared_ptr<OperandSource> remote, Abandoned abandoned)
      : region_(region), remote_(std::move(remote)), abandoned_(std::move(abandoned)) {}
  uint64_t size() const override { return region_.length; }
  bool Resident(uint64_t, uint64_t) const override {
    return loaded_.load(std::memory_order_acquire);
  }
  absl::Status Fetch(uint64_t offset, uint64_t length) override;
  const char* Mapped(uint64_t offset) const override {
    return reinterpret_cast<const char*>(bytes_.data()) + offset;
  }
  absl::Status Read(uint64_t offset, uint64_t length, char* to) override;

 private:
  const Region region_;
  const std::shared_ptr<OperandSource> remote_;
  const Abandoned abandoned_;
  absl::Mutex mu_;  // held while the region is read: whoever else wants it waits for that
  AlignedBuffer bytes_;
  std::atomic<bool> loaded_ = false;
};

// Runs `attempt` again with growing pauses while it answers UNAVAILABLE, until `abandoned`.
absl::Status RetryUnavailable(const Abandoned& abandoned,
                              const std::function<absl::Status()>& attempt);

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_BYTE_SOURCE_H_
