#include "common/model/generator.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/rng.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/model/reduction.h"

namespace tandem {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

// 16-bit floats: computed in f32, stored by conversion.
struct Half {
  uint16_t bits;
};
struct Brain {
  uint16_t bits;
};

// Calls f(T{}) with the C++ type that stores the dtype.
template <class F>
void WithType(DType dtype, F f) {
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
      return f(uint8_t{});
    case DType::kI8:
      return f(int8_t{});
    case DType::kI16:
      return f(int16_t{});
    case DType::kI32:
      return f(int32_t{});
    case DType::kI64:
      return f(int64_t{});
    case DType::kU32:
      return f(uint32_t{});
    case DType::kU64:
      return f(uint64_t{});
    case DType::kF16:
      return f(Half{});
    case DType::kBf16:
      return f(Brain{});
    case DType::kF32:
      return f(float{});
    case DType::kF64:
      return f(double{});
    case DType::kUnspecified:
    case DType::kBytes:
      break;
  }
  CHECK_MSG(false, "a generator of elements without a size");
}

template <class T>
T Load(const Scalar& scalar) {
  T value;
  std::memcpy(&value, scalar.data(), sizeof value);
  return value;
}

float Widen(Half h) { return F16ToF32(h.bits); }
float Widen(Brain b) { return Bf16ToF32(b.bits); }
float Widen(float f) { return f; }
template <class T>
T Narrow(float value) {
  if constexpr (std::is_same_v<T, Half>) {
    return Half{F32ToF16(value)};
  } else if constexpr (std::is_same_v<T, Brain>) {
    return Brain{F32ToBf16(value)};
  } else {
    return value;
  }
}

template <class T>
void FillUniform(const UniformGenerator& g, uint64_t first, uint64_t count, T* out) {
  const T lo = Load<T>(g.lo);
  const T hi = Load<T>(g.hi);
  if constexpr (std::is_integral_v<T>) {
    // 0 stands for 2^64 values: the whole of a 64-bit type.
    const uint64_t values = static_cast<uint64_t>(hi) - static_cast<uint64_t>(lo) + 1;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t word = SplitMix64At(g.seed, first + i);
      const uint64_t step =
          values == 0
              ? word
              : static_cast<uint64_t>((static_cast<unsigned __int128>(word) * values) >> 64);
      out[i] = static_cast<T>(static_cast<uint64_t>(lo) + step);
    }
  } else if constexpr (std::is_same_v<T, double>) {
    const double width = hi - lo;
    for (uint64_t i = 0; i < count; ++i) {
      const auto u = static_cast<double>(SplitMix64At(g.seed, first + i) >> 11) * 0x1p-53;
      out[i] = lo + width * u;
    }
  } else {
    const float low = Widen(lo);
    const float width = Widen(hi) - low;
    for (uint64_t i = 0; i < count; ++i) {
      const auto bits = static_cast<int32_t>(SplitMix64At(g.seed, first + i) >> 40);
      out[i] = Narrow<T>(low + width * (static_cast<float>(bits) * 0x1p-24f));
    }
  }
}

template <class T>
void FillIota(const IotaGenerator& g, uint64_t first, uint64_t count, T* out) {
  const T start = Load<T>(g.start);
  const T step = Load<T>(g.step);
  for (uint64_t i = 0; i < count; ++i) {
    if constexpr (std::is_integral_v<T>) {
      out[i] =
          static_cast<T>(static_cast<uint64_t>(start) + static_cast<uint64_t>(step) * (first + i));
    } else if constexpr (std::is_same_v<T, double>) {
      out[i] = start + step * static_cast<double>(first + i);
    } else {
      const double value = static_cast<double>(Widen(start)) +
                           static_cast<double>(Widen(step)) * static_cast<double>(first + i);
      out[i] = Narrow<T>(static_cast<float>(value));
    }
  }
}

absl::Status BadGenerator(std::string_view text, std::string_view what) {
  return InvalidError(
      reason::kBadLocator,
      StrCat("generator ", Quoted(text), " ", what,
             ": write uniform(seed=7, lo=0, hi=1), iota(start=0, step=1) or constant(3.5)"));
}

// " (did you mean NEAR?)" or "".
std::string MeantToBe(std::string_view typed, const std::vector<std::string_view>& names) {
  const std::string_view near = Nearest(typed, names);
  return near.empty() ? "" : StrCat(" (did you mean ", near, "?)");
}

using Arguments = std::map<std::string, std::string, std::less<>>;

// "name(a=1, b=2)" or "name"; a bare value is stored under "value".
absl::Status SplitCall(std::string_view text, std::string_view* name, Arguments* arguments) {
  const size_t open = text.find('(');
  *name = Trim(text.substr(0, open));
  if (open == std::string_view::npos) return absl::OkStatus();
  if (text.back() != ')') return BadGenerator(text, "does not end with \")\"");
  const std::string_view inside = Trim(text.substr(open + 1, text.size() - open - 2));
  if (inside.empty()) return absl::OkStatus();
  for (const std::string_view piece : Split(inside, ',')) {
    const size_t equals = piece.find('=');
    const std::string_view key =
        equals == std::string_view::npos ? "value" : Trim(piece.substr(0, equals));
    const std::string_view value =
        Trim(equals == std::string_view::npos ? piece : piece.substr(equals + 1));
    if (value.empty()) return BadGenerator(text, "has an empty argument");
    if (!arguments->emplace(key, value).second) {
      return BadGenerator(text, StrCat("gives ", key, " twice"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckNames(std::string_view text, std::string_view name, const Arguments& arguments) {
  static const std::map<std::string_view, std::vector<std::string_view>> kKnown = {
      {"uniform", {"seed", "lo", "hi"}}, {"iota", {"start", "step"}}, {"constant", {"value"}}};
  const auto known = kKnown.find(name);
  if (known == kKnown.end()) {
    return BadGenerator(
        text, StrCat("has no known name", MeantToBe(name, {"uniform", "iota", "constant"})));
  }
  for (const auto& [key, value] : arguments) {
    const auto& keys = known->second;
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    return BadGenerator(text, StrCat("takes no argument ", Quoted(key), MeantToBe(key, keys)));
  }
  return absl::OkStatus();
}

// Takes an argument out; the default when it is not there.
absl::StatusOr<Scalar> TakeArgument(Arguments* arguments, std::string_view key, DType dtype,
                                    std::optional<Scalar> default_value) {
  const auto it = arguments->find(key);
  if (it == arguments->end()) {
    if (default_value.has_value()) return *default_value;
    return InvalidError(reason::kBadLocator, StrCat("the generator needs ", key, "=…"));
  }
  absl::StatusOr<Scalar> value = Scalar::Parse(it->second, dtype);
  if (!value.ok()) {
    return InvalidError(reason::kBadLocator,
                        StrCat("generator argument ", key, ": ", ToStd(value.status().message())));
  }
  arguments->erase(it);
  return value;
}

absl::StatusOr<Generator> ParseUniform(Arguments* arguments, DType dtype) {
  UniformGenerator g;
  ASSIGN_OR_RETURN(const Scalar seed, TakeArgument(arguments, "seed", DType::kU64, Scalar::U64(0)));
  g.seed = seed.bits();
  ASSIGN_OR_RETURN(const Scalar zero, Scalar::I64(0).ConvertTo(dtype));
  Scalar most = ReductionIdentity(Reduction::kMin, dtype);  // The largest of an integer.
  if (IsFloat(dtype)) most = *Scalar::I64(1).ConvertTo(dtype);
  ASSIGN_OR_RETURN(g.lo, TakeArgument(arguments, "lo", dtype, zero));
  ASSIGN_OR_RETURN(g.hi, TakeArgument(arguments, "hi", dtype, most));
  return g;
}

absl::StatusOr<Generator> ParseIota(Arguments* arguments, DType dtype) {
  IotaGenerator g;
  ASSIGN_OR_RETURN(const Scalar zero, Scalar::I64(0).ConvertTo(dtype));
  ASSIGN_OR_RETURN(const Scalar one, Scalar::I64(1).ConvertTo(dtype));
  ASSIGN_OR_RETURN(g.start, TakeArgument(arguments, "start", dtype, zero));
  ASSIGN_OR_RETURN(g.step, TakeArgument(arguments, "step", dtype, one));
  return g;
}

}  // namespace

absl::StatusOr<Generator> ParseGenerator(std::string_view text, DType dtype) {
  if (DTypeSize(dtype) == 0) {
    return BadGenerator(text, StrCat("cannot make elements of dtype ", DTypeName(dtype)));
  }
  text = Trim(text);
  std::string_view name;
  Arguments arguments;
  RETURN_IF_ERROR(SplitCall(text, &name, &arguments));
  RETURN_IF_ERROR(CheckNames(text, name, arguments));
  Generator generator;
  if (name == "uniform") {
    ASSIGN_OR_RETURN(generator, ParseUniform(&arguments, dtype));
  } else if (name == "iota") {
    ASSIGN_OR_RETURN(generator, ParseIota(&arguments, dtype));
  } else {
    ConstantGenerator g;
    ASSIGN_OR_RETURN(g.value, TakeArgument(&arguments, "value", dtype, std::nullopt));
    generator = g;
  }
  RETURN_IF_ERROR(ValidateGenerator(generator, dtype));
  return generator;
}

std::string GeneratorToString(const Generator& generator) {
  return std::visit(
      Overloaded{[](const UniformGenerator& g) {
                   return StrCat("uniform(seed=", g.seed, ", lo=", g.lo, ", hi=", g.hi, ")");
                 },
                 [](const IotaGenerator& g) {
                   return StrCat("iota(start=", g.start, ", step=", g.step, ")");
                 },
                 [](const ConstantGenerator& g) { return StrCat("constant(", g.value, ")"); }},
      generator);
}

absl::Status ValidateGenerator(const Generator& generator, DType dtype) {
  const std::string text = GeneratorToString(generator);
  if (DTypeSize(dtype) == 0) {
    return BadGenerator(text, StrCat("cannot make elements of dtype ", DTypeName(dtype)));
  }
  auto fits = [dtype](const Scalar& scalar) { return scalar.dtype() == dtype; };
  const bool types_fit =
      std::visit(Overloaded{[&](const UniformGenerator& g) { return fits(g.lo) && fits(g.hi); },
                            [&](const IotaGenerator& g) { return fits(g.start) && fits(g.step); },
                            [&](const ConstantGenerator& g) { return fits(g.value); }},
                 generator);
  if (!types_fit) {
    return BadGenerator(text, StrCat("has values that are not of dtype ", DTypeName(dtype)));
  }
  if (dtype == DType::kBool && std::holds_alternative<IotaGenerator>(generator)) {
    return BadGenerator(text, "would count beyond what a bool holds");
  }
  if (const auto* g = std::get_if<UniformGenerator>(&generator)) {
    const bool finite = !IsFloat(dtype) || std::isfinite(g->hi.AsDouble() - g->lo.AsDouble());
    if (Scalar::Compare(g->lo, g->hi) > 0 || !finite) {
      return BadGenerator(text, "has no finite range from lo up to hi");
    }
  }
  return absl::OkStatus();
}

void Generate(const Generator& generator, DType dtype, uint64_t first, uint64_t count, void* out) {
  WithType(dtype, [&](auto type) {
    using T = decltype(type);
    T* const to = static_cast<T*>(out);
    std::visit(Overloaded{[&](const UniformGenerator& g) { FillUniform(g, first, count, to); },
                          [&](const IotaGenerator& g) { FillIota(g, first, count, to); },
                          [&](const ConstantGenerator& g) {
                            const T value = Load<T>(g.value);
                            for (uint64_t i = 0; i < count; ++i) to[i] = value;
                          }},
               generator);
  });
}

}  // namespace tandem
