// The CPU drivers: from a kernel's body to `range` of the ABI, one indirect call a run of tasks.
//
//   RunMap<K>        a vector loop over Each
//   RunReduction<K>  Each with a private partial; float sums in 32 lanes
//   RunBlocks<K>     Block, a phase being a vector loop
//   RunCells<K>      Item over rows of cells
//
// Thread-safety: a call touches its own parts only.
// Ownership: as the ABI says (abi.h).
#ifndef TANDEM_CPU_RANGE_H_
#define TANDEM_CPU_RANGE_H_

#include "tandem/abi.h"
#include "tandem/kernel_traits.h"

namespace tandem {
inline namespace TANDEM_ISA_NAMESPACE {

inline constexpr int64_t kRunBlock =
    4096;  // tasks between two looks at their fault bytes, while these are in cache

template <class K>
inline constexpr bool kCanFail = FaultsOf<K>::count > 1;

TANDEM_FN Task TaskAt(Task first, int64_t j) { return Task{first.id + j, first.row + j}; }

inline int64_t CountFailed(const uint8_t* fault, int64_t n) {
  unsigned any = 0;
  for (int64_t j = 0; j < n; ++j) any |= fault[j];
  if (any == 0) return 0;
  int64_t failed = 0;
  for (int64_t j = 0; j < n; ++j) failed += fault[j] != 0;
  return failed;
}

// A body by name, so that Each and Cheap share the loops.
template <class K>
struct CallEach {
  template <class... P>
  TANDEM_FN static auto Call(Task t, const typename K::Args& a, P&... partial) {
    return K::Each(t, a, partial...);
  }
};
template <class K>
struct CallCheap {
  template <class... P>
  TANDEM_FN static auto Call(Task t, const typename K::Args& a, P&... partial) {
    return K::Cheap(t, a, partial...);
  }
};

template <class K, class Body>
TANDEM_FLATTEN int64_t RunMap(const Run& run, const typename K::Args& args) {
  const typename K::Args a = args;  // a copy cannot alias outputs
  const Task first = run.first;
  if constexpr (!kCanFail<K>) {
    const int64_t n = run.tasks;
    TANDEM_INDEPENDENT
    for (int64_t j = 0; j < n; ++j) Body::Call(TaskAt(first, j), a);
    return 0;
  } else {
    // The fault byte also makes the vector loop take as many tasks at once as a register has bytes:
    // four or more independent chains of floats, which hide the latency of long bodies.
    int64_t failed = 0;
    for (int64_t begin = 0; begin < run.tasks; begin += kRunBlock) {
      const int64_t left = run.tasks - begin, n = left < kRunBlock ? left : kRunBlock;
      const Task block = TaskAt(first, begin);
      uint8_t* const fault = run.fault + begin;
      TANDEM_INDEPENDENT
      for (int64_t j = 0; j < n; ++j) fault[j] = Body::Call(TaskAt(block, j), a).code;
      failed += CountFailed(fault, n);
    }
    return failed;
  }
}

// Where the outputs with a reduction lie in a partial.
struct PartialLayout {
  int64_t offset[kMaxFields];
  int64_t elements[kMaxFields];
  int64_t bytes;
};

template <class K>
PartialLayout LayOutPartial(const void* args) {
  constexpr const ParsedSignature& s = kSignatureOf<K>;
  PartialLayout layout;
  int64_t end = 0;
  int output = 0;
  for (int i = 0; i < s.fields; ++i) {
    if (s.field[i].reduction == Reduction::kNone) continue;
    int64_t start = (end + TANDEM_PARTIAL_ALIGN - 1) / TANDEM_PARTIAL_ALIGN * TANDEM_PARTIAL_ALIGN;
    layout.offset[output] = start;
    layout.elements[output] = FieldElements(s, i, args);
    end = start + layout.elements[output++] * DtypeBytes(s.field[i].dtype);
  }
  layout.bytes = end;
  return layout;
}

// Calls f(reducer, output) for each reducer of a partial, in order.
template <class P, class F>
TANDEM_FN void EachReducer(P& partial, F f) {
  WithReducers(partial, [&](auto&... reducer) {
    int output = 0;
    (f(reducer, output++), ...);
    return 0;
  });
}

// A reducer that works on the partial in memory.
template <class P>
TANDEM_FN P BindPartial(const PartialLayout& layout, void* memory) {
  P partial{};
  EachReducer(partial, [&](auto& reducer, int output) {
    using R = Plain<decltype(reducer)>;
    auto* p =
        reinterpret_cast<typename R::Element*>(static_cast<char*>(memory) + layout.offset[output]);
    if constexpr (R::kInside) {
      reducer.value = *p;
    } else {
      reducer.p = p;
    }
  });
  return partial;
}

template <class P>
TANDEM_FN void StorePartial(const PartialLayout& layout, const P& partial, void* memory) {
  EachReducer(partial, [&](auto& reducer, int output) {
    using R = Plain<decltype(reducer)>;
    if constexpr (R::kInside) {
      *reinterpret_cast<typename R::Element*>(static_cast<char*>(memory) + layout.offset[output]) =
          reducer.value;
    }
  });
}

template <class T>
TANDEM_FN void InitElements(Reduction reduction, T* p, int64_t n) {
  const T identity = ReductionIdentity<T>(reduction);
  for (int64_t j = 0; j < n; ++j) p[j] = identity;
}

template <class P>
void InitPartial(const PartialLayout& layout, void* memory) {
  P partial{};
  EachReducer(partial, [&](auto& reducer, int output) {
    using R = Plain<decltype(reducer)>;
    auto* p =
        reinterpret_cast<typename R::Element*>(static_cast<char*>(memory) + layout.offset[output]);
    InitElements(R::kReduction, p, layout.elements[output]);
  });
}

// `into` and `from` never overlap.
template <class P>
void MergePartial(const PartialLayout& layout, void* into, const void* from) {
  P partial{};
  EachReducer(partial, [&](auto& reducer, int output) {
    using R = Plain<decltype(reducer)>;
    using T = typename R::Element;
    T* a = reinterpret_cast<T*>(static_cast<char*>(into) + layout.offset[output]);
    const T* b = reinterpret_cast<const T*>(static_cast<const char*>(from) + layout.offset[output]);
    const int64_t n = layout.elements[output];
    TANDEM_INDEPENDENT
    for (int64_t j = 0; j < n; ++j) a[j] = Reduce(R::kReduction, a[j], b[j]);
  });
}

// One task of a reduction; its fault byte is written where the kernel declares faults.
template <class K, class Body, class P>
TANDEM_FN void ReduceTask(const Run& run, const typename K::Args& a, int64_t j, P& partial) {
  if constexpr (kCanFail<K>) {
    run.fault[j] = Body::Call(TaskAt(run.first, j), a, partial).code;
  } else {
    Body::Call(TaskAt(run.first, j), a, partial);
  }
}

// Elements from a lane of a LaneSums to the next: whole cache lines, so that lanes never share one.
template <class T>
TANDEM_FN int64_t LanePitch(int64_t elements) {
  constexpr int64_t kLine = 64 / sizeof(T);
  return (elements + kLine - 1) / kLine * kLine;
}

template <class P>
int64_t LaneBytes(const PartialLayout& layout) {
  P partial{};
  int64_t bytes = 0;
  EachReducer(partial, [&](auto& reducer, int output) {
    using R = Plain<decltype(reducer)>;
    using T = typename R::Element;
    if constexpr (R::kInLanes && !R::kInside) {
      bytes += kLanes * LanePitch<T>(layout.elements[output]) * static_cast<int64_t>(sizeof(T));
    }
  });
  return bytes;
}

// Gives lane `lane` its sums, at zero; what is not in lanes is shared (arrays) or starts at its
// identity (scalars).
template <class P>
TANDEM_FN P BindLane(const PartialLayout& layout, void* memory, void* scratch, int lane) {
  P partial{};
  char* next = static_cast<char*>(scratch);
  EachReducer(partial, [&](auto& reducer, int output) {
    using R = Plain<decltype(reducer)>;
    using T = typename R::Element;
    if constexpr (R::kInside) {
      reducer.value = ReductionIdentity<T>(R::kReduction);
    } else if constexpr (R::kInLanes) {
      const int64_t pitch = LanePitch<T>(layout.elements[output]);
      reducer.p = reinterpret_cast<T*>(next) + lane * pitch;
      InitElements(R::kReduction, reducer.p, layout.elements[output]);
      next += kLanes * pitch * static_cast<int64_t>(sizeof(T));
    } else {
      reducer.p = reinterpret_cast<T*>(static_cast<char*>(memory) + layout.offset[output]);
    }
  });
  return partial;
}

// lane[0] becomes lane[0] + lane[other].
template <class P>
TANDEM_FN void FoldLane(const PartialLayout& layout, P& lane, P& other) {
  WithReducers(lane, [&](auto&... a) {
    WithReducers(other, [&](auto&... b) {
      int output = 0;
      (FoldReducer(layout.elements[output++], a, b), ...);
      return 0;
    });
    return 0;
  });
}
template <class R>
TANDEM_FN void FoldReducer(int64_t elements, R& a, R& b) {
  if constexpr (R::kInside) {
    a.value = Reduce(R::kReduction, a.value, b.value);
  } else if constexpr (R::kInLanes) {
    typename R::Element *x = a.p, *y = b.p;
    TANDEM_INDEPENDENT
    for (int64_t j = 0; j < elements; ++j) x[j] += y[j];
  }
}

// Adds what lane 0 has gathered to the partial in memory.
template <class P>
void AddLanes(const PartialLayout& layout, P& lane, void* memory) {
  EachReducer(lane, [&](auto& reducer, int output) {
    using R = Plain<decltype(reducer)>;
    using T = typename R::Element;
    T* p = reinterpret_cast<T*>(static_cast<char*>(memory) + layout.offset[output]);
    if constexpr (R::kInside) {
      *p = Reduce(R::kReduction, *p, reducer.value);
    } else if constexpr (R::kInLanes) {
      for (int64_t j = 0; j < layout.elements[output]; ++j)
        p[j] = Reduce(R::kReduction, p[j], reducer.p[j]);
    }
  });
}

// Task j of the run adds to lane j mod 32. Bodies that only have scalars in lanes are vectorised
// over lanes; the others have loops of their own.
template <class K, class Body, class P>
TANDEM_FLATTEN void RunLanes(const Run& run, const typename K::Args& args, P* lane) {
  const typename K::Args a = args;
  int64_t j = 0;
  if constexpr (AllInside<K>()) {
    for (; j + kLanes <= run.tasks; j += kLanes) {
      for (int l = 0; l < kLanes; ++l) ReduceTask<K, Body>(run, a, j + l, lane[l]);
    }
  }
  for (; j < run.tasks; ++j) ReduceTask<K, Body>(run, a, j, lane[j % kLanes]);
}

template <class K, class Body>
void ReduceInLanes(const Run& run, const typename K::Args& a, const PartialLayout& layout,
                   void* memory) {
  using P = typename PartialOf<K>::type;
  const int used = run.tasks < kLanes ? static_cast<int>(run.tasks) : kLanes;
  P lane[kLanes];
  for (int l = 0; l < used; ++l) lane[l] = BindLane<P>(layout, memory, run.scratch, l);
  RunLanes<K, Body>(run, a, lane);
  for (int w = kLanes / 2; w > 0; w /= 2) {
    for (int l = 0; l < w && l + w < used; ++l) FoldLane(layout, lane[l], lane[l + w]);
  }
  if (used > 0) AddLanes(layout, lane[0], memory);
}

template <class K, class Body, class P>
TANDEM_FLATTEN void RunSingly(const Run& run, const typename K::Args& args, P* memory) {
  const typename K::Args a = args;
  P partial = *memory;  // a copy whose address nothing else has stays in registers
  for (int64_t j = 0; j < run.tasks; ++j) ReduceTask<K, Body>(run, a, j, partial);
  *memory = partial;
}

template <class K, class Body>
int64_t RunReduction(const Run& run, const typename K::Args& args, void* memory) {
  using P = typename PartialOf<K>::type;
  const PartialLayout layout = LayOutPartial<K>(&args);
  if constexpr (InLanes<K>()) {
    ReduceInLanes<K, Body>(run, args, layout, memory);
  } else {
    P partial = BindPartial<P>(layout, memory);
    RunSingly<K, Body>(run, args, &partial);
    StorePartial(layout, partial, memory);
  }
  return kCanFail<K> ? CountFailed(run.fault, run.tasks) : 0;
}

template <class K>
TANDEM_FLATTEN int64_t RunBlocks(const Run& run, const typename K::Args& args) {
  const typename K::Args a = args;
  const Group group(run.scratch);
  for (int64_t j = 0; j < run.tasks; ++j) {
    if constexpr (kCanFail<K>) {
      run.fault[j] = K::Block(group, TaskAt(run.first, j), a).code;
    } else {
      K::Block(group, TaskAt(run.first, j), a);
    }
  }
  return kCanFail<K> ? CountFailed(run.fault, run.tasks) : 0;
}

// A task's `work` (abi.h): what Item needs.
template <class K>
struct Work {
  Stage stage;
  alignas(16) typename K::Args args;
  alignas(16) typename K::Shape shape;
};

template <class K>
TANDEM_FLATTEN int64_t RunCells(const Work<K>& work, int64_t first_row, int64_t rows) {
  const Stage stage = work.stage;
  const typename K::Args a = work.args;
  const typename K::Shape shape = work.shape;
  for (int64_t y = first_row; y < first_row + rows; ++y) {
    TANDEM_INDEPENDENT
    for (int32_t x = 0; x < stage.across; ++x)
      K::Item(Cell{x, static_cast<int32_t>(y)}, a, shape, stage);
  }
  return 0;
}

template <class K, class Body>
int64_t RunPart(const TandemPart& part, void* scratch) {
  if constexpr (kHasItem<K>) {
    return RunCells<K>(*static_cast<const Work<K>*>(part.args), part.first.row, part.tasks);
  } else {
    using Args = typename K::Args;
    const Args& args = *static_cast<const Args*>(part.args);
    const Run run{{part.first.id, part.first.row}, part.tasks, part.fault, scratch, part.partial};
    constexpr bool kOwnRange = kHasRange<K> && kSame<Body, CallEach<K>>;
    if constexpr (kHasCpu<K>) {
      return K::Cpu(run, args);
    } else if constexpr (kHasBlock<K>) {
      return RunBlocks<K>(run, args);
    } else if constexpr (kOwnRange && kHasPartial<K>) {
      using P = typename PartialOf<K>::type;
      const PartialLayout layout = LayOutPartial<K>(part.args);
      P partial = BindPartial<P>(layout, part.partial);
      int64_t failed = K::Range(run, args, partial);
      StorePartial(layout, partial, part.partial);
      return failed;
    } else if constexpr (kOwnRange) {
      return K::Range(run, args);
    } else if constexpr (kHasPartial<K>) {
      return RunReduction<K, Body>(run, args, part.partial);
    } else {
      return RunMap<K, Body>(run, args);
    }
  }
}

// An exception that leaves a body ends the process here, in the kernel's own frame: whose task it
// was is not known, nor what it left half done. The executor is lost, and suspects run alone.
template <class K, class Body>
int64_t CpuRange(const TandemPart* parts, int32_t count, void* scratch) noexcept {
  int64_t failed = 0;
  for (int32_t i = 0; i < count; ++i) failed += RunPart<K, Body>(parts[i], scratch);
  return failed;
}

template <class K>
int64_t ScratchBytes(const void* args) noexcept {
  int64_t bytes = 0;
  if constexpr (!kHasItem<K>) {
    const auto& a = *static_cast<const typename K::Args*>(args);
    if constexpr (kHasShared<K>) bytes = K::SharedBytes(a);
    if constexpr (kHasScratch<K>) bytes = K::ScratchBytes(a);
    if constexpr (InLanes<K>()) {
      const int64_t lanes = LaneBytes<typename PartialOf<K>::type>(LayOutPartial<K>(args));
      bytes = bytes > lanes ? bytes : lanes;
    }
  }
  return bytes;
}

}  // namespace TANDEM_ISA_NAMESPACE
}  // namespace tandem

#endif  // TANDEM_CPU_RANGE_H_
