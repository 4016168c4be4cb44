// How near operands that come from the host's memory and results that go back there come to what
// binds: the host's cores that feed the device, its copies, or the grid; with the real engine.
//
// Thread-safety: one thread.
#ifndef TANDEM_BENCH_SUPPORT_STREAMING_H_
#define TANDEM_BENCH_SUPPORT_STREAMING_H_

#include <cstddef>

#include "bench/support/merging.h"
#include "bench/support/report.h"
#include "bench/support/settings.h"

namespace tandem::bench {

// Bytes a second of the device by itself; `grid`: saxpy's, read and written.
struct DeviceRates {
  double up = 0, down = 0, grid = 0;
};

// saxpy over arrays of `bytes` each. The feed is measured beside it.
void MeasureStreamed(const GpuUnderTest& gpu, const DeviceRates& rates, size_t bytes,
                     const Settings& settings, Report* report);

}  // namespace tandem::bench

#endif  // TANDEM_BENCH_SUPPORT_STREAMING_H_
