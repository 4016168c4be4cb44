#include "worker/executor/cost.h"

#include <algorithm>

namespace tandem::worker {
namespace {

constexpr double kWeight = 0.25;  // of the latest run
constexpr double kNanosMin = 0.01;
constexpr double kFactorMax = 1000;  // one odd run does not ruin an estimate

}  // namespace

void TaskCost::Learn(double factor) {
  factor = std::clamp(factor, 1 / kFactorMax, kFactorMax);
  ns_ = std::max(kNanosMin, ns_ * (measured_ ? 1 + kWeight * (factor - 1) : factor));
  measured_ = true;
}

void TaskCost::Set(double ns) {
  ns_ = std::max(kNanosMin, ns);
  measured_ = true;
}

}  // namespace tandem::worker
