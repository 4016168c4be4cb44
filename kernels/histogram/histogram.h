// histogram: how often each byte value occurs.
//
// Source: numpy.bincount; tables side by side as in HIST_count_parallel of Zstandard.
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_HISTOGRAM_HISTOGRAM_H_
#define TANDEM_KERNELS_HISTOGRAM_HISTOGRAM_H_

#include "tandem/body.h"

namespace TANDEM_KERNELS {

struct Histogram {
  static constexpr char kName[] = "histogram";
  static constexpr char kSummary[] = "counts byte values";
  static constexpr char kSignature[] = "value[n]:u8 -> count[256]:u64 : sum";
  static constexpr auto kClass = tandem::OutputClass::kExact;
  static constexpr double kCostNs = 0.4;

  struct Args {
    tandem::PerTask<const uint8_t> value;
  };
  using Partial = tandem::Bins<uint64_t, 256>;

  TANDEM_BODY void Each(tandem::Task t, const Args& a, Partial& count) { count.add(a.value[t], 1); }

#if TANDEM_CPU_FORMS
  // Four tables, so that a run of equal values does not wait for its own stores.
  static int64_t Range(const tandem::Run& run, const Args& a, Partial& count) {
    const uint8_t* v = a.value.at(run.first);
    for (int64_t begin = 0; begin < run.tasks; begin += kBlock) {
      const int64_t left = run.tasks - begin;
      Count(v + begin, left < kBlock ? left : kBlock, count);
    }
    return 0;
  }

 private:
  static constexpr int64_t kBlock = int64_t{1} << 30;  // counts of a block fit into 32 bits

  static void Count(const uint8_t* v, int64_t n, Partial& count) {
    if (n < kFewTasks) {
      for (int64_t j = 0; j < n; ++j) count.add(v[j], 1);
      return;
    }
    uint32_t table[4][256] = {};
    int64_t j = 0;
    for (; j + 8 <= n; j += 8) {
      uint64_t eight;
      __builtin_memcpy(&eight, v + j, 8);
      for (int b = 0; b < 8; ++b) ++table[b & 3][eight >> (8 * b) & 0xff];
    }
    for (; j < n; ++j) ++table[0][v[j]];
    for (int i = 0; i < 256; ++i) {
      count.add(i, uint64_t{table[0][i]} + table[1][i] + table[2][i] + table[3][i]);
    }
  }
  static constexpr int64_t kFewTasks =
      1024;  // below, clearing and adding up four tables costs more
#endif       // TANDEM_CPU_FORMS
};

}  // namespace TANDEM_KERNELS

#endif  // TANDEM_KERNELS_HISTOGRAM_HISTOGRAM_H_
