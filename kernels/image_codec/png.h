// PNG by libpng. See image_codec.h for codes.
//
// Thread-safety: safe from any thread.
#ifndef TANDEM_KERNELS_IMAGE_CODEC_PNG_H_
#define TANDEM_KERNELS_IMAGE_CODEC_PNG_H_

#include <cstdint>

namespace tandem::images {

struct Input {
  const uint8_t* data;
  int64_t size;
};

bool IsPng(Input input);
int32_t MeasurePng(Input input, int32_t* width, int32_t* height);
int32_t DecodePng(Input input, int32_t width, int32_t height, uint8_t* rgb, int64_t pitch);
int32_t EncodePng(const uint8_t* pixels, int32_t width, int32_t height, int32_t channels,
                  int32_t (*write)(void* context, const void* bytes, int64_t size), void* context);

}  // namespace tandem::images

#endif  // TANDEM_KERNELS_IMAGE_CODEC_PNG_H_
