#include "kernels/image_codec/image_codec.h"

#include <cstring>
#include <new>
#include <vector>

#include "kernels/image_codec/jpeg.h"
#include "kernels/image_codec/png.h"

namespace tandem::images {
namespace {

using Decode = int32_t (*)(Input, int32_t width, int32_t height, uint8_t* rgb, int64_t pitch);

Decode DecoderOf(Input input) {
  if (IsPng(input)) return &DecodePng;
  if (IsJpeg(input)) return &DecodeJpeg;
  return nullptr;
}

}  // namespace
}  // namespace tandem::images

using tandem::images::Input;

extern "C" int32_t tandem_image_measure(const uint8_t* data, int64_t size, int32_t* width,
                                        int32_t* height) {
  const Input input{data, size};
  int32_t code = TANDEM_IMAGE_UNKNOWN;
  if (tandem::images::IsPng(input)) code = tandem::images::MeasurePng(input, width, height);
  if (tandem::images::IsJpeg(input)) code = tandem::images::MeasureJpeg(input, width, height);
  if (code != TANDEM_IMAGE_OK) return code;
  if (*width < 1 || *height < 1) return TANDEM_IMAGE_DAMAGED;
  return int64_t{*width} * *height > TANDEM_IMAGE_PIXELS_MAX ? TANDEM_IMAGE_TOO_LARGE
                                                             : TANDEM_IMAGE_OK;
}

extern "C" int32_t tandem_image_decode_rgb(const uint8_t* data, int64_t size, int32_t width,
                                           int32_t height, uint8_t* out, int64_t pitch) {
  const auto decode = tandem::images::DecoderOf({data, size});
  return decode == nullptr ? TANDEM_IMAGE_UNKNOWN : decode({data, size}, width, height, out, pitch);
}

extern "C" int32_t tandem_image_decode_grey(const uint8_t* data, int64_t size, int32_t width,
                                            int32_t height, uint8_t* out, int64_t pitch) {
  // Kept from picture to picture: fresh pages cost more than the conversion.
  thread_local std::vector<uint8_t> rgb;
  const int64_t row = int64_t{width} * 3;
  try {
    if (rgb.size() < static_cast<size_t>(row * height))
      rgb.resize(static_cast<size_t>(row * height));
  } catch (const std::bad_alloc&) {
    return TANDEM_IMAGE_NO_MEMORY;
  }
  const int32_t code = tandem_image_decode_rgb(data, size, width, height, rgb.data(), row);
  if (code != TANDEM_IMAGE_OK) return code;
  for (int32_t y = 0; y < height; ++y) {
    const uint8_t* from = rgb.data() + y * row;
    uint8_t* to = out + y * pitch;
    for (int32_t x = 0; x < width; ++x, from += 3) {
      to[x] = static_cast<uint8_t>((77 * from[0] + 150 * from[1] + 29 * from[2]) >> 8);
    }
  }
  return TANDEM_IMAGE_OK;
}

extern "C" int32_t tandem_image_encode_png(const uint8_t* pixels, int32_t width, int32_t height,
                                           int32_t channels,
                                           int32_t (*write)(void*, const void*, int64_t),
                                           void* context) {
  return tandem::images::EncodePng(pixels, width, height, channels, write, context);
}
