// What a task costs in the kernels themselves, on one thread, for each instruction set of this
// machine.
//
//   kernels_bench [--benchmark_filter=black_scholes] [--benchmark_format=json]
//
// `items_per_second` counts tasks (of gradient, elements of x; of linear and gemm, multiplications;
// of bilateral_filter, neighbours looked at).
// black_scholes/libm is the same formula through the C library, one option after the other.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "benchmark/benchmark.h"
#include "kernels/sdk/abi.h"

namespace tandem {
namespace {

constexpr int64_t kTasks = 1 << 18;

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Memory = std::unique_ptr<uint8_t, Free>;
Memory Allocate(int64_t bytes) {
  return Memory(static_cast<uint8_t*>(std::aligned_alloc(64, (bytes + 64) / 64 * 64)));
}

const TandemKernelV1* Find(const TandemLibraryV1* library, std::string_view name) {
  for (uint32_t i = 0; i < library->kernel_count; ++i) {
    if (library->kernels[i]->name == name) return library->kernels[i];
  }
  std::abort();
}

// Runs all tasks of one part again and again.
void RunKernel(benchmark::State& state, const TandemKernelV1& kernel, const void* args,
               int64_t tasks, int64_t items) {
  const Memory scratch = Allocate(kernel.scratch_bytes(args));
  const Memory fault = Allocate(tasks);
  Memory partial;
  if (kernel.partial_bytes != nullptr) {
    partial = Allocate(kernel.partial_bytes(args, tasks));
    kernel.partial_init(args, partial.get());
  }
  const TandemPart part{args, {0, 0}, tasks, fault.get(), partial.get()};
  for (auto _ : state) benchmark::DoNotOptimize(kernel.range(&part, 1, scratch.get()));
  state.SetItemsProcessed(state.iterations() * items);
}

std::vector<float> Floats(int64_t n, float low, float high, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> value(low, high);
  std::vector<float> x(n);
  for (float& v : x) v = value(random);
  return x;
}

struct Options {
  std::vector<float> spot = Floats(kTasks, 50, 150, 1), strike = Floats(kTasks, 50, 150, 2),
                     years = Floats(kTasks, 0.1f, 3, 3), call = Floats(kTasks, 0, 1, 4), put = call;
};
const Options& TheOptions() {
  static const auto* const options = new Options;
  return *options;
}

void BlackScholesByLibm(benchmark::State& state) {
  const Options& o = TheOptions();
  std::vector<float> call(kTasks), put(kTasks);
  const float rate = 0.05f, volatility = 0.2f;
  for (auto _ : state) {
    for (int64_t i = 0; i < kTasks; ++i) {
      const float s = o.spot[i], x = o.strike[i], y = o.years[i], w = volatility * std::sqrt(y);
      const float d1 = (std::log(s / x) + (rate + 0.5f * volatility * volatility) * y) / w,
                  d2 = d1 - w;
      const float n1 = 0.5f * std::erfc(-d1 * 0.70710678f),
                  n2 = 0.5f * std::erfc(-d2 * 0.70710678f);
      const float k = x * std::exp(-rate * y);
      call[i] = s * n1 - k * n2;
      put[i] = k * (1 - n2) - s * (1 - n1);
    }
    benchmark::DoNotOptimize(call.data());
    benchmark::DoNotOptimize(put.data());
  }
  state.SetItemsProcessed(state.iterations() * kTasks);
}

void BlackScholes(benchmark::State& state, const TandemLibraryV1* library) {
  const Options& o = TheOptions();
  std::vector<float> call(kTasks), put(kTasks);
  struct {
    const float *spot, *strike, *years;
    float rate, volatility;
    float *call, *put;
    int64_t n, split;
  } args{o.spot.data(), o.strike.data(), o.years.data(), 0.05f, 0.2f,
         call.data(),   put.data(),      kTasks,         0};
  RunKernel(state, *Find(library, "black_scholes"), &args, kTasks, kTasks);
}

void Saxpy(benchmark::State& state, const TandemLibraryV1* library) {
  const Options& o = TheOptions();
  constexpr int64_t kInCache = 4096;
  std::vector<float> z(kInCache);
  struct {
    float scale;
    const float *x, *y;
    float* z;
    int64_t n, split;
  } args{2, o.spot.data(), o.strike.data(), z.data(), kInCache, 0};
  RunKernel(state, *Find(library, "saxpy"), &args, kInCache, kInCache);
}

void AsianOption(benchmark::State& state, const TandemLibraryV1* library) {
  const Options& o = TheOptions();
  constexpr int32_t kSteps = 16, kPaths = 1024;
  float price;
  struct {
    const float *spot, *strike, *years;
    float rate, volatility;
    int32_t steps, paths;
    uint64_t seed;
    float* price;
    int64_t n, split;
  } args{
      o.spot.data(), o.strike.data(), o.years.data(), 0.05f, 0.2f, kSteps, kPaths, 1, &price, 1, 0};
  RunKernel(state, *Find(library, "asian_option"), &args, 1, kSteps * kPaths);
}

void MonteCarloPi(benchmark::State& state, const TandemLibraryV1* library) {
  struct {
    uint64_t seed;
    int64_t n, split;
  } args{1, 1 << 20, 0};
  RunKernel(state, *Find(library, "monte_carlo_pi"), &args, 1 << 20, 1 << 20);
}

void Noop(benchmark::State& state, const TandemLibraryV1* library) {
  std::vector<uint64_t> value(4096);
  struct {
    uint64_t seed;
    uint64_t* value;
    int64_t n, split;
  } args{1, value.data(), 4096, 0};
  RunKernel(state, *Find(library, "noop"), &args, 4096, 4096);
}

// Parts of one task each: what a call costs beside its tasks.
void NoopParts(benchmark::State& state, const TandemLibraryV1* library) {
  uint64_t value;
  struct {
    uint64_t seed;
    uint64_t* value;
    int64_t n, split;
  } args{1, &value, 1, 0};
  const std::vector<TandemPart> parts(1024, TandemPart{&args, {0, 0}, 1, nullptr, nullptr});
  const TandemKernelV1& kernel = *Find(library, "noop");
  for (auto _ : state) benchmark::DoNotOptimize(kernel.range(parts.data(), 1024, nullptr));
  state.SetItemsProcessed(state.iterations() * 1024);
}

void Histogram(benchmark::State& state, const TandemLibraryV1* library) {
  std::mt19937 random(1);
  std::vector<uint8_t> byte(1 << 22);
  for (uint8_t& b : byte) b = static_cast<uint8_t>(random());
  struct {
    const uint8_t* value;
    int64_t n, split;
  } args{byte.data(), 1 << 22, 0};
  RunKernel(state, *Find(library, "histogram"), &args, 1 << 22, 1 << 22);
}

void KmerCount(benchmark::State& state, const TandemLibraryV1* library, int32_t k,
               uint8_t canonical) {
  std::mt19937 random(1);
  constexpr int64_t kBases = 1 << 23;
  std::vector<uint8_t> base(kBases);
  for (uint8_t& b : base) b = static_cast<uint8_t>("ACGT"[random() % 4]);
  struct {
    const uint8_t* base;
    int32_t k;
    uint8_t canonical;
    int64_t n, split;
  } args{base.data(), k, canonical, kBases - k + 1, 0};
  RunKernel(state, *Find(library, "kmer_count"), &args, args.n, args.n);
}

void Linear(benchmark::State& state, const TandemLibraryV1* library) {
  constexpr int64_t kRows = 96, kOut = 512, kIn = 512;
  const std::vector<float> x = Floats(kRows * kIn, -1, 1, 1), w = Floats(kOut * kIn, -1, 1, 2),
                           b = Floats(kOut, -1, 1, 3);
  std::vector<float> y(kRows * kOut);
  struct {
    const float *x, *w, *b;
    float* y;
    int64_t n, m, k, split;
  } args{x.data(), w.data(), b.data(), y.data(), kRows, kOut, kIn, 0};
  RunKernel(state, *Find(library, "linear"), &args, kRows, kRows * kOut * kIn);
}

void Gradient(benchmark::State& state, const TandemLibraryV1* library, int64_t d) {
  constexpr int64_t kRows = 1024;
  const std::vector<float> x = Floats(kRows * d, -1, 1, 1), w = Floats(d, -1, 1, 2),
                           label(kRows, 1);
  struct {
    const float *x, *label, *w;
    int64_t n, d, split;
  } args{x.data(), label.data(), w.data(), kRows, d, 0};
  RunKernel(state, *Find(library, "gradient"), &args, kRows, kRows * d);
}

void Gemm(benchmark::State& state, const TandemLibraryV1* library) {
  constexpr int64_t kSide = 512;
  const std::vector<float> a = Floats(kSide * kSide, -1, 1, 1), b = Floats(kSide * kSide, -1, 1, 2);
  std::vector<float> c(kSide * kSide);
  struct {
    const float *a, *b;
    float* c;
    int64_t m, n, k, split;
  } args{a.data(), b.data(), c.data(), kSide, kSide, kSide, 0};
  RunKernel(state, *Find(library, "gemm"), &args, kSide, kSide * kSide * kSide);
}

void BilateralFilter(benchmark::State& state, const TandemLibraryV1* library) {
  constexpr int64_t kSide = 256;
  constexpr int32_t kRadius = 3, kPlaces = 49;
  const std::vector<float> image = Floats(kSide * kSide, 0, 1, 1);
  std::vector<float> smooth(kSide * kSide);
  struct {
    const float* image;
    int32_t radius;
    float sigma_space, sigma_value;
    float* smooth;
    int64_t n, h, w, split;
  } args{image.data(), kRadius, 2, 0.1f, smooth.data(), 1, kSide, kSide, 0};
  RunKernel(state, *Find(library, "bilateral_filter"), &args, 1, kSide * kSide * kPlaces);
}

// Points that never leave.
void Mandelbrot(benchmark::State& state, const TandemLibraryV1* library) {
  constexpr int32_t kLimit = 1000;
  std::vector<int32_t> steps(4096);
  struct {
    int32_t width;
    double left, top, pixel;
    int32_t limit;
    int32_t* steps;
    int64_t n, split;
  } args{64, -0.1, 0.1, 0.003, kLimit, steps.data(), 4096, 0};
  RunKernel(state, *Find(library, "mandelbrot"), &args, 4096, int64_t{4096} * kLimit);
}

void Sort(benchmark::State& state, const TandemLibraryV1* library) {
  std::mt19937_64 random(1);
  std::vector<int64_t> key(1 << 18);
  for (int64_t& k : key) k = static_cast<int64_t>(random());
  struct {
    const int64_t* key;
    int64_t n, split;
  } args{key.data(), 1 << 18, 0};
  RunKernel(state, *Find(library, "sort"), &args, 1 << 18, 1 << 18);
}

void Register(const std::string& isa, const TandemLibraryV1* library) {
  const auto add = [&](const std::string& name, auto run) {
    benchmark::RegisterBenchmark((name + "/" + isa).c_str(), run);
  };
  using State = benchmark::State;
  add("saxpy", [=](State& s) { Saxpy(s, library); });
  add("black_scholes", [=](State& s) { BlackScholes(s, library); });
  add("asian_option_steps", [=](State& s) { AsianOption(s, library); });
  add("monte_carlo_pi", [=](State& s) { MonteCarloPi(s, library); });
  add("noop", [=](State& s) { Noop(s, library); });
  add("noop_one_task_parts", [=](State& s) { NoopParts(s, library); });
  add("histogram", [=](State& s) { Histogram(s, library); });
  add("kmer_count_k6", [=](State& s) { KmerCount(s, library, 6, 0); });
  add("kmer_count_k11", [=](State& s) { KmerCount(s, library, 11, 0); });
  add("kmer_count_k11_canonical", [=](State& s) { KmerCount(s, library, 11, 1); });
  add("linear", [=](State& s) { Linear(s, library); });
  add("gradient_d64", [=](State& s) { Gradient(s, library, 64); });
  add("gemm", [=](State& s) { Gemm(s, library); });
  add("bilateral_filter_places", [=](State& s) { BilateralFilter(s, library); });
  add("mandelbrot_steps", [=](State& s) { Mandelbrot(s, library); });
  add("sort", [=](State& s) { Sort(s, library); });
  add("gradient_d1024", [=](State& s) { Gradient(s, library, 1024); });
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  benchmark::RegisterBenchmark("black_scholes/libm", &tandem::BlackScholesByLibm);
  for (const char* isa : {"v2", "v3", "v4"}) {
    if (const TandemLibraryV1* library = tandem_builtin_kernels_for(isa))
      tandem::Register(isa, library);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
