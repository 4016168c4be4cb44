// A map's large result, from submit until all of it is durable, against a bare write and sync of
// the same bytes: once from a worker on the master's host, which hands its memory over, and once
// from one that streams, as from another host.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "bench/support/cluster.h"
#include "bench/support/report.h"
#include "common/base/strings.h"
#include "common/base/unique_fd.h"
#include "kernels/noop/noop_ref.h"

namespace tandem::bench {
namespace {

constexpr double kHandedOverMin = 0.8;
constexpr uint64_t kSeed = 7;

void WriteAndSync(const std::string& path, std::string_view bytes) {
  constexpr size_t kAtOnce = 1 << 20;
  const UniqueFd fd(open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600));
  bool ok = fd.get() >= 0;
  for (; ok && !bytes.empty(); bytes.remove_prefix(std::min(kAtOnce, bytes.size()))) {
    const std::string_view piece = bytes.substr(0, kAtOnce);
    ok = write(fd.get(), piece.data(), piece.size()) == static_cast<ssize_t>(piece.size());
  }
  if (!ok || fdatasync(fd.get()) != 0) Die(StrCat("cannot write ", path));
  unlink(path.c_str());
}

// A cluster, and what its runs of one job took.
struct Way {
  Way(const Settings& settings, const ClusterOptions& options) : cluster(settings, options) {}

  Cluster cluster;
  JobSpec spec;
  JobId last;
  std::vector<double> seconds, master, worker, executor;

  // Not counted while warming up.
  void Run(bool counts) {
    const CpuUse before = cluster.Cpu();
    const Stopwatch watch;
    last = cluster.Run(spec).id;
    const double took = watch.Seconds();
    if (!counts) return;
    const CpuUse used = cluster.Cpu() - before;
    seconds.push_back(took);
    master.push_back(used.master);
    worker.push_back(used.workers);
    executor.push_back(used.executors);
  }

  void AddTo(Report* report, const std::string& measure, const std::vector<double>& bare,
             uint64_t bytes, Row row) const {
    const auto per_gigabyte = [&](const std::vector<double>& cpu) {
      return Readable(Median(cpu) / static_cast<double>(bytes) * 1e9);
    };
    row.measure = measure;
    row.value = Median(bare) / Median(seconds);
    row.unit = "x";
    row.note =
        StrCat("bare ", Readable(Median(bare) * 1e3), " ms, Tandem ",
               Readable(Median(seconds) * 1e3), " ms; CPU s/GB: master ", per_gigabyte(master),
               ", worker ", per_gigabyte(worker), ", executor ", per_gigabyte(executor));
    row.details = {{"bare_s", bare},
                   {"tandem_s", seconds},
                   {"master_cpu_s", master},
                   {"worker_cpu_s", worker},
                   {"executor_cpu_s", executor}};
    report->Add(row);
  }
};

int Main(int argc, char** argv) {
  const Settings settings =
      ParseSettings(argc, argv, "What a large result costs, until it is durable.");
  Report report(settings, "results");
  const int64_t tasks = settings.quick ? 2'000'000 : 10'000'000;
  const std::vector<uint64_t> expected = kernels::NoopReference(kSeed, 0, tasks);
  const std::string_view bytes(reinterpret_cast<const char*>(expected.data()),
                               expected.size() * sizeof(uint64_t));
  Way handed_over(settings, {});
  Way streamed(settings, {.worker_flags = {"--local-data", "never"}});
  for (Way* way : {&handed_over, &streamed}) {
    way->spec = way->cluster.Prepare("noop", {}, {{"n", StrCat(tasks)}, {"seed", StrCat(kSeed)}});
  }
  // In turn, so that all see the same machine. The first of each warms up.
  std::vector<double> bare;
  const int times = settings.quick ? 3 : 9;
  for (int i = 0; i <= times; ++i) {
    const Stopwatch watch;
    WriteAndSync(handed_over.cluster.folder() + "/bare", bytes);
    if (i > 0) bare.push_back(watch.Seconds());
    handed_over.Run(i > 0);
    streamed.Run(i > 0);
  }
  for (Way* way : {&handed_over, &streamed}) {
    if (way->cluster.Read(way->last, "value") != bytes) {
      Die("noop: other values than the reference's");
    }
  }
  const std::string what = StrCat("a map's ", bytes.size() / 1'000'000, " MB durable, ");
  handed_over.AddTo(&report, what + "of a write and sync", bare, bytes.size(),
                    {.bound = Bound::kAtLeast, .threshold = kHandedOverMin});
  streamed.AddTo(&report, what + "streamed", bare, bytes.size(), {});
  return report.Finish();
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::Main(argc, argv); }
