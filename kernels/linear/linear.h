// linear: a fully connected layer, y = x w^T + b. A job splits n (rows of x: the batch) or m (rows
// of w: inside the layer).
//
// The CPU form is a loop of its own over tiles of rows and columns, vector registers along k; every
// element of y is summed in the same order wherever its tile lies, so on one instruction set any
// partition gives the same bytes.
//
// Source: torch.nn.functional.linear; tiles after Goto, van de Geijn: Anatomy of
// high-performance matrix multiplication, ACM TOMS 34, 2008.
//
// Tolerance: of an element, relative to the sum of the magnitudes of its k products and b. Any
// order of summing stays within (k + 1) 2^-24 of it (Higham: Accuracy and stability of numerical
// algorithms, 2nd edition, 2002, 3.1), and as a rule near sqrt k 2^-24: 1e-5 at k = 28,000.
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_LINEAR_LINEAR_H_
#define TANDEM_KERNELS_LINEAR_LINEAR_H_

#include "tandem/body.h"

namespace TANDEM_KERNELS {

struct Linear {
  static constexpr char kName[] = "linear";
  static constexpr char kSummary[] = "a fully connected layer: x times w transposed, plus b";
  static constexpr char kSignature[] =
      "axis n, axis m, x[n,k]:f32, w[m,k]:f32, b[m]:f32 -> y[n,m]:f32";
  static constexpr auto kClass = tandem::OutputClass::kTolerant;
  static constexpr double kTolerance = 1e-5;
  // A task is a row of y, or a column; this is right for a square one.
  static constexpr double kCostNs = 0.03;
  static constexpr char kCostUnits[] = "k * m";

  struct Args {
    const float *x, *w, *b;
    float* y;
    int64_t n, m, k;
    int64_t split;  // 0: n, 1: m
  };

  // linear_cuda.cu.
  static int64_t WorkspaceBytes(const Args& a, int64_t tasks);
  static int32_t Launch(const Args& a, tandem::Task first, int64_t tasks, void* workspace,
                        tandem::Stream stream);

#if TANDEM_CPU_FORMS
  static int64_t Cpu(const tandem::Run& run, const Args& a) {
    const int64_t first = run.first.row, last = first + run.tasks;
    if (a.split == 0) {
      Block(a, first, last, 0, a.m);
    } else {
      Block(a, 0, a.n, first, last);
    }
    return 0;
  }

 private:
#if defined(__AVX__)  // of AVX-512 too: loads bound the tile, not arithmetic
  static constexpr int kVector = 8;
#else
  static constexpr int kVector = 4;
#endif
  typedef float Vector __attribute__((vector_size(kVector * sizeof(float))));
  static constexpr int kRows = 3, kColumns = 4;  // a tile fits into the 16 registers of v2 and v3
  static constexpr int64_t kColumnBytes =
      256 << 10;  // rows of w that stay in the cache while rows of x pass

  TANDEM_FN static Vector Load(const float* p) {
    Vector v;
    __builtin_memcpy(&v, p, sizeof(v));
    return v;
  }

  // y[rows, columns] for one tile.
  template <int kR, int kC>
  static void Tile(const Args& a, int64_t row, int64_t column) {
    Vector sum[kR][kC] = {};
    const float* x = a.x + row * a.k;
    const float* w = a.w + column * a.k;
    int64_t j = 0;
    for (; j + kVector <= a.k; j += kVector) {
      Vector wv[kC];
      for (int c = 0; c < kC; ++c) wv[c] = Load(w + c * a.k + j);
      for (int r = 0; r < kR; ++r) {
        const Vector xv = Load(x + r * a.k + j);
        for (int c = 0; c < kC; ++c) sum[r][c] += xv * wv[c];  // contracted where the machine can
      }
    }
    for (int r = 0; r < kR; ++r) {
      for (int c = 0; c < kC; ++c) {
        float lane[kVector];
        __builtin_memcpy(lane, &sum[r][c], sizeof(lane));
        for (int half = kVector / 2; half > 0; half /= 2) {
          for (int l = 0; l < half; ++l) lane[l] += lane[l + half];
        }
        float total = lane[0];
        for (int64_t i = j; i < a.k; ++i) total += x[r * a.k + i] * w[c * a.k + i];
        a.y[(row + r) * a.m + column + c] = tandem::Canonical(total + a.b[column + c]);
      }
    }
  }

  template <int kR>
  static void TileRows(const Args& a, int64_t row, int64_t column_begin, int64_t column_end) {
    int64_t column = column_begin;
    for (; column + kColumns <= column_end; column += kColumns) Tile<kR, kColumns>(a, row, column);
    for (; column < column_end; ++column) Tile<kR, 1>(a, row, column);
  }

  static void Block(const Args& a, int64_t row_begin, int64_t row_end, int64_t column_begin,
                    int64_t column_end) {
    int64_t step =
        kColumnBytes / (int64_t{sizeof(float)} * (a.k > 0 ? a.k : 1)) / kColumns * kColumns;
    step = step < kColumns ? kColumns : step;
    for (int64_t column = column_begin; column < column_end; column += step) {
      const int64_t end = column + step < column_end ? column + step : column_end;
      int64_t row = row_begin;
      for (; row + kRows <= row_end; row += kRows) TileRows<kRows>(a, row, column, end);
      for (; row < row_end; ++row) TileRows<1>(a, row, column, end);
    }
  }
#endif  // TANDEM_CPU_FORMS
};

}  // namespace TANDEM_KERNELS

#endif  // TANDEM_KERNELS_LINEAR_LINEAR_H_
