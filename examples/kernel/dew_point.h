// dew_point: the temperature at which air of this temperature and humidity lets its water go.
//
//   g = log(humidity / 100) + 17.625 t / (243.04 + t);  dew = 243.04 g / (17.625 - g)
//
// Degrees Celsius and percent. Source: Alduchov, Eskridge: Improved Magnus form approximation of
// saturation vapor pressure, Journal of Applied Meteorology 35, 1996.
//
// Thread-safety: pure functions.
#ifndef TANDEM_EXAMPLES_KERNEL_DEW_POINT_H_
#define TANDEM_EXAMPLES_KERNEL_DEW_POINT_H_

#include "tandem/body.h"

namespace TANDEM_KERNELS {

struct DewPoint {
  static constexpr char kName[] = "dew_point";
  static constexpr char kSummary[] = "dew point from temperature and relative humidity";
  static constexpr char kSignature[] = "temperature[n]:f32, humidity[n]:f32 -> dew[n]:f32";
  static constexpr const char* kFaults[] = {"ok", "humidity is not above 0 and at most 100",
                                            "temperature is not between -45 and 60"};
  static constexpr auto kClass = tandem::OutputClass::kBitwise;
  static constexpr double kCostNs = 2;  // hint: nanoseconds a task on one core

  struct Args {
    tandem::PerTask<const float> temperature, humidity;
    tandem::PerTask<float> dew;
  };

  TANDEM_BODY tandem::Fault Each(tandem::Task t, const Args& a) {
    const float c = a.temperature[t], h = a.humidity[t];
    const float g = tandem::log(h * 0.01f) + 17.625f * c / (243.04f + c);
    a.dew[t] = 243.04f * g / (17.625f - g);
    return tandem::Fault::When(!(h > 0 && h <= 100), 1) |
           tandem::Fault::When(!(c >= -45 && c <= 60), 2);
  }
};

}  // namespace TANDEM_KERNELS

#endif  // TANDEM_EXAMPLES_KERNEL_DEW_POINT_H_
