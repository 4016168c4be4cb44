// ControlService: workers attach here (tandem.worker.v1.WorkerControl).
//
// Thread-safety: safe from any thread. Ownership: the parts outlive the server.
#ifndef TANDEM_MASTER_SERVER_CONTROL_SERVICE_H_
#define TANDEM_MASTER_SERVER_CONTROL_SERVICE_H_

#include "master/server/worker_stream.h"
#include "tandem/worker/v1/worker.grpc.pb.h"

namespace tandem::master {

class ControlService final : public worker::v1::WorkerControl::CallbackService {
 public:
  explicit ControlService(const WorkerStream::Parts& parts) : parts_(parts) {}

  grpc::ServerBidiReactor<worker::v1::WorkerMessage, worker::v1::MasterMessage>* Attach(
      grpc::CallbackServerContext* context) override {
    return WorkerStream::Start(parts_, context->peer()).get();
  }

 private:
  const WorkerStream::Parts parts_;
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_CONTROL_SERVICE_H_
