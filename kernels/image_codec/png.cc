#include "kernels/image_codec/png.h"

#include <png.h>

#include <csetjmp>
#include <cstring>

#include "kernels/image_codec/image_codec.h"

namespace tandem::images {
namespace {

constexpr uint8_t kSignature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
constexpr int64_t kChunkFrame = 12;  // length, type, checksum
// Edges and thumbnails are looked at, not kept: speed before size.
constexpr int kCompressionLevel = 1;

uint32_t BigEndian(const uint8_t* p) {
  return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | uint32_t{p[3]};
}

// Do its chunks, from the first to IEND, all end within the bytes?
bool IsWhole(Input input) {
  for (int64_t at = sizeof kSignature; at + kChunkFrame <= input.size;) {
    const int64_t length = BigEndian(input.data + at);
    if (length > input.size - at - kChunkFrame) return false;
    if (std::memcmp(input.data + at + 4, "IEND", 4) == 0) return true;
    at += length + kChunkFrame;
  }
  return false;
}

struct Writer {
  int32_t (*write)(void*, const void*, int64_t);
  void* context;
};

void WriteBytes(png_structp png, png_bytep bytes, png_size_t size) {
  const auto* writer = static_cast<const Writer*>(png_get_io_ptr(png));
  if (writer->write(writer->context, bytes, static_cast<int64_t>(size)) != 0)
    png_error(png, "refused");
}
void Quiet(png_structp, png_const_charp) {}
[[noreturn]] void Jump(png_structp png, png_const_charp) { png_longjmp(png, 1); }

}  // namespace

bool IsPng(Input input) {
  return input.size >= static_cast<int64_t>(sizeof kSignature) &&
         std::memcmp(input.data, kSignature, sizeof kSignature) == 0;
}

int32_t MeasurePng(Input input, int32_t* width, int32_t* height) {
  constexpr int64_t kThroughSize = 24;  // signature, length, IHDR, width, height
  if (input.size < kThroughSize) return TANDEM_IMAGE_TRUNCATED;
  if (std::memcmp(input.data + 12, "IHDR", 4) != 0) return TANDEM_IMAGE_DAMAGED;
  const uint32_t w = BigEndian(input.data + 16), h = BigEndian(input.data + 20);
  if (w == 0 || h == 0 || w > INT32_MAX || h > INT32_MAX) return TANDEM_IMAGE_DAMAGED;
  *width = static_cast<int32_t>(w);
  *height = static_cast<int32_t>(h);
  return TANDEM_IMAGE_OK;
}

int32_t DecodePng(Input input, int32_t width, int32_t height, uint8_t* rgb, int64_t pitch) {
  if (!IsWhole(input)) return TANDEM_IMAGE_TRUNCATED;
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_memory(&image, input.data, static_cast<size_t>(input.size)) == 0) {
    return TANDEM_IMAGE_DAMAGED;
  }
  if (image.width != static_cast<uint32_t>(width) ||
      image.height != static_cast<uint32_t>(height)) {
    png_image_free(&image);
    return TANDEM_IMAGE_DAMAGED;
  }
  image.format = PNG_FORMAT_RGB;
  const png_color black{0, 0, 0};
  const bool read =
      png_image_finish_read(&image, &black, rgb, static_cast<png_int_32>(pitch), nullptr) != 0;
  png_image_free(&image);
  return read ? TANDEM_IMAGE_OK : TANDEM_IMAGE_DAMAGED;
}

int32_t EncodePng(const uint8_t* pixels, int32_t width, int32_t height, int32_t channels,
                  int32_t (*write)(void*, const void*, int64_t), void* context) {
  Writer writer{write, context};
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, &Jump, &Quiet);
  if (png == nullptr) return TANDEM_IMAGE_NO_MEMORY;
  png_infop info = png_create_info_struct(png);
  if (info == nullptr || setjmp(png_jmpbuf(png)) != 0) {
    png_destroy_write_struct(&png, &info);
    return TANDEM_IMAGE_NO_MEMORY;
  }
  png_set_write_fn(png, &writer, &WriteBytes, nullptr);
  png_set_compression_level(png, kCompressionLevel);
  png_set_filter(png, PNG_FILTER_TYPE_BASE, PNG_FILTER_UP);
  png_set_IHDR(png, info, static_cast<uint32_t>(width), static_cast<uint32_t>(height), 8,
               channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  for (int32_t y = 0; y < height; ++y) {
    png_write_row(png, const_cast<uint8_t*>(pixels) + int64_t{y} * width * channels);
  }
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return TANDEM_IMAGE_OK;
}

}  // namespace tandem::images
