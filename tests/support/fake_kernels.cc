#include "tests/support/fake_kernels.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

// Another build of the same kernels has another content.
#ifndef TANDEM_FAKE_BUILD
#define TANDEM_FAKE_BUILD 0
#endif

namespace tandem::testing {
namespace {

TandemKernelV1 Table(const char* name, const char* signature, uint64_t hash, uint32_t args_bytes) {
  TandemKernelV1 kernel = {};
  kernel.struct_bytes = sizeof(kernel);
  kernel.name = name;
  kernel.signature = signature;
  kernel.content_hash = hash + TANDEM_FAKE_BUILD;
  kernel.output_class = TANDEM_CLASS_EXACT;
  kernel.split_axes = "n";
  kernel.cost_ns = 5;
  kernel.cost_units = "1";
  kernel.args_bytes = args_bytes;
  static const char* const ok[] = {"ok"};
  kernel.faults = ok;
  kernel.fault_count = 1;
  return kernel;
}

// Calls `part` for each part and adds up what failed.
template <int64_t (*F)(const TandemPart&, void*)>
int64_t Parts(const TandemPart* parts, int32_t count, void* scratch) {
  int64_t failed = 0;
  for (int32_t i = 0; i < count; ++i) failed += F(parts[i], scratch);
  return failed;
}

struct DoubleArgs {
  const float* x;
  float* y;
};
int64_t DoublePart(const TandemPart& part, void*) {
  const auto* args = static_cast<const DoubleArgs*>(part.args);
  int64_t failed = 0;
  for (int64_t i = 0; i < part.tasks; ++i) {
    const float x = args->x[part.first.row + i];
    args->y[part.first.row + i] = 2 * x;
    part.fault[i] = x < 0;
    failed += x < 0;
  }
  return failed;
}
TandemKernelV1 MakeDouble() {
  TandemKernelV1 kernel = Table("double_it", "x[n]:f32 -> y[n]:f32", 101, sizeof(DoubleArgs));
  static const char* const faults[] = {"ok", "x is negative"};
  kernel.faults = faults;
  kernel.fault_count = 2;
  kernel.range = &Parts<DoublePart>;
  return kernel;
}

struct TallyArgs {
  int32_t step;
};
struct alignas(64) Tally {
  uint64_t count[4];
  alignas(64) uint64_t seen;
};
int64_t TallyPart(const TandemPart& part, void*) {
  const int32_t step = static_cast<const TallyArgs*>(part.args)->step;
  auto* tally = static_cast<Tally*>(part.partial);
  for (int64_t i = 0; i < part.tasks; ++i) {
    tally->count[(part.first.id + i) % 4] += static_cast<uint64_t>(step);
  }
  tally->seen += static_cast<uint64_t>(part.tasks);
  return 0;
}
int32_t TallyMerge(const void*, void* into, int64_t, const void* from, int64_t) {
  auto* a = static_cast<Tally*>(into);
  const auto* b = static_cast<const Tally*>(from);
  for (int i = 0; i < 4; ++i) a->count[i] += b->count[i];
  a->seen += b->seen;
  return 0;
}
TandemKernelV1 MakeTally() {
  TandemKernelV1 kernel =
      Table("tally", "axis n, step:i32 = 1 -> count[4]:u64 : sum, seen:u64 : sum", 102,
            sizeof(TallyArgs));
  kernel.range = &Parts<TallyPart>;
  kernel.partial_bytes = [](const void*, int64_t) { return int64_t{sizeof(Tally)}; };
  kernel.partial_init = [](const void*, void* partial) { std::memset(partial, 0, sizeof(Tally)); };
  kernel.merge = &TallyMerge;
  return kernel;
}

struct FloatSumArgs {
  const float* x;
};
int64_t FloatSumPart(const TandemPart& part, void*) {
  const float* x = static_cast<const FloatSumArgs*>(part.args)->x;
  auto* total = static_cast<float*>(part.partial);
  float sum = 0;
  for (int64_t i = 0; i < part.tasks; ++i) sum += x[part.first.row + i];
  *total += sum;
  return 0;
}
TandemKernelV1 MakeFloatSum() {
  TandemKernelV1 kernel =
      Table("float_sum", "x[n]:f32 -> total:f32 : sum", 103, sizeof(FloatSumArgs));
  kernel.flags = TANDEM_WHOLE_LEAF;
  kernel.output_class = TANDEM_CLASS_BITWISE;
  kernel.range = &Parts<FloatSumPart>;
  kernel.partial_bytes = [](const void*, int64_t) { return int64_t{sizeof(float)}; };
  kernel.partial_init = [](const void*, void* partial) { *static_cast<float*>(partial) = 0; };
  kernel.merge = [](const void*, void* into, int64_t, const void* from, int64_t) {
    *static_cast<float*>(into) += *static_cast<const float*>(from);
    return 0;
  };
  return kernel;
}

struct ShoutArgs {
  const TandemBytes* text;
  const TandemSink* loud;
};
struct ShoutWork {
  TandemStage stage;
  int64_t size;
};
int64_t ShoutPart(const TandemPart& part, void*) {
  const auto* work = static_cast<const ShoutWork*>(part.args);
  for (int64_t i = 0; i < part.tasks; ++i) {
    const uint8_t c = work->stage.in[part.first.row + i];
    work->stage.out[part.first.row + i] = c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c;
  }
  return 0;
}
TandemKernelV1 MakeShout() {
  TandemKernelV1 kernel = Table("shout", "text[n]:bytes -> loud[n]:bytes", 104, sizeof(ShoutArgs));
  static const char* const faults[] = {"ok", "the text is empty"};
  kernel.faults = faults;
  kernel.fault_count = 2;
  kernel.flags = TANDEM_HOST_STAGES;
  kernel.shape_bytes = sizeof(int64_t);
  kernel.work_bytes = sizeof(ShoutWork);
  kernel.range = &Parts<ShoutPart>;
  kernel.measure = [](const void* args, TandemTask task, void* shape, TandemNeed* need) {
    const int64_t size = static_cast<const ShoutArgs*>(args)->text[task.row].size;
    *static_cast<int64_t*>(shape) = size;
    *need = {size, size, 1, static_cast<int32_t>(size)};
    return size == 0 ? 1 : 0;
  };
  kernel.prepare = [](const void* args, TandemTask task, const void* shape,
                      const TandemStage* stage, void* work) {
    auto* mine = static_cast<ShoutWork*>(work);
    mine->stage = *stage;
    mine->size = *static_cast<const int64_t*>(shape);
    std::memcpy(stage->in, static_cast<const ShoutArgs*>(args)->text[task.row].data,
                static_cast<size_t>(mine->size));
    return 0;
  };
  kernel.finish = [](const void* args, TandemTask task, const void*, const void* work) {
    const auto* mine = static_cast<const ShoutWork*>(work);
    const TandemSink& sink = static_cast<const ShoutArgs*>(args)->loud[task.row];
    // In two writes: a sink appends.
    const int64_t half = mine->size / 2;
    return sink.write(sink.context, mine->stage.out, half) |
           sink.write(sink.context, mine->stage.out + half, mine->size - half);
  };
  return kernel;
}

struct WindowArgs {
  const uint8_t* base;
  int32_t width;
  uint32_t* total;
};
int64_t WindowPart(const TandemPart& part, void* scratch) {
  const auto* args = static_cast<const WindowArgs*>(part.args);
  auto* window = static_cast<uint8_t*>(scratch);
  for (int64_t i = 0; i < part.tasks; ++i) {
    std::memcpy(window, args->base + part.first.row + i, static_cast<size_t>(args->width));
    uint32_t total = 0;
    for (int32_t j = 0; j < args->width; ++j) total += window[j];
    args->total[part.first.row + i] = total;
  }
  return 0;
}
TandemKernelV1 MakeWindow() {
  TandemKernelV1 kernel =
      Table("window_sum", "base[n + width - 1]:u8, width:i32 = 3 in [1, 64] -> total[n]:u32", 105,
            sizeof(WindowArgs));
  kernel.range = &Parts<WindowPart>;
  kernel.scratch_bytes = [](const void* args) {
    return int64_t{static_cast<const WindowArgs*>(args)->width};
  };
  return kernel;
}

struct ColumnArgs {
  const float* x;
  float* y;
  int64_t n, k;
};
int64_t ColumnPart(const TandemPart& part, void*) {
  const auto* args = static_cast<const ColumnArgs*>(part.args);
  for (int64_t i = part.first.row; i < part.first.row + part.tasks; ++i) {
    float sum = 0;
    for (int64_t j = 0; j < args->k; ++j) sum += args->x[j * args->n + i];
    args->y[i] = sum;
  }
  return 0;
}
TandemKernelV1 MakeColumn() {
  TandemKernelV1 kernel =
      Table("column_sum", "axis n, x[k,n]:f32 -> y[n]:f32", 106, sizeof(ColumnArgs));
  kernel.range = &Parts<ColumnPart>;
  return kernel;
}

struct ScaledArgs {
  const float* x;
  const float* table;
  float* y;
  int64_t n, m;
};
int64_t ScaledPart(const TandemPart& part, void*) {
  const auto* args = static_cast<const ScaledArgs*>(part.args);
  auto* top = static_cast<float*>(part.partial);
  for (int64_t i = 0; i < part.tasks; ++i) {
    const float y = args->x[part.first.row + i] * args->table[(part.first.id + i) % args->m];
    args->y[part.first.row + i] = y;
    *top = std::max(*top, y);
  }
  return 0;
}
TandemKernelV1 MakeScaled() {
  TandemKernelV1 kernel =
      Table("scaled", "x[n]:f32, table[m]:f32 -> y[n]:f32, top:f32 : max", 107, sizeof(ScaledArgs));
  kernel.range = &Parts<ScaledPart>;
  kernel.partial_bytes = [](const void*, int64_t) { return int64_t{sizeof(float)}; };
  kernel.partial_init = [](const void*, void* partial) {
    *static_cast<float*>(partial) = -std::numeric_limits<float>::infinity();
  };
  kernel.merge = [](const void*, void* into, int64_t, const void* from, int64_t) {
    auto* a = static_cast<float*>(into);
    *a = std::max(*a, *static_cast<const float*>(from));
    return 0;
  };
  return kernel;
}

struct ListedArgs {
  const int32_t* x;
};
// The count lies behind a list of so many tasks.
int64_t CountAt(int64_t tasks) {
  return (tasks * 4 + TANDEM_PARTIAL_ALIGN - 1) / TANDEM_PARTIAL_ALIGN * TANDEM_PARTIAL_ALIGN;
}
int64_t* CountBehind(void* partial, int64_t tasks) {
  return reinterpret_cast<int64_t*>(static_cast<char*>(partial) + CountAt(tasks));
}
int64_t ListedPart(const TandemPart& part, void*) {
  const int32_t* x = static_cast<const ListedArgs*>(part.args)->x;
  auto* list = static_cast<int32_t*>(part.partial);
  int64_t failed = 0;
  for (int64_t i = 0; i < part.tasks; ++i) {
    const int32_t value = x[part.first.row + i];
    part.fault[i] = value < 0;
    failed += value < 0;
    list[i] += value < 0 ? 0 : value;  // finds zeros
  }
  *CountBehind(part.partial, part.tasks) += part.tasks - failed;
  return failed;
}
int32_t ListedMerge(const void*, void* into, int64_t into_tasks, const void* from,
                    int64_t from_tasks) {
  const int64_t listed =
      *CountBehind(into, into_tasks) + *CountBehind(const_cast<void*>(from), from_tasks);
  std::memcpy(static_cast<int32_t*>(into) + into_tasks, from, static_cast<size_t>(from_tasks) * 4);
  *CountBehind(into, into_tasks + from_tasks) = listed;
  return 0;
}
TandemKernelV1 MakeListed() {
  TandemKernelV1 kernel = Table("listed", "x[n]:i32 -> list[n]:i32 : merge, listed:i64 : merge",
                                110, sizeof(ListedArgs));
  static const char* const faults[] = {"ok", "x is negative"};
  kernel.faults = faults;
  kernel.fault_count = 2;
  kernel.flags = TANDEM_OWN_MERGE | TANDEM_OWN_LAUNCHER;
  kernel.range = &Parts<ListedPart>;
  kernel.partial_bytes = [](const void*, int64_t tasks) {
    return CountAt(tasks) + int64_t{sizeof(int64_t)};
  };
  kernel.partial_init = [](const void*, void*) {};
  kernel.merge = &ListedMerge;
  return kernel;
}

template <int kFactor>
int64_t LoosePart(const TandemPart& part, void*) {
  const auto* args = static_cast<const DoubleArgs*>(part.args);
  for (int64_t i = 0; i < part.tasks; ++i) {
    const bool last = i + 1 == part.tasks;
    args->y[part.first.row + i] = kFactor * args->x[part.first.row + i] + (last ? 0.5f : 0);
  }
  return 0;
}
template <int kFactor>
TandemKernelV1 MakeLoose() {
  TandemKernelV1 kernel = Table("loose", "x[n]:f32 -> y[n]:f32", 111, sizeof(DoubleArgs));
  kernel.output_class = TANDEM_CLASS_TOLERANT;
  kernel.tolerance = 0.5;
  kernel.range = &Parts<LoosePart<kFactor>>;
  return kernel;
}

constexpr int64_t kEveryTask = -1;

struct DieArgs {
  int64_t at;
  uint8_t* y;
};
int64_t DiePart(const TandemPart& part, void*) {
  const auto* args = static_cast<const DieArgs*>(part.args);
  for (int64_t i = 0; i < part.tasks; ++i) {
    if (args->at == kEveryTask || part.first.id + i == args->at) std::abort();
    args->y[part.first.row + i] = 1;
  }
  return 0;
}
TandemKernelV1 MakeDie() {
  TandemKernelV1 kernel = Table("die_at", "axis n, at:i64 -> y[n]:u8", 108, sizeof(DieArgs));
  kernel.range = &Parts<DiePart>;
  return kernel;
}

int64_t HangPart(const TandemPart& part, void*) {
  const auto* args = static_cast<const DieArgs*>(part.args);
  for (int64_t i = 0; i < part.tasks; ++i) {
    if (part.first.id + i == args->at) ++HangsBegun();
    while (part.first.id + i == args->at && !HangsReleased()) {
    }
    args->y[part.first.row + i] = 1;
  }
  return 0;
}
TandemKernelV1 MakeHang() {
  TandemKernelV1 kernel = Table("hang_at", "axis n, at:i64 -> y[n]:u8", 109, sizeof(DieArgs));
  kernel.range = &Parts<HangPart>;
  return kernel;
}

}  // namespace

std::atomic<bool>& HangsReleased() {
  static std::atomic<bool> released = false;
  return released;
}

std::atomic<int>& HangsBegun() {
  static std::atomic<int> begun = 0;
  return begun;
}

const TandemLibraryV1* FakeKernels() {
  static const TandemKernelV1 tables[] = {MakeDouble(), MakeTally(),  MakeFloatSum(), MakeShout(),
                                          MakeWindow(), MakeColumn(), MakeScaled(),   MakeDie(),
                                          MakeHang(),   MakeListed(), MakeLoose<1>()};
  static const TandemKernelV1* const list[] = {&tables[0], &tables[1], &tables[2], &tables[3],
                                               &tables[4], &tables[5], &tables[6], &tables[7],
                                               &tables[8], &tables[9], &tables[10]};
  static const TandemLibraryV1 library = {sizeof(TandemLibraryV1),
                                          TANDEM_ABI_MAJOR,
                                          TANDEM_ABI_MINOR,
                                          sizeof(list) / sizeof(list[0]),
                                          list,
                                          "test",
                                          "x86-64-v2"};
  return &library;
}

const TandemLibraryV1* FakeBaseline() {
  static const TandemKernelV1 loose = MakeLoose<2>();
  static const TandemKernelV1* const list[] = {&loose};
  static const TandemLibraryV1 library = {
      sizeof(TandemLibraryV1), TANDEM_ABI_MAJOR, TANDEM_ABI_MINOR, 1, list, "test", "x86-64-v2"};
  return &library;
}

const TandemKernelV1* FakeKernel(std::string_view name) {
  const TandemLibraryV1* library = FakeKernels();
  for (uint32_t i = 0; i < library->kernel_count; ++i) {
    if (library->kernels[i]->name == name) return library->kernels[i];
  }
  std::abort();
}

}  // namespace tandem::testing
