// The simulator: `tandem_sim --seed 7`, `tandem_sim --seeds 200 [--from 1000]`, `--trace` prints a
// run, `--list FILE` runs the seeds that a file names, one a line.
//
// Each seed runs twice, and the two traces must be the same. Exit codes: 0 all is well · 1 usage ·
// 2 safety is broken (also: an invariant of a core, or two runs that differ) · 3 no progress after
// healing.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tests/sim/scenario.h"

namespace {

uint64_t current_seed = 0;

// A CHECK that fails is a broken invariant: say which seed it was.
void OnAbort(int) {
  std::fprintf(stderr, "seed %llu: an invariant is broken\n",
               static_cast<unsigned long long>(current_seed));
  _exit(2);
}

int RunSeed(uint64_t seed, bool trace) {
  current_seed = seed;
  const tandem::sim::Outcome first = tandem::sim::RunScenario(seed, trace);
  const auto number = static_cast<unsigned long long>(seed);
  if (!first.broken.empty()) {
    std::fprintf(stderr, "seed %llu: safety: %s\n", number, first.broken.c_str());
    return 2;
  }
  const tandem::sim::Outcome second = tandem::sim::RunScenario(seed, false);
  if (first.trace_hash != second.trace_hash) {
    std::fprintf(stderr, "seed %llu: two runs differ\n", number);
    return 2;
  }
  if (!first.stuck.empty()) {
    std::fprintf(stderr, "seed %llu: no progress: %s\n", number, first.stuck.c_str());
    return 3;
  }
  return 0;
}

bool ReadSeeds(const std::string& path, std::vector<uint64_t>* seeds) {
  std::ifstream file(path);
  if (!file) return false;
  std::string line;
  while (std::getline(file, line)) {
    if (!line.empty() && line[0] != '#') seeds->push_back(std::strtoull(line.c_str(), nullptr, 10));
  }
  return true;
}

int Usage() {
  std::fprintf(stderr,
               "usage: tandem_sim [--seed N] [--seeds COUNT] [--from N] [--list FILE] "
               "[--trace]\n");
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t from = 0, count = 0;
  bool trace = false;
  std::vector<uint64_t> seeds;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--trace") {
      trace = true;
      continue;
    }
    if (i + 1 == argc) return Usage();
    const std::string value = argv[++i];
    if (flag == "--seed") {
      seeds.push_back(std::strtoull(value.c_str(), nullptr, 10));
    } else if (flag == "--seeds") {
      count = std::strtoull(value.c_str(), nullptr, 10);
    } else if (flag == "--from") {
      from = std::strtoull(value.c_str(), nullptr, 10);
    } else if (flag == "--list") {
      if (!ReadSeeds(value, &seeds)) return Usage();
    } else {
      return Usage();
    }
  }
  for (uint64_t i = 0; i < count; ++i) seeds.push_back(from + i);
  std::signal(SIGABRT, OnAbort);
  int worst = 0;
  for (const uint64_t seed : seeds) {
    const int result = RunSeed(seed, trace);
    if (result != 0 && (worst == 0 || result < worst)) worst = result;
  }
  std::printf("%zu seeds, exit %d\n", seeds.size(), worst);
  return worst;
}
