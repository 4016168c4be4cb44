// What people type behind a kernel's name: generators, lists and scalars, each there and back.
#include <cmath>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "client/lib/arguments.h"
#include "common/base/check.h"
#include "common/base/error.h"
#include "common/model/generator.h"
#include "common/model/scalar.h"
#include "tests/fuzz/fuzz_target.h"

namespace tandem::client {
namespace {

// Elements can be had in any cut.
void CheckElements(const Generator& generator, DType dtype, uint64_t first) {
  constexpr uint64_t kCount = 9;
  const uint64_t size = DTypeSize(dtype);
  std::string all(kCount * size, '\0'), one(size, '\0');
  Generate(generator, dtype, first, kCount, all.data());
  for (uint64_t i = 0; i < kCount; ++i) {
    Generate(generator, dtype, first + i, 1, one.data());
    CHECK(all.compare(i * size, size, one) == 0);
  }
}

void FuzzGenerator(std::string_view text, DType dtype, uint64_t first) {
  const auto generator = ParseGenerator(text, dtype);
  if (!generator.ok()) {
    CHECK(generator.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(!ReasonOf(generator.status()).empty());
    return;
  }
  CHECK_OK(ValidateGenerator(*generator, dtype));
  const auto again = ParseGenerator(GeneratorToString(*generator), dtype);
  CHECK_OK(again);
  CHECK_MSG(*again == *generator, GeneratorToString(*generator));
  CheckElements(*generator, dtype, first);
}

void FuzzScalar(std::string_view text, DType dtype) {
  const auto scalar = Scalar::Parse(text, dtype);
  if (!scalar.ok()) {
    CHECK(scalar.status().code() == absl::StatusCode::kInvalidArgument);
    return;
  }
  CHECK(scalar->dtype() == dtype);
  const auto again = Scalar::Parse(scalar->ToString(), dtype);
  CHECK_OK(again);
  CHECK_MSG(*again == *scalar || std::isnan(scalar->AsDouble()), scalar->ToString());
  CHECK_EQ(Scalar::Compare(*scalar, *again), 0);
}

KernelInfo AKernel() {
  KernelInfo kernel;
  kernel.name = "mix";
  kernel.content_hash = 1;
  const auto signature = Signature::Parse(
      "x[n]:f32, w[n + k - 1]:u8, m[n,c]:i16, b[n]:bool, text[n]:bytes, k:i32 = 3 in [1, 15], "
      "rate:f64 -> y[n]:f32");
  CHECK_OK(signature);
  kernel.signature = *signature;
  kernel.output_class = OutputClass::kExact;
  return kernel;
}

// Words, one a line. Those that name files are left out: their content is no input of this test.
void FuzzArguments(std::string_view text) {
  std::vector<Argument> arguments;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const auto argument = ParseArgument(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (!argument.ok()) continue;
    CHECK(!argument->name.empty());
    const std::string_view value = argument->value;
    if (value.starts_with("@") || value.starts_with("path:") || value.starts_with("list:"))
      continue;
    arguments.push_back(*argument);
  }
  static const KernelInfo* const kernel = new KernelInfo(AKernel());
  const auto job = PrepareJob(*kernel, JobSpec(), arguments);
  if (!job.ok()) {
    CHECK_MSG(job.status().code() == absl::StatusCode::kInvalidArgument,
              std::string(job.status().message()));
    CHECK_MSG(!ReasonOf(job.status()).empty(), std::string(job.status().message()));
    return;
  }
  for (const auto& [name, operand] : job->spec.operands) {
    CHECK(kernel->signature.FindOperand(name) >= 0);
    for (const int64_t extent : operand.spec.shape) CHECK(extent >= 0);
  }
}

constexpr char kGenerator = 'g', kScalar = 's', kArguments = 'a';

std::string Typed(char kind, DType dtype, std::string text) {
  text += static_cast<char>(dtype);
  return std::string(1, kind) + text;
}

// The first byte chooses, the last one is a dtype.
FUZZ_SEEDS(arguments) {
  return {Typed(kGenerator, DType::kF32, "uniform(seed=7)"),
          Typed(kGenerator, DType::kI64, "uniform(seed=7, lo=-10, hi=20)"),
          Typed(kGenerator, DType::kU8, "iota"),
          Typed(kGenerator, DType::kBf16, "iota(start=5, step=2)"),
          Typed(kGenerator, DType::kF64, "constant(3.5)"),
          Typed(kGenerator, DType::kBool, "uniform"),
          Typed(kGenerator, DType::kF16, "constant(value=-inf)"),
          Typed(kScalar, DType::kF32, "0.1"),
          Typed(kScalar, DType::kI8, "-0x80"),
          Typed(kScalar, DType::kU64, "18446744073709551615"),
          Typed(kScalar, DType::kF64, "1e-308"),
          Typed(kScalar, DType::kBool, "true"),
          Typed(kArguments, DType::kBool,
                "x=[1,2.5,nan]\nw=iota\nm=uniform(seed=1)\nb=[true,0,1]\nc=2\nrate=0.5\nk=3\n"),
          Typed(kArguments, DType::kBool, "n=1000000\nx=iota\nrate=1\nrate=2\n"),
          Typed(kArguments, DType::kBool, "kk=3\nx=\n=\nx")};
}

FUZZ_TARGET(arguments) {
  if (input.size() < 2) return;
  const DType dtype = kAllDTypes[static_cast<uint8_t>(input.back()) % std::size(kAllDTypes)];
  const std::string_view text = input.substr(1, input.size() - 2);
  switch (input.front()) {
    case kScalar:
      return FuzzScalar(text, dtype);
    case kArguments:
      return FuzzArguments(text);
    default:
      return FuzzGenerator(text, dtype, text.size() * 0x9e3779b97f4a7c15u);
  }
}

}  // namespace
}  // namespace tandem::client
