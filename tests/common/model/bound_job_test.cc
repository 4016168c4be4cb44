#include "common/model/bound_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/base/error.h"
#include "common/model/job_order.h"

namespace tandem {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

KernelInfo Kernel(const std::string& name, const std::string& signature) {
  KernelInfo kernel;
  kernel.name = name;
  absl::StatusOr<Signature> parsed = Signature::Parse(signature);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  kernel.signature = *std::move(parsed);
  kernel.content_hash = 0x123456789abcdef0;
  kernel.output_class = OutputClass::kBitwise;
  kernel.cost.ns_per_unit = 3;
  kernel.fault_reasons = {"ok", "years is negative"};
  return kernel;
}

KernelInfo BlackScholes() {
  return Kernel("black_scholes",
                "spot[n]:f32, strike[n]:f32, rate:f32 = 0.05 in [0, 1] -> call[n]:f32");
}

OperandSpec Iota(DType dtype, Shape shape) {
  OperandSpec operand;
  operand.spec = {dtype, std::move(shape)};
  operand.source = Locator(GeneratorLocator{*ParseGenerator("iota", dtype)});
  return operand;
}

JobSpec BlackScholesJob() {
  JobSpec spec;
  spec.owner = "ada";
  spec.kernel = "black_scholes";
  spec.operands["spot"] = Iota(DType::kF32, {1000});
  spec.operands["strike"] = Iota(DType::kF32, {1000});
  return spec;
}

absl::Status Refusal(const JobSpec& spec, const KernelInfo& kernel = BlackScholes(),
                     const Capabilities& can = {}) {
  return ValidateAndBind(spec, kernel, can).status();
}

TEST(ValidateAndBindTest, BindsAMap) {
  JobSpec spec = BlackScholesJob();
  spec.scalars["rate"] = Scalar::F64(0.25);
  const absl::StatusOr<BoundJob> job = ValidateAndBind(spec, BlackScholes());
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->kernel_identity, "black_scholes@123456789abcdef0");
  EXPECT_EQ(job->split_axis, "n");
  EXPECT_EQ(job->task_count(), 1000u);
  EXPECT_EQ(job->scalars[0].dtype(), DType::kF32);
  EXPECT_EQ(job->scalars[0].AsDouble(), 0.25);
  EXPECT_TRUE(job->operands[0].sliced);
  EXPECT_EQ(job->outputs[0].kind, BoundOutput::Kind::kConcat);
  EXPECT_EQ(job->outputs[0].output_class, OutputClass::kBitwise);
  EXPECT_FALSE(job->has_reduction());
}

TEST(ValidateAndBindTest, RecordsWhatItFilledInAndBindsItAgainTheSame) {
  const absl::StatusOr<BoundJob> job = ValidateAndBind(BlackScholesJob(), BlackScholes());
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->spec.kernel, job->kernel_identity);
  EXPECT_EQ(job->spec.name, "black_scholes");
  EXPECT_EQ(job->spec.split_axis, "n");
  EXPECT_EQ(job->spec.grain, 65'536u);  // 200 µs at 3 ns a task, a power of two.
  const absl::StatusOr<BoundJob> again = ValidateAndBind(job->spec, BlackScholes());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(*again == *job);
}

TEST(ValidateAndBindTest, ALeafHasNoMoreTasksThanTheJob) {
  KernelInfo kernel;
  kernel.name = "noop";
  kernel.signature = *Signature::Parse("axis n -> y[n]:u8");
  JobSpec spec;
  spec.kernel = "noop";
  for (const uint64_t grain : {uint64_t{1000}, uint64_t{5}, uint64_t{3}}) {
    spec.axis_extents["n"] = 5;
    spec.grain = grain;
    const absl::StatusOr<BoundJob> job = ValidateAndBind(spec, kernel);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->grain(), std::min<uint64_t>(grain, 5));
    EXPECT_EQ(job->spec.grain, grain) << "as it was asked for";
    EXPECT_EQ(job->tree.leaf_count(), grain < 5 ? 2u : 1u);
  }
}

TEST(ValidateAndBindTest, GrainComesFromUserThenHintThenCost) {
  JobSpec spec = BlackScholesJob();
  KernelInfo kernel = BlackScholes();
  kernel.cost.grain = 500;
  EXPECT_EQ(ValidateAndBind(spec, kernel)->grain(), 500u);
  spec.grain = 7;
  EXPECT_EQ(ValidateAndBind(spec, kernel)->grain(), 7u);
  kernel.cost = {};
  spec.grain = 0;
  EXPECT_EQ(ValidateAndBind(spec, kernel)->grain(), 1u);
}

TEST(ValidateAndBindTest, CostHintsFollowExtentsAndScalars) {
  KernelInfo kernel = Kernel("asian", "x[n,d]:f32, paths:i32 = 100 -> y[n]:f32");
  kernel.cost.ns_per_unit = 2;
  kernel.cost.units = "d * paths * 0.5";
  JobSpec spec;
  spec.kernel = "asian";
  spec.operands["x"] = Iota(DType::kF32, {10, 4});
  EXPECT_EQ(ValidateAndBind(spec, kernel)->ns_per_task, 400);
  EXPECT_EQ(ValidateAndBind(spec, kernel)->spec.grain, 256u);
  kernel.cost.units = "d * q";
  EXPECT_EQ(ReasonOf(Refusal(spec, kernel)), reason::kBadSignature);
}

TEST(ValidateAndBindTest, HugeJobsBindAtOnce) {
  const KernelInfo pi = Kernel("monte_carlo_pi", "axis n, seed:u64 = 0 -> hits:u64 : sum");
  for (const int64_t tasks : {int64_t{1'000'000'000}, int64_t{1'000'000'000'000'000},
                              int64_t{1'000'000'000'000'000'000}}) {
    JobSpec spec;
    spec.kernel = "monte_carlo_pi";
    spec.axis_extents["n"] = tasks;
    spec.grain = 1;
    const absl::StatusOr<BoundJob> job = ValidateAndBind(spec, pi);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->task_count(), static_cast<uint64_t>(tasks));
    EXPECT_EQ(job->outputs[0].kind, BoundOutput::Kind::kReduce);
    EXPECT_TRUE(job->outputs[0].accumulates());
    EXPECT_EQ(job->outputs[0].PieceBytes(1'000), 8u);
  }
  JobSpec spec;
  spec.kernel = "monte_carlo_pi";
  spec.axis_extents["n"] = (int64_t{1} << 62) + 1;
  EXPECT_EQ(ReasonOf(Refusal(spec, pi)), reason::kTooLarge);
}

TEST(ValidateAndBindTest, ZeroTasksAreAJob) {
  JobSpec spec = BlackScholesJob();
  spec.operands["spot"] = Iota(DType::kF32, {0});
  spec.operands["strike"] = Iota(DType::kF32, {0});
  const absl::StatusOr<BoundJob> job = ValidateAndBind(spec, BlackScholes());
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_TRUE(job->tree.empty());
  EXPECT_EQ(*job->outputs[0].spec.Bytes(), 0u);
}

TEST(ValidateAndBindTest, SplitsTheAxisThatIsAskedFor) {
  const KernelInfo linear =
      Kernel("linear", "axis n, axis m, x[n,k]:f32, w[m,k]:f32 -> y[n,m]:f32");
  JobSpec spec;
  spec.kernel = "linear";
  spec.operands["x"] = Iota(DType::kF32, {10, 3});
  spec.operands["w"] = Iota(DType::kF32, {7, 3});
  EXPECT_EQ(ValidateAndBind(spec, linear)->split_axis, "n");
  spec.split_axis = "m";
  const absl::StatusOr<BoundJob> job = ValidateAndBind(spec, linear);
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(job->task_count(), 7u);
  EXPECT_FALSE(job->operands[0].sliced);
  EXPECT_TRUE(job->operands[1].sliced);
  EXPECT_EQ(job->outputs[0].dim, 1u);
  spec.split_axis = "k";
  EXPECT_EQ(ReasonOf(Refusal(spec, linear)), reason::kAxisNotSplittable);
  EXPECT_EQ(FieldOf(Refusal(spec, linear)), "split_axis");
  spec.split_axis = "q";
  EXPECT_EQ(ReasonOf(Refusal(spec, linear)), reason::kUnknownAxis);
}

TEST(ValidateAndBindTest, TheKernelsOwnListOfAxesGoesFirst) {
  KernelInfo kernel = Kernel("linear", "x[n,k]:f32, w[m,k]:f32 -> y[n,m]:f32");
  JobSpec spec;
  spec.kernel = "linear";
  spec.operands["x"] = Iota(DType::kF32, {10, 3});
  spec.operands["w"] = Iota(DType::kF32, {7, 3});
  spec.split_axis = "m";
  EXPECT_EQ(ReasonOf(Refusal(spec, kernel)), reason::kAxisNotSplittable);
  kernel.split_axes = {"m", "n"};
  EXPECT_TRUE(ValidateAndBind(spec, kernel).ok());
  spec.split_axis = "";
  EXPECT_EQ(ValidateAndBind(spec, kernel)->split_axis, "m");
}

TEST(ValidateAndBindTest, ClassesFollowFromKernelAndOutput) {
  KernelInfo kernel = Kernel("mixed",
                             "x[n]:f32 -> a:f32 : sum, b:f32 : max, c:u32 : sum, d[n]:f32 : "
                             "merge, e[n]:i32");
  JobSpec spec;
  spec.kernel = "mixed";
  spec.operands["x"] = Iota(DType::kF32, {10});
  const BoundJob job = *ValidateAndBind(spec, kernel);
  EXPECT_FALSE(job.outputs[0].accumulates());
  EXPECT_TRUE(job.outputs[1].accumulates());
  EXPECT_TRUE(job.outputs[2].accumulates());
  EXPECT_FALSE(job.outputs[3].accumulates());
  EXPECT_EQ(job.outputs[3].PieceBytes(4), 16u);
  EXPECT_FALSE(job.outputs[4].reduced());
  kernel.output_class = OutputClass::kTolerant;
  EXPECT_FALSE(ValidateAndBind(spec, kernel)->outputs[2].accumulates());
}

TEST(ValidateAndBindTest, AReproducibleJobOfClassTolerantIsPinnedToCpus) {
  KernelInfo kernel = Kernel("loose", "x[n]:f32 -> y[n]:f32");
  JobSpec spec;
  spec.kernel = "loose";
  spec.operands["x"] = Iota(DType::kF32, {10});
  spec.reproducible = true;
  for (const OutputClass free : {OutputClass::kExact, OutputClass::kBitwise}) {
    kernel.output_class = free;
    EXPECT_FALSE(Pinned(*ValidateAndBind(spec, kernel)));
    EXPECT_EQ(ValidateAndBind(spec, kernel)->spec.device, DeviceChoice::kAuto);
  }
  kernel.output_class = OutputClass::kTolerant;
  EXPECT_TRUE(Pinned(*ValidateAndBind(spec, kernel)));
  EXPECT_EQ(ValidateAndBind(spec, kernel)->spec.device, DeviceChoice::kCpu);
  Capabilities can;
  can.gpus = true;
  spec.device = DeviceChoice::kGpu;
  EXPECT_EQ(FieldOf(Refusal(spec, kernel, can)), "reproducible");
  spec.reproducible = false;
  EXPECT_FALSE(Pinned(*ValidateAndBind(spec, kernel, can)));
}

TEST(ValidateAndBindTest, AnOutputThatTheKernelMergesMustFitIntoOnePartial) {
  const KernelInfo kernel = Kernel("sort", "key[n]:i32 -> sorted[n]:i32 : merge");
  JobSpec spec;
  spec.kernel = "sort";
  spec.operands["key"] = Iota(DType::kI32, {int64_t{1} << 30});
  ASSERT_TRUE(ValidateAndBind(spec, kernel).ok());
  EXPECT_TRUE(OwnMerge(*ValidateAndBind(spec, kernel)));
  EXPECT_FALSE(ValidateAndBind(spec, kernel)->outputs[0].accumulates());
  spec.operands["key"] = Iota(DType::kI32, {(int64_t{1} << 30) + 1});
  EXPECT_EQ(ReasonOf(Refusal(spec, kernel)), reason::kTooLarge);
}

struct Change {
  const char* what;
  void (*apply)(JobSpec*);
  std::string_view reason;
  const char* field;
};

void ExpectRefused(const Change& change) {
  JobSpec spec = BlackScholesJob();
  change.apply(&spec);
  const absl::Status status = Refusal(spec);
  ASSERT_FALSE(status.ok()) << change.what;
  EXPECT_EQ(ReasonOf(status), change.reason) << change.what << ": " << status;
  EXPECT_EQ(FieldOf(status), change.field) << change.what << ": " << status;
  EXPECT_EQ(status.code() == absl::StatusCode::kUnimplemented,
            change.reason == reason::kNotYetHonoured);
}

TEST(ValidateAndBindTest, RefusesABadSpecByReasonAndField) {
  for (const Change& change : std::initializer_list<Change>{
           {"missing operand", [](JobSpec* s) { s->operands.erase("strike"); },
            reason::kMissingOperand, "operands.strike"},
           {"unknown operand", [](JobSpec* s) { s->operands["stirke"] = Iota(DType::kF32, {1}); },
            reason::kUnknownOperand, "operands.stirke"},
           {"scalar as operand", [](JobSpec* s) { s->operands["rate"] = Iota(DType::kF32, {1}); },
            reason::kUnknownOperand, "operands.rate"},
           {"operand as scalar", [](JobSpec* s) { s->scalars["spot"] = Scalar::I64(1); },
            reason::kUnknownScalar, "scalars.spot"},
           {"dtype", [](JobSpec* s) { s->operands["spot"] = Iota(DType::kF64, {1000}); },
            reason::kDtypeMismatch, "operands.spot"},
           {"shape", [](JobSpec* s) { s->operands["spot"] = Iota(DType::kF32, {999}); },
            reason::kShapeMismatch, "operands.strike.shape"},
           {"scalar range", [](JobSpec* s) { s->scalars["rate"] = Scalar::F64(1.5); },
            reason::kScalarOutOfRange, "scalars.rate"},
           {"scalar NaN",
            [](JobSpec* s) { s->scalars["rate"] = *Scalar::Parse("nan", DType::kF64); },
            reason::kScalarOutOfRange, "scalars.rate"},
           {"axis", [](JobSpec* s) { s->axis_extents["q"] = 4; }, reason::kUnknownAxis,
            "axis_extents.q"},
           {"negative axis", [](JobSpec* s) { s->axis_extents["n"] = -4; }, reason::kBadSpec,
            "axis_extents.n"},
           {"other extent", [](JobSpec* s) { s->axis_extents["n"] = 4; }, reason::kShapeMismatch,
            "operands.spot.shape"},
           {"no kernel", [](JobSpec* s) { s->kernel = ""; }, reason::kBadSpec, "kernel"},
           {"other kernel", [](JobSpec* s) { s->kernel = "noop"; }, reason::kUnknownKernel,
            "kernel"},
           {"other content", [](JobSpec* s) { s->kernel = "black_scholes@0000000000000001"; },
            reason::kKernelChanged, "kernel"},
           {"long name", [](JobSpec* s) { s->name = std::string(1000, 'x'); },
            reason::kLimitExceeded, "name"},
           {"control character", [](JobSpec* s) { s->owner = "a\nb"; }, reason::kBadSpec, "owner"},
           {"carriage return", [](JobSpec* s) { s->name = "line\r"; }, reason::kBadSpec, "name"},
           {"not UTF-8", [](JobSpec* s) { s->name = "a\xff"; }, reason::kBadSpec, "name"},
           {"not UTF-8 label", [](JobSpec* s) { s->labels["k"] = "\xc3"; }, reason::kBadSpec,
            "labels.k"},
           {"negative cpus", [](JobSpec* s) { s->resources.cpus_e4 = -1; }, reason::kBadResources,
            "resources.cpus"},
           {"no strikes", [](JobSpec* s) { s->crash_limit = 0; }, reason::kLimitExceeded,
            "crash_limit"},
           {"many retries", [](JobSpec* s) { s->retries = 1'000'000; }, reason::kLimitExceeded,
            "retries"},
           {"no time", [](JobSpec* s) { s->time_limit = absl::ZeroDuration(); }, reason::kBadSpec,
            "time_limit"},
           {"inline",
            [](JobSpec* s) {
              s->operands["spot"].spec.shape = {100'000};
              s->operands["spot"].source = Locator(InlineLocator{std::string(400'000, 'x')});
            },
            reason::kLimitExceeded, "operands.spot"}}) {
    ExpectRefused(change);
  }
}

TEST(ValidateAndBindTest, RefusesByNameWhatIsNotHonouredYet) {
  for (const Change& change : std::initializer_list<Change>{
           {"cpus", [](JobSpec* s) { s->resources.cpus_e4 = 20'000; }, reason::kNotYetHonoured,
            "resources.cpus"},
           {"gpus", [](JobSpec* s) { s->resources.gpus_e4 = 5'000; }, reason::kNotYetHonoured,
            "resources.gpus"},
           {"memory", [](JobSpec* s) { s->resources.memory_bytes = 1; }, reason::kNotYetHonoured,
            "resources.memory"},
           {"gpu memory", [](JobSpec* s) { s->resources.gpu_memory_bytes = 1; },
            reason::kNotYetHonoured, "resources.gpu_memory"},
           {"after", [](JobSpec* s) { s->after = {JobId(3)}; }, reason::kNotYetHonoured, "after"},
           {"time limit", [](JobSpec* s) { s->time_limit = absl::Minutes(10); },
            reason::kNotYetHonoured, "time_limit"},
           {"command",
            [](JobSpec* s) {
              s->command = CommandSpec{{"true"}, {}, ""};
            },
            reason::kNotYetHonoured, "command"},
           {"job output",
            [](JobSpec* s) {
              s->operands["spot"].source = Locator(JobOutputLocator{JobId(3), "call"});
            },
            reason::kNotYetHonoured, "operands.spot"}}) {
    ExpectRefused(change);
  }
}

TEST(ValidateAndBindTest, ACapabilityOpensItsField) {
  JobSpec spec = BlackScholesJob();
  spec.resources.gpus_e4 = 5'000;
  spec.time_limit = absl::Minutes(10);
  spec.after = {JobId(3)};
  Capabilities can;
  can.gpus = can.time_limit = can.after = true;
  EXPECT_TRUE(Refusal(spec, BlackScholes(), can).ok()) << Refusal(spec, BlackScholes(), can);
}

TEST(ValidateAndBindTest, MessagesSayWhatToDo) {
  JobSpec spec = BlackScholesJob();
  spec.operands["stirke"] = Iota(DType::kF32, {1});
  EXPECT_THAT(std::string(Refusal(spec).message()), HasSubstr("did you mean strike?"));
  spec = BlackScholesJob();
  spec.resources.gpus_e4 = 5'000;
  EXPECT_THAT(std::string(Refusal(spec).message()),
              AllOf(HasSubstr("resources.gpus = 0.5"), HasSubstr("leave it out")));
}

TEST(ValidateAndBindTest, SizesThatOverflowAreRefused) {
  const KernelInfo outer = Kernel("outer", "x[n]:u8, y[m]:u8 -> z[n * m, n]:f64");
  JobSpec spec;
  spec.kernel = "outer";
  spec.operands["x"] = Iota(DType::kU8, {int64_t{1} << 31});
  spec.operands["y"] = Iota(DType::kU8, {int64_t{1} << 31});
  EXPECT_EQ(ReasonOf(Refusal(spec, outer)), reason::kAxisNotSplittable);  // n twice in z.
  const KernelInfo wide = Kernel("wide", "x[n]:u8, y[m]:u8 -> z[n, m]:f64");
  spec.kernel = "wide";
  EXPECT_EQ(ReasonOf(Refusal(spec, wide)), reason::kTooLarge);
  const KernelInfo counts = Kernel("counts", "x[n]:u8, k:i32 = 11 -> c[4^k]:u32 : sum");
  spec = {};
  spec.kernel = "counts";
  spec.operands["x"] = Iota(DType::kU8, {10});
  EXPECT_TRUE(ValidateAndBind(spec, counts).ok());
  spec.scalars["k"] = Scalar::I64(20);
  EXPECT_EQ(ReasonOf(Refusal(spec, counts)), reason::kTooLarge);
  spec.scalars["k"] = Scalar::I64(40);
  EXPECT_EQ(ReasonOf(Refusal(spec, counts)), reason::kTooLarge);
}

TEST(KernelRefTest, TakesNameAndHashApart) {
  EXPECT_EQ(ParseKernelRef("noop")->content_hash, 0u);
  EXPECT_EQ(ParseKernelRef("noop@00000000000000ff")->content_hash, 255u);
  EXPECT_FALSE(ParseKernelRef("no op").ok());
  EXPECT_FALSE(ParseKernelRef("noop@12").ok());
  EXPECT_EQ(BlackScholes().FaultReason(1), "years is negative");
  EXPECT_THAT(BlackScholes().FaultReason(9), HasSubstr("fault 9"));
}

}  // namespace
}  // namespace tandem
