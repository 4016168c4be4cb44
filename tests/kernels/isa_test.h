// IsaTest: a fixture whose tests run once for each instruction set, and are skipped, each by name,
// where the machine lacks it.
//
//   class SaxpyTest : public IsaTest {};
//   TEST_P(SaxpyTest, RoundsTwice) { FindKernel(Builtin(), "saxpy") … }
//   TANDEM_FOR_EACH_ISA(SaxpyTest);
//
// Thread-safety: as gtest.
#ifndef TANDEM_TESTS_KERNELS_ISA_TEST_H_
#define TANDEM_TESTS_KERNELS_ISA_TEST_H_

#include <gtest/gtest.h>

#include <string>

#include "kernels/sdk/abi.h"

namespace tandem {

// What every x86-64 machine that runs Tandem can run: others are compared with it.
inline constexpr char kBaselineIsa[] = "v2";

class IsaTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (tandem_builtin_kernels_for(GetParam()) != nullptr) return;
    GTEST_SKIP() << "this machine cannot run x86-64-" << GetParam()
                 << "; its kernels are not tested here";
  }
  std::string isa() const { return GetParam(); }
  const TandemLibraryV1& Builtin() const { return *tandem_builtin_kernels_for(GetParam()); }
};

#define TANDEM_FOR_EACH_ISA(Fixture)                                        \
  INSTANTIATE_TEST_SUITE_P(Isa, Fixture, testing::Values("v2", "v3", "v4"), \
                           [](const auto& param) { return std::string(param.param); })

}  // namespace tandem

#endif  // TANDEM_TESTS_KERNELS_ISA_TEST_H_
