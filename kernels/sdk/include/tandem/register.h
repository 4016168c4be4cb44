// Makes the ABI's table of a kernel from its struct. For the build's generated sources
// (tandem_add_kernels); a kernel's author does not include it.
//
//   extern "C" const TandemKernelV1 table =
//   tandem::MakeKernel<TANDEM_KERNELS::Saxpy>(content_hash);
//
// Thread-safety: tables are constants.
#ifndef TANDEM_REGISTER_H_
#define TANDEM_REGISTER_H_

#include <new>

#include "tandem/abi.h"
#include "tandem/cpu_range.h"

namespace tandem {
inline namespace TANDEM_ISA_NAMESPACE {

// Runs a host stage; no exception leaves it.
template <class F>
int32_t Guarded(F stage) noexcept {
#if defined(__cpp_exceptions)
  try {
    return stage().code;
  } catch (const std::bad_alloc&) {
    return TANDEM_FAULT_OUT_OF_MEMORY;
  } catch (...) {
    return TANDEM_FAULT_INTERNAL;
  }
#else
  return stage().code;
#endif
}

template <class K>
struct StageEntries {
  using Args = typename K::Args;
  using Shape = typename K::Shape;

  static int32_t Measure(const void* args, TandemTask task, void* shape, TandemNeed* need) {
    return Guarded([&] {
      return K::Measure(*static_cast<const Args*>(args), Task{task.id, task.row},
                        static_cast<Shape*>(shape), need);
    });
  }
  static int32_t Prepare(const void* args, TandemTask task, const void* shape,
                         const TandemStage* stage, void* memory) {
    const auto& a = *static_cast<const Args*>(args);
    const auto& s = *static_cast<const Shape*>(shape);
    new (memory) Work<K>{*stage, a, s};
    return Guarded([&] { return K::Prepare(a, Task{task.id, task.row}, s, *stage); });
  }
  static int32_t Finish(const void* args, TandemTask task, const void* shape, const void* memory) {
    const auto& work = *static_cast<const Work<K>*>(memory);
    return Guarded([&] {
      return K::Finish(*static_cast<const Args*>(args), Task{task.id, task.row},
                       *static_cast<const Shape*>(shape), work.stage);
    });
  }
};

// As in CpuRange, an exception ends the process here.
template <class K>
struct PartialEntries {
  static int64_t Bytes(const void* args, int64_t tasks) noexcept {
    if constexpr (kHasMerge<K>) {
      return K::PartialBytes(*static_cast<const typename K::Args*>(args), tasks);
    } else {
      return LayOutPartial<K>(args).bytes;
    }
  }
  static void Init(const void* args, void* partial) noexcept {
    if constexpr (kHasMerge<K>) {
      K::InitPartial(*static_cast<const typename K::Args*>(args), partial);
    } else {
      tandem::InitPartial<typename PartialOf<K>::type>(LayOutPartial<K>(args), partial);
    }
  }
  static int32_t Merge(const void* args, void* into, int64_t into_tasks, const void* from,
                       int64_t from_tasks) noexcept {
    if constexpr (kHasMerge<K>) {
      return K::Merge(*static_cast<const typename K::Args*>(args), into, into_tasks, from,
                      from_tasks);
    } else {
      MergePartial<typename PartialOf<K>::type>(LayOutPartial<K>(args), into, from);
      return 0;
    }
  }
};

template <class K>
constexpr uint32_t KernelFlags() {
  uint32_t flags = 0;
  if (InLanes<K>()) flags |= TANDEM_WHOLE_LEAF;
  if (kHasItem<K>) flags |= TANDEM_HOST_STAGES;
  if (kIsOwn<K>) flags |= TANDEM_OWN_LAUNCHER;
  if (kHasBlock<K>) flags |= TANDEM_BLOCK_A_TASK;
  if (kHasMerge<K>) flags |= TANDEM_OWN_MERGE;
  return flags;
}

// What is the same on every device.
template <class K>
constexpr TandemKernelV1 DescribeKernel(uint64_t content_hash) {
  static_assert(CheckKernel<K>());
  TandemKernelV1 k{};
  k.struct_bytes = sizeof(TandemKernelV1);
  k.flags = KernelFlags<K>();
  k.name = K::kName;
  k.signature = K::kSignature;
  k.faults = FaultsOf<K>::value;
  k.fault_count = FaultsOf<K>::count;
  k.output_class = static_cast<uint32_t>(K::kClass);
  k.content_hash = content_hash;
  k.tolerance = ToleranceOf<K>::value;
  k.split_axes = kTaskAxes<K>.text;
  k.cost_ns = K::kCostNs;
  k.cost_units = CostUnitsOf<K>::value;
  k.grain = GrainOf<K>::value;
  k.summary = SummaryOf<K>::value;
  k.args_bytes = static_cast<uint32_t>(kSignatureOf<K>.args_bytes);
  if constexpr (kHasPartial<K> || kHasMerge<K>) {
    k.partial_bytes = &PartialEntries<K>::Bytes;
    k.partial_init = &PartialEntries<K>::Init;
    k.merge = &PartialEntries<K>::Merge;
  }
  if constexpr (kHasItem<K>) {
    k.shape_bytes = sizeof(typename K::Shape);
    k.work_bytes = sizeof(Work<K>);
    k.work_args_offset = offsetof(Work<K>, args);
    k.measure = &StageEntries<K>::Measure;
    k.prepare = &StageEntries<K>::Prepare;
    k.finish = &StageEntries<K>::Finish;
  }
  return k;
}

// The table of a CPU library.
template <class K>
constexpr TandemKernelV1 MakeKernel(uint64_t content_hash) {
  TandemKernelV1 k = DescribeKernel<K>(content_hash);
  k.scratch_bytes = &ScratchBytes<K>;
  k.range = &CpuRange<K, CallEach<K>>;
  if constexpr (kHasCheap<K>) k.range_cheap = &CpuRange<K, CallCheap<K>>;
  return k;
}

}  // namespace TANDEM_ISA_NAMESPACE
}  // namespace tandem

#endif  // TANDEM_REGISTER_H_
