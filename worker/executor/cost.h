// TaskCost: what a task is expected to cost on one core: the kernel's hint, corrected by what was
// measured.
//
// Thread-safety: a value type.
#ifndef TANDEM_WORKER_EXECUTOR_COST_H_
#define TANDEM_WORKER_EXECUTOR_COST_H_

namespace tandem::worker {

class TaskCost {
 public:
  // 0: nothing is known yet.
  explicit TaskCost(double hinted_ns = 0) : ns_(hinted_ns) {}
  double ns() const { return ns_; }
  bool measured() const { return measured_; }
  // A run of `busy_ns` cost `factor` times what this estimate said. Short runs say little: what
  // they cost is mostly how they began. A long first one replaces the hint.
  void Learn(double factor, double busy_ns);
  // A run of a task cost this much, while nothing was expected.
  void Set(double ns);

 private:
  double ns_;
  bool measured_ = false;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_COST_H_
