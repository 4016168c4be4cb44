// The reference of image_sobel: one pixel after the other, in double, from the definition.
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_IMAGE_SOBEL_IMAGE_SOBEL_REF_H_
#define TANDEM_KERNELS_IMAGE_SOBEL_IMAGE_SOBEL_REF_H_

#include <cstdint>
#include <vector>

namespace tandem::kernels {

// rgb: height × width × 3. Returns height × width grey values.
std::vector<uint8_t> SobelReference(const std::vector<uint8_t>& rgb, int width, int height);

}  // namespace tandem::kernels

#endif  // TANDEM_KERNELS_IMAGE_SOBEL_IMAGE_SOBEL_REF_H_
