// gradient: loss and gradient of logistic regression over rows x[i] with labels 0 or 1, at weights
// w.
//
//   z = w . x, loss += log(1 + e^z) - label z, grad += (1 / (1 + e^-z) - label) x
//
// Source: Hastie, Tibshirani, Friedman: The elements of statistical learning, 2nd edition, 2009,
// 4.4.1.
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_GRADIENT_GRADIENT_H_
#define TANDEM_KERNELS_GRADIENT_GRADIENT_H_

#include "tandem/body.h"

namespace TANDEM_KERNELS {

struct Gradient {
  static constexpr char kName[] = "gradient";
  static constexpr char kSummary[] = "loss and gradient of logistic regression";
  static constexpr char kSignature[] =
      "x[n,d]:f32, label[n]:f32, w[d]:f32 -> grad[d]:f32 : sum, loss:f32 : sum";
  static constexpr const char* kFaults[] = {"ok", "label is neither 0 nor 1"};
  static constexpr auto kClass = tandem::OutputClass::kBitwise;
  static constexpr double kCostNs = 0.4;
  static constexpr char kCostUnits[] = "d";

  struct Args {
    tandem::PerTaskRow<const float> x;
    tandem::PerTask<const float> label;
    tandem::Broadcast<const float> w;
    int64_t n, d;
  };
  struct Partial {
    tandem::LaneSums<float> grad;
    tandem::Lanes<float> loss;
  };

  TANDEM_BODY tandem::Fault Each(tandem::Task t, const Args& a, Partial& sum) {
    const float label = a.label[t];
    if (label != 0 && label != 1) return tandem::Fault(1);
    const float* x = a.x(t, a.d).data();
    const float z = tandem::Dot(x, a.w.data(), a.d);
    // log(1 + e^z) without overflow.
    sum.loss.add((z > 0 ? z : 0.0f) + tandem::log1p(tandem::exp(-tandem::abs(z))) - label * z);
    const float error = tandem::sigmoid(z) - label;
    float* grad = sum.grad.data();
    TANDEM_INDEPENDENT
    for (int64_t j = 0; j < a.d; ++j) grad[j] += error * x[j];
    return tandem::Fault();
  }
};

}  // namespace TANDEM_KERNELS

#endif  // TANDEM_KERNELS_GRADIENT_GRADIENT_H_
