// Host stages around a grid: ragged items (photographs, documents) that a host codec opens and
// closes while one grid over the cells of all of them does the work.
//
//   struct Invert {
//     static constexpr char kSignature[] = "image[n]:bytes -> inverted[n]:bytes";
//     struct Args { tandem::PerTask<const tandem::Bytes> image; tandem::PerTask<const tandem::Sink>
//     inverted; }; struct Shape { int32_t width, height; }; static tandem::Fault Measure(const
//     Args&, tandem::Task, Shape*, tandem::Need*);              // header only static tandem::Fault
//     Prepare(const Args&, tandem::Task, const Shape&, const tandem::Stage&); // into stage.in
//     TANDEM_BODY void Item(tandem::Cell, const Args&, const Shape&, const tandem::Stage&); // a
//     thread a cell static tandem::Fault Finish(const Args&, tandem::Task, const Shape&, const
//     tandem::Stage&);  // from stage.out
//   };
//
// Measure, Prepare and Finish run on the host, once a task; they may be defined in an ordinary
// source file. Item runs for each cell 0 <= x < across, 0 <= y < down, in any order; it writes only
// its own cell of stage.out.
//
// Thread-safety: value types; each task has staging of its own.
// Ownership: the caller owns staging, operands and sinks.
#ifndef TANDEM_STAGE_H_
#define TANDEM_STAGE_H_

#include "tandem/abi.h"
#include "tandem/config.h"
#include "tandem/traits.h"

namespace tandem {
inline namespace TANDEM_ISA_NAMESPACE {

using Bytes = ::TandemBytes;  // a byte string of a ragged operand: data, size
using Need = ::TandemNeed;    // what Measure asks for: in_bytes, out_bytes, across, down
using Stage = ::TandemStage;  // what it gets: in, out, across, down
using Sink = ::TandemSink;    // where a ragged output goes

// One cell of a task's grid.
struct Cell {
  int32_t x, y;
};

// Appends `size` bytes to a task's output; false where the receiver refuses them (return
// Fault(TANDEM_FAULT_INTERNAL)).
inline bool Write(const Sink& sink, const void* bytes, int64_t size) {
  return sink.write(sink.context, bytes, size) == 0;
}

// A view of rows of pixels with `channels` interleaved values each.
template <class T>
struct Image {
  T* p;
  int32_t width, height, channels;
  int64_t pitch;  // elements from a row to the next

  TANDEM_FN T& operator()(int32_t x, int32_t y, int32_t channel = 0) const {
    return p[y * pitch + int64_t{x} * channels + channel];
  }
  // The nearest pixel inside: a window at the border repeats the edge.
  TANDEM_FN T& Clamped(int32_t x, int32_t y, int32_t channel = 0) const {
    x = x < 0 ? 0 : x >= width ? width - 1 : x;
    y = y < 0 ? 0 : y >= height ? height - 1 : y;
    return (*this)(x, y, channel);
  }
};

// An image in `memory` with a border of `halo` pixels around it, which the stage that fills the
// memory fills too; then x in [-halo, width + halo) needs no clamp and loops over x vectorise.
template <class T>
TANDEM_FN Image<T> ImageWithHalo(T* memory, int32_t width, int32_t height, int32_t channels,
                                 int32_t halo) {
  int64_t pitch = (int64_t{width} + 2 * halo) * channels;
  return Image<T>{memory + halo * pitch + int64_t{halo} * channels, width, height, channels, pitch};
}
TANDEM_FN int64_t ImageElements(int32_t width, int32_t height, int32_t channels, int32_t halo) {
  return (int64_t{width} + 2 * halo) * channels * (int64_t{height} + 2 * halo);
}

// Repeats the edge of an image into its border.
template <class T>
inline void FillHalo(const Image<T>& image, int32_t halo) {
  for (int32_t y = 0; y < image.height; ++y) {
    for (int32_t h = 1; h <= halo; ++h) {
      for (int32_t c = 0; c < image.channels; ++c) {
        image(-h, y, c) = image(0, y, c);
        image(image.width - 1 + h, y, c) = image(image.width - 1, y, c);
      }
    }
  }
  int64_t row = (int64_t{image.width} + 2 * halo) * image.channels;
  for (int32_t h = 1; h <= halo; ++h) {
    for (int64_t i = 0; i < row; ++i) {
      (&image(-halo, -h))[i] = (&image(-halo, 0))[i];
      (&image(-halo, image.height - 1 + h))[i] = (&image(-halo, image.height - 1))[i];
    }
  }
}

}  // namespace TANDEM_ISA_NAMESPACE
}  // namespace tandem

#endif  // TANDEM_STAGE_H_
