// The threads of one task: phases with a barrier after each. They are a block, or with
// `kTaskThreads` at most 32 a warp, of which a block has several. On the CPU a phase is a vector
// loop.
//
//   static constexpr int32_t kTaskThreads = 32;    // optional: how many threads a task can use
//   static constexpr int64_t SharedBytes(const Args& a) { return 4 * a.d; }
//   TANDEM_BODY void Block(const tandem::Group& g, tandem::Task t, const Args& a) {
//     float* s = g.shared<float>();
//     g.each(a.d, [&](int32_t j) { s[j] = a.x(t, a.d)[j]; });
//     ...
//     g.once([&] { a.y[t] = s[0]; });
//   }
//
// Index j of `each` and `spread` always runs on the same thread of the task.
//
// Thread-safety: a Group belongs to one task.
// Ownership: shared memory is the driver's, undefined when a task starts.
#ifndef TANDEM_GROUP_H_
#define TANDEM_GROUP_H_

#include "tandem/config.h"

namespace tandem {
inline namespace TANDEM_ISA_NAMESPACE {

class Group {
 public:
  // `warp`: the calling warp alone; else the whole block.
  TANDEM_FN explicit Group(void* shared, bool warp = false) : shared_(shared), warp_(warp) {}

  template <class T>
  TANDEM_FN T* shared(int64_t byte_offset = 0) const {
    return reinterpret_cast<T*>(static_cast<char*>(shared_) + byte_offset);
  }

  // Runs f(0) … f(n - 1), which are independent, and waits for all.
  template <class F>
  TANDEM_FN void each(int32_t n, F f) const {
    spread(n, f);
    wait();
  }

  // As `each`, but does not wait: for phases in which an index reads only what the same index
  // wrote.
  template <class F>
  TANDEM_FN void spread(int32_t n, F f) const {
#if defined(__CUDA_ARCH__)
    const int32_t threads = warp_ ? kWarp : blockDim.x;
    for (int32_t j = thread(); j < n; j += threads) f(j);
#else
    TANDEM_INDEPENDENT
    for (int32_t j = 0; j < n; ++j) f(j);
#endif
  }

  // Runs f on one thread and waits.
  template <class F>
  TANDEM_FN void once(F f) const {
#if defined(__CUDA_ARCH__)
    if (thread() == 0) f();
#else
    f();
#endif
    wait();
  }

 private:
  static constexpr int32_t kWarp = 32;

#if defined(__CUDA_ARCH__)
  TANDEM_FN int32_t thread() const { return warp_ ? threadIdx.x % kWarp : threadIdx.x; }
#endif
  // For all threads of the task.
  TANDEM_FN void wait() const {
#if defined(__CUDA_ARCH__)
    if (warp_) {
      __syncwarp();
    } else {
      __syncthreads();
    }
#else
    (void)warp_;
#endif
  }

  void* shared_;
  bool warp_;
};

}  // namespace TANDEM_ISA_NAMESPACE
}  // namespace tandem

#endif  // TANDEM_GROUP_H_
