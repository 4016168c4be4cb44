// What the SDK offers for tests of kernels, for the tests of the SDK and the built-in kernels.
//
//   PackedArgs args; args.Add(x.data()); args.Add(2.5f); args.Axes({n}, 0);
//   RunPart(kernel, args, {0, 0}, n, faults.data());
//
// Thread-safety: as kernels/sdk/include/tandem/testing.h.
#ifndef TANDEM_TESTS_KERNELS_HARNESS_H_
#define TANDEM_TESTS_KERNELS_HARNESS_H_

#include "tandem/testing.h"

namespace tandem {

using kernel_test::AlignedBytes;
using kernel_test::MakePartial;
using kernel_test::PackedArgs;
using kernel_test::RandomCut;
using kernel_test::RunPart;

}  // namespace tandem

#endif  // TANDEM_TESTS_KERNELS_HARNESS_H_
