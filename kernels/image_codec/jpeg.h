// JPEG by libjpeg-turbo. See image_codec.h for codes.
//
// Thread-safety: safe from any thread.
#ifndef TANDEM_KERNELS_IMAGE_CODEC_JPEG_H_
#define TANDEM_KERNELS_IMAGE_CODEC_JPEG_H_

#include <cstdint>

#include "kernels/image_codec/png.h"

namespace tandem::images {

bool IsJpeg(Input input);
int32_t MeasureJpeg(Input input, int32_t* width, int32_t* height);
int32_t DecodeJpeg(Input input, int32_t width, int32_t height, uint8_t* rgb, int64_t pitch);

}  // namespace tandem::images

#endif  // TANDEM_KERNELS_IMAGE_CODEC_JPEG_H_
