// f16 and bf16 as storage types: a body loads them into f32, computes there, and stores them
// rounded to nearest even.
//
//   tandem::PerTask<const tandem::bf16> x;   float v = x[t];   // exact
//   tandem::PerTask<tandem::bf16> y;         y[t] = v;         // rounds
//
// Integer operations only, so that loops vectorise and every instruction set gives the same bits; a
// NaN becomes the canonical quiet one.
//
// Thread-safety: value types.
#ifndef TANDEM_F16_H_
#define TANDEM_F16_H_

#include "tandem/config.h"
#include "tandem/traits.h"

namespace tandem {
inline namespace TANDEM_ISA_NAMESPACE {

struct bf16 {
  uint16_t bits;

  bf16() = default;
  TANDEM_FN explicit bf16(float value) : bits(Round(value)) {}
  TANDEM_FN operator float() const { return BitCast<float>(uint32_t{bits} << 16); }

 private:
  TANDEM_FN static uint16_t Round(float value) {
    uint32_t u = BitCast<uint32_t>(value);
    uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    return static_cast<uint16_t>(value != value ? 0x7fc0u : rounded);
  }
};

struct f16 {
  uint16_t bits;

  f16() = default;
  TANDEM_FN explicit f16(float value) : bits(Round(value)) {}

  TANDEM_FN operator float() const {
    uint32_t sign = (uint32_t{bits} & 0x8000u) << 16, magnitude = uint32_t{bits} & 0x7fffu;
    // A subnormal is magnitude * 2^-24, exact in f32.
    float subnormal = static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f;
    uint32_t normal = (magnitude << 13) + 0x38000000u;
    uint32_t special = (magnitude << 13) | 0x7f800000u;
    uint32_t u = magnitude >= 0x7c00u ? special : normal;
    u = magnitude < 0x400u ? BitCast<uint32_t>(subnormal) : u;
    return BitCast<float>(u | sign);
  }

 private:
  TANDEM_FN static uint16_t Round(float value) {
    uint32_t u = BitCast<uint32_t>(value);
    uint32_t sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
    // The f32 adder rounds a subnormal result: adding 0.5 leaves its multiple of 2^-24 in the low
    // bits.
    uint32_t subnormal = BitCast<uint32_t>(BitCast<float>(magnitude) + 0.5f) - 0x3f000000u;
    uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    uint32_t r = magnitude < 0x38800000u ? subnormal : normal;
    r = magnitude >= 0x477ff000u ? 0x7c00u : r;  // 65520 and above round to infinity
    r = magnitude > 0x7f800000u ? 0x7e00u : r | sign;
    return static_cast<uint16_t>(r);
  }
};

static_assert(sizeof(bf16) == 2 && sizeof(f16) == 2);

}  // namespace TANDEM_ISA_NAMESPACE
}  // namespace tandem

#endif  // TANDEM_F16_H_
