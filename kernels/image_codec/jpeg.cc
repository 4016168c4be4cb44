#include "kernels/image_codec/jpeg.h"

// jpeglib.h needs these two first.
#include <cstddef>
#include <cstdio>
//
#include <jerror.h>
#include <jpeglib.h>

#include <csetjmp>

#include "kernels/image_codec/image_codec.h"

namespace tandem::images {
namespace {

// A decoder that jumps back on an error, and remembers what libjpeg only warns of: it would paint
// the rest of a truncated picture grey.
struct Decoder {
  jpeg_decompress_struct jpeg{};
  jpeg_error_mgr errors{};
  std::jmp_buf back{};
  int32_t code = TANDEM_IMAGE_OK;
};

int32_t CodeOf(int message) {
  switch (message) {
    case JWRN_JPEG_EOF:
    case JERR_INPUT_EOF:
    case JERR_INPUT_EMPTY:
    case JWRN_HIT_MARKER:
      return TANDEM_IMAGE_TRUNCATED;
    case JERR_OUT_OF_MEMORY:
      return TANDEM_IMAGE_NO_MEMORY;
    default:
      return TANDEM_IMAGE_DAMAGED;
  }
}

void OnMessage(j_common_ptr common, int level) {
  auto* decoder = static_cast<Decoder*>(common->client_data);
  // Extra bytes before a marker are common and harmless; everything else that is warned of is
  // damage.
  if (level < 0 && common->err->msg_code != JWRN_EXTRANEOUS_DATA &&
      decoder->code == TANDEM_IMAGE_OK) {
    decoder->code = CodeOf(common->err->msg_code);
  }
}
[[noreturn]] void OnError(j_common_ptr common) {
  auto* decoder = static_cast<Decoder*>(common->client_data);
  if (decoder->code == TANDEM_IMAGE_OK) decoder->code = CodeOf(common->err->msg_code);
  std::longjmp(decoder->back, 1);
}

void Begin(Decoder* decoder) {
  decoder->jpeg.err = jpeg_std_error(&decoder->errors);
  decoder->errors.emit_message = &OnMessage;
  decoder->errors.error_exit = &OnError;
  decoder->jpeg.client_data = decoder;
}

// Reads the header, and all rows where `rgb` is not null.
int32_t Read(Input input, int32_t* width, int32_t* height, uint8_t* rgb, int64_t pitch) {
  Decoder decoder;
  Begin(&decoder);
  if (setjmp(decoder.back) != 0) {
    jpeg_destroy_decompress(&decoder.jpeg);
    return decoder.code;
  }
  jpeg_create_decompress(&decoder.jpeg);
  jpeg_mem_src(&decoder.jpeg, input.data, static_cast<unsigned long>(input.size));
  jpeg_read_header(&decoder.jpeg, TRUE);
  if (rgb == nullptr) {
    *width = static_cast<int32_t>(decoder.jpeg.image_width);
    *height = static_cast<int32_t>(decoder.jpeg.image_height);
  } else if (decoder.jpeg.image_width != static_cast<JDIMENSION>(*width) ||
             decoder.jpeg.image_height != static_cast<JDIMENSION>(*height)) {
    decoder.code = TANDEM_IMAGE_DAMAGED;
  } else {
    decoder.jpeg.out_color_space = JCS_RGB;
    jpeg_start_decompress(&decoder.jpeg);
    while (decoder.jpeg.output_scanline < decoder.jpeg.output_height &&
           decoder.code == TANDEM_IMAGE_OK) {
      JSAMPROW row = rgb + static_cast<int64_t>(decoder.jpeg.output_scanline) * pitch;
      jpeg_read_scanlines(&decoder.jpeg, &row, 1);
    }
  }
  jpeg_destroy_decompress(&decoder.jpeg);
  return decoder.code;
}

}  // namespace

bool IsJpeg(Input input) {
  return input.size >= 3 && input.data[0] == 0xff && input.data[1] == 0xd8 && input.data[2] == 0xff;
}

int32_t MeasureJpeg(Input input, int32_t* width, int32_t* height) {
  return Read(input, width, height, nullptr, 0);
}

int32_t DecodeJpeg(Input input, int32_t width, int32_t height, uint8_t* rgb, int64_t pitch) {
  return Read(input, &width, &height, rgb, pitch);
}

}  // namespace tandem::images
