// Built-in kernels without Tandem: the same bodies, of the same instruction set as an executor
// takes, called by a bare tbb::parallel_for. What ratios are measured against.
//
// Thread-safety: safe from any thread; calls use all cores.
#ifndef TANDEM_BENCH_SUPPORT_BARE_H_
#define TANDEM_BENCH_SUPPORT_BARE_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/sdk/abi.h"

namespace tandem::bench {

// The table of a built-in kernel, for the best instruction set or a given one ("v3"); null where
// the machine lacks that.
const TandemKernelV1* BareKernel(std::string_view name, const char* isa = nullptr);

// The hits of monte_carlo_pi among tasks 0 … tasks - 1.
uint64_t BarePi(uint64_t seed, int64_t tasks);

// The counts of kmer_count over `base`, a private partial a thread, merged at the end.
std::vector<uint32_t> BareKmerCount(std::string_view base, int32_t k);

// Runs `tasks` tasks of spin, `work` steps each, on all cores.
std::vector<uint64_t> BareSpin(int64_t tasks, uint32_t work);

// Prices options; `isa` as above. One core. Returns false where the machine lacks the set.
struct Options {
  std::vector<float> spot, strike, years;
  float rate = 0, volatility = 0;
  std::vector<float> call, put;
};
bool BareBlackScholes(const char* isa, Options* options);

}  // namespace tandem::bench

#endif  // TANDEM_BENCH_SUPPORT_BARE_H_
