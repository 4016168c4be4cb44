// CompletionQueue: what other threads finished, for the executor's loop to go on with.
//
// Pushing is one compare-and-swap, and a wake-up only when the loop sleeps.
//
//   queue.Push([piece] { … });          // any thread
//   queue.Drain();                      // the loop: runs what was pushed, in that order
//   if (queue.PrepareToSleep()) …sleep…; queue.Awake();
//
// The loop may take what was pushed, be done with it and destroy the queue while the thread that
// pushed it has still to return. So a push ends with its compare-and-swap; one that finds the loop
// asleep has yet to wake it, and for that one the loop and the destructor wait.
//
// Thread-safety: Push from any thread, the rest from the loop's.
// Invariants: 1. `head_` is &asleep_ exactly while the loop sleeps and nothing was pushed. 2. Of
// those who push, only the one that replaced &asleep_ touches the queue afterwards; `woken_` is its
// last word.
#ifndef TANDEM_WORKER_EXECUTOR_COMPLETION_QUEUE_H_
#define TANDEM_WORKER_EXECUTOR_COMPLETION_QUEUE_H_

#include <atomic>
#include <functional>
#include <thread>
#include <utility>

namespace tandem::worker {

class CompletionQueue {
 public:
  // `wake` ends the loop's sleep; it is called from any thread.
  explicit CompletionQueue(std::function<void()> wake) : wake_(std::move(wake)) {}
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;
  ~CompletionQueue() {
    Awake();
    AwaitWaker();
    for (Link* link = head_.load(); link != nullptr;)
      delete ToNode(std::exchange(link, link->next));
  }

  void Push(std::function<void()> completion) {
    Node* const node = new Node{{nullptr}, std::move(completion)};
    Link* before = head_.load(std::memory_order_relaxed);
    do {
      node->next = before == &asleep_ ? nullptr : before;
    } while (!head_.compare_exchange_weak(before, node));
    if (before != &asleep_) return;
    wake_();
    woken_.store(true);
  }

  // True when there was anything.
  bool Drain() {
    Awake();
    if (head_.load(std::memory_order_relaxed) == nullptr) return false;
    Link* link = head_.exchange(nullptr);
    Link* first = nullptr;
    while (link != nullptr) {
      Link* next = std::exchange(link->next, first);
      first = std::exchange(link, next);
    }
    while (first != nullptr) {
      ToNode(first)->completion();
      delete ToNode(std::exchange(first, first->next));
    }
    return true;
  }

  // False: something was pushed meanwhile, do not sleep.
  bool PrepareToSleep() {
    AwaitWaker();
    Link* nothing = nullptr;
    asleep_now_ = head_.compare_exchange_strong(nothing, &asleep_);
    return asleep_now_;
  }
  void Awake() {
    if (!std::exchange(asleep_now_, false)) return;
    Link* expected = &asleep_;
    // Somebody has pushed, and has woken the loop or will.
    if (!head_.compare_exchange_strong(expected, nullptr)) waker_ = true;
  }

 private:
  struct Link {
    Link* next;
  };
  struct Node : Link {
    std::function<void()> completion;
  };
  static Node* ToNode(Link* link) { return static_cast<Node*>(link); }

  // A few instructions of another thread, once a sleep.
  void AwaitWaker() {
    if (!std::exchange(waker_, false)) return;
    while (!woken_.load()) std::this_thread::yield();
    woken_.store(false, std::memory_order_relaxed);
  }

  static inline constinit Link asleep_ = {nullptr};

  const std::function<void()> wake_;
  std::atomic<Link*> head_ = nullptr;
  std::atomic<bool> woken_ = false;
  bool asleep_now_ = false;  // the loop's
  bool waker_ = false;       // the loop's: a push that found it asleep may still be under way
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_COMPLETION_QUEUE_H_
