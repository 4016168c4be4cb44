// CpuDevice: the cores of a server as one device, a lane a core group.
//
//   ASSIGN_OR_RETURN(std::vector<CoreGroup> groups, FindCoreGroups(options));
//   CpuDevice device(groups, ReadMachineInfo(), &start_log);
//   device.Submit(0, &batch);
//
// A batch costs one enqueue into the group's arena, or none: one that is expected to take less than
// kSplitNanos and may run on the caller's thread does so when its lane is idle.
//
// Thread-safety: as Device. Ownership: `log` must outlive the device.
#ifndef TANDEM_WORKER_DEVICE_CPU_CPU_DEVICE_H_
#define TANDEM_WORKER_DEVICE_CPU_CPU_DEVICE_H_

#include <memory>
#include <vector>

#include "worker/device/cpu/batch_runner.h"
#include "worker/device/cpu/lane.h"
#include "worker/device/cpu/topology.h"
#include "worker/device/device.h"

namespace tandem::worker {

class CpuDevice final : public Device {
 public:
  // Slots that a device over these groups has: for sizing a start log before there is a device.
  static uint32_t SlotsOf(const std::vector<CoreGroup>& groups);

  // `nice`: of its threads, as nice(2) has it.
  CpuDevice(const std::vector<CoreGroup>& groups, const MachineInfo& machine, StartLog* log,
            int nice = 0);
  ~CpuDevice() override;

  const DeviceProperties& properties() const override { return properties_; }
  void Submit(uint32_t lane, Batch* batch) override;
  void SubmitWork(uint32_t lane, HostWork* work) override;
  std::unique_ptr<Accumulator> NewAccumulator(const TandemKernelV1* kernel,
                                              const void* args) override;
  void Collect(uint32_t lane, Accumulator* accumulator, void* into,
               std::function<void(absl::Status, int64_t)> done) override;

 private:
  void RunBatch(Crew* crew, uint32_t lane_threads, Batch* batch);

  DeviceProperties properties_;
  StartLog* const log_;
  BufferPool pool_;
  std::vector<SlotMemory> slots_;
  std::unique_ptr<SoloCrew> here_;  // The submitting thread; has the last slot.
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_CPU_CPU_DEVICE_H_
