#include "bench/support/measure.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "common/base/check.h"
#include "common/base/strings.h"

namespace tandem::bench {

double Quantile(std::vector<double> values, double share) {
  CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const double last = static_cast<double>(values.size() - 1);
  const double at = share * last;
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, values.size() - 1);
  const double weight = at - std::floor(at);
  return values[below] * (1 - weight) + values[above] * weight;
}

ScratchFolder::ScratchFolder(const std::string& parent) : path_(parent + "/scratch_XXXXXX") {
  if (mkdtemp(path_.data()) == nullptr) Die(StrCat("cannot make a folder below ", parent));
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

SyncProbe::SyncProbe(const std::string& folder)
    : fd_(open((folder + "/sync_probe").c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600)) {
  if (fd_.get() < 0) Die(StrCat("cannot write below ", folder));
}

double SyncProbe::Seconds() {
  const std::string page(4096, 'p');
  const Stopwatch watch;
  if (write(fd_.get(), page.data(), page.size()) != static_cast<ssize_t>(page.size()) ||
      fdatasync(fd_.get()) != 0) {
    Die("a sync failed");
  }
  return watch.Seconds();
}

double SyncProbe::MedianSeconds(int times) {
  std::vector<double> seconds;
  for (int i = 0; i < times; ++i) seconds.push_back(Seconds());
  return Median(std::move(seconds));
}

void Die(const std::string& why) {
  std::fprintf(stderr, "bench: %s\n", why.c_str());
  std::exit(1);
}

void Must(const absl::Status& status, const char* doing) {
  if (!status.ok()) Die(StrCat(doing, ": ", ToStd(status.message())));
}

}  // namespace tandem::bench
