// Kernels that misbehave when their operand says so, for tests of what that costs.
//
// Thread-safety: pure functions, where they return.
#ifndef TANDEM_TESTS_E2E_KERNELS_TROUBLE_H_
#define TANDEM_TESTS_E2E_KERNELS_TROUBLE_H_

#include <new>

#include "tandem/body.h"

namespace TANDEM_KERNELS {

struct Crasher {
  static constexpr char kName[] = "crasher";
  static constexpr char kSummary[] = "doubles x; ends its process where x is 13";
  static constexpr char kSignature[] = "x[n]:u32 -> y[n]:u32";
  static constexpr auto kClass = tandem::OutputClass::kExact;
  static constexpr double kCostNs = 1;
  struct Args {
    tandem::PerTask<const uint32_t> x;
    tandem::PerTask<uint32_t> y;
  };
  TANDEM_BODY void Each(tandem::Task t, const Args& a) {
    if (a.x[t] == 13) __builtin_trap();
    a.y[t] = 2 * a.x[t];
  }
};

struct Sleeper {
  static constexpr char kName[] = "sleeper";
  static constexpr char kSummary[] = "doubles x; never returns where x is 13";
  static constexpr char kSignature[] = "x[n]:u32 -> y[n]:u32";
  static constexpr auto kClass = tandem::OutputClass::kExact;
  static constexpr double kCostNs = 1;
  struct Args {
    tandem::PerTask<const uint32_t> x;
    tandem::PerTask<uint32_t> y;
  };
  TANDEM_BODY void Each(tandem::Task t, const Args& a) {
    volatile uint32_t x = a.x[t];
    while (x == 13) {
    }
    a.y[t] = 2 * x;
  }
};

struct Thrower {
  static constexpr char kName[] = "thrower";
  static constexpr char kSummary[] = "doubles x; throws where x is 13";
  static constexpr char kSignature[] = "x[n]:u32 -> y[n]:u32";
  static constexpr auto kClass = tandem::OutputClass::kExact;
  static constexpr double kCostNs = 1;
  struct Args {
    tandem::PerTask<const uint32_t> x;
    tandem::PerTask<uint32_t> y;
  };
  TANDEM_BODY void Each(tandem::Task t, const Args& a) {
    if (a.x[t] == 13) throw 13;
    a.y[t] = 2 * a.x[t];
  }
};

struct StageThrower {
  static constexpr char kName[] = "stage_thrower";
  static constexpr char kSummary[] = "copies text; a stage throws that its first letter names";
  static constexpr char kSignature[] = "text[n]:bytes -> copy[n]:bytes";
  static constexpr auto kClass = tandem::OutputClass::kExact;
  static constexpr double kCostNs = 1;
  struct Args {
    tandem::PerTask<const tandem::Bytes> text;
    tandem::PerTask<const tandem::Sink> copy;
  };
  struct Shape {
    int32_t size;
  };
  static bool Names(const Args& a, tandem::Task t, uint8_t letter) {
    return a.text[t].size > 0 && a.text[t].data[0] == letter;
  }
  static tandem::Fault Measure(const Args& a, tandem::Task t, Shape* shape, tandem::Need* need) {
    if (Names(a, t, 'M')) throw 13;
    if (Names(a, t, 'A')) throw std::bad_alloc();
    shape->size = static_cast<int32_t>(a.text[t].size);
    *need = tandem::Need{shape->size, shape->size, shape->size, 1};
    return tandem::Fault();
  }
  static tandem::Fault Prepare(const Args& a, tandem::Task t, const Shape& shape,
                               const tandem::Stage& stage) {
    if (Names(a, t, 'P')) throw 13;
    for (int32_t i = 0; i < shape.size; ++i) stage.in[i] = a.text[t].data[i];
    return tandem::Fault();
  }
  TANDEM_BODY void Item(tandem::Cell c, const Args&, const Shape&, const tandem::Stage& stage) {
    stage.out[c.x] = stage.in[c.x];
  }
  static tandem::Fault Finish(const Args& a, tandem::Task t, const Shape& shape,
                              const tandem::Stage& stage) {
    if (Names(a, t, 'F')) throw 13;
    const bool sent = tandem::Write(a.copy[t], stage.out, shape.size);
    return sent ? tandem::Fault() : tandem::Fault(int{TANDEM_FAULT_INTERNAL});
  }
};

}  // namespace TANDEM_KERNELS

#endif  // TANDEM_TESTS_E2E_KERNELS_TROUBLE_H_
