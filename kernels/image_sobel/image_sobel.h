// image_sobel: the edges of a picture: PNG or JPEG in, a grey PNG of the same size out.
//
// Sobel's operator on luma, the edge of the picture repeated:
//   gx = [-1 0 1; -2 0 2; -1 0 1], gy = its transpose,
//   edge = min(255, floor(sqrt(gx^2 + gy^2) / 4)).
// All in integers but the root, which is exact below 2^24 and rounded once: the same pixels
// everywhere.
//
// Source: Sobel, Feldman: A 3x3 isotropic gradient operator for image processing, Stanford
// Artificial Intelligence Project, 1968.
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_IMAGE_SOBEL_IMAGE_SOBEL_H_
#define TANDEM_KERNELS_IMAGE_SOBEL_IMAGE_SOBEL_H_

#include "kernels/image_codec/image_codec.h"
#include "tandem/body.h"

namespace TANDEM_KERNELS {

struct ImageSobel {
  static constexpr char kName[] = "image_sobel";
  static constexpr char kSummary[] = "finds the edges in PNG and JPEG images";
  static constexpr char kSignature[] = "image[n]:bytes -> edges[n]:bytes";
  static constexpr auto kClass = tandem::OutputClass::kExact;
  static constexpr const char* kFaults[] = TANDEM_IMAGE_FAULTS;
  static constexpr double kCostNs = 2e7;  // half a megapixel, decoded and encoded
  static constexpr int64_t kGrain = 1;

  struct Args {
    tandem::PerTask<const tandem::Bytes> image;
    tandem::PerTask<const tandem::Sink> edges;
  };
  struct Shape {
    int32_t width, height;
  };

  static tandem::Fault Measure(const Args& a, tandem::Task t, Shape* shape, tandem::Need* need) {
    const tandem::Bytes image = a.image[t];
    const int32_t code =
        tandem_image_measure(image.data, image.size, &shape->width, &shape->height);
    if (code != TANDEM_IMAGE_OK) return tandem::Fault(code);
    need->in_bytes = tandem::ImageElements(shape->width, shape->height, 1, 1);
    need->out_bytes = int64_t{shape->width} * shape->height;
    need->across = shape->width;
    need->down = shape->height;
    return tandem::Fault(TANDEM_IMAGE_OK);
  }

  static tandem::Fault Prepare(const Args& a, tandem::Task t, const Shape& shape,
                               const tandem::Stage& stage) {
    const tandem::Bytes image = a.image[t];
    const auto grey = tandem::ImageWithHalo<uint8_t>(stage.in, shape.width, shape.height, 1, 1);
    const int32_t code = tandem_image_decode_grey(image.data, image.size, shape.width, shape.height,
                                                  grey.p, grey.pitch);
    if (code != TANDEM_IMAGE_OK) return tandem::Fault(code);
    tandem::FillHalo(grey, 1);
    return tandem::Fault(TANDEM_IMAGE_OK);
  }

  TANDEM_BODY void Item(tandem::Cell c, const Args&, const Shape& shape,
                        const tandem::Stage& stage) {
    const auto in = tandem::ImageWithHalo<const uint8_t>(stage.in, shape.width, shape.height, 1, 1);
    const int32_t x = c.x, y = c.y;
    const int32_t a = in(x - 1, y - 1), b = in(x, y - 1), d = in(x + 1, y - 1);
    const int32_t e = in(x - 1, y), f = in(x + 1, y);
    const int32_t g = in(x - 1, y + 1), h = in(x, y + 1), i = in(x + 1, y + 1);
    const int32_t gx = d - a + 2 * (f - e) + i - g;
    const int32_t gy = g - a + 2 * (h - b) + i - d;
    const int32_t edge =
        static_cast<int32_t>(tandem::sqrt(static_cast<float>(gx * gx + gy * gy)) * 0.25f);
    stage.out[int64_t{y} * shape.width + x] = static_cast<uint8_t>(edge < 255 ? edge : 255);
  }

  static tandem::Fault Finish(const Args& a, tandem::Task t, const Shape& shape,
                              const tandem::Stage& stage) {
    const tandem::Sink& sink = a.edges[t];
    return tandem::Fault(
        tandem_image_encode_png(stage.out, shape.width, shape.height, 1, sink.write, sink.context));
  }
};

}  // namespace TANDEM_KERNELS

#endif  // TANDEM_KERNELS_IMAGE_SOBEL_IMAGE_SOBEL_H_
