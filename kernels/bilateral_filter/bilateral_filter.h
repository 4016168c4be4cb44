// bilateral_filter: smooths images and keeps their edges; a block a task, a task an image.
//
// Each pixel becomes the mean of its neighbours in a square of 2 radius + 1, weighed by
// exp(-distance^2 / 2 sigma_space^2) exp(-difference^2 / 2 sigma_value^2). Beyond a border the
// nearest pixel stands. The block walks over tiles; a tile with its surroundings lies in shared
// memory, and so do the weights of distance.
//
// Source: Tomasi, Manduchi: Bilateral filtering for gray and color images, ICCV 1998.
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_BILATERAL_FILTER_BILATERAL_FILTER_H_
#define TANDEM_KERNELS_BILATERAL_FILTER_BILATERAL_FILTER_H_

#include "tandem/body.h"

namespace TANDEM_KERNELS {

struct BilateralFilter {
  static constexpr char kName[] = "bilateral_filter";
  static constexpr char kSummary[] = "smooths images and keeps their edges";
  static constexpr char kSignature[] =
      "image[n,h,w]:f32, radius:i32 = 3 in [1, 16], sigma_space:f32 = 2 in [0.01, 1000], "
      "sigma_value:f32 = 0.1 in [0.000001, 1000000] -> smooth[n,h,w]:f32";
  static constexpr auto kClass = tandem::OutputClass::kBitwise;
  static constexpr double kCostNs = 1;
  static constexpr char kCostUnits[] = "h * w * radius * radius * 4";

  struct Args {
    tandem::PerTaskRow<const float> image;
    int32_t radius;
    float sigma_space, sigma_value;
    tandem::PerTaskRow<float> smooth;
    int64_t n, h, w;
  };

  static constexpr int32_t kAcross = 64, kDown = 16;  // pixels of a tile

  static constexpr int64_t SharedBytes(const Args& a) {
    const int64_t side = 2 * int64_t{a.radius} + 1, pitch = kAcross + side - 1;
    return int64_t{sizeof(float)} *
           (2 * kDown * pitch + (kDown + side - 1) * pitch + side - 1 + side * side);
  }

  TANDEM_BODY void Block(const tandem::Group& g, tandem::Task t, const Args& a) {
    const Tile tile(g, a);
    const int32_t side = tile.side;
    const float by_distance = Exponent(a.sigma_space);
    g.each(side * side, [=](int32_t j) {
      const int32_t x = j % side - a.radius, y = j / side - a.radius;
      tile.near[j] = tandem::exp(by_distance * static_cast<float>(x * x + y * y));
    });
    const float* const image = a.image(t, a.h * a.w).data();
    for (int64_t top = 0; top < a.h; top += kDown) {
      for (int64_t left = 0; left < a.w; left += kAcross) {
        tile.Load(g, a, image, top, left);
        tile.Smooth(g, a, t, top, left);
      }
    }
  }

 private:
  TANDEM_FN static float Exponent(float sigma) { return -0.5f / (sigma * sigma); }
  TANDEM_FN static int64_t Clamp(int64_t v, int64_t end) {
    return v < 0 ? 0 : v < end ? v : end - 1;
  }

  // Rows are `pitch` apart in all of a tile, so that a pixel's neighbour is as far from it
  // anywhere; what lies behind the tile's columns is computed too, and dropped.
  struct Tile {
    int32_t side, pitch;
    float *sum, *weight;  // of each pixel
    float* pixel;         // with `radius` pixels around the tile, and side - 1 behind the last
    float* near;          // the weight of each place in the square

    TANDEM_FN Tile(const tandem::Group& g, const Args& a)
        : side(2 * a.radius + 1), pitch(kAcross + side - 1) {
      sum = g.shared<float>();
      weight = sum + kDown * pitch;
      pixel = weight + kDown * pitch;
      near = pixel + (kDown + side - 1) * pitch + side - 1;
    }

    TANDEM_FN void Load(const tandem::Group& g, const Args& a, const float* image, int64_t top,
                        int64_t left) const {
      const Tile tile = *this;
      const int64_t h = a.h, w = a.w, y0 = top - a.radius, x0 = left - a.radius;
      g.each(pitch * (kDown + side - 1) + side - 1, [=](int32_t j) {
        const int64_t y = Clamp(y0 + j / tile.pitch, h), x = Clamp(x0 + j % tile.pitch, w);
        tile.pixel[j] = image[y * w + x];
      });
    }

    TANDEM_FN void Smooth(const tandem::Group& g, const Args& a, tandem::Task t, int64_t top,
                          int64_t left) const {
      const Tile tile = *this;
      const float by_value = Exponent(a.sigma_value);
      g.spread(kDown * pitch, [=](int32_t j) { tile.sum[j] = tile.weight[j] = 0; });
      const float* const own = pixel + a.radius * (pitch + 1);
      for (int32_t place = 0; place < side * side; ++place) {
        const float* const other = pixel + place / side * pitch + place % side;
        const float near_weight = near[place];
        g.spread(kDown * pitch, [=](int32_t j) {
          const float difference = other[j] - own[j];
          const float w = near_weight * tandem::exp(by_value * (difference * difference));
          tile.weight[j] += w;
          tile.sum[j] += w * other[j];
        });
      }
      const tandem::Row<float> out = a.smooth(t, a.h * a.w);
      const int64_t h = a.h, w = a.w;
      g.each(kDown * pitch, [=](int32_t j) {
        const int64_t y = top + j / tile.pitch, x = left + j % tile.pitch;
        if (j % tile.pitch < kAcross && y < h && x < w)
          out[y * w + x] = tile.sum[j] / tile.weight[j];
      });
    }
  };
};

}  // namespace TANDEM_KERNELS

#endif  // TANDEM_KERNELS_BILATERAL_FILTER_BILATERAL_FILTER_H_
