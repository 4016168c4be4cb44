// One seeded run: a master, workers, owners that submit and cancel, a while of bad weather, then
// healing. See main.cc for how it is judged.
//
// Thread-safety: none.
#ifndef TANDEM_TESTS_SIM_SCENARIO_H_
#define TANDEM_TESTS_SIM_SCENARIO_H_

#include <cstdint>
#include <string>

namespace tandem::sim {

struct Outcome {
  uint64_t trace_hash = 0;
  std::string broken;  // The first broken promise; "": none.
  std::string stuck;   // What was not finished long after healing; "": nothing.
};

Outcome RunScenario(uint64_t seed, bool print);

}  // namespace tandem::sim

#endif  // TANDEM_TESTS_SIM_SCENARIO_H_
