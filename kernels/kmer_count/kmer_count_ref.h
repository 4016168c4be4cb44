// The reference of kmer_count: words as strings in a map.
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_KMER_COUNT_KMER_COUNT_REF_H_
#define TANDEM_KERNELS_KMER_COUNT_KMER_COUNT_REF_H_

#include <cstdint>
#include <string_view>
#include <vector>

namespace tandem::kernels {

// 4^k counts; the words begin at every base that has k - 1 after it.
std::vector<uint32_t> KmerCountReference(std::string_view base, int k, bool canonical);

}  // namespace tandem::kernels

#endif  // TANDEM_KERNELS_KMER_COUNT_KMER_COUNT_REF_H_
