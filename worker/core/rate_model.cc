#include "worker/core/rate_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tandem::worker {
namespace {

constexpr double kDecay = 0.9;       // a measurement's weight when the next one comes
constexpr double kSpreadMin = 1e-2;  // relative variance of sizes that tells a line's two numbers
constexpr double kSlopeMin = 1e-15;
// Few measurements of small pieces can be told by a fixed cost alone, and larger ones would then
// seem to cost nothing.
constexpr double kFixedShareMax = 0.9;

}  // namespace

bool RateModel::Sums::Sound() const {
  for (const double value : {weight, n, s, nn, ns, fixed, slope}) {
    if (!std::isfinite(value) || value < 0) return false;
  }
  return weight == 0 || (n > 0 && slope >= kSlopeMin);
}

void RateModel::Add(double units, double seconds) {
  sums_.weight = sums_.weight * kDecay + 1;
  sums_.n = sums_.n * kDecay + units;
  sums_.s = sums_.s * kDecay + seconds;
  sums_.nn = sums_.nn * kDecay + units * units;
  sums_.ns = sums_.ns * kDecay + units * seconds;

  const double mean_n = sums_.n / sums_.weight;
  const double mean_s = sums_.s / sums_.weight;
  const double variance = sums_.nn / sums_.weight - mean_n * mean_n;
  if (variance > kSpreadMin * mean_n * mean_n) {
    const double covariance = sums_.ns / sums_.weight - mean_n * mean_s;
    sums_.fixed = mean_s - covariance / variance * mean_n;
  }
  sums_.fixed = std::clamp(sums_.fixed, 0.0, kFixedShareMax * mean_s);
  sums_.slope = std::max((mean_s - sums_.fixed) / mean_n, kSlopeMin);
}

}  // namespace tandem::worker
