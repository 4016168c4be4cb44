// What durability costs: commits of the store and appends to segments, beside a bare write and
// fdatasync on the same file system in the same run.
//
//   store_bench [--benchmark_filter=…] [--benchmark_format=json]    in $TANDEM_BENCH_DIR or .
//
// Commit/…/skip_sync leaves the sync out: its CPU time is the store's own.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"
#include "common/base/check.h"
#include "common/data/file_system.h"
#include "common/data/segment_store.h"
#include "master/store/committer.h"
#include "master/store/sqlite_store.h"
#include "tests/master/store/fault_vfs.h"

namespace tandem::master {
namespace {

class BenchDirectory {
 public:
  BenchDirectory() {
    const char* base = std::getenv("TANDEM_BENCH_DIR");
    path_ = std::string(base == nullptr ? "." : base) + "/store_bench_XXXXXX";
    CHECK(mkdtemp(path_.data()) != nullptr);
  }
  ~BenchDirectory() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// One job's batch as the master makes it for `tasks` one-task leases with 8-byte outputs.
AppendBatch MakeBatch(uint64_t first_task, uint64_t tasks) {
  AppendBatch batch;
  batch.records.push_back({std::string(64, 'r')});
  OutputRow row;
  row.job = JobId(1);
  row.first_task = first_task;
  row.task_count = row.piece_tasks = tasks;
  row.where = std::string(tasks * 8, 'o');
  batch.outputs.push_back(std::move(row));
  return batch;
}

// A write of `range` bytes over what is there, and its sync.
void BM_BareWriteAndSync(benchmark::State& state) {
  BenchDirectory directory;
  const std::string path = directory.path() + "/file";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT, 0600);
  constexpr size_t kFileBytes = 4 << 20;
  CHECK(pwrite(fd, std::string(kFileBytes, 'x').data(), kFileBytes, 0) ==
        static_cast<ssize_t>(kFileBytes));
  CHECK(fsync(fd) == 0);
  const std::string bytes(static_cast<size_t>(state.range(0)), 'y');
  size_t offset = 0;
  for (auto _ : state) {
    CHECK(pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset)) ==
          static_cast<ssize_t>(bytes.size()));
    CHECK(fdatasync(fd) == 0);
    offset = (offset + bytes.size()) % (kFileBytes - bytes.size());
  }
  close(fd);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_BareWriteAndSync)->Arg(4096)->Arg(20480)->UseRealTime();

void RunCommits(benchmark::State& state, FaultVfs::Fault sync) {
  BenchDirectory directory;
  SqliteStoreOptions options;
  options.directory = directory.path();
  options.vfs = FaultVfs::Name();
  FaultVfs::Set({FaultVfs::Fault::kNone, sync});
  auto store = SqliteStore::Open(options);
  CHECK_OK(store);
  const Epoch epoch = *(*store)->RaiseEpoch();
  const auto tasks = static_cast<uint64_t>(state.range(0));
  AppendBatch batch = MakeBatch(0, tasks);
  uint64_t next = 0;
  for (auto _ : state) {
    batch.outputs[0].first_task = next;
    next += tasks;
    CHECK_OK((*store)->Append(epoch, {&batch, 1}));
    if ((*store)->NeedsMaintenance()) CHECK_OK((*store)->Maintain());
  }
  FaultVfs::Set({});
  state.SetItemsProcessed(state.iterations());
}
void BM_Commit(benchmark::State& state) { RunCommits(state, FaultVfs::Fault::kNone); }
BENCHMARK(BM_Commit)->Arg(1)->Arg(256)->Arg(2048)->UseRealTime();
void BM_CommitSkipSync(benchmark::State& state) { RunCommits(state, FaultVfs::Fault::kSkip); }
BENCHMARK(BM_CommitSkipSync)->Arg(1)->Arg(256)->Arg(2048);

class NoSegments final : public SegmentSyncer {
 public:
  absl::Status Sync(absl::Span<const SegmentExtent>) override { return absl::OkStatus(); }
};

// A single thread that keeps `range` batches of one task in flight, as the master's loop does.
void BM_CommitterThroughput(benchmark::State& state) {
  BenchDirectory directory;
  SqliteStoreOptions options;
  options.directory = directory.path();
  auto store = SqliteStore::Open(options);
  CHECK_OK(store);
  const Epoch epoch = *(*store)->RaiseEpoch();
  NoSegments segments;
  std::atomic<uint64_t> durable{0};
  Committer committer(store->get(), epoch, &segments, CommitterLimits(),
                      [&](const absl::Status& status, uint64_t seq) {
                        CHECK_OK(status);
                        durable = seq;
                        durable.notify_one();
                      });
  uint64_t sent = 0;
  for (auto _ : state) {
    for (uint64_t seen = durable; sent - seen >= static_cast<uint64_t>(state.range(0));
         seen = durable) {
      durable.wait(seen);
    }
    CHECK_OK(committer.Commit(MakeBatch(sent, 1), {}));
    ++sent;
  }
  CHECK_OK(committer.Flush());
  state.SetItemsProcessed(state.iterations());
  state.counters["batches_a_sync"] = static_cast<double>(committer.Stats().batches) /
                                     static_cast<double>(committer.Stats().groups);
}
BENCHMARK(BM_CommitterThroughput)->Arg(1)->Arg(16)->Arg(256)->UseRealTime();

// A restarted master's reading of 10,000 commits of `range` records each.
void BM_Replay(benchmark::State& state) {
  BenchDirectory directory;
  SqliteStoreOptions options;
  options.directory = directory.path();
  options.vfs = FaultVfs::Name();
  FaultVfs::Set({FaultVfs::Fault::kNone, FaultVfs::Fault::kSkip});
  auto store = SqliteStore::Open(options);
  CHECK_OK(store);
  const Epoch epoch = *(*store)->RaiseEpoch();
  AppendBatch batch;
  batch.records.resize(static_cast<size_t>(state.range(0)), {std::string(40, 'r')});
  constexpr int kCommits = 10000;
  for (int i = 0; i < kCommits; ++i) CHECK_OK((*store)->Append(epoch, {&batch, 1}));
  int64_t records_read = 0;
  for (auto _ : state) {
    CHECK_OK((*store)->ReadFrom(1, [&](uint64_t, absl::Span<const std::string_view> records) {
      records_read += static_cast<int64_t>(records.size());
      return absl::OkStatus();
    }));
  }
  FaultVfs::Set({});
  state.SetItemsProcessed(records_read);
}
BENCHMARK(BM_Replay)->Arg(1)->Arg(16)->Unit(benchmark::kMillisecond);

// 64 MiB in pieces of `range` bytes, then a sync: bare, and into a segment.
constexpr size_t kBulkBytes = size_t{64} << 20;

void BM_BareBulk(benchmark::State& state) {
  const std::string bytes(static_cast<size_t>(state.range(0)), 'y');
  for (auto _ : state) {
    BenchDirectory directory;
    const int fd = open((directory.path() + "/file").c_str(), O_RDWR | O_CREAT, 0600);
    for (size_t at = 0; at < kBulkBytes; at += bytes.size()) {
      CHECK(pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at)) ==
            static_cast<ssize_t>(bytes.size()));
    }
    CHECK(fdatasync(fd) == 0);
    close(fd);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kBulkBytes));
}
BENCHMARK(BM_BareBulk)->Arg(65536)->Arg(1 << 20)->UseRealTime()->Unit(benchmark::kMillisecond);

void BM_SegmentBulk(benchmark::State& state) {
  const std::string bytes(static_cast<size_t>(state.range(0)), 'y');
  for (auto _ : state) {
    BenchDirectory directory;
    auto store = SegmentStore::Open(RealFileSystem(), directory.path(), SegmentLimits());
    CHECK_OK(store);
    auto appender = (*store)->NewAppender("bench");
    CHECK_OK(appender);
    SegmentId last;
    for (size_t at = 0; at < kBulkBytes; at += bytes.size()) {
      const auto region = (*appender)->Append(bytes);
      CHECK_OK(region);
      last = region->segment;
    }
    CHECK_OK((*store)->Sync({last}));
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kBulkBytes));
}
BENCHMARK(BM_SegmentBulk)->Arg(65536)->Arg(1 << 20)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tandem::master

BENCHMARK_MAIN();
