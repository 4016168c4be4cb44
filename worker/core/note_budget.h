// NoteBudget: how much may be told to people about what happens very often: a bounded part.
//
//   if (budget.Has(limit, 1, now)) { budget.Take(); … }
//
// Thread-safety: one thread.
#ifndef TANDEM_WORKER_CORE_NOTE_BUDGET_H_
#define TANDEM_WORKER_CORE_NOTE_BUDGET_H_

#include <algorithm>

#include "common/base/clock.h"

namespace tandem::worker {

// At most `burst` at once, and so many a second.
struct NoteLimit {
  double burst = 0;
  double per_second = 0;
};

class NoteBudget {
 public:
  // Is there `least`? The first time it is full.
  bool Has(const NoteLimit& limit, double least, MonoTime now) {
    const double more = 1e-9 * static_cast<double>(now.NanosSince(at_)) * limit.per_second;
    left_ = at_ == MonoTime::InfinitePast() ? limit.burst : std::min(limit.burst, left_ + more);
    at_ = now;
    return left_ >= least;
  }
  void Take() { left_ -= 1; }

 private:
  double left_ = 0;
  MonoTime at_ = MonoTime::InfinitePast();
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_CORE_NOTE_BUDGET_H_
