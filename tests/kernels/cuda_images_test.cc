// Kernels with host stages on CUDA: the cells of many pictures, in strips, as one grid between the
// host's decoding and encoding; the same bytes as the CPU's, and the reference's pixels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/image_codec/image_codec.h"
#include "kernels/image_sobel/image_sobel_ref.h"
#include "kernels/image_thumbnail/image_thumbnail_ref.h"
#include "tests/kernels/cuda_harness.h"
#include "tests/kernels/library.h"

namespace tandem {
namespace {

int32_t Collect(void* context, const void* bytes, int64_t size) {
  static_cast<std::string*>(context)->append(static_cast<const char*>(bytes),
                                             static_cast<size_t>(size));
  return 0;
}

struct Picture {
  int32_t width, height;
  std::vector<uint8_t> rgb;
  std::string file;
};

Picture RandomPicture(std::mt19937_64* random, int32_t width, int32_t height) {
  Picture picture{width, height, std::vector<uint8_t>(size_t{3} * width * height), ""};
  for (size_t i = 0; i < picture.rgb.size(); ++i) {
    picture.rgb[i] = static_cast<uint8_t>(i / 7 + (*random)() % 64);
  }
  EXPECT_EQ(tandem_image_encode_png(picture.rgb.data(), width, height, 3, &Collect, &picture.file),
            TANDEM_IMAGE_OK);
  return picture;
}

// A picture on its way through measure, prepare, cells and finish.
class Item {
 public:
  using MakeArgs = std::function<PackedArgs(const TandemBytes*, const TandemSink*)>;

  Item(const TandemKernelV1& kernel, const Picture& picture, const MakeArgs& make)
      : kernel_(kernel),
        image_{reinterpret_cast<const uint8_t*>(picture.file.data()),
               static_cast<int64_t>(picture.file.size())},
        args_(make(&image_, &sink_)),
        shape_(kernel.shape_bytes + 1),
        work_(kernel.work_bytes + 1) {
    EXPECT_EQ(kernel.measure(args_.data(), {0, 0}, shape_.data(), &need_), 0);
    in_.resize(static_cast<size_t>(need_.in_bytes));
    out_.resize(static_cast<size_t>(need_.out_bytes));
    const TandemStage stage{in_.data(), out_.data(), need_.across, need_.down};
    EXPECT_EQ(kernel.prepare(args_.data(), {0, 0}, shape_.data(), &stage, work_.data()), 0);
  }
  Item(const Item&) = delete;
  Item& operator=(const Item&) = delete;

  void RunOnCpu() {
    AlignedBytes scratch(kernel_.scratch_bytes(args_.data()));
    const TandemPart part{work_.data(), {0, 0}, need_.down, nullptr, nullptr};
    kernel_.range(&part, 1, scratch.data());
  }

  // Strips of the device's copy, whose work has the device's pointers.
  void AddParts(std::vector<TandemPart>* parts, std::mt19937_64* random) {
    device_in_ = std::make_unique<OnDevice>(in_.data(), in_.size());
    device_out_ = std::make_unique<OnDevice>(out_.data(), out_.size());
    device_work_ = work_;
    const TandemStage stage{device_in_->data(), device_out_->data(), need_.across, need_.down};
    std::memcpy(device_work_.data(), &stage, sizeof stage);
    for (const auto& [begin, end] : kernel_test::RandomCut(need_.down, *random)) {
      parts->push_back({device_work_.data(), {0, begin}, end - begin, nullptr, nullptr});
    }
  }
  void FetchFromDevice() {
    const std::vector<uint8_t> cells = device_out_->Fetch();
    std::copy(cells.begin(), cells.end(), out_.begin());
  }

  std::string Finish() {
    EXPECT_EQ(kernel_.finish(args_.data(), {0, 0}, shape_.data(), work_.data()), 0);
    return encoded_;
  }

 private:
  const TandemKernelV1& kernel_;
  std::string encoded_;
  const TandemBytes image_;
  const TandemSink sink_{&Collect, &encoded_};
  const PackedArgs args_;
  std::vector<uint8_t> shape_, work_, device_work_, in_, out_;
  TandemNeed need_{};
  std::unique_ptr<OnDevice> device_in_, device_out_;
};

class CudaImagesTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    constexpr std::pair<int, int> kSizes[] = {{1, 1}, {1, 9}, {7, 1}, {33, 17}, {64, 65}};
    for (const auto& [width, height] : kSizes) {
      pictures_.push_back(RandomPicture(&random_, width, height));
    }
  }

  // The encoded results of all pictures, from one launch; compared with the CPU's.
  std::vector<std::string> Run(const char* name, const Item::MakeArgs& make) {
    const TandemKernelV1& cuda = FindKernel(*tandem_builtin_cuda_kernels(), name);
    const TandemKernelV1& cpu = FindKernel(*tandem_builtin_kernels(), name);
    std::vector<std::unique_ptr<Item>> items;
    std::vector<TandemPart> parts;
    for (const Picture& picture : pictures_) {
      items.push_back(std::make_unique<Item>(cuda, picture, make));
      items.back()->AddParts(&parts, &random_);
    }
    LaunchAndWait(cuda, parts);
    std::vector<std::string> results;
    for (size_t i = 0; i < items.size(); ++i) {
      items[i]->FetchFromDevice();
      results.push_back(items[i]->Finish());
      Item host(cpu, pictures_[i], make);
      host.RunOnCpu();
      EXPECT_TRUE(results.back() == host.Finish()) << name << " picture " << i;
    }
    return results;
  }

  static std::vector<uint8_t> Decode(const std::string& file, int32_t width, int32_t height,
                                     int32_t channels) {
    std::vector<uint8_t> pixels(static_cast<size_t>(width) * height * channels);
    const auto* data = reinterpret_cast<const uint8_t*>(file.data());
    const auto size = static_cast<int64_t>(file.size());
    EXPECT_EQ(channels == 1
                  ? tandem_image_decode_grey(data, size, width, height, pixels.data(), width)
                  : tandem_image_decode_rgb(data, size, width, height, pixels.data(), 3 * width),
              TANDEM_IMAGE_OK);
    return pixels;
  }

  std::vector<Picture> pictures_;
};

TEST_F(CudaImagesTest, Sobel) {
  const auto edges = Run("image_sobel", [](const TandemBytes* image, const TandemSink* sink) {
    PackedArgs args;
    args.Add(image);
    args.Add(sink);
    args.Axes({1}, 0);
    return args;
  });
  for (size_t i = 0; i < edges.size(); ++i) {
    const auto& [width, height, rgb, file] = pictures_[i];
    EXPECT_EQ(Decode(edges[i], width, height, 1), kernels::SobelReference(rgb, width, height)) << i;
  }
}

TEST_F(CudaImagesTest, Thumbnail) {
  for (const int32_t side : {5, 32}) {
    const auto small =
        Run("image_thumbnail", [=](const TandemBytes* image, const TandemSink* sink) {
          PackedArgs args;
          args.Add(image);
          args.Add(side);
          args.Add(sink);
          args.Axes({1}, 0);
          return args;
        });
    for (size_t i = 0; i < small.size(); ++i) {
      const auto& [width, height, rgb, file] = pictures_[i];
      const kernels::Thumbnail expected = kernels::ThumbnailReference(rgb, width, height, side);
      EXPECT_EQ(Decode(small[i], expected.width, expected.height, 3), expected.rgb) << i;
    }
  }
}

}  // namespace
}  // namespace tandem
