// Loads a library of kernels as an executor does, once for each instruction set, for tests.
//
//   FindKernel(LoadFor(path, "v3"), "x")         // in a test of isa_test.h
//
// Thread-safety: LoadFor changes the environment; call it from one thread.
// Ownership: a library stays loaded until the program ends.
#ifndef TANDEM_TESTS_KERNELS_LIBRARY_H_
#define TANDEM_TESTS_KERNELS_LIBRARY_H_

#include <string>
#include <string_view>

#include "kernels/sdk/abi.h"

namespace tandem {

// The table of a shared library for one instruction set; fails the program if there is none.
const TandemLibraryV1& LoadFor(const std::string& path, const std::string& isa);

// Fails the program if the library has no such kernel.
const TandemKernelV1& FindKernel(const TandemLibraryV1& library, std::string_view name);

}  // namespace tandem

#endif  // TANDEM_TESTS_KERNELS_LIBRARY_H_
