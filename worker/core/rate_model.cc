#include "worker/core/rate_model.h"

#include <algorithm>
#include <cmath>

namespace tandem::worker {
namespace {

constexpr double kDecay = 0.9;       // a measurement's weight when the next one comes
constexpr double kSpreadMin = 1e-2;  // relative variance of sizes that tells a line's two numbers
constexpr double kSlopeMin = 1e-15;
// Few measurements of small pieces can be told by a fixed cost alone, and larger ones would then
// seem to cost nothing.
constexpr double kFixedShareMax = 0.9;

// Beyond these nothing is a measurement: of work, and of seconds.
constexpr double kUnitsMin = 1e-15, kUnitsMax = 1e18;
constexpr double kSecondsMax = 1e7;
constexpr double kRounding = 1 + 1e-6;

}  // namespace

bool RateModel::Sums::Sound() const {
  for (const double value : {weight, n, s, nn, ns, fixed}) {
    if (!std::isfinite(value) || value < 0) return false;
  }
  if (weight == 0) return *this == Sums();
  return weight >= 1 && weight * (1 - kDecay) <= kRounding && n * kRounding >= weight * kUnitsMin &&
         n <= weight * kUnitsMax * kRounding && s <= weight * kSecondsMax * kRounding &&
         nn * weight * kRounding >= n * n && nn <= n * kUnitsMax * kRounding &&
         ns <= n * kSecondsMax * kRounding && fixed * weight <= kFixedShareMax * s * kRounding;
}

RateModel::RateModel(const Sums& sums) : sums_(sums) {
  if (known()) TakeSlope();
}

// Written so that what is not a number is refused, too.
bool RateModel::Takes(double units, double seconds) {
  return units >= kUnitsMin && units <= kUnitsMax && seconds >= 0 && seconds <= kSecondsMax;
}

bool RateModel::Add(double units, double seconds) {
  if (!Takes(units, seconds)) return false;
  sums_.weight = sums_.weight * kDecay + 1;
  sums_.n = sums_.n * kDecay + units;
  sums_.s = sums_.s * kDecay + seconds;
  sums_.nn = sums_.nn * kDecay + units * units;
  sums_.ns = sums_.ns * kDecay + units * seconds;
  Fit();
  return true;
}

void RateModel::Fit() {
  const double mean_n = sums_.n / sums_.weight;
  const double mean_s = sums_.s / sums_.weight;
  const double variance = sums_.nn / sums_.weight - mean_n * mean_n;
  if (variance > kSpreadMin * mean_n * mean_n) {
    const double covariance = sums_.ns / sums_.weight - mean_n * mean_s;
    sums_.fixed = mean_s - covariance / variance * mean_n;
  }
  sums_.fixed = std::clamp(sums_.fixed, 0.0, kFixedShareMax * mean_s);
  TakeSlope();
}

void RateModel::TakeSlope() {
  slope_ = std::max((sums_.s - sums_.fixed * sums_.weight) / sums_.n, kSlopeMin);
}

}  // namespace tandem::worker
