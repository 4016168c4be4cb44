// The reference of black_scholes: the expectation of the payoff in extended precision, by the C
// library.
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_BLACK_SCHOLES_BLACK_SCHOLES_REF_H_
#define TANDEM_KERNELS_BLACK_SCHOLES_BLACK_SCHOLES_REF_H_

namespace tandem::kernels {

struct OptionPrice {
  double call, put;
};
OptionPrice BlackScholesReference(double spot, double strike, double years, double rate,
                                  double volatility);

}  // namespace tandem::kernels

#endif  // TANDEM_KERNELS_BLACK_SCHOLES_BLACK_SCHOLES_REF_H_
