#include "bench/support/report.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "bench/support/measure.h"
#include "common/base/strings.h"

namespace tandem::bench {
namespace {

constexpr int kExitBelow = 3;

std::string CpuModel() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) == 0) return std::string(Trim(line.substr(line.find(':') + 1)));
  }
  return "unknown";
}

nlohmann::ordered_json Machine() {
  double load[3] = {};
  getloadavg(load, 3);
  return {{"cpu", CpuModel()}, {"cores", sysconf(_SC_NPROCESSORS_ONLN)}, {"load_before", load[0]}};
}

std::string Threshold(const Row& row) {
  if (row.bound == Bound::kNone) return "";
  return StrCat(row.bound == Bound::kAtLeast ? ">= " : "<= ", Readable(row.threshold));
}

}  // namespace

std::string Readable(double value) {
  char text[64];
  const double size = std::fabs(value);
  if (size < 1000) {
    std::snprintf(text, sizeof(text), size >= 100 ? "%.0f" : size >= 10 ? "%.1f" : "%.3g", value);
    return text;
  }
  std::snprintf(text, sizeof(text), "%.0f", value);
  std::string digits = text;
  const size_t stop = value < 0 ? 1 : 0;
  for (size_t at = digits.size(); at > stop + 3;) digits.insert(at -= 3, ",");
  return digits;
}

Report::Report(const Settings& settings, const std::string& name)
    : path_(settings.out + "/" + name + ".json") {
  all_ = {{"bench", name},
          {"quick", settings.quick},
          {"machine", Machine()},
          {"rows", nlohmann::ordered_json::array()}};
}

void Report::Describe(const std::string& key, nlohmann::ordered_json what) {
  all_[key] = std::move(what);
}

void Report::Add(const Row& row) {
  nlohmann::ordered_json json = {
      {"measure", row.measure}, {"value", row.value}, {"unit", row.unit}};
  std::string verdict;
  if (row.bound != Bound::kNone) {
    const bool at_least = row.bound == Bound::kAtLeast;
    const bool ok = at_least ? row.value >= row.threshold : row.value <= row.threshold;
    json[at_least ? "at_least" : "at_most"] = row.threshold;
    json["ok"] = ok;
    verdict = ok ? "ok" : "BELOW";
    below_ |= !ok;
  }
  json.update(row.details);
  all_["rows"].push_back(std::move(json));
  std::printf("%-52s %11s %-6s %12s %-5s  %s\n", row.measure.c_str(), Readable(row.value).c_str(),
              row.unit.c_str(), Threshold(row).c_str(), verdict.c_str(), row.note.c_str());
  std::fflush(stdout);
}

int Report::Finish() {
  std::ofstream file(path_);
  file << all_.dump(2) << "\n";
  file.close();
  if (!file) Die(StrCat("cannot write ", path_));
  return below_ ? kExitBelow : 0;
}

}  // namespace tandem::bench
