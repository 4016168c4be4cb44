// mandelbrot: how many steps of z -> z^2 + c each pixel's c takes to leave the circle of radius 2,
// `limit` if it has not left by then. A task is a pixel; pixels differ a thousandfold in what they
// cost.
//
// Task t is column t mod width of row t / width; its c is (left + column * pixel, top - row *
// pixel). Operations are double's, in the order written, without contraction.
//
// Source: Peitgen, Richter: The beauty of fractals, 1986.
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_MANDELBROT_MANDELBROT_H_
#define TANDEM_KERNELS_MANDELBROT_MANDELBROT_H_

#include "tandem/body.h"

namespace TANDEM_KERNELS {

struct Mandelbrot {
  static constexpr char kName[] = "mandelbrot";
  static constexpr char kSummary[] = "steps until each pixel's point leaves: uneven tasks";
  static constexpr char kSignature[] =
      "axis n, width:i32 in [1, 16777216], left:f64 = -2.25, top:f64 = 1.25, pixel:f64, limit:i32 "
      "= "
      "1000 in [1, 1000000000] -> steps[n]:i32";
  static constexpr auto kClass = tandem::OutputClass::kBitwise;
  static constexpr double kCostNs = 0.1;  // 0.3 a step, and a third of a usual picture never leaves
  static constexpr char kCostUnits[] = "limit";

  struct Args {
    int32_t width;
    double left, top, pixel;
    int32_t limit;
    tandem::PerTask<int32_t> steps;
  };

  TANDEM_BODY void Each(tandem::Task t, const Args& a) {
    const double cx = Real(t.id, a), cy = Imaginary(t.id, a);
    double x = 0, y = 0;
    int32_t steps = 0;
    while (steps < a.limit) {
      const double next = x * x - y * y + cx;
      y = 2 * (x * y) + cy;
      x = next;
      if (!(x * x + y * y <= 4)) break;  // a NaN has left too
      ++steps;
    }
    a.steps[t] = steps;
  }

#if TANDEM_CPU_FORMS
  // Sixteen pixels in step; one that has left goes on uncounted.
  static int64_t Range(const tandem::Run& run, const Args& args) {
    const Args a = args;
    int64_t j = 0;
    for (; j + kAtOnce <= run.tasks; j += kAtOnce) InStep(run, a, j);
    for (; j < run.tasks; ++j) Each(Of(run, j), a);
    return 0;
  }
#endif  // TANDEM_CPU_FORMS

 private:
  TANDEM_FN static double Real(int64_t id, const Args& a) {
    return a.left + static_cast<double>(id % a.width) * a.pixel;
  }
  TANDEM_FN static double Imaginary(int64_t id, const Args& a) {
    return a.top - static_cast<double>(id / a.width) * a.pixel;
  }

#if TANDEM_CPU_FORMS
  static tandem::Task Of(const tandem::Run& run, int64_t j) {
    return {run.first.id + j, run.first.row + j};
  }

  static constexpr int kAtOnce = 16;
  static constexpr int32_t kUnasked = 8;  // steps between two looks at whether all have left

  static void InStep(const tandem::Run& run, const Args& a, int64_t first) {
    double cx[kAtOnce], cy[kAtOnce], x[kAtOnce] = {}, y[kAtOnce] = {};
    int64_t steps[kAtOnce] = {}, inside[kAtOnce];
    for (int l = 0; l < kAtOnce; ++l) {
      const int64_t id = run.first.id + first + l;
      cx[l] = Real(id, a);
      cy[l] = Imaginary(id, a);
      inside[l] = 1;
    }
    for (int32_t begin = 0; begin < a.limit && Any(inside);) {
      const int32_t end = a.limit - begin < kUnasked ? a.limit : begin + kUnasked;
      for (; begin < end; ++begin) {
        for (int l = 0; l < kAtOnce; ++l) {
          const double next = x[l] * x[l] - y[l] * y[l] + cx[l];
          y[l] = 2 * (x[l] * y[l]) + cy[l];
          x[l] = next;
          inside[l] &= x[l] * x[l] + y[l] * y[l] <= 4;
          steps[l] += inside[l];
        }
      }
    }
    for (int l = 0; l < kAtOnce; ++l) a.steps[Of(run, first + l)] = static_cast<int32_t>(steps[l]);
  }

  static bool Any(const int64_t* inside) {
    int64_t any = 0;
    for (int l = 0; l < kAtOnce; ++l) any |= inside[l];
    return any != 0;
  }
#endif  // TANDEM_CPU_FORMS
};

}  // namespace TANDEM_KERNELS

#endif  // TANDEM_KERNELS_MANDELBROT_MANDELBROT_H_
