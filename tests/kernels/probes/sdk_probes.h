// Kernels that use each power of the SDK once, built like a user's library, for sdk_test.
//
// Thread-safety: pure functions.
#ifndef TANDEM_TESTS_KERNELS_PROBES_SDK_PROBES_H_
#define TANDEM_TESTS_KERNELS_PROBES_SDK_PROBES_H_

#include "tandem/body.h"

namespace TANDEM_KERNELS {

// A block a task: a tree sum in shared memory.
struct RowSum {
  static constexpr char kName[] = "row_sum";
  static constexpr char kSignature[] = "x[n,d]:f32 -> y[n]:f32";
  static constexpr const char* kFaults[] = {"ok", "the row is empty"};
  static constexpr auto kClass = tandem::OutputClass::kBitwise;
  static constexpr double kCostNs = 0.4;
  static constexpr char kCostUnits[] = "d";
  struct Args {
    tandem::PerTaskRow<const float> x;
    tandem::PerTask<float> y;
    int64_t n, d;
  };
  static constexpr int64_t SharedBytes(const Args& a) { return 4 * a.d; }
  TANDEM_BODY tandem::Fault Block(const tandem::Group& g, tandem::Task t, const Args& a) {
    float* const s = g.shared<float>();
    const float* const x = a.x(t, a.d).data();
    const int32_t d = static_cast<int32_t>(a.d);
    g.each(d, [=](int32_t j) { s[j] = x[j]; });
    for (int32_t w = 1; w < d; w *= 2) {
      g.each((d - w + 2 * w - 1) / (2 * w), [=](int32_t j) { s[2 * w * j] += s[2 * w * j + w]; });
    }
    g.once([&] { a.y[t] = d > 0 ? s[0] : 0.0f; });
    return tandem::Fault(d == 0);
  }
};

// The same by a warp a task.
struct WarpSum : RowSum {
  static constexpr char kName[] = "warp_sum";
  static constexpr int32_t kTaskThreads = 32;
};

// Reductions of every kind at once, with tasks that fail.
struct Summary {
  static constexpr char kName[] = "summary";
  static constexpr char kSignature[] =
      "x[n]:f32 -> least:f32 : min, greatest:f32 : max, total:f32 : sum, counted:i64 : sum";
  static constexpr const char* kFaults[] = {"ok", "not finite"};
  static constexpr auto kClass = tandem::OutputClass::kBitwise;
  static constexpr double kCostNs = 0.3;
  struct Args {
    tandem::PerTask<const float> x;
  };
  struct Partial {
    tandem::Min<float> least;
    tandem::Max<float> greatest;
    tandem::Lanes<float> total;
    tandem::Sum<int64_t> counted;
  };
  TANDEM_BODY tandem::Fault Each(tandem::Task t, const Args& a, Partial& p) {
    const float x = a.x[t];
    const bool bad = !(tandem::abs(x) <= 3.4e38f);
    p.least.take(bad ? p.least.value : x);
    p.greatest.take(bad ? p.greatest.value : x);
    p.total.add(bad ? 0.0f : x);
    p.counted.add(bad ? 0 : 1);
    return tandem::Fault(bad);
  }
};

// Outputs whose sizes are computed, with windows and broadcasts and elementwise extremes.
struct Pairs {
  static constexpr char kName[] = "pairs";
  static constexpr char kSignature[] =
      "axis n, lag:i32 = 1 in [0, 100], x[n + lag]:u8, weight[m]:i32 -> sums[2 * (m + 1)]:i64 : "
      "sum, "
      "tops[m]:i32 : max";
  static constexpr auto kClass = tandem::OutputClass::kExact;
  static constexpr double kCostNs = 3;
  struct Args {
    int32_t lag;
    tandem::Window<const uint8_t> x;
    tandem::Broadcast<const int32_t> weight;
    int64_t n, m;
  };
  struct Partial {
    tandem::Counts<int64_t> sums;
    tandem::Maxs<int32_t> tops;
  };
  TANDEM_BODY void Each(tandem::Task t, const Args& a, Partial& p) {
    const int32_t pair = a.x(t)[0] * 256 + a.x(t)[a.lag];
    for (int64_t j = 0; j < a.m; ++j) {
      p.sums.add(2 * j, int64_t{a.weight[j]} * pair);
      p.tops.take(j, a.weight[j] * pair);
    }
    p.sums.add(2 * a.m + 1, 1);
  }
};

// f16 and bf16 as storage.
struct Halve {
  static constexpr char kName[] = "halve";
  static constexpr char kSignature[] = "x[n]:f16, y[n]:bf16 -> a[n]:f16, b[n]:bf16, c[n]:f32";
  static constexpr auto kClass = tandem::OutputClass::kBitwise;
  static constexpr double kCostNs = 1;
  struct Args {
    tandem::PerTask<const tandem::f16> x;
    tandem::PerTask<const tandem::bf16> y;
    tandem::PerTask<tandem::f16> a;
    tandem::PerTask<tandem::bf16> b;
    tandem::PerTask<float> c;
  };
  TANDEM_BODY void Each(tandem::Task t, const Args& a) {
    const float x = a.x[t], y = a.y[t];
    a.a[t] = x;
    a.b[t] = y;
    a.c[t] = x;
  }
};

// f32 rounded to f16 and bf16.
struct Narrow {
  static constexpr char kName[] = "narrow";
  static constexpr char kSignature[] = "x[n]:f32 -> a[n]:f16, b[n]:bf16";
  static constexpr auto kClass = tandem::OutputClass::kBitwise;
  static constexpr double kCostNs = 1;
  struct Args {
    tandem::PerTask<const float> x;
    tandem::PerTask<tandem::f16> a;
    tandem::PerTask<tandem::bf16> b;
  };
  TANDEM_BODY void Each(tandem::Task t, const Args& a) {
    a.a[t] = a.x[t];
    a.b[t] = a.x[t];
  }
};

// Host stages: a text of lines is turned upside down through a grid over its bytes; "?" fails in
// each stage.
struct Upper {
  static constexpr char kName[] = "upper";
  static constexpr char kSignature[] =
      "text[n]:bytes, shift:i32 -> shouted[n]:bytes, letters[n]:i64";
  static constexpr const char* kFaults[] = {"ok", "empty", "cannot prepare", "cannot finish"};
  static constexpr auto kClass = tandem::OutputClass::kExact;
  static constexpr double kCostNs = 50;
  struct Args {
    tandem::PerTask<const tandem::Bytes> text;
    int32_t shift;
    tandem::PerTask<const tandem::Sink> shouted;
    tandem::PerTask<int64_t> letters;
  };
  struct Shape {
    int32_t width, height;
  };
  static tandem::Fault Measure(const Args& a, tandem::Task t, Shape* shape, tandem::Need* need) {
    const tandem::Bytes text = a.text[t];
    if (text.size == 0) return tandem::Fault(1);
    *shape = Shape{4, static_cast<int32_t>((text.size + 3) / 4)};
    *need = tandem::Need{4 * int64_t{shape->height}, 4 * int64_t{shape->height}, 4, shape->height};
    return tandem::Fault();
  }
  static tandem::Fault Prepare(const Args& a, tandem::Task t, const Shape& shape,
                               const tandem::Stage& stage) {
    const tandem::Bytes text = a.text[t];
    for (int64_t i = 0; i < 4 * int64_t{shape.height}; ++i)
      stage.in[i] = i < text.size ? text.data[i] : ' ';
    return tandem::Fault::When(text.data[0] == '?', 2);
  }
  TANDEM_BODY void Item(tandem::Cell c, const Args& a, const Shape& shape,
                        const tandem::Stage& stage) {
    const uint8_t letter = stage.in[c.y * shape.width + c.x];
    stage.out[c.y * shape.width + c.x] =
        static_cast<uint8_t>(letter >= 'a' && letter <= 'z' ? letter + a.shift : letter);
  }
  static tandem::Fault Finish(const Args& a, tandem::Task t, const Shape&,
                              const tandem::Stage& stage) {
    const tandem::Bytes text = a.text[t];
    if (text.data[0] == '!') return tandem::Fault(3);
    a.letters[t] = text.size;
    const bool sent = tandem::Write(a.shouted[t], stage.out, text.size);
    return sent ? tandem::Fault() : tandem::Fault(int{TANDEM_FAULT_INTERNAL});
  }
};

#if TANDEM_CPU_FORMS
// A kernel's own merge: sorted runs.
struct Sort {
  static constexpr char kName[] = "insertion_sort";
  static constexpr char kSignature[] = "key[n]:i32 -> sorted[n]:i32 : merge";
  static constexpr auto kClass = tandem::OutputClass::kExact;
  static constexpr double kCostNs = 20;
  struct Args {
    const int32_t* key;
  };
  static int64_t PartialBytes(const Args&, int64_t tasks) { return 4 * tasks; }
  static void InitPartial(const Args&, void*) {}
  static int64_t Cpu(const tandem::Run& run, const Args& a) {
    auto* sorted = static_cast<int32_t*>(run.partial);
    for (int64_t i = 0; i < run.tasks; ++i) {
      const int32_t key = a.key[run.first.row + i];
      int64_t at = i;
      for (; at > 0 && sorted[at - 1] > key; --at) sorted[at] = sorted[at - 1];
      sorted[at] = key;
    }
    return 0;
  }
  static int32_t Merge(const Args&, void* into, int64_t into_tasks, const void* from,
                       int64_t from_tasks) {
    auto* a = static_cast<int32_t*>(into);
    const auto* b = static_cast<const int32_t*>(from);
    int64_t i = into_tasks - 1, j = from_tasks - 1;
    for (int64_t out = into_tasks + from_tasks - 1; j >= 0; --out)
      a[out] = i >= 0 && a[i] > b[j] ? a[i--] : b[j--];
    return 0;
  }
};
#endif  // TANDEM_CPU_FORMS

}  // namespace TANDEM_KERNELS

#endif  // TANDEM_TESTS_KERNELS_PROBES_SDK_PROBES_H_
