// What every benchmark is told: where the programs and the data are, where results go, how long it
// may take.
//
//   const Settings settings = ParseSettings(argc, argv, "What a lease costs.");
//
// Flags win over TANDEM_BIN, TANDEM_DATA and TANDEM_OUT, which bench/run.sh sets.
//
// Thread-safety: plain data.
#ifndef TANDEM_BENCH_SUPPORT_SETTINGS_H_
#define TANDEM_BENCH_SUPPORT_SETTINGS_H_

#include <string>

namespace tandem::bench {

struct Settings {
  std::string bin;     // holds tandem-master, tandem-worker, tandem-executor
  std::string data;    // holds what examples/fetch_data.sh brings
  std::string out;     // JSON goes here, and clusters keep their data below it while they run
  bool quick = false;  // a look, not a measurement: smaller jobs, fewer repetitions
};

// Ends the program after help and after a wrong flag (exit 2).
Settings ParseSettings(int argc, char** argv, const std::string& what);

}  // namespace tandem::bench

#endif  // TANDEM_BENCH_SUPPORT_SETTINGS_H_
