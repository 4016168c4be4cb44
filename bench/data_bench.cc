// How fast bytes travel: reads and pushes through gRPC on loopback, against bare reads, writes and
// syncs of the same files in the same run.
//
//   data_bench [--dir DIR] [--mib 1024] [--unix] [--server ADDRESS | --serve]
//
// Client and server are two processes, as they are in a cluster. Output: one JSON line a measure.
#include <fcntl.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/base/strings.h"
#include "common/data/blob_store.h"
#include "common/data/data_client.h"
#include "common/data/data_service.h"
#include "common/data/region_pusher.h"
#include "common/data/segment_store.h"
#include "common/data/sha256.h"
#include "common/data/xxh3.h"
#include "common/rpc/channel.h"
#include "common/rpc/server.h"

namespace tandem {
namespace {

using SteadyClock = std::chrono::steady_clock;

double CpuSeconds(int who) {
  rusage usage{};
  getrusage(who, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// User and system time of another process, from /proc/PID/stat.
pid_t server_pid = 0;
double ServerCpuSeconds() {
  std::ifstream file("/proc/" + std::to_string(server_pid) + "/stat");
  std::string field;
  double ticks = 0;
  for (int i = 1; i <= 15 && file >> field; ++i) {
    if (i >= 14) ticks += std::strtod(field.c_str(), nullptr);
  }
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

class Timer {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(SteadyClock::now() - start_).count();
  }
  double Cpu() const { return CpuSeconds(RUSAGE_SELF) - cpu_; }
  double ServerCpu() const { return ServerCpuSeconds() - server_cpu_; }

 private:
  const SteadyClock::time_point start_ = SteadyClock::now();
  const double cpu_ = CpuSeconds(RUSAGE_SELF);
  const double server_cpu_ = ServerCpuSeconds();
};

void Print(const char* measure, uint64_t bytes, const Timer& timer) {
  const double seconds = timer.Seconds();
  std::printf(
      "{\"measure\":\"%s\",\"bytes\":%llu,\"seconds\":%.4f,\"gb_per_s\":%.3f,"
      "\"client_cpu_s_per_gb\":%.3f,\"server_cpu_s_per_gb\":%.3f}\n",
      measure, static_cast<unsigned long long>(bytes), seconds,
      static_cast<double>(bytes) / seconds * 1e-9,
      timer.Cpu() / (static_cast<double>(bytes) * 1e-9),
      timer.ServerCpu() / (static_cast<double>(bytes) * 1e-9));
  std::fflush(stdout);
}

// ---- the server's side ----

int Serve(const std::string& dir, const std::string& address, int ready_fd) {
  auto blobs = BlobStore::Open(RealFileSystem(), dir, {});
  auto segments = SegmentStore::Open(RealFileSystem(), dir, {});
  CHECK_OK(blobs);
  CHECK_OK(segments);
  IoPool pool(2);
  DataServiceOptions options;
  options.blobs = blobs->get();
  options.segments = segments->get();
  options.pool = &pool;
  DataService service(options);
  grpc::Service* const services[] = {&service};
  rpc::ServerOptions listen;
  listen.address = address;
  auto server = rpc::Server::Start(listen, services);
  CHECK_OK(server);
  const std::string bound = (*server)->address();
  CHECK(write(ready_fd, bound.data(), bound.size()) == static_cast<ssize_t>(bound.size()));
  close(ready_fd);
  // Lives until the parent closes its end.
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
    CHECK_OK((*segments)->Sync([&] {
      std::vector<SegmentId> all;
      for (const SegmentInfo& info : (*segments)->List()) all.push_back(info.id);
      return all;
    }()));
    CHECK(write(STDOUT_FILENO, &byte, 1) == 1);
  }
  (*server)->Shutdown(absl::ZeroDuration());
  return 0;
}

// A server in a process of its own.
class Child {
 public:
  Child(const std::string& self, const std::string& dir, const std::string& address) {
    int ready[2];
    int in[2];
    int out[2];
    CHECK(pipe(ready) == 0 && pipe(in) == 0 && pipe(out) == 0);
    pid_ = fork();
    CHECK(pid_ >= 0);
    if (pid_ == 0) {
      dup2(in[0], STDIN_FILENO);
      dup2(out[1], STDOUT_FILENO);
      const int ready_fd = dup(ready[1]);
      for (const int fd : {ready[0], ready[1], in[0], in[1], out[0], out[1]}) close(fd);
      execl(self.c_str(), self.c_str(), "--serve", dir.c_str(), address.c_str(),
            std::to_string(ready_fd).c_str(), nullptr);
      std::abort();
    }
    for (const int fd : {ready[1], in[0], out[1]}) close(fd);
    char buffer[512];
    const ssize_t size = read(ready[0], buffer, sizeof(buffer));
    CHECK(size > 0);
    address_.assign(buffer, static_cast<size_t>(size));
    close(ready[0]);
    in_ = in[1];
    out_ = out[0];
  }
  ~Child() {
    close(in_);
    close(out_);
    waitpid(pid_, nullptr, 0);
  }
  void Sync() const {
    char byte = 's';
    CHECK(write(in_, &byte, 1) == 1 && read(out_, &byte, 1) == 1);
  }
  const std::string& address() const { return address_; }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
  int in_ = -1;
  int out_ = -1;
  std::string address_;
};

// ---- measures ----

void Push(DataClient*, const std::string& address, const std::string& bytes, uint64_t piece,
          const Child& child, bool sync) {
  absl::Mutex mu;
  uint64_t pushed = 0;
  const Timer timer;
  uint64_t pieces = 0;
  absl::Notification over;
  auto pusher = RegionPusher::Start(rpc::Connect(address, rpc::Traffic::kBulk), "bench",
                                    {.on_pushed =
                                         [&](std::vector<PushedPiece> done) {
                                           absl::MutexLock lock(&mu);
                                           pushed += done.size();
                                         },
                                     .on_broken =
                                         [&](const absl::Status& status) {
                                           CHECK_OK(status);
                                           over.Notify();
                                         }});
  for (uint64_t at = 0; at < bytes.size(); at += piece) {
    pusher->Push(++pieces, std::string_view(bytes).substr(at, piece), nullptr);
  }
  pusher->Close();
  over.WaitForNotification();
  CHECK_EQ(pushed, pieces);
  if (sync) child.Sync();
  Print(StrCat(sync ? "push_durable_" : "push_", HumanSize(piece)).c_str(), bytes.size(), timer);
}

void BareWrite(const std::string& dir, const std::string& bytes) {
  const std::string path = dir + "/bare";
  const int fd = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
  CHECK(fd >= 0);
  const Timer timer;
  for (uint64_t at = 0; at < bytes.size(); at += 1 << 20) {
    const size_t size = std::min<size_t>(1 << 20, bytes.size() - at);
    CHECK(write(fd, bytes.data() + at, size) == static_cast<ssize_t>(size));
  }
  CHECK(fdatasync(fd) == 0);
  Print("bare_write_sync", bytes.size(), timer);
  close(fd);
  unlink(path.c_str());
}

int Bench(const std::string& self, const std::string& dir, uint64_t mib, bool unix_socket) {
  std::filesystem::remove_all(dir);
  std::filesystem::create_directories(dir);
  std::string bytes(mib << 20, '\0');
  Rng rng(7);
  for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    const uint64_t word = rng.Next();
    std::memcpy(bytes.data() + i, &word, 8);
  }
  const Child child(self, dir, unix_socket ? "unix:" + dir + "/sock" : "127.0.0.1:0");
  server_pid = child.pid();
  DataClient client(rpc::Connect(child.address(), rpc::Traffic::kBulk), "bench");
  BlobLocator blob;
  {
    const Timer timer;
    blob = {Sha256Of(bytes), bytes.size()};
    Print("sha256", bytes.size(), timer);
  }
  {
    const Timer timer;
    CHECK_OK(client.PutBlob(blob, bytes));
    Print("put_blob", bytes.size(), timer);
  }
  for (int round = 0; round < 3; ++round) {
    std::string got(bytes.size(), '\0');
    const Timer timer;
    CHECK_OK(client.ReadBlobInto(blob, 0, absl::MakeSpan(got.data(), got.size())));
    Print("read_blob", bytes.size(), timer);
    CHECK(got == bytes);
  }
  {
    const Timer timer;
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&, t] {
        DataClient own(rpc::Connect(child.address(), rpc::Traffic::kBulk), "bench");
        uint64_t got = 0;
        CHECK_OK(own.ReadBlob(blob, bytes.size() / 2 * static_cast<uint64_t>(t), bytes.size() / 2,
                              [&](std::string_view piece) {
                                got += piece.size();
                                return absl::OkStatus();
                              }));
        CHECK_EQ(got, bytes.size() / 2);
      });
    }
    for (std::thread& thread : threads) thread.join();
    Print("read_blob_two_streams", bytes.size(), timer);
  }
  for (int round = 0; round < 2; ++round) {
    Push(&client, child.address(), bytes, 1 << 20, child, false);
    child.Sync();
  }
  Push(&client, child.address(), bytes, 64 << 10, child, false);
  child.Sync();
  for (int round = 0; round < 3; ++round) {
    BareWrite(dir, bytes);
    Push(&client, child.address(), bytes, 1 << 20, child, true);
  }
  std::filesystem::remove_all(dir);
  return 0;
}

int Main(int argc, char** argv) {
  // Large buffers are used again instead of being mapped and faulted each time.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  if (argc == 5 && std::string(argv[1]) == "--serve") {
    return Serve(argv[2], argv[3], std::atoi(argv[4]));
  }
  std::string dir = "/tmp/tandem_data_bench";
  uint64_t mib = 512;
  bool unix_socket = false;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--dir" && i + 1 < argc) dir = argv[++i];
    if (flag == "--mib" && i + 1 < argc) mib = std::strtoull(argv[++i], nullptr, 10);
    if (flag == "--unix") unix_socket = true;
  }
  return Bench(std::filesystem::canonical("/proc/self/exe"), dir, mib, unix_socket);
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) { return tandem::Main(argc, argv); }
