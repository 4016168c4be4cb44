#include "tests/kernels/library.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <map>

namespace tandem {
namespace {

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "tests/kernels: %s\n", what.c_str());
  std::abort();
}

}  // namespace

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
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) Die(dlerror());
  auto entry = reinterpret_cast<TandemLibraryV1Function>(dlsym(handle, TANDEM_LIBRARY_SYMBOL));
  if (entry == nullptr) Die(path + " does not export " TANDEM_LIBRARY_SYMBOL);
  setenv("TANDEM_ISA", isa.c_str(), 1);
  const TandemLibraryV1* library = entry();
  unsetenv("TANDEM_ISA");
  if (library == nullptr) Die(path + " has no kernels for " + isa);
  return *library;
}

const TandemKernelV1& FindKernel(const TandemLibraryV1& library, std::string_view name) {
  for (uint32_t i = 0; i < library.kernel_count; ++i) {
    if (library.kernels[i]->name == name) return *library.kernels[i];
  }
  Die("no kernel is called " + std::string(name));
}

}  // namespace tandem
