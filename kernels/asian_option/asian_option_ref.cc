#include "kernels/asian_option/asian_option_ref.h"

#include <array>
#include <cmath>
#include <numbers>

#include "kernels/monte_carlo_pi/monte_carlo_pi_ref.h"

namespace tandem::kernels {
namespace {

double UniformOf(uint32_t word) { return (word / 512 + 0.5) / 8388608; }

std::array<double, 4> NormalsOf(const std::array<uint32_t, 4>& word) {
  std::array<double, 4> z;
  for (int pair = 0; pair < 2; ++pair) {
    const double radius = std::sqrt(-2 * std::log(UniformOf(word[2 * pair])));
    const double angle = 2 * std::numbers::pi * UniformOf(word[2 * pair + 1]);
    z[2 * pair] = radius * std::cos(angle);
    z[2 * pair + 1] = radius * std::sin(angle);
  }
  return z;
}

double NormalCdf(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }

}  // namespace

double AsianOptionReference(const AsianOptionInput& in, int64_t task) {
  const double step = in.years / in.steps;
  double payoffs = 0;
  for (int32_t path = 0; path < in.paths; ++path) {
    double log_stock = std::log(in.spot), sum = 0;
    for (int32_t s = 0; s < in.steps; ++s) {
      const auto word = PhiloxReference(
          {static_cast<uint32_t>(s / 4), static_cast<uint32_t>(path), static_cast<uint32_t>(task),
           static_cast<uint32_t>(static_cast<uint64_t>(task) >> 32)},
          {static_cast<uint32_t>(in.seed), static_cast<uint32_t>(in.seed >> 32)});
      log_stock += (in.rate - in.volatility * in.volatility / 2) * step +
                   in.volatility * std::sqrt(step) * NormalsOf(word)[s % 4];
      sum += std::exp(log_stock);
    }
    payoffs += std::fmax(sum / in.steps - in.strike, 0.0);
  }
  return std::exp(-in.rate * in.years) * payoffs / in.paths;
}

double GeometricAsianPrice(const AsianOptionInput& in) {
  const double n = in.steps, step = in.years / n;
  // The logarithm of the geometric mean is normal.
  const double mean =
      std::log(in.spot) + (in.rate - in.volatility * in.volatility / 2) * step * (n + 1) / 2;
  const double variance = in.volatility * in.volatility * step * (n + 1) * (2 * n + 1) / (6 * n);
  const double deviation = std::sqrt(variance);
  const double d2 = (mean - std::log(in.strike)) / deviation, d1 = d2 + deviation;
  return std::exp(-in.rate * in.years) *
         (std::exp(mean + variance / 2) * NormalCdf(d1) - in.strike * NormalCdf(d2));
}

}  // namespace tandem::kernels
