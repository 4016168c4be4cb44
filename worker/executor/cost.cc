#include "worker/executor/cost.h"

#include <algorithm>
#include <cmath>

namespace tandem::worker {
namespace {

constexpr double kNanosMin = 0.01;
constexpr double kFactorMax = 1e9;
// A run this long counts half, were it the first.
constexpr double kHalfNanos = 20'000;
// The most that a later run counts.
constexpr double kWeightMax = 0.5;

}  // namespace

void TaskCost::Learn(double factor, double busy_ns) {
  factor = std::clamp(factor, 1 / kFactorMax, kFactorMax);
  double weight = busy_ns / (busy_ns + kHalfNanos);
  if (measured_) weight = std::min(weight, kWeightMax);
  ns_ = std::max(kNanosMin, ns_ * std::pow(factor, weight));
  measured_ = true;
}

void TaskCost::Set(double ns) {
  ns_ = std::max(kNanosMin, ns);
  measured_ = true;
}

}  // namespace tandem::worker
