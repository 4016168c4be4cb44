// The kernels of fake_kernels.h as a library of its own, to be loaded by a process under test.
#include "tests/support/fake_kernels.h"

extern "C" __attribute__((visibility("default"))) const TandemLibraryV1* tandem_library_v1(void) {
  return tandem::testing::FakeKernels();
}
