// For tests of kernels, on the host: loads a library and runs its kernels through the ABI as a
// device does, for each instruction set that this machine has, for any cut.
//
//   using namespace tandem::kernel_test;
//   for (const std::string& isa : RunnableIsas("wave.so")) {
//     const TandemKernelV1& kernel = FindKernel(Load("wave.so", isa), "wave");
//     PackedArgs args;
//     args.Add(x.data());
//     args.Add(2.5f);
//     args.Add(y.data());
//     args.Axes({n}, 0);
//     for (auto [begin, end] : RandomCut(n, random)) {
//       RunPart(kernel, args, {begin, begin}, end - begin, faults.data() + begin);
//     }
//   }
//
// What goes wrong with a library ends the program with a sentence. Not for bodies: it uses the
// standard library.
//
// Thread-safety: Load and RunnableIsas change the environment: one thread. Ownership: PackedArgs
// and AlignedBytes own their bytes, not the buffers that pointers lead to; a library stays loaded.
#ifndef TANDEM_TESTING_H_
#define TANDEM_TESTING_H_

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tandem/abi.h"

namespace tandem::kernel_test {

[[noreturn]] inline void Die(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

// The table of a library for "v2", "v3" or "v4"; null where this machine lacks that.
inline const TandemLibraryV1* LoadIfRunnable(const std::string& path, const std::string& isa) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) Die(dlerror());
  auto entry = reinterpret_cast<TandemLibraryV1Function>(dlsym(handle, TANDEM_LIBRARY_SYMBOL));
  if (entry == nullptr) Die(path + " does not export " TANDEM_LIBRARY_SYMBOL);
  setenv("TANDEM_ISA", isa.c_str(), 1);
  const TandemLibraryV1* library = entry();
  unsetenv("TANDEM_ISA");
  return library;
}

inline const TandemLibraryV1& Load(const std::string& path, const std::string& isa) {
  const TandemLibraryV1* library = LoadIfRunnable(path, isa);
  if (library == nullptr) Die(path + " has no kernels for " + isa);
  return *library;
}

// The instruction sets that this machine can run, the smallest first.
inline std::vector<std::string> RunnableIsas(const std::string& path) {
  std::vector<std::string> isas;
  for (const char* isa : {"v2", "v3", "v4"}) {
    if (LoadIfRunnable(path, isa) != nullptr) isas.push_back(isa);
  }
  return isas;
}

inline const TandemKernelV1& FindKernel(const TandemLibraryV1& library, std::string_view name) {
  for (uint32_t i = 0; i < library.kernel_count; ++i) {
    if (library.kernels[i]->name == name) return *library.kernels[i];
  }
  Die("no kernel is called " + std::string(name));
}

// Arguments in the layout of abi.h.
class PackedArgs {
 public:
  template <class T>
  void Add(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    while (bytes_.size() % sizeof(T) != 0) bytes_.push_back(0);
    const auto* p = reinterpret_cast<const uint8_t*>(&value);
    bytes_.insert(bytes_.end(), p, p + sizeof(T));
  }
  // Local extents in the signature's order of axes, and the axis that is split.
  void Axes(std::initializer_list<int64_t> extents, int64_t split) {
    for (int64_t extent : extents) Add(extent);
    Add(split);
  }
  const void* data() const { return bytes_.data(); }

 private:
  std::vector<uint8_t> bytes_;
};

// Aligned bytes of a scratch or partial.
class AlignedBytes {
 public:
  explicit AlignedBytes(int64_t size)
      : size_(size),
        p_(static_cast<uint8_t*>(std::aligned_alloc(64, (size + 64) / 64 * 64)), &std::free) {
    std::memset(p_.get(), 0xa5, size);  // what is not initialised shows
  }
  uint8_t* data() const { return p_.get(); }
  int64_t size() const { return size_; }
  template <class T>
  const T* as(int64_t byte_offset = 0) const {
    return reinterpret_cast<const T*>(p_.get() + byte_offset);
  }

 private:
  int64_t size_;
  std::unique_ptr<uint8_t, decltype(&std::free)> p_;
};

// An initialised partial.
inline AlignedBytes MakePartial(const TandemKernelV1& kernel, const PackedArgs& args,
                                int64_t tasks) {
  AlignedBytes partial(kernel.partial_bytes(args.data(), tasks));
  std::memset(partial.data(), 0, partial.size());  // the gaps between outputs
  kernel.partial_init(args.data(), partial.data());
  return partial;
}

inline int64_t RunPart(const TandemKernelV1& kernel, const PackedArgs& args, TandemTask first,
                       int64_t tasks, uint8_t* fault = nullptr, void* partial = nullptr) {
  AlignedBytes scratch(kernel.scratch_bytes(args.data()));
  const TandemPart part{args.data(), first, tasks, fault, partial};
  return kernel.range(&part, 1, scratch.data());
}

// [0, n) cut at random into 1 … n + 1 pieces, in random order; returns begins and ends.
inline std::vector<std::pair<int64_t, int64_t>> RandomCut(int64_t n, std::mt19937_64& random) {
  std::vector<int64_t> at{0, n};
  const int64_t cuts = n == 0 ? 0 : static_cast<int64_t>(random() % 8);
  for (int64_t i = 0; i < cuts; ++i) at.push_back(static_cast<int64_t>(random() % (n + 1)));
  std::sort(at.begin(), at.end());
  std::vector<std::pair<int64_t, int64_t>> pieces;
  for (size_t i = 0; i + 1 < at.size(); ++i) pieces.emplace_back(at[i], at[i + 1]);
  std::shuffle(pieces.begin(), pieces.end(), random);
  return pieces;
}

}  // namespace tandem::kernel_test

#endif  // TANDEM_TESTING_H_
