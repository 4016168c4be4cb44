#include "worker/core/rate_model.h"

#include <algorithm>
#include <limits>

namespace tandem::worker {
namespace {

constexpr double kDecay = 0.9;       // a measurement's weight when the next one comes
constexpr double kSpreadMin = 1e-2;  // relative variance of sizes that tells a line's two numbers
constexpr double kSlopeMin = 1e-15;

}  // namespace

void RateModel::Add(double units, double seconds) {
  weight_ = weight_ * kDecay + 1;
  sum_n_ = sum_n_ * kDecay + units;
  sum_s_ = sum_s_ * kDecay + seconds;
  sum_nn_ = sum_nn_ * kDecay + units * units;
  sum_ns_ = sum_ns_ * kDecay + units * seconds;

  const double mean_n = sum_n_ / weight_;
  const double mean_s = sum_s_ / weight_;
  const double variance = sum_nn_ / weight_ - mean_n * mean_n;
  if (variance > kSpreadMin * mean_n * mean_n) {
    const double covariance = sum_ns_ / weight_ - mean_n * mean_s;
    fixed_ = mean_s - covariance / variance * mean_n;
  }
  fixed_ = std::clamp(fixed_, 0.0, mean_s);
  slope_ = std::max((mean_s - fixed_) / mean_n, kSlopeMin);
}

}  // namespace tandem::worker
