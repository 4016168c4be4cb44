#include "worker/device/cuda/callback_thread.h"

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace tandem::worker {
namespace {

// How soon an error is noticed when nothing else happens.
constexpr absl::Duration kLookEvery = absl::Milliseconds(1);

}  // namespace

struct CallbackThread::State {
  struct Waiting {
    void* stream;
    Callback callback;
  };

  absl::Mutex mu;
  std::map<uint64_t, Waiting> waiting ABSL_GUARDED_BY(mu);  // in the order of their calls
  std::vector<Callback> passed ABSL_GUARDED_BY(mu);
  uint64_t last ABSL_GUARDED_BY(mu) = 0;
  bool stopping ABSL_GUARDED_BY(mu) = false;

  bool SomethingWaits() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return stopping || !passed.empty() || !waiting.empty();
  }
  bool SomethingPassed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return stopping || !passed.empty();
  }
};

struct CallbackThread::Ticket {
  std::shared_ptr<State> state;
  uint64_t id;
};

CallbackThread::CallbackThread(StateOf state_of)
    : state_(std::make_shared<State>()),
      state_of_(std::move(state_of)),
      thread_([this] { Loop(); }) {}

CallbackThread::~CallbackThread() {
  {
    absl::MutexLock lock(&state_->mu);
    state_->stopping = true;
    state_->waiting.clear();
  }
  thread_.join();
}

void* CallbackThread::Add(void* stream, Callback callback) {
  absl::MutexLock lock(&state_->mu);
  const uint64_t id = ++state_->last;
  state_->waiting.emplace(id, State::Waiting{stream, std::move(callback)});
  return new Ticket{state_, id};
}

void CallbackThread::Withdraw(void* ticket) {
  const std::unique_ptr<Ticket> owned(static_cast<Ticket*>(ticket));
  absl::MutexLock lock(&owned->state->mu);
  owned->state->waiting.erase(owned->id);
}

void CallbackThread::Passed(void* ticket) {
  const std::unique_ptr<Ticket> owned(static_cast<Ticket*>(ticket));
  State& state = *owned->state;
  absl::MutexLock lock(&state.mu);
  const auto found = state.waiting.find(owned->id);
  if (found == state.waiting.end()) return;
  state.passed.push_back(std::move(found->second.callback));
  state.waiting.erase(found);
}

void CallbackThread::Loop() {
  State& state = *state_;
  while (true) {
    std::vector<Callback> passed;
    std::set<void*> streams;
    {
      absl::MutexLock lock(&state.mu);
      state.mu.Await(absl::Condition(&state, &State::SomethingWaits));
      state.mu.AwaitWithTimeout(absl::Condition(&state, &State::SomethingPassed), kLookEvery);
      if (state.stopping) return;
      passed.swap(state.passed);
      if (passed.empty()) {
        for (const auto& [id, waiting] : state.waiting) streams.insert(waiting.stream);
      }
    }
    for (const Callback& callback : passed) callback(absl::OkStatus());
    for (void* stream : streams) {
      const absl::Status failed = state_of_(stream);
      if (failed.ok()) continue;
      std::map<uint64_t, State::Waiting> lost;
      {
        absl::MutexLock lock(&state.mu);
        lost.swap(state.waiting);  // an error is the whole process's
        passed.swap(state.passed);
      }
      for (const Callback& callback : passed) callback(absl::OkStatus());
      for (const auto& [id, waiting] : lost) waiting.callback(failed);
      break;
    }
  }
}

}  // namespace tandem::worker
