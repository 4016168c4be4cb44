// fuzz_replay: runs fuzz targets on what is known: their seeds and the files of a corpus.
//
//   fuzz_replay --list                      the targets' names
//   fuzz_replay NAME [FILE|FOLDER...]       the seeds, then each file; dies at the first finding
//   fuzz_replay --mutate N SEED NAME [FILE|FOLDER...]   then N inputs made from those; a finding is
//                                           kept as ./finding-NAME.bin
//   fuzz_replay --write-seeds NAME FOLDER   the seeds as files, for libFuzzer to start from
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/strings.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/mutate.h"

namespace tandem::fuzz {
namespace {

namespace fs = std::filesystem;

int Usage() {
  std::fprintf(stderr, "fuzz_replay --list | NAME [FILE|FOLDER...] | --write-seeds NAME FOLDER\n");
  return 2;
}

const Target* Find(std::string_view name) {
  for (const Target& target : Targets()) {
    if (name == target.name) return &target;
  }
  std::fprintf(stderr, "fuzz_replay: no target is named %s; --list names them\n",
               std::string(name).c_str());
  return nullptr;
}

// The files named, and those in the folders named, in order of names.
std::vector<fs::path> FilesOf(const std::vector<std::string>& paths) {
  std::vector<fs::path> files;
  for (const std::string& path : paths) {
    if (!fs::is_directory(path)) {
      files.emplace_back(path);
      continue;
    }
    for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

// The input that runs now, and where it goes if the process dies of it.
std::string_view running;
char finding[256];

void KeepFinding(int signal) {
  const int fd = ::open(finding, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd >= 0 && ::write(fd, running.data(), running.size()) >= 0) ::close(fd);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void Mutate(const Target& target, std::vector<std::string> known, uint64_t rounds, uint64_t seed) {
  std::snprintf(finding, sizeof finding, "finding-%s.bin", target.name);
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGILL, SIGBUS}) ::signal(signal, KeepFinding);
  Mutator mutator(std::move(known), seed);
  for (uint64_t i = 0; i < rounds; ++i) {
    running = mutator.Next();
    target.run(running);
  }
  std::printf("%s: %llu mutations, no finding\n", target.name,
              static_cast<unsigned long long>(rounds));
}

int Replay(const Target& target, const std::vector<std::string>& paths, uint64_t rounds,
           uint64_t seed) {
  std::vector<std::string> known = target.seeds();
  for (size_t i = 0; i < known.size(); ++i) {
    std::printf("%s: seed %zu\n", target.name, i);
    std::fflush(stdout);
    target.run(known[i]);
  }
  const size_t seeds = known.size();
  for (const fs::path& path : FilesOf(paths)) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "fuzz_replay: cannot read %s\n", path.c_str());
      return 2;
    }
    std::printf("%s: %s\n", target.name, path.filename().c_str());
    std::fflush(stdout);  // the last line names the culprit
    known.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    target.run(known.back());
  }
  std::printf("%s: %zu seeds and %zu files, no finding\n", target.name, seeds,
              known.size() - seeds);
  std::fflush(stdout);
  if (rounds > 0) Mutate(target, std::move(known), rounds, seed);
  return 0;
}

int WriteSeeds(const Target& target, const fs::path& folder) {
  fs::create_directories(folder);
  const std::vector<std::string> seeds = target.seeds();
  for (size_t i = 0; i < seeds.size(); ++i) {
    std::ofstream file(folder / StrCat("seed-", i, ".bin"), std::ios::binary);
    file << seeds[i];
    if (!file.flush()) {
      std::fprintf(stderr, "fuzz_replay: cannot write to %s\n", folder.c_str());
      return 2;
    }
  }
  return 0;
}

int Main(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return Usage();
  if (arguments[0] == "--list") {
    for (const Target& target : Targets()) std::printf("%s\n", target.name);
    return 0;
  }
  if (arguments[0] == "--write-seeds") {
    if (arguments.size() != 3) return Usage();
    const Target* target = Find(arguments[1]);
    return target == nullptr ? 2 : WriteSeeds(*target, arguments[2]);
  }
  size_t name = 0;
  uint64_t rounds = 0, seed = 0;
  if (arguments[0] == "--mutate") {
    if (arguments.size() < 4) return Usage();
    rounds = std::strtoull(arguments[1].c_str(), nullptr, 10);
    seed = std::strtoull(arguments[2].c_str(), nullptr, 10);
    name = 3;
  }
  const Target* target = Find(arguments[name]);
  if (target == nullptr) return 2;
  const auto paths = arguments.begin() + static_cast<std::ptrdiff_t>(name) + 1;
  return Replay(*target, {paths, arguments.end()}, rounds, seed);
}

}  // namespace
}  // namespace tandem::fuzz

int main(int argc, char** argv) {
  return tandem::fuzz::Main(std::vector<std::string>(argv + 1, argv + argc));
}
