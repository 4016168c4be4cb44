// Lane: one core group's TBB arena, and the queue of work in front of it.
//
// Work enters the arena by one enqueue; while there is more in the queue, the thread that finished
// one item goes on with the next, so that a busy lane needs no wake-up between batches. Two items
// may be under way: threads that find nothing left of the first begin the second, instead of
// waiting for the slowest. Inside an item, ParallelFor spreads over the group's threads, which
// steal from each other.
//
// Threads are bound to the cores of the group when they enter the arena. They are not bound to a
// core each: several executors share a machine, and two threads bound to one core would leave
// another idle.
//
// Thread-safety: Run may be called from any thread; ParallelFor and slot from the lane's threads.
#ifndef TANDEM_WORKER_DEVICE_CPU_LANE_H_
#define TANDEM_WORKER_DEVICE_CPU_LANE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/device/cpu/crew.h"
#include "worker/device/cpu/topology.h"

namespace tandem::worker {

class Lane final : public Crew {
 public:
  // Slots [first_slot, first_slot + SlotsOf(group)) are this lane's.
  // `nice`: of its threads, as nice(2) has it.
  Lane(const CoreGroup& group, uint32_t first_slot, int nice = 0);
  ~Lane() override;  // waits until the queue is empty

  static uint32_t SlotsOf(const CoreGroup& group);
  // So many threads may work in this process's lanes together. Before the first lane works.
  static void AllowThreads(size_t threads);

  // Runs `item` on a thread of the group. Items begin in the order given.
  void Run(std::function<void()> item);
  bool idle() const;

  void ParallelFor(int64_t n, int64_t grain, Body body) override;
  uint32_t slot() const override;
  uint32_t threads() const override { return threads_; }

 private:
  struct Arena;
  void Drain();

  const uint32_t first_slot_;
  const uint32_t threads_;
  const std::unique_ptr<Arena> arena_;
  mutable absl::Mutex mu_;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mu_);
  int running_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_CPU_LANE_H_
