// image_sobel and image_thumbnail through the ABI, as an executor drives them: measure, prepare,
// range, finish.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
// jpeglib.h needs these two first.
#include <cstddef>
#include <cstdio>
//
#include <jpeglib.h>
#include <png.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "kernels/image_codec/image_codec.h"
#include "kernels/image_sobel/image_sobel_ref.h"
#include "kernels/image_thumbnail/image_thumbnail_ref.h"
#include "kernels/sdk/abi.h"
#include "tests/kernels/harness.h"
#include "tests/kernels/isa_test.h"

namespace tandem {
namespace {

struct Picture {
  int width = 0, height = 0;
  std::vector<uint8_t> pixels;  // height × width × channels
};

Picture RandomPicture(Rng* rng, int width, int height) {
  Picture picture{width, height, std::vector<uint8_t>(static_cast<size_t>(width * height * 3))};
  // Smooth with noise, so that edges of every strength occur.
  for (size_t i = 0; i < picture.pixels.size(); ++i)
    picture.pixels[i] = static_cast<uint8_t>(i / 7 + rng->Next() % 64);
  return picture;
}

std::string EncodePng(const Picture& picture, png_uint_32 format) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(picture.width);
  image.height = static_cast<png_uint_32>(picture.height);
  image.format = format;
  png_alloc_size_t size = 0;
  EXPECT_NE(png_image_write_to_memory(&image, nullptr, &size, 0, picture.pixels.data(), 0, nullptr),
            0);
  std::string bytes(size, '\0');
  EXPECT_NE(
      png_image_write_to_memory(&image, bytes.data(), &size, 0, picture.pixels.data(), 0, nullptr),
      0);
  bytes.resize(size);
  return bytes;
}

Picture DecodePng(const std::string& bytes, png_uint_32 format, int channels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  EXPECT_NE(png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()), 0)
      << image.message;
  image.format = format;
  Picture picture{static_cast<int>(image.width), static_cast<int>(image.height), {}};
  picture.pixels.resize(static_cast<size_t>(picture.width * picture.height * channels));
  EXPECT_NE(png_image_finish_read(&image, nullptr, picture.pixels.data(), 0, nullptr), 0)
      << image.message;
  return picture;
}

std::string EncodeJpeg(const Picture& picture) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &memory, &size);
  jpeg.image_width = static_cast<JDIMENSION>(picture.width);
  jpeg.image_height = static_cast<JDIMENSION>(picture.height);
  jpeg.input_components = 3;
  jpeg.in_color_space = JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 95, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  while (jpeg.next_scanline < jpeg.image_height) {
    auto* row =
        const_cast<JSAMPROW>(picture.pixels.data() +
                             size_t{jpeg.next_scanline} * static_cast<size_t>(picture.width) * 3);
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  std::string bytes(reinterpret_cast<char*>(memory), size);
  jpeg_destroy_compress(&jpeg);
  free(memory);
  return bytes;
}

// The instruction set of the test that runs.
std::string current_isa;

const TandemKernelV1* Kernel(const std::string& name) {
  const TandemLibraryV1* library = tandem_builtin_kernels_for(current_isa.c_str());
  for (uint32_t i = 0; i < library->kernel_count; ++i) {
    if (name == library->kernels[i]->name) return library->kernels[i];
  }
  return nullptr;
}

struct Outcome {
  std::string bytes;
  std::string fault;  // "" when it went well
};

int32_t Collect(void* context, const void* bytes, int64_t size) {
  static_cast<std::string*>(context)->append(static_cast<const char*>(bytes),
                                             static_cast<size_t>(size));
  return 0;
}
int32_t Refuse(void*, const void*, int64_t) { return 1; }

// Runs one picture through all stages, its rows of cells in these pieces of as many as there are.
using Pieces = std::vector<std::pair<int64_t, int64_t>>;
using CutRows = std::function<Pieces(int64_t rows)>;
Pieces Whole(int64_t rows) { return {{0, rows}}; }

template <class Args>
Outcome Run(const TandemKernelV1* kernel, const Args& args, std::string* collected,
            int64_t item = 0, const CutRows& cut = Whole) {
  const auto fault = [&](int32_t code) {
    return code < static_cast<int32_t>(kernel->fault_count) ? std::string(kernel->faults[code])
                                                            : "fault " + std::to_string(code);
  };
  const TandemTask task{item, item};
  std::vector<uint8_t> shape(kernel->shape_bytes + 16), work(kernel->work_bytes + 16);
  TandemNeed need{};
  if (const int32_t code = kernel->measure(&args, task, shape.data(), &need); code != 0)
    return {"", fault(code)};
  std::vector<uint8_t> in(static_cast<size_t>(need.in_bytes)),
      out(static_cast<size_t>(need.out_bytes));
  const TandemStage stage{in.data(), out.data(), need.across, need.down};
  if (const int32_t code = kernel->prepare(&args, task, shape.data(), &stage, work.data());
      code != 0)
    return {"", fault(code)};
  std::vector<uint8_t> scratch(static_cast<size_t>(kernel->scratch_bytes(&args)) + 64);
  for (const auto& [begin, end] : cut(need.down)) {
    const TandemPart part{work.data(), {item, begin}, end - begin, nullptr, nullptr};
    kernel->range(&part, 1, scratch.data());
  }
  if (const int32_t code = kernel->finish(&args, task, shape.data(), work.data()); code != 0)
    return {"", fault(code)};
  return {*collected, ""};
}

Outcome Sobel(const std::string& file, int32_t (*write)(void*, const void*, int64_t) = &Collect) {
  std::string collected;
  const TandemBytes image{reinterpret_cast<const uint8_t*>(file.data()),
                          static_cast<int64_t>(file.size())};
  const TandemSink sink{write, &collected};
  const struct {
    const TandemBytes* image;
    const TandemSink* edges;
    int64_t n, split;
  } args{&image, &sink, 1, 0};
  return Run(Kernel("image_sobel"), args, &collected);
}

Outcome Thumbnail(const std::string& file, int32_t side) {
  std::string collected;
  const TandemBytes image{reinterpret_cast<const uint8_t*>(file.data()),
                          static_cast<int64_t>(file.size())};
  const TandemSink sink{&Collect, &collected};
  const struct {
    const TandemBytes* image;
    int32_t side;
    const TandemSink* thumbnail;
    int64_t n, split;
  } args{&image, side, &sink, 1, 0};
  return Run(Kernel("image_thumbnail"), args, &collected);
}

// A job of several pictures, cut at random: its tasks, and the rows of each.
class PicturesJob {
 public:
  PicturesJob() {
    Rng rng(6);
    for (const auto& [width, height] : {std::pair{1, 1}, {9, 7}, {16, 24}, {31, 5}}) {
      const Picture picture = RandomPicture(&rng, width, height);
      files_.push_back(EncodePng(picture, PNG_FORMAT_RGB));
      files_.push_back(EncodeJpeg(picture));
    }
    files_.push_back(files_[4].substr(0, 60));
    for (const std::string& file : files_) {
      images_.push_back(
          {reinterpret_cast<const uint8_t*>(file.data()), static_cast<int64_t>(file.size())});
    }
  }
  int64_t count() const { return static_cast<int64_t>(files_.size()); }

  // `random` null: the whole. What each task gives, its bytes or its fault.
  template <class MakeArgs>
  std::vector<std::string> Run(const TandemKernelV1* kernel, const MakeArgs& make,
                               std::mt19937_64* random) const {
    const auto cut = [&](int64_t n) {
      return random == nullptr ? Whole(n) : RandomCut(n, *random);
    };
    std::vector<std::string> collected(files_.size()), results(files_.size());
    std::vector<TandemSink> sinks;
    for (std::string& bytes : collected) sinks.push_back({&Collect, &bytes});
    const auto args = make(images_.data(), sinks.data(), count());
    for (const auto& [begin, end] : cut(count())) {
      for (int64_t i = begin; i < end; ++i) {
        const auto at = static_cast<size_t>(i);
        const Outcome outcome = tandem::Run(kernel, args, &collected[at], i, cut);
        results[at] = outcome.fault + ":" + outcome.bytes;
      }
    }
    return results;
  }

  // The results of cuts must be those that the baseline makes of the whole.
  template <class MakeArgs>
  void ExpectSameBytes(const std::string& name, const MakeArgs& make) const {
    constexpr int kCuts = 1000;
    const TandemKernelV1* const kernel = Kernel(name);
    current_isa = kBaselineIsa;
    const std::vector<std::string> whole = Run(Kernel(name), make, nullptr);
    EXPECT_EQ(whole.back(), "truncated image:");
    std::mt19937_64 random(1);
    for (int i = 0; i < kCuts; ++i) {
      ASSERT_TRUE(Run(kernel, make, &random) == whole) << name << ", cut " << i;
    }
  }

 private:
  std::vector<std::string> files_;
  std::vector<TandemBytes> images_;
};

constexpr std::pair<int, int> kSizes[] = {{1, 1}, {1, 9}, {7, 1}, {2, 2}, {33, 17}, {128, 65}};

class ImageTest : public IsaTest {
 protected:
  void SetUp() override {
    IsaTest::SetUp();
    current_isa = isa();
  }
};
class ImageSobelTest : public ImageTest {};
class ImageThumbnailTest : public ImageTest {};
TANDEM_FOR_EACH_ISA(ImageSobelTest);
TANDEM_FOR_EACH_ISA(ImageThumbnailTest);

TEST_P(ImageSobelTest, AgreesWithTheReferenceOnPng) {
  Rng rng(1);
  for (const auto& [width, height] : kSizes) {
    const Picture picture = RandomPicture(&rng, width, height);
    const Outcome outcome = Sobel(EncodePng(picture, PNG_FORMAT_RGB));
    ASSERT_EQ(outcome.fault, "");
    const Picture edges = DecodePng(outcome.bytes, PNG_FORMAT_GRAY, 1);
    EXPECT_EQ(edges.width, width);
    EXPECT_EQ(edges.pixels, kernels::SobelReference(picture.pixels, width, height))
        << width << "x" << height;
  }
}

TEST_P(ImageSobelTest, ReadsJpeg) {
  Picture picture{64, 48, {}};  // smooth: JPEG keeps it nearly as it is
  for (int i = 0; i < 64 * 48 * 3; ++i)
    picture.pixels.push_back(static_cast<uint8_t>(i / 3 % 64 * 2 + i / 192 * 2));
  const std::string file = EncodeJpeg(picture);
  // What the codec decodes is the oracle's input: JPEG is lossy.
  std::vector<uint8_t> rgb(64 * 48 * 3);
  ASSERT_EQ(tandem_image_decode_rgb(reinterpret_cast<const uint8_t*>(file.data()),
                                    static_cast<int64_t>(file.size()), 64, 48, rgb.data(), 64 * 3),
            TANDEM_IMAGE_OK);
  double difference = 0;
  for (size_t i = 0; i < rgb.size(); ++i) difference += std::abs(rgb[i] - picture.pixels[i]);
  EXPECT_LT(difference / static_cast<double>(rgb.size()), 3);
  const Outcome outcome = Sobel(file);
  ASSERT_EQ(outcome.fault, "");
  EXPECT_EQ(DecodePng(outcome.bytes, PNG_FORMAT_GRAY, 1).pixels,
            kernels::SobelReference(rgb, 64, 48));
}

TEST_P(ImageSobelTest, ReadsGreyAlphaAndPalette) {
  Picture grey{3, 2, {10, 20, 30, 200, 210, 220}};
  EXPECT_EQ(Sobel(EncodePng(grey, PNG_FORMAT_GRAY)).fault, "");
  Picture alpha{1, 2, {255, 255, 255, 0, 0, 0, 0, 255}};
  const Outcome outcome = Sobel(EncodePng(alpha, PNG_FORMAT_RGBA));
  ASSERT_EQ(outcome.fault, "");
  // A transparent white pixel is black like the opaque black one below it: no edge.
  EXPECT_EQ(DecodePng(outcome.bytes, PNG_FORMAT_GRAY, 1).pixels, (std::vector<uint8_t>{0, 0}));
}

TEST_P(ImageSobelTest, TruncatedPicturesFailWithThatReasonAtEveryLength) {
  Rng rng(3);
  const Picture picture = RandomPicture(&rng, 40, 30);
  const std::string png = EncodePng(picture, PNG_FORMAT_RGB), jpeg = EncodeJpeg(picture);
  for (size_t length = 8; length < png.size(); length += 37) {
    EXPECT_EQ(Sobel(png.substr(0, length)).fault, "truncated image") << length;
  }
  for (size_t length = 3; length + 64 < jpeg.size(); length += 41) {
    EXPECT_EQ(Sobel(jpeg.substr(0, length)).fault, "truncated image") << length;
  }
}

TEST_P(ImageSobelTest, OtherFilesFailWithTheirReason) {
  EXPECT_EQ(Sobel("").fault, "not a PNG or JPEG");
  EXPECT_EQ(Sobel("GIF89a, an old friend").fault, "not a PNG or JPEG");
  std::string huge = EncodePng(Picture{1, 1, {1, 2, 3}}, PNG_FORMAT_RGB);
  std::memcpy(huge.data() + 16, "\x00\x01\x00\x00\x00\x01\x00\x00", 8);  // 65,536 x 65,536
  EXPECT_EQ(Sobel(huge).fault, "image too large: more than 2^28 pixels");
}

TEST_P(ImageSobelTest, ARefusingSinkFailsTheTask) {
  EXPECT_NE(Sobel(EncodePng(Picture{1, 1, {1, 2, 3}}, PNG_FORMAT_RGB), &Refuse).fault, "");
}

TEST_P(ImageSobelTest, HostileBytesEndInACode) {
  Rng rng(4);
  const Picture picture = RandomPicture(&rng, 24, 24);
  for (const std::string& whole : {EncodePng(picture, PNG_FORMAT_RGB), EncodeJpeg(picture)}) {
    for (int round = 0; round < 2000; ++round) {
      std::string file = whole;
      for (int flips = 0; flips < 3; ++flips)
        file[rng.Next() % file.size()] = static_cast<char>(rng.Next());
      Sobel(file);  // any code will do; what must not happen is a crash
    }
  }
}

TEST_P(ImageSobelTest, IsTheSameForAnyCut) {
  struct Args {
    const TandemBytes* image;
    const TandemSink* edges;
    int64_t n, split;
  };
  PicturesJob().ExpectSameBytes("image_sobel",
                                [](const TandemBytes* images, const TandemSink* sinks, int64_t n) {
                                  return Args{images, sinks, n, 0};
                                });
}

TEST_P(ImageThumbnailTest, IsTheSameForAnyCut) {
  struct Args {
    const TandemBytes* image;
    int32_t side;
    const TandemSink* thumbnail;
    int64_t n, split;
  };
  PicturesJob().ExpectSameBytes("image_thumbnail",
                                [](const TandemBytes* images, const TandemSink* sinks, int64_t n) {
                                  return Args{images, 10, sinks, n, 0};
                                });
}

TEST_P(ImageThumbnailTest, AgreesWithTheReference) {
  Rng rng(5);
  for (const auto& [width, height] : kSizes) {
    for (const int side : {1, 5, 32, 4096}) {
      const Picture picture = RandomPicture(&rng, width, height);
      const Outcome outcome = Thumbnail(EncodePng(picture, PNG_FORMAT_RGB), side);
      ASSERT_EQ(outcome.fault, "");
      const Picture small = DecodePng(outcome.bytes, PNG_FORMAT_RGB, 3);
      const kernels::Thumbnail expected =
          kernels::ThumbnailReference(picture.pixels, width, height, side);
      ASSERT_EQ(small.width, expected.width) << width << "x" << height << " side " << side;
      ASSERT_EQ(small.height, expected.height);
      EXPECT_EQ(small.pixels, expected.rgb) << width << "x" << height << " side " << side;
    }
  }
}

}  // namespace
}  // namespace tandem
