// image_thumbnail: a small copy of a picture: PNG or JPEG in, an RGB PNG of at most side × side
// out.
//
// The longer side becomes `side`, the other one keeps the aspect (rounded, at least 1); a picture
// that fits already keeps its size. Each pixel is the mean, rounded, of the source pixels whose
// index falls into its box [x W / w, (x + 1) W / w): integers only, the same pixels everywhere.
//
// Source: the box filter of Schumacher: General filtered image rescaling, Graphics Gems III,
// 1992.
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_IMAGE_THUMBNAIL_IMAGE_THUMBNAIL_H_
#define TANDEM_KERNELS_IMAGE_THUMBNAIL_IMAGE_THUMBNAIL_H_

#include "kernels/image_codec/image_codec.h"
#include "tandem/body.h"

namespace TANDEM_KERNELS {

struct ImageThumbnail {
  static constexpr char kName[] = "image_thumbnail";
  static constexpr char kSummary[] = "shrinks PNG and JPEG images";
  static constexpr char kSignature[] =
      "image[n]:bytes, side:i32 = 128 in [1, 4096] -> thumbnail[n]:bytes";
  static constexpr auto kClass = tandem::OutputClass::kExact;
  static constexpr const char* kFaults[] = TANDEM_IMAGE_FAULTS;
  static constexpr double kCostNs = 1e7;  // half a megapixel, decoded
  static constexpr int64_t kGrain = 1;

  struct Args {
    tandem::PerTask<const tandem::Bytes> image;
    int32_t side;
    tandem::PerTask<const tandem::Sink> thumbnail;
  };
  struct Shape {
    int32_t width, height;  // of the picture
    int32_t across, down;   // of the thumbnail
  };

  // The length that goes with `longer` becoming `side`, rounded to nearest.
  static int32_t Scaled(int32_t length, int32_t longer, int32_t side) {
    const int64_t scaled = (int64_t{length} * side + longer / 2) / longer;
    return scaled < 1 ? 1 : static_cast<int32_t>(scaled);
  }

  static tandem::Fault Measure(const Args& a, tandem::Task t, Shape* shape, tandem::Need* need) {
    const tandem::Bytes image = a.image[t];
    const int32_t code =
        tandem_image_measure(image.data, image.size, &shape->width, &shape->height);
    if (code != TANDEM_IMAGE_OK) return tandem::Fault(code);
    const int32_t longer = shape->width > shape->height ? shape->width : shape->height;
    const int32_t side = longer < a.side ? longer : a.side;
    shape->across = Scaled(shape->width, longer, side);
    shape->down = Scaled(shape->height, longer, side);
    need->in_bytes = int64_t{shape->width} * shape->height * 3;
    need->out_bytes = int64_t{shape->across} * shape->down * 3;
    need->across = shape->across;
    need->down = shape->down;
    return tandem::Fault(TANDEM_IMAGE_OK);
  }

  static tandem::Fault Prepare(const Args& a, tandem::Task t, const Shape& shape,
                               const tandem::Stage& stage) {
    const tandem::Bytes image = a.image[t];
    return tandem::Fault(tandem_image_decode_rgb(image.data, image.size, shape.width, shape.height,
                                                 stage.in, int64_t{shape.width} * 3));
  }

  TANDEM_BODY void Item(tandem::Cell c, const Args&, const Shape& shape,
                        const tandem::Stage& stage) {
    const int64_t left = int64_t{c.x} * shape.width / shape.across;
    const int64_t right = (int64_t{c.x} + 1) * shape.width / shape.across;
    const int64_t top = int64_t{c.y} * shape.height / shape.down;
    const int64_t bottom = (int64_t{c.y} + 1) * shape.height / shape.down;
    uint64_t red = 0, green = 0, blue = 0;
    for (int64_t y = top; y < bottom; ++y) {
      const uint8_t* p = stage.in + (y * shape.width + left) * 3;
      for (int64_t x = left; x < right; ++x, p += 3) {
        red += p[0];
        green += p[1];
        blue += p[2];
      }
    }
    const auto count = static_cast<uint64_t>((right - left) * (bottom - top));
    uint8_t* out = stage.out + (int64_t{c.y} * shape.across + c.x) * 3;
    out[0] = static_cast<uint8_t>((red + count / 2) / count);
    out[1] = static_cast<uint8_t>((green + count / 2) / count);
    out[2] = static_cast<uint8_t>((blue + count / 2) / count);
  }

  static tandem::Fault Finish(const Args& a, tandem::Task t, const Shape& shape,
                              const tandem::Stage& stage) {
    const tandem::Sink& sink = a.thumbnail[t];
    return tandem::Fault(
        tandem_image_encode_png(stage.out, shape.across, shape.down, 3, sink.write, sink.context));
  }
};

}  // namespace TANDEM_KERNELS

#endif  // TANDEM_KERNELS_IMAGE_THUMBNAIL_IMAGE_THUMBNAIL_H_
