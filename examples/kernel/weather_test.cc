// The kernels of weather.so against plain C++, on every instruction set and for any cut.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tandem/testing.h"

namespace {

using namespace tandem::kernel_test;  // NOLINT: what the SDK has for tests

constexpr int64_t kTasks = 1237;
int failures = 0;

void Expect(bool holds, const std::string& what) {
  if (holds) return;
  ++failures;
  std::printf("FAILED: %s\n", what.c_str());
}

std::vector<float> Uniform(float low, float high, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> value(low, high);
  std::vector<float> values(kTasks);
  for (float& v : values) v = value(random);
  return values;
}

template <class T>
bool SameBytes(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

struct DewPoints {
  std::vector<float> dew;
  std::vector<uint8_t> fault;
};

DewPoints RunDewPoint(const TandemKernelV1& kernel, const std::vector<float>& temperature,
                      const std::vector<float>& humidity,
                      const std::vector<std::pair<int64_t, int64_t>>& pieces) {
  DewPoints out{std::vector<float>(kTasks), std::vector<uint8_t>(kTasks)};
  PackedArgs args;  // the signature's order: operands, outputs, extents, the axis that is split
  args.Add(temperature.data());
  args.Add(humidity.data());
  args.Add(out.dew.data());
  args.Axes({kTasks}, 0);
  for (const auto& [begin, end] : pieces) {
    RunPart(kernel, args, {begin, begin}, end - begin, out.fault.data() + begin);
  }
  return out;
}

void TestDewPoint(const std::string& library) {
  std::vector<float> temperature = Uniform(-40, 55, 1), humidity = Uniform(1, 100, 2);
  humidity[3] = 0;
  humidity[700] = std::numeric_limits<float>::quiet_NaN();
  temperature[1000] = 61;
  std::mt19937_64 random(3);
  DewPoints first;
  for (const std::string& isa : RunnableIsas(library)) {
    const TandemKernelV1& kernel = FindKernel(Load(library, isa), "dew_point");
    for (int cut = 0; cut < 100; ++cut) {
      const DewPoints out = RunDewPoint(kernel, temperature, humidity, RandomCut(kTasks, random));
      if (first.dew.empty()) first = out;
      Expect(SameBytes(out.dew, first.dew) && out.fault == first.fault,
             "dew_point has the same bytes on " + isa + " for every cut");
    }
  }
  for (size_t i = 0; i < kTasks; ++i) {
    const int fault = i == 3 || i == 700 ? 1 : i == 1000 ? 2 : 0;
    Expect(first.fault[i] == fault, "task " + std::to_string(i) + " fails as it should");
    if (fault != 0) continue;
    const double c = temperature[i];
    const double g = std::log(humidity[i] / 100.0) + 17.625 * c / (243.04 + c);
    Expect(std::abs(first.dew[i] - 243.04 * g / (17.625 - g)) < 1e-4,
           "dew point " + std::to_string(i));
  }
}

void TestHeating(const std::string& library) {
  const std::vector<float> temperature = Uniform(-20, 35, 4);
  double expected = 0;
  float coldest = std::numeric_limits<float>::infinity();
  for (const float c : temperature) {
    expected += std::max(18.0 - c, 0.0);
    coldest = std::min(coldest, c);
  }
  std::string first;
  for (const std::string& isa : RunnableIsas(library)) {
    const TandemKernelV1& kernel = FindKernel(Load(library, isa), "heating");
    PackedArgs args;
    args.Add(temperature.data());
    args.Add(18.0f);
    args.Axes({kTasks}, 0);
    const AlignedBytes sum = MakePartial(kernel, args, kTasks);
    RunPart(kernel, args, {0, 0}, kTasks, nullptr, sum.data());
    Expect(std::abs(*sum.as<float>() - expected) < 1e-3 * expected, "degree hours on " + isa);
    Expect(*sum.as<float>(TANDEM_PARTIAL_ALIGN) == coldest, "the coldest hour on " + isa);
    const std::string bytes(sum.as<char>(), static_cast<size_t>(sum.size()));
    if (first.empty()) first = bytes;
    Expect(bytes == first, "heating has the same bytes on " + isa);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::printf("usage: weather_test weather.so\n");
    return 2;
  }
  TestDewPoint(argv[1]);
  TestHeating(argv[1]);
  std::printf(failures == 0 ? "passed\n" : "%d failed\n", failures);
  return failures == 0 ? 0 : 1;
}
