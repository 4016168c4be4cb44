// A master for tests of tandem-worker, scripted by the test: it takes one stream at a time, hands
// the worker's messages to the test and sends what the test says. And the worker, as a process.
//
// Thread-safety: the test's thread scripts; gRPC's threads serve.
#ifndef TANDEM_TESTS_WORKER_SERVER_SCRIPTED_MASTER_H_
#define TANDEM_TESTS_WORKER_SERVER_SCRIPTED_MASTER_H_

#include <sys/types.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/data/segment_store.h"
#include "grpcpp/server.h"
#include "tandem/v1/data.grpc.pb.h"
#include "tandem/worker/v1/worker.grpc.pb.h"

namespace tandem::worker {

// This one of its jobs has a time limit of 50 ms.
inline constexpr uint64_t kLimitedJob = 18;
// A job for a GPU, or what stands for one.
inline constexpr uint64_t kGpuJob = 19;

class ScriptedMaster final : public worker::v1::WorkerControl::Service {
 public:
  // Listens on 127.0.0.1:`port`; 0: any free one.
  explicit ScriptedMaster(int port = 0);
  ~ScriptedMaster() override;

  std::string address() const;
  int port() const { return port_; }

  // The next message of the worker, on whatever stream; dies after a minute without one.
  worker::v1::WorkerMessage Next();
  // Skips what is not wanted: heartbeats, echoes.
  worker::v1::WorkerMessage NextWith(bool (*wanted)(const worker::v1::WorkerMessage&));
  worker::v1::Hello NextHello();
  worker::v1::Report NextReport();
  void Send(const worker::v1::MasterMessage& message);
  // Answers a Hello; describes `jobs`, of the kernel "fake", with one task a leaf.
  void Welcome(uint64_t epoch, const std::vector<uint64_t>& jobs,
               const std::vector<worker::v1::Grant>& adopted = {});
  void Ack(uint64_t report);
  // Ends the present stream.
  void HangUp();
  // Bytes that were pushed, all together.
  std::string pushed();

 private:
  using Stream = grpc::ServerReaderWriter<worker::v1::MasterMessage, worker::v1::WorkerMessage>;
  class DataService;

  grpc::Status Attach(grpc::ServerContext* context, Stream* stream) override;

  int port_ = 0;
  absl::Mutex mu_;
  std::deque<worker::v1::WorkerMessage> messages_ ABSL_GUARDED_BY(mu_);
  Stream* stream_ ABSL_GUARDED_BY(mu_) = nullptr;
  grpc::ServerContext* context_ ABSL_GUARDED_BY(mu_) = nullptr;
  std::unique_ptr<DataService> data_;
  std::unique_ptr<grpc::Server> server_;
};

class WorkerProcess {
 public:
  // TANDEM_WORKER and TANDEM_FAKE_EXECUTOR name the programs.
  WorkerProcess(const std::string& master, const std::string& directory,
                std::vector<std::string> flags = {});
  ~WorkerProcess();
  void Signal(int signal);
  // Waits for its end; 128 + signal when it was killed.
  int Wait();
  pid_t pid() const { return pid_; }
  // Its children that are alive.
  std::vector<pid_t> Children() const;

 private:
  pid_t pid_ = -1;
};

// Waits until no process has this number. False after a minute.
bool WaitUntilGone(pid_t pid);

}  // namespace tandem::worker

#endif  // TANDEM_TESTS_WORKER_SERVER_SCRIPTED_MASTER_H_
