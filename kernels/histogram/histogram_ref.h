// The reference of histogram.
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_HISTOGRAM_HISTOGRAM_REF_H_
#define TANDEM_KERNELS_HISTOGRAM_HISTOGRAM_REF_H_

#include <cstdint>
#include <span>
#include <vector>

namespace tandem::kernels {

// 256 counts.
std::vector<uint64_t> HistogramReference(std::span<const uint8_t> value);

}  // namespace tandem::kernels

#endif  // TANDEM_KERNELS_HISTOGRAM_HISTOGRAM_REF_H_
