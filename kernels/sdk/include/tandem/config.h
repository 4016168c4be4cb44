// Compiler differences of kernel bodies: g++, clang, nvcc and NVRTC, freestanding, C++17.
//
// TANDEM_KERNELS is the namespace that a kernel lives in. It differs for each instruction set, so
// the three builds of one kernel keep apart in one program:
//
//   namespace TANDEM_KERNELS {
//   struct Saxpy { ... };
//   }
//
// Thread-safety: macros only.
#ifndef TANDEM_CONFIG_H_
#define TANDEM_CONFIG_H_

#if !defined(__CUDACC_RTC__)
#include <stddef.h>
#include <stdint.h>
#else
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#include "tandem/rtc_builtins.h"
#endif

// The build's instruction set, given by the build for each of its three compilations.
#ifndef TANDEM_ISA
#define TANDEM_ISA generic
#endif
#define TANDEM_CONCAT_(a, b) a##b
#define TANDEM_CONCAT(a, b) TANDEM_CONCAT_(a, b)
#define TANDEM_STRINGIZE_(a) #a
#define TANDEM_STRINGIZE(a) TANDEM_STRINGIZE_(a)
#define TANDEM_ISA_NAMESPACE TANDEM_CONCAT(isa_, TANDEM_ISA)
#define TANDEM_KERNELS TANDEM_CONCAT(tandem_kernels_, TANDEM_ISA)

// TANDEM_FN: a function of the SDK for bodies; TANDEM_BODY: a static member function of a kernel
// that runs a task.
#if defined(__CUDACC__)
#define TANDEM_FN __host__ __device__ __forceinline__
#else
#define TANDEM_FN inline __attribute__((always_inline))
#endif
#define TANDEM_BODY static TANDEM_FN

// A driver into which everything that a body calls is inlined, lambdas included, so that its loops
// vectorise.
#if defined(__CUDACC__)
#define TANDEM_FLATTEN
#else
#define TANDEM_FLATTEN __attribute__((flatten))
#endif

// Around a kernel's own CPU forms (Range, Cpu), which may use what a CUDA compiler does not read.
#if defined(__CUDACC__)
#define TANDEM_CPU_FORMS 0
#else
#define TANDEM_CPU_FORMS 1
#endif

// Before a loop whose iterations are independent: the compiler need not prove it.
#if defined(__clang__) && !defined(__CUDACC__)
#define TANDEM_INDEPENDENT _Pragma("clang loop vectorize(assume_safety) interleave_count(4)")
#elif defined(__GNUC__) && !defined(__CUDACC__)
#define TANDEM_INDEPENDENT _Pragma("GCC ivdep")
#else
#define TANDEM_INDEPENDENT
#endif

// Before a short loop of constant length inside a body: it is unrolled, so that the loop around it
// vectorises.
#if defined(__clang__) || defined(__CUDACC__)
#define TANDEM_UNROLL _Pragma("unroll")
#else
#define TANDEM_UNROLL _Pragma("GCC unroll 32")
#endif

#define TANDEM_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define TANDEM_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

#define TANDEM_SDK_VERSION "1.0"

#endif  // TANDEM_CONFIG_H_
