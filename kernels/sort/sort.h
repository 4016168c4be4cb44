// sort: integers in ascending order. Runs as long as a leaf are sorted, then merged up the range
// tree.
//
// Source: Wassenberg, Blacher, Giesen, Sanders: Vectorized and performance-portable quicksort,
// 2022 (Highway); Adinets, Merrill: Onesweep, 2022 (CUB).
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_SORT_SORT_H_
#define TANDEM_KERNELS_SORT_SORT_H_

#include "tandem/body.h"
//
#include "kernels/sort/sort_host.h"

namespace TANDEM_KERNELS {

struct Sort {
  static constexpr char kName[] = "sort";
  static constexpr char kSummary[] = "integers in ascending order";
  static constexpr char kSignature[] = "key[n]:i64 -> sorted[n]:i64 : merge";
  static constexpr auto kClass = tandem::OutputClass::kExact;
  static constexpr double kCostNs = 8;
  // Long runs, few merges: a leaf is two megabytes, which a core's cache holds.
  static constexpr int64_t kGrain = 1 << 18;

  struct Args {
    const int64_t* key;
  };

  // sort_cuda.cu: CUB's radix sort.
  static int64_t WorkspaceBytes(const Args& a, int64_t tasks);
  static int32_t Launch(const Args& a, tandem::Task first, int64_t tasks, void* partial,
                        void* workspace, tandem::Stream stream);

  // A partial is the sorted keys of its tasks.
  static int64_t PartialBytes(const Args&, int64_t tasks) {
    return int64_t{sizeof(int64_t)} * tasks;
  }
  static void InitPartial(const Args&, void*) {}

#if TANDEM_CPU_FORMS
  static int64_t Cpu(const tandem::Run& run, const Args& a) {
    auto* const sorted = static_cast<int64_t*>(run.partial);
    if (run.tasks > 0) {
      __builtin_memcpy(sorted, a.key + run.first.row,
                       static_cast<size_t>(run.tasks) * sizeof(int64_t));
    }
    tandem::kernels::SortAscending(sorted, run.tasks);
    return 0;
  }
#endif  // TANDEM_CPU_FORMS

  // From the far end, so that nothing is overwritten before it is read.
  static int32_t Merge(const Args&, void* into, int64_t into_tasks, const void* from,
                       int64_t from_tasks) {
    auto* const a = static_cast<int64_t*>(into);
    const auto* const b = static_cast<const int64_t*>(from);
    int64_t i = into_tasks - 1, j = from_tasks - 1;
    for (int64_t out = into_tasks + from_tasks - 1; j >= 0 && i >= 0; --out) {
      const bool from_a = a[i] > b[j];  // no branch: which it is cannot be foretold
      const int64_t x = a[i], y = b[j];
      a[out] = from_a ? x : y;
      i -= from_a;
      j -= !from_a;
    }
    for (; j >= 0; --j) a[j] = b[j];
    return 0;
  }
};

}  // namespace TANDEM_KERNELS

#endif  // TANDEM_KERNELS_SORT_SORT_H_
