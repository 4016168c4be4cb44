// A block of threads for one task: phases with a barrier after each. On the CPU a phase is a vector
// loop.
//
//   static constexpr int64_t SharedBytes(const Args& a) { return 4 * a.d; }
//   TANDEM_BODY void Block(const tandem::Group& g, tandem::Task t, const Args& a) {
//     float* s = g.shared<float>();
//     g.each(a.d, [&](int32_t j) { s[j] = a.x(t, a.d)[j]; });
//     ...
//     g.once([&] { a.y[t] = s[0]; });
//   }
//
// Index j of `each` and `spread` always runs on the same thread of the block.
//
// Thread-safety: a Group belongs to one block.
// Ownership: shared memory is the driver's, undefined when a task starts.
#ifndef TANDEM_GROUP_H_
#define TANDEM_GROUP_H_

#include "tandem/config.h"

namespace tandem {
inline namespace TANDEM_ISA_NAMESPACE {

class Group {
 public:
  TANDEM_FN explicit Group(void* shared) : shared_(shared) {}

  template <class T>
  TANDEM_FN T* shared(int64_t byte_offset = 0) const {
    return reinterpret_cast<T*>(static_cast<char*>(shared_) + byte_offset);
  }

  // Runs f(0) … f(n - 1), which are independent, and waits for all.
  template <class F>
  TANDEM_FN void each(int32_t n, F f) const {
    spread(n, f);
#if defined(__CUDA_ARCH__)
    __syncthreads();
#endif
  }

  // As `each`, but does not wait: for phases in which an index reads only what the same index
  // wrote.
  template <class F>
  TANDEM_FN void spread(int32_t n, F f) const {
#if defined(__CUDA_ARCH__)
    for (int32_t j = threadIdx.x; j < n; j += blockDim.x) f(j);
#else
    TANDEM_INDEPENDENT
    for (int32_t j = 0; j < n; ++j) f(j);
#endif
  }

  // Runs f on one thread and waits.
  template <class F>
  TANDEM_FN void once(F f) const {
#if defined(__CUDA_ARCH__)
    if (threadIdx.x == 0) f();
    __syncthreads();
#else
    f();
#endif
  }

 private:
  void* shared_;
};

}  // namespace TANDEM_ISA_NAMESPACE
}  // namespace tandem

#endif  // TANDEM_GROUP_H_
