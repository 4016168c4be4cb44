#include "master/server/answers.h"

#include <iterator>
#include <utility>

namespace tandem::master {

Answers::Answers() : thread_([this] { Run(); }) {}

Answers::~Answers() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  thread_.join();
}

void Answers::Give(std::vector<Answer> answers) {
  if (answers.empty()) return;
  absl::MutexLock lock(&mu_);
  std::move(answers.begin(), answers.end(), std::back_inserter(queue_));
}

void Answers::Run() {
  while (true) {
    std::vector<Answer> answers;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(this, &Answers::Ready));
      answers.swap(queue_);
      if (answers.empty()) return;
    }
    for (const Answer& answer : answers) answer();
  }
}

}  // namespace tandem::master
