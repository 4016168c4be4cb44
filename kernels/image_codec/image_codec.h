// PNG and JPEG pictures in, PNG out: the host stages that image kernels share. Built on libpng and
// libjpeg-turbo; plain C, so that freestanding bodies can include it.
//
// Every function returns 0 or one of the TANDEM_IMAGE_ codes, which are the fault codes of every
// image kernel. Nothing throws; hostile bytes end in a code.
//
// Colours are 8-bit sRGB as libpng's simplified API and libjpeg yield them; alpha is composed onto
// black; grey is luma = (77 R + 150 G + 29 B) / 256 (the weights of ITU-R BT.601, rounded to
// 1/256).
//
// Thread-safety: safe from any thread.
// Ownership: the caller owns all memory; results are written whole rows at a time.
#ifndef TANDEM_KERNELS_IMAGE_CODEC_IMAGE_CODEC_H_
#define TANDEM_KERNELS_IMAGE_CODEC_IMAGE_CODEC_H_

#if defined(__CUDACC_RTC__)
#include "tandem/config.h"
#else
#include <stdint.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum {
  TANDEM_IMAGE_OK = 0,
  TANDEM_IMAGE_UNKNOWN = 1,    /* neither PNG nor JPEG */
  TANDEM_IMAGE_TRUNCATED = 2,  /* ends before its end */
  TANDEM_IMAGE_DAMAGED = 3,    /* a checksum or a code is wrong */
  TANDEM_IMAGE_TOO_LARGE = 4,  /* over TANDEM_IMAGE_PIXELS_MAX */
  TANDEM_IMAGE_NO_MEMORY = 254 /* TANDEM_FAULT_OUT_OF_MEMORY */
};
#define TANDEM_IMAGE_FAULTS                                        \
  {                                                                \
    "ok", "not a PNG or JPEG", "truncated image", "damaged image", \
        "image too large: more than 2^28 pixels"                   \
  }
#define TANDEM_IMAGE_PIXELS_MAX (INT64_C(1) << 28)

/* The size, from the header alone. */
int32_t tandem_image_measure(const uint8_t* data, int64_t size, int32_t* width, int32_t* height);

/* All pixels, row y at out + y * pitch (bytes): 3 bytes a pixel, or 1 of grey. `width` and `height`
 * are as measured. */
int32_t tandem_image_decode_rgb(const uint8_t* data, int64_t size, int32_t width, int32_t height,
                                uint8_t* out, int64_t pitch);
int32_t tandem_image_decode_grey(const uint8_t* data, int64_t size, int32_t width, int32_t height,
                                 uint8_t* out, int64_t pitch);

/* A PNG of 1 (grey) or 3 (RGB) channels to `write`, which returns 0 to go on. */
int32_t tandem_image_encode_png(const uint8_t* pixels, int32_t width, int32_t height,
                                int32_t channels,
                                int32_t (*write)(void* context, const void* bytes, int64_t size),
                                void* context);

#ifdef __cplusplus
}
#endif

#endif  // TANDEM_KERNELS_IMAGE_CODEC_IMAGE_CODEC_H_
