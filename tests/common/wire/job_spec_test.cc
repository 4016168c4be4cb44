// Job specifications on the wire.
#include "common/wire/job_spec.h"

#include <cmath>
#include <limits>
#include <string>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/wire/kernel.h"
#include "common/wire/lease_messages.h"
#include "common/wire/session.h"
#include "gtest/gtest.h"

namespace tandem::wire {
namespace {

BlobId SomeBlob(uint8_t first) {
  std::array<uint8_t, BlobId::kBytes> bytes{};
  bytes[0] = first;
  return BlobId(bytes);
}

OperandSpec Dense(DType dtype, Shape shape, Locator locator) {
  OperandSpec operand;
  operand.spec = {dtype, std::move(shape)};
  operand.source = std::move(locator);
  return operand;
}

JobSpec MakeSpec() {
  JobSpec spec;
  spec.owner = "ada";
  spec.name = "first try";
  spec.kernel = "saxpy@00000000000000ff";
  spec.operands["a"] = Dense(DType::kF32, {2, 3}, InlineLocator{std::string(24, '\x7f')});
  spec.operands["b"] = Dense(DType::kI64, {10}, BlobLocator{SomeBlob(1), 80});
  spec.operands["c"] =
      Dense(DType::kF64, {4}, PathLocator{"/data/c.npy", 160, -5, 128, 32, 16, {7, 8}});
  spec.operands["d"] =
      Dense(DType::kI64, {5},
            GeneratorLocator{UniformGenerator{9, Scalar::I64(-(int64_t{1} << 60)),
                                              Scalar::I64((int64_t{1} << 60) + 1)}});
  spec.operands["e"] =
      Dense(DType::kF64, {5}, GeneratorLocator{IotaGenerator{Scalar::F64(0.1), Scalar::F64(0.3)}});
  spec.operands["f"] =
      Dense(DType::kBool, {5}, GeneratorLocator{ConstantGenerator{Scalar::Bool(true)}});
  spec.operands["g"] = Dense(DType::kF32, {5}, JobOutputLocator{JobId(3), "y"});
  spec.operands["h"] =
      Dense(DType::kU8, {64}, HeldLocator{WorkerId(2), SegmentId(4), 8, 64, 0x1234});
  OperandSpec packed;
  packed.spec = {DType::kBytes, {2}};
  packed.source = RaggedPacked{BlobLocator{SomeBlob(2), 24}, BlobLocator{SomeBlob(3), 100}, 100};
  spec.operands["i"] = packed;
  OperandSpec items;
  items.spec = {DType::kBytes, {2}};
  items.source = RaggedItems{{InlineLocator{"one"}, BlobLocator{SomeBlob(4), 7}}};
  items.item_names = {"one.png", "zwei-\xC3\xBC.png"};
  spec.operands["j"] = items;
  spec.scalars = {{"k", Scalar::I64(-11)},
                  {"seed", Scalar::U64(std::numeric_limits<uint64_t>::max())},
                  {"rate", Scalar::F64(0.05)},
                  {"canonical", Scalar::Bool(true)}};
  spec.split_axis = "n";
  spec.axis_extents = {{"n", 1'000'000'000}};
  spec.grain = 4096;
  spec.resources = {20'000, 5'000, uint64_t{1} << 33, uint64_t{1} << 32};
  spec.device = DeviceChoice::kGpu;
  spec.reproducible = true;
  spec.labels = {{"team", "blue"}, {"run", "7"}};
  spec.priority = -3;
  spec.time_limit = absl::Seconds(90) + absl::Nanoseconds(7);
  spec.retries = 2;
  spec.crash_limit = 5;
  spec.max_task_failures = 0;
  spec.allow_failed = true;
  spec.max_lease_leaves = 16;
  spec.fail_unsatisfiable = true;
  spec.after = {JobId(1), JobId(2)};
  return spec;
}

v1::JobSpec Encoded(const JobSpec& spec) {
  v1::JobSpec message;
  Encode(spec, &message);
  return message;
}

TEST(JobSpecWire, EveryFieldArrivesAsItWasSent) {
  const JobSpec sent = MakeSpec();
  v1::JobSpec received;
  ASSERT_TRUE(received.ParseFromString(Encoded(sent).SerializeAsString()));
  JobSpec got;
  const absl::Status status = Decode(&received, &got);
  ASSERT_TRUE(status.ok()) << status << " " << FieldOf(status);
  EXPECT_EQ(got.operands, sent.operands);
  EXPECT_EQ(got.scalars, sent.scalars);
  EXPECT_EQ(got, sent);
}

TEST(JobSpecWire, AbsentFieldsAreDefaults) {
  v1::JobSpec message;
  message.set_kernel("noop");
  JobSpec got;
  ASSERT_TRUE(Decode(&message, &got).ok());
  JobSpec expected;
  expected.kernel = "noop";
  EXPECT_EQ(got, expected);
  EXPECT_EQ(got.time_limit, absl::InfiniteDuration());
  EXPECT_FALSE(got.max_task_failures.has_value());
  EXPECT_EQ(got.crash_limit, 3u);
}

TEST(JobSpecWire, ACommandArrivesAsItWasSent) {
  JobSpec sent;
  sent.command = CommandSpec{{"/bin/echo", "a b"}, {{"HOME", "/tmp"}}, "/work"};
  v1::JobSpec message = Encoded(sent);
  JobSpec got;
  ASSERT_TRUE(Decode(&message, &got).ok());
  EXPECT_EQ(got.command, sent.command);
}

struct Hostile {
  const char* field;
  void (*spoil)(v1::JobSpec*);
};
class HostileSpec : public ::testing::TestWithParam<Hostile> {};

v1::Operand* Named(v1::JobSpec* spec, const std::string& name) {
  for (v1::Operand& operand : *spec->mutable_operands()) {
    if (operand.name() == name) return &operand;
  }
  return nullptr;
}

TEST_P(HostileSpec, IsRefusedWithItsField) {
  v1::JobSpec message = Encoded(MakeSpec());
  GetParam().spoil(&message);
  JobSpec got;
  const absl::Status status = Decode(&message, &got);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << GetParam().field;
  EXPECT_EQ(FieldOf(status), GetParam().field) << status;
  EXPECT_NE(ReasonOf(status), "");
}

INSTANTIATE_TEST_SUITE_P(
    Fields, HostileSpec,
    ::testing::Values(
        Hostile{"operands.a.tensor.dtype",
                [](auto* s) { Named(s, "a")->mutable_tensor()->set_dtype(v1::DTYPE_UNSPECIFIED); }},
        Hostile{"operands.a.tensor.dtype",
                [](auto* s) {
                  Named(s, "a")->mutable_tensor()->set_dtype(static_cast<v1::DType>(99));
                }},
        Hostile{"operands.a.tensor.shape[0]",
                [](auto* s) { Named(s, "a")->mutable_tensor()->set_shape(0, uint64_t{1} << 63); }},
        Hostile{"operands.a.tensor.shape",
                [](auto* s) {
                  for (int i = 0; i < 100; ++i) Named(s, "a")->mutable_tensor()->add_shape(1);
                }},
        Hostile{"operands.a", [](auto* s) { Named(s, "b")->set_name("a"); }},
        Hostile{"operands[0]", [](auto* s) { s->mutable_operands(0)->clear_name(); }},
        Hostile{"operands.a.locator.where",
                [](auto* s) { Named(s, "a")->mutable_locator()->clear_where(); }},
        Hostile{
            "operands.b.locator.blob.sha256",
            [](auto* s) { Named(s, "b")->mutable_locator()->mutable_blob()->set_sha256("short"); }},
        Hostile{"operands.b.locator.blob.sha256",
                [](auto* s) {
                  Named(s, "b")->mutable_locator()->mutable_blob()->set_sha256(
                      std::string(32, '\0'));
                }},
        Hostile{"operands.c.locator.path.path",
                [](auto* s) {
                  Named(s, "c")->mutable_locator()->mutable_path()->set_path("relative.npy");
                }},
        Hostile{
            "operands.c.locator.path.size",
            [](auto* s) { Named(s, "c")->mutable_locator()->mutable_path()->set_file_size(100); }},
        Hostile{"operands.d.locator.generator.kind",
                [](auto* s) {
                  Named(s, "d")->mutable_locator()->mutable_generator()->set_kind(
                      v1::Generator::KIND_UNSPECIFIED);
                }},
        Hostile{
            "operands.d.locator.generator.high",
            [](auto* s) { Named(s, "d")->mutable_locator()->mutable_generator()->clear_high(); }},
        Hostile{"operands.d.locator.generator.low",
                [](auto* s) {
                  Named(s, "d")->mutable_locator()->mutable_generator()->mutable_low()->set_d(0.5);
                }},
        Hostile{"operands.e.locator.generator.step",
                [](auto* s) {
                  Named(s, "e")->mutable_locator()->mutable_generator()->mutable_step()->set_d(
                      std::nan(""));
                }},
        Hostile{
            "operands.g.locator.job_output.job",
            [](auto* s) { Named(s, "g")->mutable_locator()->mutable_job_output()->set_job(0); }},
        Hostile{"operands.a.locator.parts",
                [](auto* s) { Named(s, "a")->mutable_locator()->mutable_parts(); }},
        Hostile{
            "operands.j.locator.parts.parts[0].parts",
            [](auto* s) {
              Named(s, "j")->mutable_locator()->mutable_parts()->mutable_parts(0)->mutable_parts();
            }},
        Hostile{
            "operands.i.locator.packed.offsets",
            [](auto* s) { Named(s, "i")->mutable_locator()->mutable_packed()->clear_offsets(); }},
        Hostile{"operands.j.item_names", [](auto* s) { Named(s, "j")->add_item_names("third"); }},
        Hostile{"scalars.k",
                [](auto* s) {
                  for (v1::Scalar& scalar : *s->mutable_scalars()) scalar.set_name("k");
                }},
        Hostile{"scalars.k.value",
                [](auto* s) {
                  for (v1::Scalar& scalar : *s->mutable_scalars()) {
                    if (scalar.name() == "k") scalar.clear_value();
                  }
                }},
        Hostile{"axis_extents.n",
                [](auto* s) { (*s->mutable_axis_extents())["n"] = uint64_t{1} << 63; }},
        Hostile{"time_limit", [](auto* s) { s->mutable_time_limit()->set_seconds(-1); }},
        Hostile{"time_limit", [](auto* s) { s->mutable_time_limit()->Clear(); }},
        Hostile{"time_limit", [](auto* s) { s->mutable_time_limit()->set_nanos(1'000'000'000); }},
        Hostile{"device", [](auto* s) { s->set_device(static_cast<v1::DeviceChoice>(17)); }},
        Hostile{"after", [](auto* s) { s->add_after(0); }},
        Hostile{"kernel_hash", [](auto* s) { s->set_kernel("saxpy@0000000000000001"); }}));

KernelInfo MakeKernel() {
  KernelInfo kernel;
  kernel.name = "gradient";
  kernel.signature = *Signature::Parse("x[n,d]:f32, w[d]:f32 -> grad[d]:f32 : sum");
  kernel.content_hash = 0x123456789abcdef0;
  kernel.output_class = OutputClass::kBitwise;
  kernel.tolerance = 1e-6;
  kernel.split_axes = {"n"};
  kernel.cost = {3.5, "d", 512};
  kernel.whole_leaf = true;
  kernel.host_stages = true;
  kernel.summary = "logistic regression's gradient";
  kernel.fault_reasons = {"ok", "not finite"};
  return kernel;
}

TEST(KernelWire, ArrivesAsItWasSent) {
  v1::Kernel message;
  Encode(MakeKernel(), &message);
  KernelInfo got;
  ASSERT_TRUE(Decode(&message, &got).ok());
  EXPECT_EQ(got, MakeKernel());
}

TEST(KernelWire, MalformedKernelsAreRefusedWithTheirField) {
  const auto refused = [](void (*spoil)(v1::Kernel*)) {
    v1::Kernel message;
    Encode(MakeKernel(), &message);
    spoil(&message);
    KernelInfo got;
    return FieldOf(Decode(&message, &got));
  };
  EXPECT_EQ(refused([](v1::Kernel* k) { k->clear_name(); }), "name");
  EXPECT_EQ(refused([](v1::Kernel* k) { k->set_signature("x[n -> y"); }), "signature");
  EXPECT_EQ(refused([](v1::Kernel* k) { k->clear_content_hash(); }), "content_hash");
  EXPECT_EQ(refused([](v1::Kernel* k) { k->clear_output_class(); }), "output_class");
  EXPECT_EQ(refused([](v1::Kernel* k) { k->set_tolerance(-1); }), "tolerance");
  EXPECT_EQ(refused([](v1::Kernel* k) { k->set_cost_ns_per_unit(std::nan("")); }),
            "cost_ns_per_unit");
}

TEST(SessionWire, AReadingArrivesAsItWasSentWithWhatIsNotKnown) {
  DeviceInfo device = {DeviceKind::kGpu, "a GPU", "GPU-1"};
  DeviceReading& reading = device.reading.emplace();
  reading = {"GPU-1", 0.37, std::nullopt, 41, 123.5, std::nullopt, 400, true, std::nullopt, 3};
  v1::Device message;
  Encode(device, &message);
  DeviceInfo got;
  ASSERT_TRUE(Decode(&message, &got).ok());
  EXPECT_EQ(got.reading, device.reading);
  Encode(device, &message);
  message.mutable_reading()->set_power_watts(std::nan(""));
  EXPECT_EQ(FieldOf(Decode(&message, &got)), "reading.power_watts");
  message.clear_reading();
  DeviceInfo none;
  ASSERT_TRUE(Decode(&message, &none).ok());
  EXPECT_EQ(none.reading, std::nullopt);
}

TEST(SessionWire, HelloAndWelcomeArriveAsTheyWereSent) {
  WorkerHello hello;
  hello.name = "node-7";
  hello.incarnation = 99;
  hello.version = "0.1.0";
  hello.max_epoch = 4;
  hello.devices = {
      {DeviceKind::kCpu, "EPYC", "", 64, uint64_t{1} << 38, 8},
      {DeviceKind::kEmulated, "an emulated one", "EMULATED-0", 8, 1000, 1, 900, "90%"}};
  hello.kernels = {MakeKernel()};
  hello.held = {{JobId(1), {0, 8}, 1, LeaseId{Epoch(4), 12}}};
  hello.host_id = "boot/mnt";
  hello.max_leases = 2048;
  worker::v1::Hello message;
  Encode(hello, &message);
  WorkerHello got;
  ASSERT_TRUE(Decode(&message, &got).ok());
  EXPECT_EQ(got.name, hello.name);
  EXPECT_EQ(got.protocol, kProtocol);
  EXPECT_EQ(got.kernels, hello.kernels);
  ASSERT_EQ(got.held.size(), 1u);
  EXPECT_EQ(got.held[0].lease, hello.held[0].lease);
  ASSERT_EQ(got.devices.size(), 2u);
  EXPECT_EQ(got.devices[0].cores, 64u);
  EXPECT_EQ(got.devices[1].budget_bytes, 900u);
  EXPECT_EQ(got.devices[1].budget_rule, "90%");
  EXPECT_EQ(got.max_leases, 2048u);

  WorkerWelcome welcome;
  welcome.worker = WorkerId(3);
  welcome.epoch = Epoch(5);
  welcome.lease_ttl = absl::Seconds(5);
  welcome.heartbeat = absl::Seconds(1);
  welcome.adopted = {{JobId(1), 20, 0, 3, 1, 1, false, {}}};
  welcome.jobs.push_back({JobId(1), MakeSpec(), MakeKernel()});
  welcome.cluster_id = "c";
  worker::v1::Welcome welcome_message;
  Encode(welcome, &welcome_message);
  WorkerWelcome got_welcome;
  ASSERT_TRUE(Decode(&welcome_message, &got_welcome).ok());
  EXPECT_EQ(got_welcome.epoch, Epoch(5));
  EXPECT_EQ(got_welcome.lease_ttl, absl::Seconds(5));
  ASSERT_EQ(got_welcome.jobs.size(), 1u);
  EXPECT_EQ(got_welcome.jobs[0].spec, MakeSpec());
  EXPECT_EQ(got_welcome.jobs[0].kernel, MakeKernel());
  welcome_message.set_lease_ttl_ns(0);
  EXPECT_EQ(FieldOf(Decode(&welcome_message, &got_welcome)), "lease_ttl_ns");
}

}  // namespace
}  // namespace tandem::wire
