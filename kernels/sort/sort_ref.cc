#include "kernels/sort/sort_ref.h"

#include <algorithm>

namespace tandem::kernels {

std::vector<int64_t> SortReference(std::vector<int64_t> keys) {
  std::ranges::sort(keys);
  return keys;
}

}  // namespace tandem::kernels
