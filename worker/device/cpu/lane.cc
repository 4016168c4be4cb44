#include "worker/device/cpu/lane.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_scheduler_observer.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

namespace tandem::worker {
namespace {

// TBB gives even an arena of one thread two places.
constexpr uint32_t kSlotsMin = 2;
// Items under way at a time.
constexpr int kItemsMax = 2;

cpu_set_t MaskOf(const CoreGroup& group) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int cpu : group.cpus) CPU_SET(static_cast<size_t>(cpu), &mask);
  return mask;
}

// Binds each thread that enters the arena to the group. A thread may come from another arena.
class Binder final : public tbb::task_scheduler_observer {
 public:
  Binder(tbb::task_arena& arena, const CoreGroup& group, int nice)
      : tbb::task_scheduler_observer(arena), mask_(MaskOf(group)), nice_(nice) {
    observe(true);
  }
  ~Binder() override { observe(false); }

  void on_scheduler_entry(bool is_worker) override {
    thread_local uint64_t bound = 0;
    if (!is_worker || bound == number_) return;
    // Refused only when the allowed set has shrunk meanwhile; then the thread floats.
    (void)pthread_setaffinity_np(pthread_self(), sizeof(mask_), &mask_);
    (void)pthread_setname_np(pthread_self(), "tandem-core");
    // Of a thread alone: Linux knows no other. Becoming nicer is never refused.
    if (nice_ > 0) (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), nice_);
    bound = number_;
  }

 private:
  static uint64_t NextNumber() {
    static std::atomic<uint64_t> last = 0;
    return ++last;
  }
  const uint64_t number_ = NextNumber();  // Of all binders ever.
  const cpu_set_t mask_;
  const int nice_;
};

}  // namespace

struct Lane::Arena {
  Arena(const CoreGroup& group, int nice)
      : arena(group.threads, /*reserved_for_masters=*/0), binder(arena, group, nice) {}
  tbb::task_arena arena;
  Binder binder;
};

Lane::Lane(const CoreGroup& group, uint32_t first_slot, int nice)
    : first_slot_(first_slot),
      threads_(static_cast<uint32_t>(group.threads)),
      arena_(std::make_unique<Arena>(group, nice)) {}

Lane::~Lane() {
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(
      +[](int* running) { return *running == 0; }, &running_));
}

// TBB starts one thread fewer than there are cores, counting on the caller's; ours only waits.
void Lane::AllowThreads(size_t threads) {
  static std::mutex mu;
  static std::optional<tbb::global_control> control;
  static size_t allowed = 0;
  const std::lock_guard<std::mutex> lock(mu);
  if (threads + 1 <= allowed) return;
  allowed = threads + 1;
  control.emplace(tbb::global_control::max_allowed_parallelism, allowed);
}

uint32_t Lane::SlotsOf(const CoreGroup& group) {
  return std::max(kSlotsMin, static_cast<uint32_t>(group.threads));
}

void Lane::Run(std::function<void()> item) {
  {
    absl::MutexLock lock(&mu_);
    queue_.push_back(std::move(item));
    if (running_ == kItemsMax) return;
    ++running_;
  }
  arena_->arena.enqueue([this] { Drain(); });
}

bool Lane::idle() const {
  absl::MutexLock lock(&mu_);
  return running_ == 0;
}

void Lane::Drain() {
  while (true) {
    std::function<void()> item;
    {
      absl::MutexLock lock(&mu_);
      if (queue_.empty()) {
        --running_;
        return;
      }
      item = std::move(queue_.front());
      queue_.pop_front();
    }
    item();
  }
}

void Lane::ParallelFor(int64_t n, int64_t grain, Body body) {
  if (n <= 0) return;
  if (threads_ == 1 || n <= grain) {
    body(0, n);
    return;
  }
  const tbb::blocked_range<int64_t> range(0, n, static_cast<size_t>(std::max<int64_t>(grain, 1)));
  tbb::parallel_for(range, [&](const tbb::blocked_range<int64_t>& r) { body(r.begin(), r.end()); });
}

uint32_t Lane::slot() const {
  return first_slot_ + static_cast<uint32_t>(tbb::this_task_arena::current_thread_index());
}

}  // namespace tandem::worker
