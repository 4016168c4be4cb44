// Checks Tandem's option prices against an independent formula: long double, erfc from the C
// library, and the operands generated anew from the definition of `uniform` (docs/kernels.md).
//
//   demo-check-options CALL.npy PUT.npy COUNT RATE VOLATILITY
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

// SplitMix64 (Steele, Lea, Flood 2014), at a counter.
uint64_t SplitMix64At(uint64_t seed, uint64_t index) {
  uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

float Uniform(uint64_t seed, uint64_t index, float lo, float hi) {
  const float u = static_cast<float>(SplitMix64At(seed, index) >> 40) * 0x1p-24f;
  return lo + (hi - lo) * u;
}

std::vector<float> ReadNpy(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  if (bytes.size() < 10) return {};
  const size_t at = 10 + static_cast<uint8_t>(bytes[8]) + 256 * static_cast<uint8_t>(bytes[9]);
  const auto* first = reinterpret_cast<const float*>(bytes.data() + at);
  return std::vector<float>(first, first + (bytes.size() - at) / sizeof(float));
}

long double NormalCdf(long double x) { return 0.5L * std::erfc(-x / std::sqrt(2.0L)); }

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const std::vector<float> call = ReadNpy(argv[1]), put = ReadNpy(argv[2]);
  const uint64_t count = std::strtoull(argv[3], nullptr, 10);
  const long double rate = std::strtof(argv[4], nullptr),
                    volatility = std::strtof(argv[5], nullptr);
  if (call.size() != count || put.size() != count) {
    std::fprintf(stderr, "%zu calls and %zu puts, expected %llu of each\n", call.size(), put.size(),
                 static_cast<unsigned long long>(count));
    return 1;
  }
  long double worst = 0;
  for (uint64_t i = 0; i < count; ++i) {
    // Black and Scholes (1973), equations 13 and 26.
    const long double s = Uniform(1, i, 50, 150), x = Uniform(2, i, 50, 150),
                      t = Uniform(3, i, 0.1f, 2);
    const long double w = volatility * std::sqrt(t);
    const long double d1 = (std::log(s / x) + (rate + 0.5L * volatility * volatility) * t) / w;
    const long double discounted = x * std::exp(-rate * t);
    const long double c = s * NormalCdf(d1) - discounted * NormalCdf(d1 - w);
    const long double p = discounted * NormalCdf(w - d1) - s * NormalCdf(-d1);
    worst = std::fmax(worst, std::fmax(std::fabs(call[i] - c), std::fabs(put[i] - p)));
    if (!(std::fabs(call[i] - c) < 1 && std::fabs(put[i] - p) < 1)) worst = INFINITY;  // NaN too
  }
  constexpr long double kBound = 5e-4L;  // dollars; prices up to 150 in f32 have steps of 1.5e-5
  std::printf("%s %llu calls and puts; the largest difference is %.2Le of at most %.0Le dollars\n",
              worst <= kBound ? "ok " : "BAD", static_cast<unsigned long long>(count), worst,
              kBound);
  return worst <= kBound ? 0 : 1;
}
