// What merging saves at an executor, and how soon a lone lease is launched: on an emulated device
// with the paced clock, whose copies and launches take 5 microseconds each.
#include <memory>

#include "bench/support/merging.h"
#include "bench/support/report.h"
#include "bench/support/settings.h"
#include "worker/device/emulated/emulated_gpu.h"

namespace tandem::bench {
namespace {

std::unique_ptr<worker::GpuRuntime> Paced() {
  worker::EmulatedOptions options;
  options.clock = worker::EmulatedClock::kPaced;
  return std::make_unique<worker::EmulatedGpu>(options);
}

int Main(int argc, char** argv) {
  const Settings settings = ParseSettings(
      argc, argv, "What merging saves at an executor, and how soon a lone lease is launched.");
  Report report(settings, "merging");
  const GpuUnderTest gpu = {&Paced, DeviceKind::kEmulated, tandem_builtin_kernels()};
  MeasureMerging(gpu, settings.quick ? 1000 : 10'000, settings, &report);
  MeasureLoneLease(gpu, settings, &report);
  return report.Finish();
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::Main(argc, argv); }
