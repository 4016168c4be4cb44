#include "tests/kernels/library.h"

#include <cstdio>

#include "tandem/testing.h"

namespace tandem {

const std::vector<std::string>& RunnableIsas() {
  static const auto* const isas = [] {
    auto* runnable = new std::vector<std::string>;
    for (const char* isa : {"v2", "v3", "v4"}) {
      if (tandem_builtin_kernels_for(isa) != nullptr) {
        runnable->push_back(isa);
      } else {
        std::printf("SKIPPED: this machine cannot run x86-64-%s; its kernels are not tested here\n",
                    isa);
      }
    }
    return runnable;
  }();
  return *isas;
}

const TandemLibraryV1& LoadFor(const std::string& path, const std::string& isa) {
  return kernel_test::Load(path, isa);
}

const TandemKernelV1& FindKernel(const TandemLibraryV1& library, std::string_view name) {
  return kernel_test::FindKernel(library, name);
}

}  // namespace tandem
