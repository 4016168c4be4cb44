// Picks the build of a library's kernels that this machine runs best. For the table that
// tandem_add_kernels generates.
//
// Thread-safety: pure but for reading the environment.
#ifndef TANDEM_DISPATCH_H_
#define TANDEM_DISPATCH_H_

#include <cpuid.h>
#include <stdlib.h>
#include <string.h>

#include "tandem/abi.h"

namespace tandem {

// The x86-64 level of this machine: 1 (none of ours) to 4, as the psABI defines the levels, the
// operating system's support for the registers included.
inline int X86Level() {
  unsigned a, b, c, d, b7 = 0, c7, d7, e1c = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return 1;
  const unsigned v2 = bit_SSE3 | bit_SSSE3 | bit_SSE4_1 | bit_SSE4_2 | bit_POPCNT | bit_CMPXCHG16B;
  if ((c & v2) != v2) return 1;
  const unsigned v3 = bit_AVX | bit_FMA | bit_F16C | bit_MOVBE | bit_OSXSAVE;
  if ((c & v3) != v3 || !__get_cpuid_count(7, 0, &a, &b7, &c7, &d7)) return 2;
  unsigned ignored;
  if (!__get_cpuid(0x80000001u, &ignored, &a, &e1c, &d)) return 2;
  const unsigned kLzcnt = 1u << 5, v3b = bit_AVX2 | bit_BMI | bit_BMI2;
  unsigned xcr0, high;
  __asm__("xgetbv" : "=a"(xcr0), "=d"(high) : "c"(0));
  if ((b7 & v3b) != v3b || (e1c & kLzcnt) == 0 || (xcr0 & 0x6) != 0x6) return 2;
  const unsigned v4 = bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL;
  return (b7 & v4) == v4 && (xcr0 & 0xe6) == 0xe6 ? 4 : 3;
}

// `tables`: those of v2, v3 and v4. Null where the machine lacks `isa`.
inline const TandemLibraryV1* TableFor(const TandemLibraryV1* const tables[3], const char* isa) {
  for (int level = 2; level <= 4; ++level) {
    const char name[] = {'v', static_cast<char>('0' + level), 0};
    if (strcmp(isa, name) == 0) return X86Level() >= level ? tables[level - 2] : nullptr;
  }
  return nullptr;
}

inline const TandemLibraryV1* BestTable(const TandemLibraryV1* const tables[3]) {
  const char* forced = getenv("TANDEM_ISA");
  if (forced != nullptr && forced[0] != 0) return TableFor(tables, forced);
  const int level = X86Level();
  return level >= 2 ? tables[level - 2] : nullptr;
}

}  // namespace tandem

#endif  // TANDEM_DISPATCH_H_
