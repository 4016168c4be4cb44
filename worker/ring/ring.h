// A byte stream in shared memory from one process to another: one writer, one reader, no system
// call while both are awake.
//
// The two ends share a RingControl and a power of two of bytes. Each keeps its own position
// privately and checks the other's: whatever the other process scribbles over the memory, an end
// answers with an error and never reads or writes outside the ring.
//
// Sleeping: the reader announces that it is about to sleep (PrepareToSleep), looks once more, and
// then waits on its eventfd; the writer signals that eventfd only when it finds the announcement
// (TakeSleeper). A writer that waits for space does the same the other way round.
//
// Thread-safety: a RingWriter belongs to one thread at a time, a RingReader too.
// Ownership: neither owns the memory; it outlives both.
// Invariants: 1. head <= tail <= head + capacity, on positions that only grow.
//             2. the writer stores tail, the reader stores head, nobody else.
#ifndef TANDEM_WORKER_RING_RING_H_
#define TANDEM_WORKER_RING_RING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tandem::worker {

// Lies in the shared memory. All zero is an empty ring. Each word on a cache line of its own.
struct RingControl {
  alignas(64) std::atomic<uint64_t> tail;
  alignas(64) std::atomic<uint64_t> head;
  alignas(64) std::atomic<uint32_t> reader_sleeps;
  alignas(64) std::atomic<uint32_t> writer_waits;
};
static_assert(sizeof(RingControl) == 256);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

class RingWriter {
 public:
  // REQUIRES: capacity is a power of two.
  RingWriter(RingControl* control, char* data, size_t capacity)
      : control_(control), data_(data), capacity_(capacity) {}

  size_t capacity() const { return capacity_; }
  // Bytes that can be written now. Errors: DATA_LOSS when the reader's position is impossible.
  absl::StatusOr<size_t> Free();
  // Where the next `size` bytes go, or nullptr when they would wrap. REQUIRES: size <= Free().
  char* Contiguous(size_t size);
  // Copies bytes behind what is written but not yet published. REQUIRES: they fit.
  void Append(const char* bytes, size_t size);
  // Counts bytes that were written through Contiguous().
  void Advance(size_t size) { written_ += size; }
  // Makes everything written visible to the reader.
  void Publish();
  // True when the reader sleeps (once a sleep): signal its eventfd. Call after Publish().
  bool TakeSleeper();
  // Announces that the writer waits for space. True: there is still none, it may wait.
  absl::StatusOr<bool> PrepareToWait();

 private:
  RingControl* control_;
  char* data_;
  size_t capacity_;
  uint64_t written_ = 0;    // written, not all of it published
  uint64_t head_seen_ = 0;  // the reader's position when last looked at
};

class RingReader {
 public:
  // REQUIRES: capacity is a power of two.
  RingReader(RingControl* control, const char* data, size_t capacity)
      : control_(control), data_(data), capacity_(capacity) {}

  size_t capacity() const { return capacity_; }
  // Bytes that can be read now. Errors: DATA_LOSS when the writer's position is impossible.
  absl::StatusOr<size_t> Available();
  // The next `size` bytes in place, or nullptr when they wrap. REQUIRES: size <= Available().
  const char* Contiguous(size_t size) const;
  // Copies `size` bytes that begin `offset` behind the next one. REQUIRES: they are available.
  void Copy(size_t offset, size_t size, char* to) const;
  void Consume(size_t size);
  // True when the writer waits for space (once a wait): signal its eventfd. Call after Consume().
  bool TakeWaiter();
  // Announces that the reader sleeps. True: there are still fewer than `needed` bytes, it may
  // sleep.
  absl::StatusOr<bool> PrepareToSleep(size_t needed = 1);
  void Awake() { control_->reader_sleeps.store(0, std::memory_order_relaxed); }

 private:
  RingControl* control_;
  const char* data_;
  size_t capacity_;
  uint64_t read_ = 0;
  uint64_t tail_seen_ = 0;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_RING_RING_H_
