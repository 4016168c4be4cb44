// StartPage: what each thread of an executor is running now, in a mapped file that outlives both
// the executor and its worker, so that a crash names its suspects.
//
//   StartSlot slot = page->slot(thread);      // executor, once a thread
//   slot.Start(job, first_leaf, leaf_count);  // five plain stores, no system call
//   slot.StartTask(task);                     // suspects only: one store a task
//   slot.Finish();
//
//   for (const Started& s : page->Running())  // the supervisor, once the executor is dead
//
// After a process has died all of its stores are visible in the file, in the order of its program;
// so the stores are relaxed and only the compiler is kept from reordering them.
//
// Thread-safety: a slot belongs to one thread; Running() of a live executor is a guess.
// Ownership: a page owns its mapping; the file is removed by whoever made it.
#ifndef TANDEM_WORKER_RING_START_PAGE_H_
#define TANDEM_WORKER_RING_START_PAGE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/ring/mapping.h"

namespace tandem::worker {

// One cache line a thread. `job` 0: nothing runs.
struct alignas(64) StartRecord {
  std::atomic<uint64_t> job;
  std::atomic<uint64_t> first_leaf;
  std::atomic<uint64_t> leaf_count;
  std::atomic<uint64_t> task_plus_1;  // 0: not known
  std::atomic<uint64_t> sequence;     // pieces begun by this thread
};
static_assert(sizeof(StartRecord) == 64);

class StartSlot {
 public:
  explicit StartSlot(StartRecord* record) : record_(record) {}

  void Start(uint64_t job, uint64_t first_leaf, uint64_t leaf_count) {
    Store(&record_->job, 0);
    Store(&record_->first_leaf, first_leaf);
    Store(&record_->leaf_count, leaf_count);
    Store(&record_->task_plus_1, 0);
    Store(&record_->sequence, record_->sequence.load(std::memory_order_relaxed) + 1);
    Store(&record_->job, job);
  }
  // Task `task` of the job begins, by itself.
  void StartTask(uint64_t task) { Store(&record_->task_plus_1, task + 1); }
  void Finish() { Store(&record_->job, 0); }

 private:
  static void Store(std::atomic<uint64_t>* to, uint64_t value) {
    to->store(value, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  StartRecord* record_;
};

// A slot in which something had started and not finished.
struct Started {
  uint32_t slot = 0;
  uint64_t job = 0;
  uint64_t first_leaf = 0;
  uint64_t leaf_count = 0;
  std::optional<uint64_t> task;
  uint64_t sequence = 0;  // how much this thread had begun by then
  friend bool operator==(const Started&, const Started&) = default;
};

class StartPage {
 public:
  // Makes (or empties) the file. REQUIRES: slots >= 1. Errors: those of open, ftruncate, mmap.
  static absl::StatusOr<std::unique_ptr<StartPage>> Create(const std::string& path, uint32_t slots);
  // Errors: as Create; INVALID_ARGUMENT (BAD_FILE) when it is not a start page.
  static absl::StatusOr<std::unique_ptr<StartPage>> Open(const std::string& path);

  uint32_t slots() const { return slots_; }
  // REQUIRES: index < slots().
  StartSlot slot(uint32_t index) { return StartSlot(records() + index); }
  std::vector<Started> Running() const;

 private:
  StartPage(Mapping mapping, uint32_t slots) : mapping_(std::move(mapping)), slots_(slots) {}
  StartRecord* records() const;

  Mapping mapping_;
  uint32_t slots_;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_RING_START_PAGE_H_
