// How much of a bare loop's speed is left: monte_carlo_pi and kmer_count through the whole cluster
// against the same bodies in a bare tbb::parallel_for, in turn, in one run; and black_scholes with
// the SDK's mathematics against the C library's, on one core.
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "bench/support/bare.h"
#include "bench/support/cluster.h"
#include "bench/support/report.h"
#include "common/base/rng.h"
#include "common/base/strings.h"

namespace tandem::bench {
namespace {

constexpr double kPiMin = 0.95, kWordsMin = 0.7, kOptionsMin = 8;
constexpr uint64_t kSeed = 7;
constexpr int32_t kK = 11;
constexpr int kGenomes = 50;

struct Pair {
  std::vector<double> bare, tandem;

  // Of neighbours in time: the machine's speed drifts more between runs than Tandem costs.
  double ratio() const {
    std::vector<double> ratios;
    for (size_t i = 0; i < bare.size(); ++i) ratios.push_back(bare[i] / tandem[i]);
    return Median(ratios);
  }
};

// The two in turn, so that both see the same machine. The first of each warms up.
Pair InTurn(int times, const std::function<void()>& bare, const std::function<void()>& tandem) {
  Pair pair;
  for (int i = 0; i <= times; ++i) {
    const Stopwatch of_bare;
    bare();
    const double bare_seconds = of_bare.Seconds();
    const Stopwatch of_tandem;
    tandem();
    if (i == 0) continue;
    pair.bare.push_back(bare_seconds);
    pair.tandem.push_back(of_tandem.Seconds());
  }
  return pair;
}

void AddRatio(const std::string& measure, const Pair& pair, double at_least, Report* report) {
  report->Add({.measure = measure,
               .value = pair.ratio(),
               .unit = "x",
               .bound = Bound::kAtLeast,
               .threshold = at_least,
               .note = StrCat("bare ", Readable(Median(pair.bare) * 1e3), " ms, Tandem ",
                              Readable(Median(pair.tandem) * 1e3), " ms"),
               .details = {{"bare_s", pair.bare}, {"tandem_s", pair.tandem}}});
}

void Pi(Cluster* cluster, const Settings& settings, Report* report) {
  const int64_t tasks = settings.quick ? 200'000'000 : 1'000'000'000;
  const JobSpec spec =
      cluster->Prepare("monte_carlo_pi", {}, {{"n", StrCat(tasks)}, {"seed", StrCat(kSeed)}});
  uint64_t expected = 0;
  const Pair pair = InTurn(
      settings.quick ? 3 : 15, [&] { expected = BarePi(kSeed, tasks); },
      [&] {
        const client::JobInfo job = cluster->Run(spec);
        const std::string hits = cluster->Read(job.id, "hits");
        if (hits.size() != sizeof(expected) ||
            std::memcmp(hits.data(), &expected, sizeof(expected)) != 0) {
          Die("monte_carlo_pi: other hits than the bare loop's");
        }
      });
  AddRatio("monte_carlo_pi, 10^9 tasks, of a bare loop's speed", pair, kPiMin, report);
}

// The genome's bases, `times` over.
std::string Genome(const Settings& settings, int times) {
  std::ifstream file(settings.data + "/h37rv.fna");
  std::string genome;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '>') genome += line;
  }
  if (genome.empty())
    Die(StrCat("no genome in ", settings.data, "; examples/fetch_data.sh ", settings.data,
               " brings it"));
  std::string all;
  for (int i = 0; i < times; ++i) all += genome;
  return all;
}

void Words(Cluster* cluster, const Settings& settings, Report* report) {
  const std::string base = Genome(settings, settings.quick ? 10 : kGenomes);
  const std::string path = cluster->folder() + "/base.raw";
  std::ofstream(path, std::ios::binary) << base;
  const JobSpec spec =
      cluster->Prepare("kmer_count", {}, {{"base", "@" + path}, {"k", StrCat(kK)}});
  std::vector<uint32_t> expected;
  JobId last;
  const Pair pair = InTurn(
      settings.quick ? 3 : 5, [&] { expected = BareKmerCount(base, kK); },
      [&] { last = cluster->Run(spec).id; });
  const std::string counts = cluster->Read(last, "count");
  if (counts.size() != expected.size() * sizeof(uint32_t) ||
      std::memcmp(counts.data(), expected.data(), counts.size()) != 0) {
    Die("kmer_count: other counts than the bare loop's");
  }
  AddRatio("kmer_count k = 11, genome 50 times, of a bare loop's", pair, kWordsMin, report);
}

float Cdf(float x) { return 0.5f * erfcf(-x * static_cast<float>(M_SQRT1_2)); }

// As a program without the SDK would: the C library's functions, an option at a time.
void ScalarBlackScholes(Options* o) {
  for (size_t i = 0; i < o->spot.size(); ++i) {
    const float s = o->spot[i], x = o->strike[i], y = o->years[i], w = o->volatility * sqrtf(y);
    const float d1 = (logf(s / x) + (o->rate + 0.5f * o->volatility * o->volatility) * y) / w;
    const float n1 = Cdf(d1), n2 = Cdf(d1 - w);
    const float k = x * expf(-o->rate * y);
    o->call[i] = s * n1 - k * n2;
    o->put[i] = k * (1 - n2) - s * (1 - n1);
  }
}

void OptionPrices(const Settings& settings, Report* report) {
  Options options;
  options.rate = 0.02f;
  options.volatility = 0.3f;
  Rng rng(kSeed);
  const auto uniform = [&](double low, double high) {
    return static_cast<float>(low + (high - low) * rng.NextDouble());
  };
  for (int i = 0; i < (settings.quick ? 200'000 : 1'000'000); ++i) {
    options.spot.push_back(uniform(5, 30));
    options.strike.push_back(uniform(1, 100));
    options.years.push_back(uniform(0.25, 10));
  }
  if (!BareBlackScholes("v3", &options)) {
    std::printf("black_scholes on v3: skipped, this machine lacks x86-64-v3\n");
    return;
  }
  Options scalar = options;
  const Pair pair = InTurn(
      5, [&] { ScalarBlackScholes(&scalar); }, [&] { BareBlackScholes("v3", &options); });
  for (size_t i = 0; i < scalar.call.size(); ++i) {
    if (std::fabs(scalar.call[i] - options.call[i]) > 1e-4f * scalar.spot[i]) {
      Die(StrCat("black_scholes: option ", i, " has another price than the C library's"));
    }
  }
  const double ns = 1e9 / static_cast<double>(options.spot.size());
  report->Add({.measure = "black_scholes on v3, speed over scalar libm",
               .value = pair.ratio(),
               .unit = "x",
               .bound = Bound::kAtLeast,
               .threshold = kOptionsMin,
               .note = StrCat("ns an option: ", Readable(Median(pair.tandem) * ns), ", libm ",
                              Readable(Median(pair.bare) * ns))});
}

int Main(int argc, char** argv) {
  const Settings settings =
      ParseSettings(argc, argv, "How much of a bare loop's speed a cluster keeps.");
  Report report(settings, "throughput");
  OptionPrices(settings, &report);
  Cluster cluster(settings, {});
  Pi(&cluster, settings, &report);
  Words(&cluster, settings, &report);
  return report.Finish();
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::Main(argc, argv); }
