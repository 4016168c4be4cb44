#include "bench/support/bare.h"

#include <tbb/blocked_range.h>
#include <tbb/enumerable_thread_specific.h>
#include <tbb/parallel_for.h>

#include <string>

#include "bench/support/measure.h"
#include "common/base/check.h"
#include "common/base/strings.h"

namespace tandem::bench {
namespace {

constexpr int64_t kPiPiece = 1 << 20, kWordsPiece = 1 << 21;

// Arguments as a signature lays them out (kernels/sdk abi.h).
struct PiArgs {
  uint64_t seed;
  int64_t n, split;
};
struct KmerArgs {
  const uint8_t* base;
  int32_t k;
  uint8_t canonical;
  int64_t n, split;
};
struct SpinArgs {
  const uint32_t* work;
  uint64_t seed;
  uint64_t* value;
  int64_t n, split;
};
struct BlackScholesArgs {
  const float *spot, *strike, *years;
  float rate, volatility;
  float *call, *put;
  int64_t n, split;
};

const TandemKernelV1& Need(std::string_view name) {
  const TandemKernelV1* kernel = BareKernel(name);
  if (kernel == nullptr) Die(StrCat("there is no built-in kernel ", name));
  return *kernel;
}

using Buffer = std::unique_ptr<void, decltype(&std::free)>;
Buffer Aligned(int64_t bytes) {
  const int64_t rounded = (std::max<int64_t>(bytes, 1) + TANDEM_PARTIAL_ALIGN - 1) /
                          TANDEM_PARTIAL_ALIGN * TANDEM_PARTIAL_ALIGN;
  return Buffer(std::aligned_alloc(TANDEM_PARTIAL_ALIGN, static_cast<size_t>(rounded)), &std::free);
}

// What a thread keeps from piece to piece.
struct Private {
  Buffer partial{nullptr, &std::free};
  Buffer scratch{nullptr, &std::free};
};

// Runs tasks [0, tasks) with a private partial a thread; returns the merged one.
Buffer Reduce(const TandemKernelV1& kernel, const void* args, int64_t tasks, int64_t piece) {
  tbb::enumerable_thread_specific<Private> privates([&] {
    Private own;
    own.partial = Aligned(kernel.partial_bytes(args, tasks));
    kernel.partial_init(args, own.partial.get());
    own.scratch = Aligned(kernel.scratch_bytes(args));
    return own;
  });
  tbb::parallel_for(tbb::blocked_range<int64_t>(0, tasks, piece), [&](const auto& range) {
    Private& own = privates.local();
    const auto n = static_cast<int64_t>(range.size());
    const TandemPart part = {args, {range.begin(), range.begin()}, n, nullptr, own.partial.get()};
    kernel.range(&part, 1, own.scratch.get());
  });
  Buffer all = Aligned(kernel.partial_bytes(args, tasks));
  kernel.partial_init(args, all.get());
  for (Private& own : privates) {
    CHECK_EQ(kernel.merge(args, all.get(), tasks, own.partial.get(), tasks), 0);
  }
  return all;
}

}  // namespace

const TandemKernelV1* BareKernel(std::string_view name, const char* isa) {
  const TandemLibraryV1* library =
      isa == nullptr ? tandem_builtin_kernels() : tandem_builtin_kernels_for(isa);
  if (library == nullptr) return nullptr;
  for (uint32_t i = 0; i < library->kernel_count; ++i) {
    if (name == library->kernels[i]->name) return library->kernels[i];
  }
  return nullptr;
}

uint64_t BarePi(uint64_t seed, int64_t tasks) {
  const PiArgs args = {seed, tasks, 0};
  return *static_cast<const uint64_t*>(
      Reduce(Need("monte_carlo_pi"), &args, tasks, kPiPiece).get());
}

std::vector<uint32_t> BareKmerCount(std::string_view base, int32_t k) {
  const int64_t tasks = static_cast<int64_t>(base.size()) - k + 1;
  const KmerArgs args = {reinterpret_cast<const uint8_t*>(base.data()), k, 0, tasks, 0};
  const Buffer count = Reduce(Need("kmer_count"), &args, tasks, kWordsPiece);
  const auto* first = static_cast<const uint32_t*>(count.get());
  return {first, first + (int64_t{1} << (2 * k))};
}

std::vector<uint64_t> BareSpin(int64_t tasks, uint32_t work) {
  const TandemKernelV1& kernel = Need("spin");
  const std::vector<uint32_t> works(static_cast<size_t>(tasks), work);
  std::vector<uint64_t> values(works.size());
  const SpinArgs args = {works.data(), 0, values.data(), tasks, 0};
  tbb::parallel_for(tbb::blocked_range<int64_t>(0, tasks), [&](const auto& range) {
    const auto n = static_cast<int64_t>(range.size());
    const TandemPart part = {&args, {range.begin(), range.begin()}, n, nullptr, nullptr};
    kernel.range(&part, 1, nullptr);
  });
  return values;
}

bool BareBlackScholes(const char* isa, Options* options) {
  const TandemKernelV1* kernel = BareKernel("black_scholes", isa);
  if (kernel == nullptr) return false;
  const auto n = static_cast<int64_t>(options->spot.size());
  options->call.resize(options->spot.size());
  options->put.resize(options->spot.size());
  const BlackScholesArgs args = {options->spot.data(),
                                 options->strike.data(),
                                 options->years.data(),
                                 options->rate,
                                 options->volatility,
                                 options->call.data(),
                                 options->put.data(),
                                 n,
                                 0};
  std::vector<uint8_t> faults(options->spot.size());
  const TandemPart part = {&args, {0, 0}, n, faults.data(), nullptr};
  return kernel->range(&part, 1, nullptr) == 0;
}

}  // namespace tandem::bench
