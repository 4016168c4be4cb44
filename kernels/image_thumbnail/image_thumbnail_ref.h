// The reference of image_thumbnail: every source pixel put into its box, in double.
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_IMAGE_THUMBNAIL_IMAGE_THUMBNAIL_REF_H_
#define TANDEM_KERNELS_IMAGE_THUMBNAIL_IMAGE_THUMBNAIL_REF_H_

#include <cstdint>
#include <vector>

namespace tandem::kernels {

struct Thumbnail {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;  // height × width × 3
};
// rgb: height × width × 3.
Thumbnail ThumbnailReference(const std::vector<uint8_t>& rgb, int width, int height, int side);

}  // namespace tandem::kernels

#endif  // TANDEM_KERNELS_IMAGE_THUMBNAIL_IMAGE_THUMBNAIL_REF_H_
