// A benchmark's results: a line a measure for people, and one JSON file for programs.
//
//   Report report(settings, "leases");
//   report.Add({.measure = "leases of one task, 2,048 in flight", .value = rate, .unit = "1/s",
//               .bound = Bound::kAtLeast, .threshold = 400'000, .details = {{"cpu_us", 1.6}}});
//   return report.Finish();
//
// The JSON: {"bench", "quick", "machine": {...}, what Describe adds, "rows": [{"measure", "value",
// "unit", "at_least" or "at_most", "ok", …details}]}.
//
// Thread-safety: one thread.
#ifndef TANDEM_BENCH_SUPPORT_REPORT_H_
#define TANDEM_BENCH_SUPPORT_REPORT_H_

#include <nlohmann/json.hpp>
#include <string>

#include "bench/support/settings.h"

namespace tandem::bench {

enum class Bound { kNone, kAtLeast, kAtMost };

struct Row {
  std::string measure;
  double value = 0;
  std::string unit;
  Bound bound = Bound::kNone;
  double threshold = 0;
  std::string note;  // said behind the verdict
  nlohmann::ordered_json details = nlohmann::ordered_json::object();
};

class Report {
 public:
  // `name` names the file, <out>/<name>.json.
  Report(const Settings& settings, const std::string& name);

  // More of what was measured on, in the JSON.
  void Describe(const std::string& key, nlohmann::ordered_json what);
  // Prints the line at once.
  void Add(const Row& row);
  // Writes the file; the program's exit code: 0, or 3 when a row misses its threshold.
  int Finish();

 private:
  std::string path_;
  nlohmann::ordered_json all_;
  bool below_ = false;
};

// "812,345", "0.0473": three significant digits or more.
std::string Readable(double value);

}  // namespace tandem::bench

#endif  // TANDEM_BENCH_SUPPORT_REPORT_H_
