// Every built-in kernel by an executor on an emulated device, whose own memory, streams and blocks
// are in any order: the bytes of the CPU.
#include <png.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/rng.h"
#include "common/base/strings.h"
#include "common/model/job_order.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/sdk/include/tandem/abi.h"
#include "tests/worker/executor/harness.h"

namespace tandem::worker::testing {
namespace {

OperandSpec Floats(Rng* rng, std::vector<int64_t> shape, double low, double high) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    value = static_cast<float>(low + (high - low) * static_cast<double>(rng->Below(100'000)) / 1e5);
  }
  return Dense(DType::kF32, std::move(shape), InlineLocator{BytesOf(values)});
}

template <class T>
OperandSpec Whole(Rng* rng, DType dtype, int64_t n, uint64_t below) {
  std::vector<T> values(static_cast<size_t>(n));
  for (T& value : values) value = static_cast<T>(rng->Below(below));
  return Dense(dtype, {n}, InlineLocator{BytesOf(values)});
}

std::string RandomPng(Rng* rng) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(rng->Between(1, 90));
  image.height = static_cast<png_uint_32>(rng->Between(1, 90));
  image.format = PNG_FORMAT_RGB;
  std::vector<uint8_t> pixels(PNG_IMAGE_SIZE(image));
  for (uint8_t& pixel : pixels) pixel = static_cast<uint8_t>(rng->Below(256));
  png_alloc_size_t size = 0;
  png_image_write_to_memory(&image, nullptr, &size, 0, pixels.data(), 0, nullptr);
  std::string bytes(size, '\0');
  png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, nullptr);
  bytes.resize(size);
  return bytes;
}

OperandSpec Images(Rng* rng, int64_t n) {
  RaggedItems list;
  for (int64_t i = 0; i < n; ++i) {
    list.items.push_back(InlineLocator{rng->Chance(0.1) ? "no image" : RandomPng(rng)});
  }
  OperandSpec operand;
  operand.spec = {DType::kBytes, {n}};
  operand.source = std::move(list);
  return operand;
}

using MakeJob = std::function<void(Rng*, int64_t n, JobSpec*)>;

void Options(Rng* rng, int64_t n, JobSpec* spec) {
  spec->operands["spot"] = Floats(rng, {n}, 10, 100);
  spec->operands["strike"] = Floats(rng, {n}, 10, 100);
  spec->operands["years"] = Floats(rng, {n}, -0.2, 3);  // some fail
  spec->scalars["rate"] = Scalar::F64(0.03);
  spec->scalars["volatility"] = Scalar::F64(0.2);
}

const std::map<std::string, MakeJob>& Jobs() {
  static const auto* jobs = new std::map<std::string, MakeJob>{
      {"asian_option",
       [](Rng* rng, int64_t n, JobSpec* spec) {
         Options(rng, n / 20 + 1, spec);
         spec->scalars["paths"] = Scalar::I64(20);
       }},
      {"bilateral_filter",
       [](Rng* rng, int64_t n, JobSpec* spec) {
         const auto w = static_cast<int64_t>(rng->Between(1, 20));
         spec->operands["image"] = Floats(rng, {n / 50 + 1, 7, w}, 0, 1);
       }},
      {"black_scholes", Options},
      {"gemm",
       [](Rng* rng, int64_t n, JobSpec* spec) {
         const auto k = static_cast<int64_t>(rng->Between(1, 40));
         const auto columns = static_cast<int64_t>(rng->Between(1, 30));
         n = n / 20 + 1;
         spec->operands["a"] = Floats(rng, {n, k}, -1, 1);
         spec->operands["b"] = Floats(rng, {k, columns}, -1, 1);
         spec->split_axis = rng->Chance(0.5) ? "m" : "n";
         spec->reproducible = true;  // its bytes depend on which rows share a call
       }},
      {"gradient",
       [](Rng* rng, int64_t n, JobSpec* spec) {
         const auto d = static_cast<int64_t>(rng->Between(1, 70));
         spec->operands["x"] = Floats(rng, {n, d}, -1, 1);
         std::vector<float> label(static_cast<size_t>(n));
         for (float& value : label) value = static_cast<float>(rng->Below(40)) / 20;  // mostly bad
         for (float& value : label)
           value = rng->Chance(0.9) ? static_cast<float>(value > 1) : value;
         spec->operands["label"] = Dense(DType::kF32, {n}, InlineLocator{BytesOf(label)});
         spec->operands["w"] = Floats(rng, {d}, -1, 1);
       }},
      {"histogram",
       [](Rng* rng, int64_t n, JobSpec* spec) {
         spec->operands["value"] = Whole<uint8_t>(rng, DType::kU8, n, 256);
       }},
      {"image_sobel", [](Rng* rng, int64_t n,
                         JobSpec* spec) { spec->operands["image"] = Images(rng, n / 100 + 1); }},
      {"image_thumbnail",
       [](Rng* rng, int64_t n, JobSpec* spec) {
         spec->operands["image"] = Images(rng, n / 100 + 1);
         spec->scalars["side"] = Scalar::I64(static_cast<int64_t>(rng->Between(1, 40)));
       }},
      {"kmer_count",
       [](Rng* rng, int64_t n, JobSpec* spec) {
         // Partials that travel, and such as stay on the device.
         const int64_t k = rng->Chance(0.5) ? 3 : 8;
         std::vector<uint8_t> base(static_cast<size_t>(n + k - 1));
         for (uint8_t& value : base) value = "ACGTN"[rng->Below(5)];
         spec->operands["base"] = Dense(DType::kU8, {n + k - 1}, InlineLocator{BytesOf(base)});
         spec->scalars["k"] = Scalar::I64(k);
       }},
      {"linear",
       [](Rng* rng, int64_t n, JobSpec* spec) {
         const auto k = static_cast<int64_t>(rng->Between(1, 40));
         const auto m = static_cast<int64_t>(rng->Between(1, 30));
         n = n / 20 + 1;
         spec->operands["x"] = Floats(rng, {n, k}, -1, 1);
         spec->operands["w"] = Floats(rng, {m, k}, -1, 1);
         spec->operands["b"] = Floats(rng, {m}, -1, 1);
         spec->split_axis = rng->Chance(0.5) ? "n" : "m";  // strided slices of y
       }},
      {"mandelbrot",
       [](Rng*, int64_t n, JobSpec* spec) {
         spec->axis_extents["n"] = n;
         spec->scalars["width"] = Scalar::I64(60);
         spec->scalars["pixel"] = Scalar::F64(0.05);
       }},
      {"monte_carlo_pi",
       [](Rng* rng, int64_t n, JobSpec* spec) {
         spec->axis_extents["n"] = n;
         spec->scalars["seed"] = Scalar::U64(rng->Next());
       }},
      {"noop", [](Rng*, int64_t n, JobSpec* spec) { spec->axis_extents["n"] = n; }},
      {"saxpy",
       [](Rng* rng, int64_t n, JobSpec* spec) {
         spec->operands["x"] = Floats(rng, {n}, -1, 1);
         spec->operands["y"] = Floats(rng, {n}, -1, 1);
         spec->scalars["scale"] = Scalar::F64(1.5);
       }},
      {"sort",
       [](Rng* rng, int64_t n, JobSpec* spec) {
         spec->operands["key"] = Whole<int64_t>(rng, DType::kI64, n, uint64_t{1} << 62);
       }},
      {"spin",
       [](Rng* rng, int64_t n, JobSpec* spec) {
         spec->operands["work"] = Whole<uint32_t>(rng, DType::kU32, n, 100);
       }},
  };
  return *jobs;
}

// What is too large for a job's specification becomes a blob that both can read.
void Upload(JobSpec* spec, Harness* a, Harness* b) {
  constexpr size_t kInlineMax = 1000;
  const auto move = [&](Locator* locator) {
    const auto* in = std::get_if<InlineLocator>(locator);
    if (in == nullptr || in->bytes.size() <= kInlineMax) return;
    const std::string bytes = in->bytes;
    a->source()->AddBlob(bytes);
    *locator = b->source()->AddBlob(bytes);
  };
  for (auto& [name, operand] : spec->operands) {
    if (auto* items = std::get_if<RaggedItems>(&operand.source)) {
      for (Locator& item : items->items) move(&item);
    } else if (auto* locator = std::get_if<Locator>(&operand.source)) {
      move(locator);
    }
  }
}

TEST(EmulatedKernelsTest, EveryBuiltInKernelIsHere) {
  std::set<std::string> built_in, here;
  const TandemLibraryV1* library = tandem_builtin_kernels();
  for (uint32_t i = 0; i < library->kernel_count; ++i) built_in.insert(library->kernels[i]->name);
  for (const auto& [name, make] : Jobs()) here.insert(name);
  EXPECT_EQ(here, built_in);
}

// What was said of a job: outputs of every piece, then of its accumulator.
std::vector<std::string> Results(Harness* h, uint64_t job, const std::vector<LeafRange>& cut,
                                 const std::vector<executor::v1::RunPiece>& how) {
  executor::v1::ToExecutor message;
  std::vector<uint64_t> ids;
  for (size_t i = 0; i < cut.size(); ++i) {
    ids.push_back(h->AddPiece(job, cut[i], &message));
    executor::v1::RunPiece* run = message.mutable_runs(static_cast<int>(i));
    run->set_suspect(how[i].suspect());
    *run->mutable_skip_tasks() = how[i].skip_tasks();
  }
  h->Send(std::move(message));
  std::vector<std::string> results;
  for (const uint64_t id : ids) {
    h->Until([&] {
      return h->done().contains(id) || !h->errors().empty() || !h->executor()->health().ok();
    });
    if (!h->done().contains(id)) {
      ADD_FAILURE() << h->executor()->health()
                    << (h->errors().empty() ? "" : h->errors().back().ShortDebugString());
      return results;
    }
    const executor::v1::PieceDone& done = h->done().at(id);
    results.push_back(StrCat(done.tasks(), " tasks"));
    for (const auto& failure : done.failures()) results.push_back(failure.ShortDebugString());
    for (const auto& output : done.outputs()) results.push_back(h->OutputBytes(output));
  }
  const size_t partials = h->partials().size();
  executor::v1::ToExecutor flush;
  flush.add_flush_jobs(job);
  h->Send(std::move(flush));
  h->Until([&] { return h->partials().size() > partials; });
  for (const auto& output : h->partials().back().outputs()) {
    results.push_back(h->OutputBytes(output));
  }
  return results;
}

class KernelTest : public ::testing::TestWithParam<std::string> {};

TEST_P(KernelTest, HasTheBytesOfTheCpuWhateverTheCut) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    Rng rng(seed);
    JobSpec spec;
    spec.kernel = GetParam();
    spec.grain = rng.Between(1, 60);
    Jobs().at(GetParam())(&rng, static_cast<int64_t>(rng.Between(1, 3000)), &spec);
    Harness cpu(HarnessOptions{.builtin_kernels = true});
    HarnessOptions options{.builtin_kernels = true};
    options.emulated.emplace();
    options.emulated->seed = seed;
    options.emulated->memory_bytes = 8 << 20;
    options.engine.extent_bytes = 1 << 20;
    options.engine.resident_bytes_min = 1 << rng.Below(14);
    options.engine.streams = 1 + static_cast<uint32_t>(rng.Below(6));
    Harness device(options);
    EXPECT_EQ(device.ready().device().kind(), tandem::v1::DEVICE_EMULATED);
    Upload(&spec, &cpu, &device);
    const BoundJob job = cpu.SetUp(1, spec);
    device.SetUp(1, spec);
    const std::vector<LeafRange> cut = RandomNodes(job.tree, seed);
    std::vector<executor::v1::RunPiece> how(cut.size());
    for (size_t i = 0; i < cut.size(); ++i) {
      how[i].set_suspect(rng.Chance(0.05));
      const TaskRange tasks = job.tree.Tasks(cut[i]);
      for (uint64_t t = tasks.begin; t < tasks.end; ++t) {
        if (rng.Chance(0.002)) how[i].add_skip_tasks(t);
      }
    }
    const std::vector<std::string> expected = Results(&cpu, 1, cut, how);
    const std::vector<std::string> results = Results(&device, 1, cut, how);
    ASSERT_EQ(results.size(), expected.size()) << "seed " << seed;
    for (size_t i = 0; i < results.size(); ++i) {
      ASSERT_TRUE(results[i] == expected[i])
          << "seed " << seed << ", result " << i << " of " << results.size() << ", "
          << results[i].size() << " and " << expected[i].size() << " bytes";
    }
    EXPECT_GT(device.emulated()->counters().launches, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(All, KernelTest, ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const auto& [name, make] : Jobs()) names.push_back(name);
                           return names;
                         }()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tandem::worker::testing
