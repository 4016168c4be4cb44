// monte_carlo_pi: random points of the unit square; how many lie in the quarter disc. pi is 4 hits
// / tasks.
//
// A task is one point. Its coordinates are the middles of two of 2^16 intervals, 32 bits in all,
// from one word of the Philox block number id / 4 under the seed: so hits are a function of seed
// and task ids, whatever the cut. The test for a hit is in integers, (x + 1/2)^2 + (y + 1/2)^2 <
// 2^32. The lattice's own error, 4 * lattice points inside / 2^32 - pi, is below 10^-7: less than
// the spread of 10^14 points.
//
// Source: Hammersley, Handscomb: Monte Carlo methods, 1964; Salmon, Moraes, Dror, Shaw: Parallel
// random numbers: as easy as 1, 2, 3, SC 2011.
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_MONTE_CARLO_PI_MONTE_CARLO_PI_H_
#define TANDEM_KERNELS_MONTE_CARLO_PI_MONTE_CARLO_PI_H_

#include "tandem/body.h"

namespace TANDEM_KERNELS {

struct MonteCarloPi {
  static constexpr char kName[] = "monte_carlo_pi";
  static constexpr char kSummary[] = "counts random points in a quarter disc: pi is 4 hits / tasks";
  static constexpr char kSignature[] = "axis n, seed:u64 = 0 -> hits:u64 : sum";
  static constexpr auto kClass = tandem::OutputClass::kExact;
  static constexpr double kCostNs = 0.8;

  struct Args {
    uint64_t seed;
  };
  using Partial = tandem::Sum<uint64_t>;

  // 1 where the point of a word lies inside. x (x + 1) is even, and half of the sum has bit 31 set
  // outside.
  TANDEM_FN static uint32_t Hit(uint32_t word) {
    const uint32_t x = word & 0xffffu, y = word >> 16;
    return ~((x * (x + 1) >> 1) + (y * (y + 1) >> 1)) >> 31;
  }

  TANDEM_BODY void Each(tandem::Task t, const Args& a, Partial& hits) {
    const tandem::Philox4 r = tandem::Philox(a.seed, 0, static_cast<uint64_t>(t.id) >> 2);
    const uint32_t low = (t.id & 1) != 0 ? r.y : r.x, high = (t.id & 1) != 0 ? r.w : r.z;
    hits.add(Hit((t.id & 2) != 0 ? high : low));
  }

#if TANDEM_CPU_FORMS
  // Range: whole blocks, each computed once, many at a time.
#if defined(__AVX2__)
  static constexpr int kVector = 4;
#else
  static constexpr int kVector = 2;
#endif
  static constexpr int kAtOnce =
      4;  // vectors in flight: a round's product takes longer than its issue
  static constexpr int64_t kStep = kVector * kAtOnce;
  typedef uint64_t Vector __attribute__((vector_size(8 * kVector)));  // 32 bits in use
  typedef uint32_t Words __attribute__((vector_size(8 * kVector)));
  typedef int32_t Signed __attribute__((vector_size(8 * kVector)));

  static int64_t Singly(int64_t begin, int64_t end, const Args& a, Partial& hits) {
    for (int64_t id = begin; id < end; ++id) Each(tandem::Task{id, 0}, a, hits);
    return 0;
  }

  // The 64-bit products of the low halves.
  TANDEM_FN static Vector Multiply(Vector x, Vector y) {
#if defined(__AVX2__)
    return reinterpret_cast<Vector>(
        __builtin_ia32_pmuludq256(reinterpret_cast<Signed>(x), reinterpret_cast<Signed>(y)));
#else
    return reinterpret_cast<Vector>(
        __builtin_ia32_pmuludq128(reinterpret_cast<Signed>(x), reinterpret_cast<Signed>(y)));
#endif
  }

  // Misses among the words in the low halves of v.
  TANDEM_FN static Words Misses(Vector v) {
    const Words w = reinterpret_cast<Words>(v), x = w & 0xffffu, y = w >> 16;
    return ((x * (x + 1) >> 1) + (y * (y + 1) >> 1)) >> 31;
  }

  // Philox4x32-10 on kStep blocks from `first`; how many of their words miss, in the low halves.
  TANDEM_FN static Words MissesOf(uint64_t seed, uint64_t first, Vector index) {
    const Vector m0 = Vector{} + 0xd2511f53u, m1 = Vector{} + 0xcd9e8d57u;
    Vector c0[kAtOnce], c1[kAtOnce], c2[kAtOnce], c3[kAtOnce];
    for (int v = 0; v < kAtOnce; ++v) {
      c0[v] = index + (first + static_cast<uint64_t>(v * kVector));
      c1[v] = c0[v] >> 32;
      c2[v] = c3[v] = Vector{};
    }
    uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
    TANDEM_UNROLL
    for (int round = 0; round < 10; ++round) {
      for (int v = 0; v < kAtOnce; ++v) {
        const Vector p0 = Multiply(c0[v], m0), p1 = Multiply(c2[v], m1);
        c0[v] = (p1 >> 32) ^ (c1[v] ^ k0);
        c2[v] = (p0 >> 32) ^ (c3[v] ^ k1);
        c1[v] = p1;
        c3[v] = p0;
      }
      k0 += 0x9e3779b9u;
      k1 += 0xbb67ae85u;
    }
    Words misses = {};
    for (int v = 0; v < kAtOnce; ++v)
      misses += Misses(c0[v]) + Misses(c1[v]) + Misses(c2[v]) + Misses(c3[v]);
    return misses;
  }

  static int64_t Range(const tandem::Run& run, const Args& a, Partial& hits) {
    const int64_t begin = run.first.id, end = begin + run.tasks;
    const int64_t whole = (begin + 3) / 4 * 4, steps = (end - whole) / (4 * kStep);
    if (steps <= 0) return Singly(begin, end, a, hits);
    Vector index;
    for (int l = 0; l < kVector; ++l) index[l] = static_cast<uint64_t>(l);
    Vector misses = {};
    for (int64_t s = 0; s < steps; ++s) {
      const uint64_t block = static_cast<uint64_t>(whole / 4 + s * kStep);
      misses += reinterpret_cast<Vector>(MissesOf(a.seed, block, index)) & 0xffffffffu;
    }
    const int64_t counted = whole + steps * 4 * kStep;
    hits.add(static_cast<uint64_t>(counted - whole));
    for (int l = 0; l < kVector; ++l) hits.add(-misses[l]);
    Singly(begin, whole, a, hits);
    return Singly(counted, end, a, hits);
  }
#endif  // TANDEM_CPU_FORMS
};

}  // namespace TANDEM_KERNELS

#endif  // TANDEM_KERNELS_MONTE_CARLO_PI_MONTE_CARLO_PI_H_
