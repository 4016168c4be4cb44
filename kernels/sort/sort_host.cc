#include "kernels/sort/sort_host.h"

#include <cstddef>
#include <cstdint>

#include "hwy/contrib/sort/vqsort.h"

namespace tandem::kernels {

void SortAscending(long* keys, long count) {
  static_assert(sizeof(long) == sizeof(int64_t));
  thread_local const hwy::Sorter sorter;  // ten kilobytes that sorts of one thread share
  sorter(keys, static_cast<size_t>(count), hwy::SortAscending());
}

}  // namespace tandem::kernels
