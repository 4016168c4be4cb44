#include "tests/kernels/library.h"

#include "tandem/testing.h"

namespace tandem {

const TandemLibraryV1& LoadFor(const std::string& path, const std::string& isa) {
  return kernel_test::Load(path, isa);
}

const TandemKernelV1& FindKernel(const TandemLibraryV1& library, std::string_view name) {
  return kernel_test::FindKernel(library, name);
}

}  // namespace tandem
