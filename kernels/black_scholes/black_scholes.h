// black_scholes: prices of European calls and puts on a stock without dividends.
//
//   call = s N(d1) - x e^(-r y) N(d2), put = x e^(-r y) N(-d2) - s N(-d1)
//   d1 = (log(s / x) + (r + v^2 / 2) y) / (v sqrt y), d2 = d1 - v sqrt y
//
// Source: Black, Scholes: The pricing of options and corporate liabilities, Journal of Political
// Economy 81, 1973.
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_BLACK_SCHOLES_BLACK_SCHOLES_H_
#define TANDEM_KERNELS_BLACK_SCHOLES_BLACK_SCHOLES_H_

#include "tandem/body.h"

namespace TANDEM_KERNELS {

struct BlackScholes {
  static constexpr char kName[] = "black_scholes";
  static constexpr char kSummary[] = "prices European calls and puts";
  static constexpr char kSignature[] =
      "spot[n]:f32, strike[n]:f32, years[n]:f32, rate:f32, volatility:f32 -> call[n]:f32, "
      "put[n]:f32";
  static constexpr const char* kFaults[] = {"ok", "years is negative"};
  static constexpr auto kClass = tandem::OutputClass::kBitwise;
  static constexpr double kCostNs = 5;

  struct Args {
    tandem::PerTask<const float> spot, strike, years;
    float rate, volatility;
    tandem::PerTask<float> call, put;
  };

  TANDEM_BODY tandem::Fault Each(tandem::Task t, const Args& a) {
    const float s = a.spot[t], x = a.strike[t], y = a.years[t], w = a.volatility * tandem::sqrt(y);
    const float d1 = (tandem::log(s / x) + (a.rate + 0.5f * a.volatility * a.volatility) * y) / w;
    const float n1 = tandem::normal_cdf(d1), n2 = tandem::normal_cdf(d1 - w);
    const float k = x * tandem::exp(-a.rate * y);
    a.call[t] = s * n1 - k * n2;
    a.put[t] = k * (1 - n2) - s * (1 - n1);
    return tandem::Fault(y < 0);
  }
};

}  // namespace TANDEM_KERNELS

#endif  // TANDEM_KERNELS_BLACK_SCHOLES_BLACK_SCHOLES_H_
