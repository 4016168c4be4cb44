// heating: by how much it was too cold, summed over hours, and the coldest hour.
//
// A sum of floats over all tasks: 32 fixed lanes inside a leaf, then up the range tree, so the
// bytes are the same however the job is cut among servers.
//
// Thread-safety: pure functions.
#ifndef TANDEM_EXAMPLES_KERNEL_HEATING_H_
#define TANDEM_EXAMPLES_KERNEL_HEATING_H_

#include "tandem/body.h"

namespace TANDEM_KERNELS {

struct Heating {
  static constexpr char kName[] = "heating";
  static constexpr char kSummary[] = "degree hours below a base temperature, and the coldest hour";
  static constexpr char kSignature[] =
      "temperature[n]:f32, base:f32 = 18 in [-50, 50] -> degree_hours:f32 : sum, coldest:f32 : min";
  static constexpr auto kClass = tandem::OutputClass::kBitwise;
  static constexpr double kCostNs = 0.3;

  struct Args {
    tandem::PerTask<const float> temperature;
    float base;
  };
  struct Partial {  // a reducer for each output, in order
    tandem::Lanes<float> degree_hours;
    tandem::Min<float> coldest;
  };

  TANDEM_BODY void Each(tandem::Task t, const Args& a, Partial& sum) {
    const float c = a.temperature[t];
    sum.degree_hours.add(tandem::max(a.base - c, 0.0f));
    sum.coldest.take(c);
  }
};

}  // namespace TANDEM_KERNELS

#endif  // TANDEM_EXAMPLES_KERNEL_HEATING_H_
