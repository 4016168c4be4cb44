#include "kernels/gradient/gradient_ref.h"

#include <cmath>

namespace tandem::kernels {

GradientSums GradientReference(std::span<const float> x, std::span<const float> label,
                               std::span<const float> w) {
  GradientSums sums{std::vector<double>(w.size()), 0};
  for (size_t i = 0; i < label.size(); ++i) {
    if (label[i] != 0 && label[i] != 1) continue;
    const auto row = x.subspan(i * w.size(), w.size());
    double z = 0;
    for (size_t j = 0; j < w.size(); ++j) z += static_cast<double>(row[j]) * w[j];
    const double probability = 1 / (1 + std::exp(-z));
    sums.loss -= label[i] == 1 ? std::log(probability) : std::log1p(-probability);
    for (size_t j = 0; j < w.size(); ++j) sums.grad[j] += (probability - label[i]) * row[j];
  }
  return sums;
}

}  // namespace tandem::kernels
