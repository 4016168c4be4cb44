// asian_option: the price of a call on the arithmetic mean of a stock's path, by Monte Carlo; a
// block a task.
//
// A path takes `steps` equal steps of a geometric Brownian motion. The normal numbers of steps 4 q
// … 4 q + 3 of path p of task t come from Philox block (stream t, counter p * 2^32 + q) by Box and
// Muller's transform (A note on the generation of random normal deviates, 1958). Paths p = l mod 32
// gather in lane l; lanes are folded as a tree.
//
// Source: Kemna, Vorst: A pricing method for options based on average asset values, Journal of
// Banking and Finance 14, 1990.
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_ASIAN_OPTION_ASIAN_OPTION_H_
#define TANDEM_KERNELS_ASIAN_OPTION_ASIAN_OPTION_H_

#include "tandem/body.h"

namespace TANDEM_KERNELS {

struct AsianOption {
  static constexpr char kName[] = "asian_option";
  static constexpr char kSummary[] = "prices calls on the mean of a path, by Monte Carlo";
  static constexpr char kSignature[] =
      "spot[n]:f32, strike[n]:f32, years[n]:f32, rate:f32, volatility:f32, steps:i32 = 16 in [1, "
      "65536], "
      "paths:i32 = 1024 in [1, 16777216], seed:u64 = 0 -> price[n]:f32";
  static constexpr const char* kFaults[] = {"ok", "years is negative"};
  static constexpr auto kClass = tandem::OutputClass::kBitwise;
  static constexpr double kCostNs = 4;
  static constexpr char kCostUnits[] = "steps * paths";

  struct Args {
    tandem::PerTask<const float> spot, strike, years;
    float rate, volatility;
    int32_t steps, paths;
    uint64_t seed;
    tandem::PerTask<float> price;
  };

  static constexpr int32_t kLanes = tandem::kLanes;
  static constexpr int32_t kTaskThreads = kLanes;
  static constexpr int64_t SharedBytes(const Args&) { return 3 * kLanes * int64_t{sizeof(float)}; }

  TANDEM_BODY tandem::Fault Block(const tandem::Group& g, tandem::Task t, const Args& a) {
    float* const payoff = g.shared<float>();
    float* const stock = payoff + kLanes;
    float* const sum = stock + kLanes;
    const float spot = a.spot[t], strike = a.strike[t], years = a.years[t];
    const float step = years / static_cast<float>(a.steps);
    const float drift = (a.rate - 0.5f * a.volatility * a.volatility) * step;
    const float spread = a.volatility * tandem::sqrt(step);
    const float each_step = 1.0f / static_cast<float>(a.steps);
    g.spread(kLanes, [=](int32_t l) { payoff[l] = 0; });
    for (int32_t path = 0; path < a.paths; path += kLanes) {
      g.spread(kLanes, [=](int32_t l) {
        stock[l] = spot;
        sum[l] = 0;
      });
      const Walk walk{a.seed, static_cast<uint64_t>(t.id), path, drift, spread, stock, sum};
      int32_t s = 0;
      for (; s + 4 <= a.steps; s += 4) walk.template Steps<4>(g, s);
      if (a.steps - s == 3) walk.template Steps<3>(g, s);
      if (a.steps - s == 2) walk.template Steps<2>(g, s);
      if (a.steps - s == 1) walk.template Steps<1>(g, s);
      const int32_t lanes = a.paths - path;
      g.spread(kLanes, [=](int32_t l) {
        const float gain = sum[l] * each_step - strike;
        const float counted = gain < 0 ? 0.0f : gain;
        payoff[l] += l < lanes ? counted : 0.0f;
      });
    }
    g.each(1, [](int32_t) {});
    for (int32_t w = kLanes / 2; w > 0; w /= 2)
      g.each(w, [=](int32_t l) { payoff[l] += payoff[l + w]; });
    g.once([&] {
      a.price[t] = tandem::exp(-a.rate * years) * (payoff[0] / static_cast<float>(a.paths));
    });
    return tandem::Fault(years < 0);
  }

 private:
  struct Normals {
    float a, b, c, d;
  };

  TANDEM_FN static Normals NormalsOf(tandem::Philox4 r) {
    const float p = tandem::sqrt(-2.0f * tandem::log(tandem::Uniform(r.x)));
    const float q = tandem::sqrt(-2.0f * tandem::log(tandem::Uniform(r.z)));
    const float u = 2.0f * tandem::Uniform(r.y), v = 2.0f * tandem::Uniform(r.w);  // half turns
    return Normals{p * tandem::cospi(u), p * tandem::sinpi(u), q * tandem::cospi(v),
                   q * tandem::sinpi(v)};
  }

  // Thirty-two paths that walk together.
  struct Walk {
    uint64_t seed, stream;
    int32_t path;
    float drift, spread;
    float *stock, *sum;

    // Steps s … s + kCount - 1, s a multiple of 4.
    template <int kCount>
    TANDEM_FN void Steps(const tandem::Group& g, int32_t s) const {
      const Walk w = *this;
      g.spread(kLanes, [=](int32_t l) {
        const uint64_t counter = (static_cast<uint64_t>(static_cast<uint32_t>(w.path + l)) << 32) |
                                 (static_cast<uint32_t>(s) / 4);
        const Normals z = NormalsOf(tandem::Philox(w.seed, w.stream, counter));
        const float normal[4] = {z.a, z.b, z.c, z.d};
        float x = w.stock[l], total = w.sum[l];
        TANDEM_UNROLL
        for (int i = 0; i < kCount; ++i) {
          x *= tandem::exp(w.drift + w.spread * normal[i]);
          total += x;
        }
        w.stock[l] = x;
        w.sum[l] = total;
      });
    }
  };
};

}  // namespace TANDEM_KERNELS

#endif  // TANDEM_KERNELS_ASIAN_OPTION_ASIAN_OPTION_H_
