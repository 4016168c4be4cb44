#include "tests/common/model/plan_cases.h"

#include <algorithm>
#include <utility>

namespace tandem::plan_cases {
namespace {

template <class T>
std::string Pack(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}
template <class T>
std::vector<T> Unpack(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

template <class T, class F>
std::string Elementwise(const std::string& a, const std::string& b, F f) {
  std::vector<T> x = Unpack<T>(a);
  const std::vector<T> y = Unpack<T>(b);
  EXPECT_EQ(x.size(), y.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = f(x[i], y[i]);
  return Pack(x);
}
std::string SumU32(const std::string& a, const std::string& b) {
  return Elementwise<uint32_t>(a, b, [](uint32_t x, uint32_t y) { return x + y; });
}
std::string MaxU32(const std::string& a, const std::string& b) {
  return Elementwise<uint32_t>(a, b, [](uint32_t x, uint32_t y) { return std::max(x, y); });
}
std::string MergeSorted(const std::string& a, const std::string& b) {
  const std::vector<uint32_t> x = Unpack<uint32_t>(a);
  const std::vector<uint32_t> y = Unpack<uint32_t>(b);
  std::vector<uint32_t> both(x.size() + y.size());
  std::merge(x.begin(), x.end(), y.begin(), y.end(), both.begin());
  return Pack(both);
}

Case Map() {
  return {"map",
          "x[n]:u32, y[n]:u8, s:i32 -> z[n]:u32, w[n]:u8",
          "",
          [](int64_t n) {
            return std::vector<Shape>{{n}, {n}};
          },
          {{"s", Scalar::I64(3)}},
          false,
          [](const Call& c) {
            std::vector<uint32_t> z;
            std::vector<uint8_t> w;
            for (uint64_t i = 0; i < c.tasks.size(); ++i) {
              z.push_back(c.At<uint32_t>(0, {i}) * static_cast<uint32_t>(c.scalar(0)) +
                          static_cast<uint32_t>(c.tasks.begin + i));
              w.push_back(static_cast<uint8_t>(c.At<uint8_t>(1, {i}) + 1));
            }
            return Buffers{Pack(z), Pack(w)};
          },
          {nullptr, nullptr}};
}

Case Histogram() {
  return {"histogram and maximum",
          "v[n]:u8 -> count[16]:u32 : sum, top:u32 : max",
          "",
          [](int64_t n) { return std::vector<Shape>{{n}}; },
          {},
          false,
          [](const Call& c) {
            std::vector<uint32_t> count(16);
            std::vector<uint32_t> top(1);
            for (uint64_t i = 0; i < c.tasks.size(); ++i) {
              const uint8_t v = c.At<uint8_t>(0, {i});
              ++count[v % 16];
              top[0] = std::max<uint32_t>(top[0], v);
            }
            return Buffers{Pack(count), Pack(top)};
          },
          {SumU32, MaxU32}};
}

Case Window() {
  return {"window",
          "base[n + k - 1]:u8, k:i32 in [1, 15] -> count[2^k]:u32 : sum",
          "",
          [](int64_t n) { return std::vector<Shape>{{n + 3}}; },
          {{"k", Scalar::I64(4)}},
          false,
          [](const Call& c) {
            std::vector<uint32_t> count(16);
            for (uint64_t i = 0; i < c.tasks.size(); ++i) {
              uint32_t word = 0;
              for (uint64_t j = 0; j < 4; ++j) {
                word = word * 2 + (c.At<uint8_t>(0, {i + j}) & 1);
              }
              ++count[word];
            }
            return Buffers{Pack(count)};
          },
          {SumU32}};
}

constexpr char kLinear[] = "axis n, axis m, x[n,k]:u32, w[m,k]:u32 -> y[n,m]:u32";

Buffers Linear(const Call& c) {
  std::vector<uint32_t> y;
  for (uint64_t i = 0; i < c.extent(0, 0); ++i) {
    for (uint64_t j = 0; j < c.extent(1, 0); ++j) {
      uint32_t sum = 0;
      for (uint64_t k = 0; k < c.extent(0, 1); ++k) {
        sum += c.At<uint32_t>(0, {i, k}) * c.At<uint32_t>(1, {j, k});
      }
      y.push_back(sum);
    }
  }
  return Buffers{Pack(y)};
}

Case LinearOverN() {
  return {"linear over n",
          kLinear,
          "n",
          [](int64_t n) {
            return std::vector<Shape>{{n, 3}, {5, 3}};
          },
          {},
          false,
          Linear,
          {nullptr}};
}

Case LinearOverM() {
  return {"linear over m",
          kLinear,
          "m",
          [](int64_t m) {
            return std::vector<Shape>{{5, 3}, {m, 3}};
          },
          {},
          false,
          Linear,
          {nullptr}};
}

Case Convolution() {
  return {"convolution in an inner dimension",
          "axis n, x[b, n + w - 1, c]:u32, f[w]:u32 -> y[b, n, c]:u32",
          "",
          [](int64_t n) {
            return std::vector<Shape>{{3, n + 3, 2}, {4}};
          },
          {},
          false,
          [](const Call& c) {
            std::vector<uint32_t> y;
            for (uint64_t b = 0; b < 3; ++b) {
              for (uint64_t i = 0; i < c.tasks.size(); ++i) {
                for (uint64_t ch = 0; ch < 2; ++ch) {
                  uint32_t sum = 0;
                  for (uint64_t j = 0; j < 4; ++j) {
                    sum += c.At<uint32_t>(0, {b, i + j, ch}) * c.At<uint32_t>(1, {j});
                  }
                  y.push_back(sum);
                }
              }
            }
            return Buffers{Pack(y)};
          },
          {nullptr}};
}

Case SeveralElements() {
  return {"several elements a task",
          "p[2 * n]:u32 -> q[3 * n]:u32",
          "",
          [](int64_t n) { return std::vector<Shape>{{2 * n}}; },
          {},
          false,
          [](const Call& c) {
            std::vector<uint32_t> q;
            for (uint64_t i = 0; i < c.tasks.size(); ++i) {
              const uint32_t a = c.At<uint32_t>(0, {2 * i});
              const uint32_t b = c.At<uint32_t>(0, {2 * i + 1});
              q.insert(q.end(), {a + b, a - b, a * b});
            }
            return Buffers{Pack(q)};
          },
          {nullptr}};
}

Case Sort() {
  return {"sort",
          "key[n]:u32 -> sorted[n]:u32 : merge",
          "",
          [](int64_t n) { return std::vector<Shape>{{n}}; },
          {},
          false,
          [](const Call& c) {
            std::vector<uint32_t> keys = Unpack<uint32_t>(c.operands[0]);
            std::sort(keys.begin(), keys.end());
            return Buffers{Pack(keys)};
          },
          {MergeSorted}};
}

Case NoOperand() {
  return {"no operand",
          "axis n, seed:u64 = 5 -> hits:u32 : sum, id[n]:u64",
          "",
          [](int64_t) { return std::vector<Shape>{}; },
          {},
          true,
          [](const Call& c) {
            std::vector<uint32_t> hits(1);
            std::vector<uint64_t> id;
            for (uint64_t t = c.tasks.begin; t < c.tasks.end; ++t) {
              hits[0] += SplitMix64At(static_cast<uint64_t>(c.scalar(0)), t) & 1;
              id.push_back(t);
            }
            return Buffers{Pack(hits), Pack(id)};
          },
          {SumU32, nullptr}};
}

}  // namespace

std::vector<Case> Cases() {
  return {Map(),         Histogram(),       Window(), LinearOverN(), LinearOverM(),
          Convolution(), SeveralElements(), Sort(),   NoOperand()};
}

Instance Make(const Case& c, uint64_t tasks, uint64_t grain, Rng* rng) {
  KernelInfo kernel;
  kernel.name = "k";
  kernel.signature = *Signature::Parse(c.signature);
  kernel.output_class = OutputClass::kExact;
  JobSpec spec;
  spec.kernel = "k";
  spec.split_axis = c.split;
  spec.grain = grain;
  spec.scalars = c.scalars;
  if (c.given) spec.axis_extents["n"] = static_cast<int64_t>(tasks);
  const std::vector<Shape> shapes = c.shapes(static_cast<int64_t>(tasks));
  Instance instance;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const OperandSig& sig = kernel.signature.operands()[i];
    OperandSpec operand;
    operand.spec = {sig.dtype, shapes[i]};
    std::string bytes(*operand.spec.Bytes(), '\0');
    for (char& byte : bytes) byte = static_cast<char>(rng->Next());
    operand.source = Locator(InlineLocator{bytes});
    spec.operands[sig.name] = operand;
    instance.data.push_back(std::move(bytes));
  }
  absl::StatusOr<BoundJob> job = ValidateAndBind(spec, kernel);
  EXPECT_TRUE(job.ok()) << c.name << ": " << job.status();
  instance.job = *std::move(job);
  EXPECT_EQ(instance.job.task_count(), tasks);
  return instance;
}

Buffers RunWhole(const Case& c, const Instance& instance) {
  std::vector<Shape> shapes;
  for (const BoundOperand& operand : instance.job.operands) shapes.push_back(operand.spec.shape);
  return c.run({instance.job, instance.data, shapes, {0, instance.job.task_count()}});
}

Buffers RunPlan(const Case& c, const Instance& instance, const Plan& plan) {
  Buffers local;
  std::vector<Shape> shapes;
  for (size_t i = 0; i < plan.operands.size(); ++i) {
    const BoundOperand& operand = instance.job.operands[i];
    const OperandPart& part = plan.operands[i];
    std::string packed(part.slice.bytes(), '\0');
    EXPECT_LE(part.slice.end(), instance.data[i].size());
    GatherSlice(part.slice, instance.data[i].data(), packed.data());
    Shape shape = operand.spec.shape;
    if (operand.sliced) {
      shape[operand.dim] = static_cast<int64_t>(part.count);
    } else {
      EXPECT_EQ(packed, instance.data[i]);
    }
    local.push_back(std::move(packed));
    shapes.push_back(shape);
  }
  return c.run({instance.job, local, shapes, plan.tasks});
}

void Scatter(const StridedSlice& slice, const void* packed, void* whole) {
  const char* from = static_cast<const char*>(packed);
  char* to = static_cast<char*>(whole) + slice.offset;
  for (uint64_t i = 0; i < slice.blocks; ++i) {
    if (slice.block_bytes != 0) std::memcpy(to, from, slice.block_bytes);
    from += slice.block_bytes;
    to += slice.stride_bytes;
  }
}

Assembly::Assembly(const Case& c, const BoundJob& job)
    : case_(c), job_(job), results_(job.outputs.size()) {
  for (size_t i = 0; i < results_.size(); ++i) {
    if (!job.outputs[i].reduced()) results_[i].assign(*job.outputs[i].spec.Bytes(), '\xee');
  }
}

void Assembly::Take(const Plan& plan, const Buffers& pieces) {
  for (size_t i = 0; i < results_.size(); ++i) {
    const OutputPart& part = plan.outputs[i];
    ASSERT_EQ(pieces[i].size(), part.bytes) << case_.name;
    ASSERT_EQ(job_.outputs[i].PieceBytes(plan.tasks.size()), part.bytes);
    if (part.kind == OutputPart::Kind::kPlaced) {
      ASSERT_LE(part.slice.end(), results_[i].size());
      Scatter(part.slice, pieces[i].data(), results_[i].data());
    } else {
      results_[i] = any_ ? case_.merges[i](results_[i], pieces[i]) : pieces[i];
    }
  }
  any_ = true;
}

}  // namespace tandem::plan_cases
