// EventQueue: virtual time. What is due runs in order of time, and at equal times in the order in
// which it was asked for, so that a run depends on nothing but its seed.
//
// Thread-safety: none.
#ifndef TANDEM_TESTS_SIM_EVENT_QUEUE_H_
#define TANDEM_TESTS_SIM_EVENT_QUEUE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "absl/time/time.h"
#include "common/base/clock.h"

namespace tandem::sim {

class EventQueue {
 public:
  MonoTime now() const { return now_; }
  // Times in the past are now.
  void At(MonoTime time, std::function<void()> action) {
    queue_.emplace(std::make_pair(std::max(time, now_), next_++), std::move(action));
  }
  void After(absl::Duration delay, std::function<void()> action) {
    At(now_ + delay, std::move(action));
  }
  // False when nothing is due up to `end`; time then stands at `end`.
  bool RunNext(MonoTime end) {
    if (queue_.empty() || queue_.begin()->first.first > end) {
      now_ = std::max(now_, end);
      return false;
    }
    const auto it = queue_.begin();
    now_ = it->first.first;
    const std::function<void()> action = std::move(it->second);
    queue_.erase(it);
    action();
    return true;
  }

 private:
  MonoTime now_ = MonoTime::FromNanos(1'000'000'000);
  uint64_t next_ = 0;
  std::map<std::pair<MonoTime, uint64_t>, std::function<void()>> queue_;
};

}  // namespace tandem::sim

#endif  // TANDEM_TESTS_SIM_EVENT_QUEUE_H_
