// CallbackThread: calls callbacks, one after the other, on a thread of its own when streams have
// passed them, or once their stream has failed.
//
// CUDA calls no host function any more after an error; so while callbacks wait, the thread asks for
// their streams' state now and then.
//
//   void* ticket = thread.Add(stream, callback);
//   cudaLaunchHostFunc(stream, &CallbackThread::Passed, ticket);
//
// Thread-safety: any thread. Ownership: a ticket is CUDA's until Passed is called with it, or
// Withdraw's; where CUDA never calls, it is left to the end of the process. The destructor drops
// callbacks that wait.
#ifndef TANDEM_WORKER_DEVICE_CUDA_CALLBACK_THREAD_H_
#define TANDEM_WORKER_DEVICE_CUDA_CALLBACK_THREAD_H_

#include <functional>
#include <memory>
#include <thread>

#include "absl/status/status.h"

namespace tandem::worker {

class CallbackThread {
 public:
  using Callback = std::function<void(const absl::Status&)>;
  // The error that a stream has ended in, or OK. Called on the thread.
  using StateOf = std::function<absl::Status(void* stream)>;

  explicit CallbackThread(StateOf state_of);
  ~CallbackThread();
  CallbackThread(const CallbackThread&) = delete;
  CallbackThread& operator=(const CallbackThread&) = delete;

  void* Add(void* stream, Callback callback);
  // The callback of a ticket that was not handed to CUDA is never called.
  static void Withdraw(void* ticket);
  // The stream has passed it.
  static void Passed(void* ticket);

 private:
  struct State;
  struct Ticket;
  void Loop();

  const std::shared_ptr<State> state_;
  const StateOf state_of_;
  std::thread thread_;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_CUDA_CALLBACK_THREAD_H_
