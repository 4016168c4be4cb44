#include "kernels/black_scholes/black_scholes_ref.h"

#include <cmath>

namespace tandem::kernels {

OptionPrice BlackScholesReference(double spot, double strike, double years, double rate,
                                  double volatility) {
  using Real = long double;
  const Real s = spot, x = strike, y = years, r = rate, v = volatility;
  const Real deviation = v * std::sqrt(y);
  // The stock at maturity is s exp(mean + deviation z); the call pays where z > threshold.
  const Real mean = (r - v * v / 2) * y;
  const Real threshold = (std::log(x / s) - mean) / deviation;
  const auto upper = [](Real z) { return std::erfc(z / std::sqrt(Real(2))) / 2; };  // P(Z > z)
  const Real discount = std::exp(-r * y);
  const Real stock_above = s * upper(threshold - deviation),
             strike_above = x * discount * upper(threshold);
  const Real call = stock_above - strike_above;
  // The put pays x - stock where z <= threshold.
  const Real put = x * discount * upper(-threshold) - s * upper(deviation - threshold);
  return {static_cast<double>(call), static_cast<double>(put)};
}

}  // namespace tandem::kernels
