// ControlService: workers attach here (tandem.worker.v1.WorkerControl).
//
// Thread-safety: safe from any thread. Ownership: inbox and board outlive the server.
#ifndef TANDEM_MASTER_SERVER_CONTROL_SERVICE_H_
#define TANDEM_MASTER_SERVER_CONTROL_SERVICE_H_

#include "common/base/clock.h"
#include "master/server/job_board.h"
#include "master/server/worker_stream.h"
#include "tandem/worker/v1/worker.grpc.pb.h"

namespace tandem::master {

class ControlService final : public worker::v1::WorkerControl::CallbackService {
 public:
  ControlService(WorkerInbox* inbox, const JobBoard* board, const Clock* clock)
      : inbox_(inbox), board_(board), clock_(clock) {}

  grpc::ServerBidiReactor<worker::v1::WorkerMessage, worker::v1::MasterMessage>* Attach(
      grpc::CallbackServerContext* context) override {
    return WorkerStream::Start(inbox_, board_, clock_).get();
  }

 private:
  WorkerInbox* const inbox_;
  const JobBoard* const board_;
  const Clock* const clock_;
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_CONTROL_SERVICE_H_
