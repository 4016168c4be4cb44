// The reference of sort.
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_SORT_SORT_REF_H_
#define TANDEM_KERNELS_SORT_SORT_REF_H_

#include <cstdint>
#include <vector>

namespace tandem::kernels {

std::vector<int64_t> SortReference(std::vector<int64_t> keys);

}  // namespace tandem::kernels

#endif  // TANDEM_KERNELS_SORT_SORT_REF_H_
