// What merging saves at an executor that has a device with a memory of its own: leases of one task
// of as many jobs, each with a scalar of its own, all queued at once, joined into a few grids and
// each by a grid of its own. With the real executor and engine, over any runtime.
//
// Thread-safety: one thread.
#ifndef TANDEM_BENCH_SUPPORT_MERGING_H_
#define TANDEM_BENCH_SUPPORT_MERGING_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "bench/support/report.h"
#include "bench/support/settings.h"
#include "common/model/lease_messages.h"
#include "kernels/sdk/abi.h"
#include "worker/device/gpu_runtime.h"
#include "worker/executor/kernel_table.h"

namespace tandem::bench {

struct GpuUnderTest {
  std::function<std::unique_ptr<worker::GpuRuntime>()> open;  // may be called twice
  DeviceKind kind = DeviceKind::kEmulated;
  const TandemLibraryV1* kernels = nullptr;
  worker::KernelForm form = worker::KernelForm::kHost;
};

// How many times as fast `jobs` leases are when they may be joined, with launches and copies.
void MeasureMerging(const GpuUnderTest& gpu, uint64_t jobs, const Settings& settings,
                    Report* report);
// How soon after its message the grid of a lease is launched that is the only one.
void MeasureLoneLease(const GpuUnderTest& gpu, const Settings& settings, Report* report);

}  // namespace tandem::bench

#endif  // TANDEM_BENCH_SUPPORT_MERGING_H_
