// The reference of asian_option: the same paths, one after the other, in double precision with the
// C library.
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_ASIAN_OPTION_ASIAN_OPTION_REF_H_
#define TANDEM_KERNELS_ASIAN_OPTION_ASIAN_OPTION_REF_H_

#include <cstdint>

namespace tandem::kernels {

struct AsianOptionInput {
  double spot, strike, years, rate, volatility;
  int32_t steps, paths;
  uint64_t seed;
};
double AsianOptionReference(const AsianOptionInput& input, int64_t task);

// The exact price of the call on the *geometric* mean of the same steps, a lower bound that is
// close (Kemna, Vorst: A pricing method for options based on average asset values, 1990).
double GeometricAsianPrice(const AsianOptionInput& input);

}  // namespace tandem::kernels

#endif  // TANDEM_KERNELS_ASIAN_OPTION_ASIAN_OPTION_REF_H_
