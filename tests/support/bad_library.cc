// A library of kernels that a worker must refuse, in one of several ways (BAD_…), and one that it
// must take (BAD_NOTHING).
#include <stdlib.h>
#include <unistd.h>

#include "tandem/abi.h"

namespace {

int64_t Nothing(const TandemPart*, int32_t, void*) { return 0; }
int64_t NoScratch(const void*) { return 0; }

const char* const kFaults[] = {"ok"};

[[maybe_unused]] TandemKernelV1 Kernel() {
  TandemKernelV1 kernel = {};
  kernel.struct_bytes = sizeof(kernel);
  kernel.name = "harmless";
  kernel.signature = "x[n]:f32 -> y[n]:f32";
  kernel.faults = kFaults;
  kernel.fault_count = 1;
  kernel.output_class = TANDEM_CLASS_EXACT;
  kernel.content_hash = 1;
  kernel.split_axes = "n";
  kernel.cost_units = "1";
  kernel.args_bytes = 4 * sizeof(void*);
  kernel.scratch_bytes = &NoScratch;
  kernel.range = &Nothing;
#ifdef BAD_NAME_OF_A_BUILTIN
  kernel.name = "noop";
#endif
#ifdef BAD_KERNEL_TABLE
  kernel.struct_bytes = 48;
#endif
#ifdef BAD_SIGNATURE
  kernel.signature = "x[n:f32";
#endif
#ifdef BAD_CLASS  // the executor does not mind; a master does
  kernel.output_class = TANDEM_CLASS_UNSPECIFIED;
#endif
  return kernel;
}

#ifdef BAD_CONSTRUCTOR_CRASHES
__attribute__((constructor)) void Crash() { abort(); }
#endif
#ifdef BAD_CONSTRUCTOR_HANGS
__attribute__((constructor)) void Hang() {
  for (;;) pause();
}
#endif
#ifdef BAD_CONSTRUCTOR_LEAVES
__attribute__((constructor)) void Leave() { _exit(0); }
#endif

}  // namespace

#ifndef BAD_NO_SYMBOL
extern "C" __attribute__((visibility("default"))) const TandemLibraryV1* tandem_library_v1(void) {
  static const TandemKernelV1 kernel = Kernel();
  static const TandemKernelV1* const kernels[] = {&kernel};
  static TandemLibraryV1 library = {
      sizeof(TandemLibraryV1), TANDEM_ABI_MAJOR, TANDEM_ABI_MINOR, 1, kernels, "1.0", "x86-64-v2"};
#ifdef BAD_ABI
  library.abi_major = 7;
#endif
#ifdef BAD_LIBRARY_TABLE
  library.struct_bytes = 16;
#endif
  return &library;
}
#endif
