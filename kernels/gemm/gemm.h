// gemm: a product of matrices, c = a b. A job splits m (rows of a and c) or n (columns of b and c).
//
// Source: Dongarra, Du Croz, Hammarling, Duff: A set of level 3 basic linear algebra
// subprograms, ACM TOMS 16, 1990; by OpenBLAS and cuBLAS.
//
// Tolerance: of an element, relative to the sum of the magnitudes of its k products. Any order of
// summing stays within k 2^-24 of it (Higham: Accuracy and stability of numerical algorithms, 2nd
// edition, 2002, 3.1), and as a rule near sqrt k 2^-24: 1e-5 at k = 28,000.
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_GEMM_GEMM_H_
#define TANDEM_KERNELS_GEMM_GEMM_H_

#include "tandem/body.h"
//
#include "kernels/gemm/gemm_host.h"

namespace TANDEM_KERNELS {

struct Gemm {
  static constexpr char kName[] = "gemm";
  static constexpr char kSummary[] = "a product of matrices: a times b";
  static constexpr char kSignature[] = "axis m, axis n, a[m,k]:f32, b[k,n]:f32 -> c[m,n]:f32";
  static constexpr const char* kFaults[] = {"ok", "an extent is above 2147483647"};
  static constexpr auto kClass = tandem::OutputClass::kTolerant;
  static constexpr double kTolerance = 1e-5;
  // A task is a row of c, or a column; this is right for a square one.
  static constexpr double kCostNs = 0.02;
  static constexpr char kCostUnits[] = "k * n";

  struct Args {
    const float *a, *b;
    float* c;
    int64_t m, n, k;
    int64_t split;  // 0: m, 1: n
  };

  // gemm_cuda.cu: cuBLAS.
  static int64_t WorkspaceBytes(const Args& args, int64_t tasks);
  static int32_t Launch(const Args& args, tandem::Task first, int64_t tasks, void* workspace,
                        tandem::Stream stream);

  // The part of the product that a run of tasks makes.
  TANDEM_FN static tandem::kernels::Product ProductOf(const Args& args, tandem::Task first,
                                                      int64_t tasks) {
    const int64_t row = args.split == 0 ? first.row : 0;
    const int64_t column = args.split == 0 ? 0 : first.row;
    return {args.a + row * args.k,
            args.b + column,
            args.c + row * args.n + column,
            args.split == 0 ? tasks : args.m,
            args.split == 0 ? args.n : tasks,
            args.k,
            args.n};
  }

#if TANDEM_CPU_FORMS
  static int64_t Cpu(const tandem::Run& run, const Args& args) {
    const bool fits = tandem::kernels::Multiply(ProductOf(args, run.first, run.tasks));
    if (run.fault != nullptr) {
      for (int64_t i = 0; i < run.tasks; ++i) run.fault[i] = fits ? 0 : 1;
    }
    return fits ? 0 : run.tasks;
  }
#endif  // TANDEM_CPU_FORMS
};

}  // namespace TANDEM_KERNELS

#endif  // TANDEM_KERNELS_GEMM_GEMM_H_
