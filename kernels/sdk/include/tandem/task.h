// What a body sees of its task: who it is, its operands and outputs, and whether it failed.
//
//   TANDEM_BODY tandem::Fault Each(tandem::Task t, const Args& a) {
//     a.y[t] = a.scale * a.x[t];            // PerTask: only a Task indexes it
//     return tandem::Fault(a.x[t] < 0);     // branch-free: the task fails alone
//   }
//
// A float that is stored through PerTask or PerTaskRow is made canonical where it is a NaN (x86 and
// CUDA make different ones), so that outputs are the same bytes everywhere.
//
// Thread-safety: value types that point to buffers; a task writes its own rows only.
// Ownership: none; the caller of the kernel owns the buffers.
#ifndef TANDEM_TASK_H_
#define TANDEM_TASK_H_

#include "tandem/config.h"
#include "tandem/f16.h"
#include "tandem/traits.h"

namespace tandem {
inline namespace TANDEM_ISA_NAMESPACE {

// `id`: the task's index in the job. `row`: its row in the buffers of this batch.
struct Task {
  int64_t id, row;
};

// 0: the task is fine; otherwise an index into the kernel's kFaults.
struct Fault {
  uint8_t code;

  TANDEM_FN constexpr Fault() : code(0) {}
  TANDEM_FN constexpr explicit Fault(bool failed) : code(failed) {}
  TANDEM_FN constexpr explicit Fault(int index) : code(static_cast<uint8_t>(index)) {}
  // Fault `index` where `failed`, without a branch.
  TANDEM_FN static constexpr Fault When(bool failed, int index) {
    return Fault(static_cast<int>(failed) * index);
  }
  // The first of two faults.
  TANDEM_FN constexpr Fault operator|(Fault next) const {
    return Fault(static_cast<int>(code != 0 ? code : next.code));
  }
  TANDEM_FN constexpr explicit operator bool() const { return code != 0; }
};

// The value itself, but a NaN becomes the canonical quiet NaN.
TANDEM_FN float Canonical(float v) { return v != v ? BitCast<float>(0x7fc00000u) : v; }
TANDEM_FN double Canonical(double v) {
  return v != v ? BitCast<double>(uint64_t{0x7ff8000000000000u}) : v;
}
template <class T>
TANDEM_FN T Canonical(T v) {
  return v;
}

// What a writable element is: assigning stores, reading loads.
template <class T>
struct Slot {
  T* p;

  TANDEM_FN const Slot& operator=(T v) const {
    *p = Canonical(v);
    return *this;
  }
  TANDEM_FN operator T() const { return *p; }
};
template <>
struct Slot<f16> {
  f16* p;

  TANDEM_FN const Slot& operator=(float v) const {
    *p = f16(v);
    return *this;
  }
  TANDEM_FN operator float() const { return *p; }
};
template <>
struct Slot<bf16> {
  bf16* p;

  TANDEM_FN const Slot& operator=(float v) const {
    *p = bf16(v);
    return *this;
  }
  TANDEM_FN operator float() const { return *p; }
};

// One element a task: `x[n]`.
template <class T>
struct PerTask {
  T* p;

  TANDEM_FN Slot<T> operator[](Task t) const { return Slot<T>{p + t.row}; }
  TANDEM_FN T* at(Task t) const { return p + t.row; }  // a run of tasks has a run of elements
};
template <class T>
struct PerTask<const T> {
  const T* p;

  TANDEM_FN T operator[](Task t) const { return p[t.row]; }
  TANDEM_FN const T* at(Task t) const { return p + t.row; }
};

// A row of outputs or operands.
template <class T>
struct Row {
  T* p;

  TANDEM_FN Slot<T> operator[](int64_t j) const { return Slot<T>{p + j}; }
  TANDEM_FN T* data() const { return p; }
};
template <class T>
struct Row<const T> {
  const T* p;

  TANDEM_FN T operator[](int64_t j) const { return p[j]; }
  TANDEM_FN const T* data() const { return p; }
};

// `d` elements a task: `x[n,d]`; `a.x(t, a.d)[j]`.
template <class T>
struct PerTaskRow {
  T* p;

  TANDEM_FN Row<T> operator()(Task t, int64_t d) const { return Row<T>{p + t.row * d}; }
};

// A window beyond the task: `x[n + h]`; `a.x(t)[j]`, 0 <= j <= h.
template <class T>
struct Window {
  T* p;

  TANDEM_FN Row<T> operator()(Task t) const { return Row<T>{p + t.row}; }
};

// The same for every task: `w[d]`; `a.w[j]`.
template <class T>
struct Broadcast {
  T* p;

  TANDEM_FN T operator[](int64_t j) const { return p[j]; }
  TANDEM_FN T* data() const { return p; }
};

// A run of tasks on one CPU thread, for kernels with a form of their own for it. `fault` is null
// where the kernel declares no fault; `scratch` has the kernel's ScratchBytes.
struct Run {
  Task first;
  int64_t tasks;
  uint8_t* fault;
  void* scratch;
  void* partial;  // for a kernel that merges by itself
};

// A CUDA stream, opaque to bodies.
struct Stream {
  void* handle;
};

// Whose bytes are the same (kClass of a kernel); the numbers are those of the ABI.
enum class OutputClass : uint32_t { kExact = 1, kBitwise = 2, kTolerant = 3 };

}  // namespace TANDEM_ISA_NAMESPACE
}  // namespace tandem

#endif  // TANDEM_TASK_H_
