// The sort of one run on one core: Highway's vectorised quicksort, which picks its instruction set
// at run time.
//
// Thread-safety: safe for different keys.
#ifndef TANDEM_KERNELS_SORT_SORT_HOST_H_
#define TANDEM_KERNELS_SORT_SORT_HOST_H_

namespace tandem::kernels {

void SortAscending(long* keys, long count);

}  // namespace tandem::kernels

#endif  // TANDEM_KERNELS_SORT_SORT_HOST_H_
