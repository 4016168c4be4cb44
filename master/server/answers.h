// Answers: the thread that gives the loop's answers. Whoever is answered wakes up, most often on
// the core of the one who answers; the loop has other things to do then.
//
//   Answers answers;
//   answers.Give({[done = std::move(done), id] { done(id); }});
//
// Thread-safety: safe from any thread. Ownership: the destructor gives what is left, then joins.
// Invariant: answers are given in the order of the calls.
#ifndef TANDEM_MASTER_SERVER_ANSWERS_H_
#define TANDEM_MASTER_SERVER_ANSWERS_H_

#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace tandem::master {

class Answers {
 public:
  using Answer = std::function<void()>;

  Answers();
  ~Answers();
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  // They must not block.
  void Give(std::vector<Answer> answers);

 private:
  void Run();
  bool Ready() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return stopping_ || !queue_.empty(); }

  absl::Mutex mu_;
  std::vector<Answer> queue_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_ANSWERS_H_
