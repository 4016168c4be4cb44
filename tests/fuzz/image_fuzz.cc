// PNG and JPEG: hostile bytes end in a code; what is decoded has the size that was measured, and as
// PNG it comes back pixel for pixel.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "kernels/image_codec/image_codec.h"
#include "tests/fuzz/fuzz_target.h"

namespace tandem {
namespace {

constexpr int64_t kPixelsMax = 1 << 16;  // decoded here: the header alone is read for larger ones

const uint8_t* Data(std::string_view text) { return reinterpret_cast<const uint8_t*>(text.data()); }
int64_t Size(std::string_view text) { return static_cast<int64_t>(text.size()); }

int32_t AppendTo(void* context, const void* bytes, int64_t size) {
  static_cast<std::string*>(context)->append(static_cast<const char*>(bytes),
                                             static_cast<size_t>(size));
  return 0;
}

std::string EncodePng(const std::vector<uint8_t>& pixels, int32_t width, int32_t height,
                      int32_t channels) {
  std::string png;
  CHECK_EQ(tandem_image_encode_png(pixels.data(), width, height, channels, &AppendTo, &png), 0);
  return png;
}

void Decode(std::string_view image, int32_t width, int32_t height) {
  // Rows a little apart: nothing may be written between them.
  constexpr int64_t kGap = 7;
  constexpr uint8_t kUntouched = 0xA5;
  const int64_t row = int64_t{width} * 3, pitch = row + kGap;
  std::vector<uint8_t> rgb(static_cast<size_t>(pitch * height), kUntouched);
  const int32_t code =
      tandem_image_decode_rgb(Data(image), Size(image), width, height, rgb.data(), pitch);
  CHECK(code >= 0 && code <= TANDEM_IMAGE_NO_MEMORY);
  std::vector<uint8_t> pixels;
  for (int64_t y = 0; y < height; ++y) {
    const auto begin = rgb.begin() + y * pitch;
    CHECK(std::all_of(begin + row, begin + pitch, [](uint8_t b) { return b == kUntouched; }));
    pixels.insert(pixels.end(), begin, begin + row);
  }
  std::vector<uint8_t> grey(static_cast<size_t>(int64_t{width} * height));
  const int32_t grey_code =
      tandem_image_decode_grey(Data(image), Size(image), width, height, grey.data(), width);
  CHECK_EQ(grey_code, code);
  if (code != TANDEM_IMAGE_OK) return;
  for (size_t i = 0; i < grey.size(); ++i) {
    const uint8_t* p = &pixels[3 * i];
    CHECK_EQ(grey[i], (77 * p[0] + 150 * p[1] + 29 * p[2]) >> 8);
  }
  const std::string png = EncodePng(pixels, width, height, 3);
  std::vector<uint8_t> again(pixels.size());
  CHECK_EQ(tandem_image_decode_rgb(Data(png), Size(png), width, height, again.data(), row), 0);
  CHECK(again == pixels);
}

// A grey JPEG of 8 x 8: the tables and one block, by hand.
std::string TinyJpeg() {
  std::string jpeg("\xff\xd8", 2);
  jpeg += std::string("\xff\xdb\x00\x43\x00", 5) + std::string(64, '\x10');
  jpeg += std::string("\xff\xc0\x00\x0b\x08\x00\x08\x00\x08\x01\x01\x11\x00", 13);
  for (const char id : {'\x00', '\x10'}) {  // one code of one bit, for the value 0
    jpeg += std::string("\xff\xc4\x00\x14", 4) + id + '\x01' + std::string(15, '\0') + '\0';
  }
  jpeg += std::string("\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00", 10);
  jpeg += std::string("\x3f\xff\xd9", 3);
  return jpeg;
}

FUZZ_SEEDS(image) {
  std::vector<uint8_t> pixels(3 * 5 * 4);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 37);
  const std::string rgb = EncodePng(pixels, 5, 4, 3);
  const std::string grey = EncodePng(pixels, 10, 6, 1);
  return {rgb, grey, rgb.substr(0, 40), TinyJpeg(), TinyJpeg().substr(0, 30), "GIF89a"};
}

FUZZ_TARGET(image) {
  int32_t width = 0, height = 0;
  const int32_t code = tandem_image_measure(Data(input), Size(input), &width, &height);
  CHECK(code >= 0 && code <= TANDEM_IMAGE_NO_MEMORY);
  if (code != TANDEM_IMAGE_OK) return;
  CHECK(width >= 1 && height >= 1);
  CHECK(int64_t{width} * height <= TANDEM_IMAGE_PIXELS_MAX);
  if (int64_t{width} * height <= kPixelsMax) Decode(input, width, height);
}

}  // namespace
}  // namespace tandem
