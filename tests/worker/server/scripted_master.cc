#include "tests/worker/server/scripted_master.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "common/base/check.h"
#include "common/base/strings.h"
#include "common/base/unique_fd.h"
#include "common/wire/session.h"
#include "grpcpp/server_builder.h"

namespace tandem::worker {
namespace {
constexpr absl::Duration kPatience = absl::Seconds(60);

std::string ProgramIn(const char* variable) {
  const char* path = std::getenv(variable);
  CHECK_MSG(path != nullptr, StrCat(variable, " is not set: run this test with ctest"));
  return path;
}

}  // namespace

class ScriptedMaster::DataService final : public tandem::v1::Data::Service {
 public:
  grpc::Status PushRegions(grpc::ServerContext*,
                           grpc::ServerReaderWriter<tandem::v1::PushResponse,
                                                    tandem::v1::PushRequest>* stream) override {
    tandem::v1::PushRequest request;
    while (stream->Read(&request)) {
      absl::MutexLock lock(&mu_);
      tandem::v1::PushResponse response;
      for (const tandem::v1::PushHeader& header : request.headers()) {
        tandem::v1::PushedRegion* pushed = response.add_pushed();
        pushed->set_push_id(header.push_id());
        pushed->mutable_region()->set_segment(1);
        pushed->mutable_region()->set_offset(bytes_.size());
        pushed->mutable_region()->set_length(header.length());
        pushed->mutable_region()->set_xxh3(header.xxh3());
      }
      bytes_ += request.data();
      if (!stream->Write(response)) break;
    }
    return grpc::Status::OK;
  }
  std::string bytes() {
    absl::MutexLock lock(&mu_);
    return bytes_;
  }

 private:
  absl::Mutex mu_;
  std::string bytes_ ABSL_GUARDED_BY(mu_);
};

ScriptedMaster::ScriptedMaster(int port) : data_(std::make_unique<DataService>()) {
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddListeningPort(StrCat("127.0.0.1:", port), grpc::InsecureServerCredentials(), &port_);
  builder.RegisterService(this);
  builder.RegisterService(data_.get());
  server_ = builder.BuildAndStart();
  CHECK(server_ != nullptr);
}

ScriptedMaster::~ScriptedMaster() { server_->Shutdown(std::chrono::system_clock::now()); }

std::string ScriptedMaster::address() const { return StrCat("127.0.0.1:", port_); }
std::string ScriptedMaster::pushed() { return data_->bytes(); }

grpc::Status ScriptedMaster::Attach(grpc::ServerContext* context, Stream* stream) {
  {
    absl::MutexLock lock(&mu_);
    stream_ = stream;
    context_ = context;
  }
  worker::v1::WorkerMessage message;
  while (stream->Read(&message)) {
    absl::MutexLock lock(&mu_);
    messages_.push_back(std::move(message));
    message.Clear();
  }
  absl::MutexLock lock(&mu_);
  if (stream_ == stream) stream_ = nullptr;
  return grpc::Status::OK;
}

worker::v1::WorkerMessage ScriptedMaster::Next() {
  absl::MutexLock lock(&mu_);
  const auto some = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !messages_.empty(); };
  CHECK(mu_.AwaitWithTimeout(absl::Condition(&some), kPatience));
  worker::v1::WorkerMessage message = std::move(messages_.front());
  messages_.pop_front();
  return message;
}

worker::v1::WorkerMessage ScriptedMaster::NextWith(
    bool (*wanted)(const worker::v1::WorkerMessage&)) {
  for (;;) {
    worker::v1::WorkerMessage message = Next();
    if (wanted(message)) return message;
  }
}

worker::v1::Hello ScriptedMaster::NextHello() {
  return NextWith([](const worker::v1::WorkerMessage& m) { return m.has_hello(); }).hello();
}

worker::v1::Report ScriptedMaster::NextReport() {
  const worker::v1::WorkerMessage message =
      NextWith([](const worker::v1::WorkerMessage& m) { return m.reports_size() > 0; });
  worker::v1::Report all = message.reports(0);
  for (int i = 1; i < message.reports_size(); ++i) all.MergeFrom(message.reports(i));
  return all;
}

void ScriptedMaster::Send(const worker::v1::MasterMessage& message) {
  absl::MutexLock lock(&mu_);
  CHECK(stream_ != nullptr);
  stream_->Write(message);
}

void ScriptedMaster::Welcome(uint64_t epoch, const std::vector<uint64_t>& jobs,
                             const std::vector<worker::v1::Grant>& adopted) {
  worker::v1::MasterMessage message;
  worker::v1::Welcome* welcome = message.mutable_welcome();
  welcome->set_worker(1);
  welcome->set_epoch(epoch);
  welcome->set_lease_ttl_ns(5'000'000'000);
  welcome->set_heartbeat_ns(200'000'000);
  for (const worker::v1::Grant& grant : adopted) *welcome->add_adopted() = grant;
  for (const uint64_t id : jobs) {
    wire::JobDescription description;
    description.job = JobId(id);
    description.spec.owner = "ada";
    description.spec.kernel = "fake";
    description.spec.axis_extents["n"] = 1'000'000;
    description.spec.grain = 1;
    if (id == kGpuJob) description.spec.device = DeviceChoice::kGpu;
    if (id == kLimitedJob) description.spec.time_limit = absl::Milliseconds(50);
    auto signature = Signature::Parse("axis n -> y[n]:u64");
    CHECK_OK(signature);
    description.kernel.name = "fake";
    description.kernel.signature = *signature;
    description.kernel.content_hash = 1;
    description.kernel.output_class = OutputClass::kExact;
    wire::Encode(description, welcome->add_jobs());
  }
  Send(message);
}

void ScriptedMaster::Ack(uint64_t report) {
  worker::v1::MasterMessage message;
  message.set_acked_report(report);
  Send(message);
}

void ScriptedMaster::HangUp() {
  absl::MutexLock lock(&mu_);
  if (context_ != nullptr) context_->TryCancel();
  messages_.clear();
}

WorkerProcess::WorkerProcess(const std::string& master, const std::string& directory,
                             std::vector<std::string> flags) {
  std::vector<std::string> words = {
      std::getenv("TANDEM_WORKER"),     "--master", master, "--dir", directory, "--executor",
      ProgramIn("TANDEM_FAKE_EXECUTOR")};
  words.insert(words.end(), flags.begin(), flags.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_ = ::fork();
  CHECK(pid_ >= 0);
  if (pid_ == 0) {
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
}

WorkerProcess::~WorkerProcess() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  Wait();
}

void WorkerProcess::Signal(int signal) { ::kill(pid_, signal); }

int WorkerProcess::Wait() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::vector<pid_t> WorkerProcess::Children() const {
  std::vector<pid_t> children;
  for (const auto& thread : std::filesystem::directory_iterator(StrCat("/proc/", pid_, "/task"))) {
    std::ifstream list(thread.path() / "children");
    for (pid_t child = 0; list >> child;) children.push_back(child);
  }
  return children;
}

bool WaitUntilGone(pid_t pid) {
  UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!fd.ok()) return true;
  pollfd poll{fd.get(), POLLIN, 0};
  return ::poll(&poll, 1, 60'000) == 1;
}

}  // namespace tandem::worker
