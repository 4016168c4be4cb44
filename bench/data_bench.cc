// How fast bytes travel: reads and pushes through gRPC on loopback, against bare writes and syncs
// of the same bytes in the same run. Client and server are two processes, as they are in a cluster.
#include <fcntl.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "bench/support/measure.h"
#include "bench/support/process_stat.h"
#include "bench/support/report.h"
#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/base/strings.h"
#include "common/base/unique_fd.h"
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

constexpr double kReadMin = 1.5, kDurableMin = 0.8;

// Wall and CPU time of both sides, from its making on.
class Meter {
 public:
  explicit Meter(pid_t server)
      : server_(server),
        client_cpu_(bench::OwnCpuSeconds()),
        server_cpu_(bench::CpuSeconds(server)) {}

  double GigabytesASecond(uint64_t bytes) const {
    return static_cast<double>(bytes) / watch_.Seconds() * 1e-9;
  }
  std::string CpuAGigabyte(uint64_t bytes) const {
    const double gigabytes = static_cast<double>(bytes) * 1e-9;
    return StrCat("CPU s/GB: client ",
                  bench::Readable((bench::OwnCpuSeconds() - client_cpu_) / gigabytes), ", server ",
                  bench::Readable((bench::CpuSeconds(server_) - server_cpu_) / gigabytes));
  }

 private:
  const bench::Stopwatch watch_;
  const pid_t server_;
  const double client_cpu_, server_cpu_;
};

// The server's side.
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

// All bytes in pieces, each acknowledged; then synced where they must be durable.
double Push(const Child& child, const std::string& bytes, uint64_t piece, bool sync,
            std::string* note) {
  absl::Mutex mu;
  uint64_t pushed = 0;
  uint64_t pieces = 0;
  absl::Notification over;
  const Meter meter(child.pid());
  auto pusher =
      RegionPusher::Start(rpc::ConnectForCallbacks(child.address(), rpc::Traffic::kBulk), "bench",
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
  *note = meter.CpuAGigabyte(bytes.size());
  return meter.GigabytesASecond(bytes.size());
}

double BareWrite(const std::string& dir, const std::string& bytes) {
  const std::string path = dir + "/bare";
  const UniqueFd fd(open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600));
  CHECK(fd.get() >= 0);
  const Meter meter(getpid());
  for (uint64_t at = 0; at < bytes.size(); at += 1 << 20) {
    const size_t size = std::min<size_t>(1 << 20, bytes.size() - at);
    CHECK(write(fd.get(), bytes.data() + at, size) == static_cast<ssize_t>(size));
  }
  CHECK(fdatasync(fd.get()) == 0);
  const double speed = meter.GigabytesASecond(bytes.size());
  unlink(path.c_str());
  return speed;
}

double ReadInTwoStreams(const Child& child, const BlobLocator& blob) {
  const uint64_t half = blob.size / 2;
  const Meter meter(child.pid());
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      DataClient own(rpc::Connect(child.address(), rpc::Traffic::kBulk), "bench");
      uint64_t got = 0;
      CHECK_OK(own.ReadBlob(blob, half * t, half, [&](std::string_view piece) {
        got += piece.size();
        return absl::OkStatus();
      }));
      CHECK_EQ(got, half);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return meter.GigabytesASecond(2 * half);
}

void MeasureReads(const Child& child, const std::string& bytes, bench::Report* report) {
  DataClient client(rpc::Connect(child.address(), rpc::Traffic::kBulk), "bench");
  const BlobLocator blob = {Sha256Of(bytes), bytes.size()};
  const Meter of_upload(child.pid());
  CHECK_OK(client.PutBlob(blob, bytes));
  report->Add({.measure = "upload, checked and durable",
               .value = of_upload.GigabytesASecond(bytes.size()),
               .unit = "GB/s",
               .note = of_upload.CpuAGigabyte(bytes.size())});
  std::vector<double> speeds;
  std::string note;
  for (int round = 0; round < 5; ++round) {
    std::string got(bytes.size(), '\0');
    const Meter meter(child.pid());
    CHECK_OK(client.ReadBlobInto(blob, 0, absl::MakeSpan(got.data(), got.size())));
    speeds.push_back(meter.GigabytesASecond(bytes.size()));
    note = meter.CpuAGigabyte(bytes.size());
    CHECK(got == bytes);
  }
  report->Add({.measure = "bytes through gRPC on loopback, read",
               .value = bench::Median(speeds),
               .unit = "GB/s",
               .bound = bench::Bound::kAtLeast,
               .threshold = kReadMin,
               .note = note,
               .details = {{"rounds", speeds}}});
  report->Add({.measure = "the same in two streams",
               .value = ReadInTwoStreams(child, blob),
               .unit = "GB/s"});
}

void MeasurePushes(const Child& child, const std::string& dir, const std::string& bytes,
                   bench::Report* report) {
  std::string note;
  for (const uint64_t piece : {uint64_t{64} << 10, uint64_t{1} << 20}) {
    Push(child, bytes, piece, /*sync=*/true, &note);
    const double speed = Push(child, bytes, piece, /*sync=*/false, &note);
    report->Add({.measure = StrCat("bytes through gRPC on loopback, push of ", HumanSize(piece)),
                 .value = speed,
                 .unit = "GB/s",
                 .note = note});
    child.Sync();
  }
  std::vector<double> bare, durable;
  for (int round = 0; round < 5; ++round) {
    bare.push_back(BareWrite(dir, bytes));
    durable.push_back(Push(child, bytes, 1 << 20, /*sync=*/true, &note));
  }
  report->Add({.measure = "durable pushes, of a bare write and sync",
               .value = bench::Median(durable) / bench::Median(bare),
               .unit = "x",
               .bound = bench::Bound::kAtLeast,
               .threshold = kDurableMin,
               .note = StrCat("bare ", bench::Readable(bench::Median(bare)), " GB/s; ", note),
               .details = {{"bare_gb_per_s", bare}, {"durable_gb_per_s", durable}}});
}

int Main(int argc, char** argv) {
  // Large buffers are used again instead of being mapped and faulted each time.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  if (argc == 5 && std::string(argv[1]) == "--serve") {
    return Serve(argv[2], argv[3], std::atoi(argv[4]));
  }
  const bench::Settings settings = bench::ParseSettings(argc, argv, "How fast bytes travel.");
  bench::Report report(settings, "data");
  std::string bytes((settings.quick ? 64 : 512) << 20, '\0');
  Rng rng(7);
  for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    const uint64_t word = rng.Next();
    std::memcpy(bytes.data() + i, &word, 8);
  }
  const bench::ScratchFolder folder(settings.out);
  const Child child(std::filesystem::canonical("/proc/self/exe"), folder.path(), "127.0.0.1:0");
  MeasureReads(child, bytes, &report);
  MeasurePushes(child, folder.path(), bytes, &report);
  return report.Finish();
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) { return tandem::Main(argc, argv); }
