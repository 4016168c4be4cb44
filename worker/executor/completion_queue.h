// CompletionQueue: what other threads finished, for the executor's loop to go on with.
//
// Pushing is one compare-and-swap, and a wake-up only when the loop sleeps.
//
//   queue.Push([piece] { … });          // any thread
//   queue.Drain();                      // the loop: runs what was pushed, in that order
//   if (queue.PrepareToSleep()) …sleep…; queue.Awake();
//
// Thread-safety: Push from any thread, the rest from the loop's.
#ifndef TANDEM_WORKER_EXECUTOR_COMPLETION_QUEUE_H_
#define TANDEM_WORKER_EXECUTOR_COMPLETION_QUEUE_H_

#include <atomic>
#include <functional>
#include <utility>

namespace tandem::worker {

class CompletionQueue {
 public:
  // `wake` ends the loop's sleep; it is called from any thread.
  explicit CompletionQueue(std::function<void()> wake) : wake_(std::move(wake)) {}
  ~CompletionQueue() {
    for (Node* node = head_.load(); node != nullptr;) delete std::exchange(node, node->next);
  }

  void Push(std::function<void()> completion) {
    Node* node = new Node{std::move(completion), head_.load(std::memory_order_relaxed)};
    while (!head_.compare_exchange_weak(node->next, node)) {
    }
    if (sleeping_.load() && sleeping_.exchange(false)) wake_();
  }

  // True when there was anything.
  bool Drain() {
    if (head_.load(std::memory_order_relaxed) == nullptr) return false;
    Node* node = head_.exchange(nullptr);
    Node* first = nullptr;
    while (node != nullptr) {
      Node* next = std::exchange(node->next, first);
      first = std::exchange(node, next);
    }
    while (first != nullptr) {
      first->completion();
      delete std::exchange(first, first->next);
    }
    return true;
  }

  // False: something was pushed meanwhile, do not sleep.
  bool PrepareToSleep() {
    sleeping_.store(true);
    if (head_.load() == nullptr) return true;
    sleeping_.store(false);
    return false;
  }
  void Awake() { sleeping_.store(false); }

 private:
  struct Node {
    std::function<void()> completion;
    Node* next;
  };
  const std::function<void()> wake_;
  std::atomic<Node*> head_ = nullptr;
  std::atomic<bool> sleeping_ = false;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_COMPLETION_QUEUE_H_
