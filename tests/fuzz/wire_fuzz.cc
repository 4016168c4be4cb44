// Messages of peers into the model: what is decoded can be sent on and arrives the same; what is
// refused says why; and a job that can be bound can be planned.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/model/all_capabilities.h"
#include "common/model/bound_job.h"
#include "common/model/plan.h"
#include "common/wire/job_spec.h"
#include "common/wire/kernel.h"
#include "common/wire/lease_messages.h"
#include "common/wire/session.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/stubs/logging.h"
#include "tests/fuzz/fuzz_target.h"

namespace tandem::wire {
namespace {

// Equal messages give equal bytes, maps included.
std::string Bytes(const google::protobuf::MessageLite& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  CHECK(message.SerializeToCodedStream(&coded));
  coded.Trim();
  return bytes;
}

template <class Proto, class Model>
absl::Status DecodeAny(Proto* from, Model* to) {
  if constexpr (requires { Decode(from, to); }) {
    return Decode(from, to);
  } else {
    return Decode(*from, to);
  }
}

// False: it is not such a message, or it was refused, with a reason.
template <class Proto, class Model>
bool Travel(std::string_view bytes, Model* model) {
  Proto proto;
  if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return false;
  const absl::Status status = DecodeAny(&proto, model);
  if (!status.ok()) {
    CHECK_MSG(status.code() == absl::StatusCode::kInvalidArgument, std::string(status.message()));
    CHECK_MSG(!ReasonOf(status).empty(), std::string(status.message()));
    return false;
  }
  Proto sent;
  Encode(*model, &sent);
  const std::string first = Bytes(sent);
  Proto received;
  CHECK(received.ParseFromString(first));
  Model again;
  CHECK_OK(DecodeAny(&received, &again));
  Proto second;
  Encode(again, &second);
  CHECK(Bytes(second) == first);
  return true;
}

// A few leaves of a job, wherever they are.
void Plan(const BoundJob& job) {
  if (job.tree.leaf_count() == 0) return;
  for (const uint64_t leaf : {uint64_t{0}, job.tree.leaf_count() / 2, job.tree.leaf_count() - 1}) {
    const auto plan = PlanRange(job, job.tree.Tasks(LeafRange{leaf, leaf + 1}));
    CHECK_EQ(plan.operands.size(), job.operands.size());
  }
}

void FuzzJob(std::string_view bytes) {
  JobDescription description;
  if (!Travel<worker::v1::JobDescription>(bytes, &description)) return;
  const auto job =
      ValidateAndBind(std::move(description.spec), description.kernel, kAllCapabilities);
  if (!job.ok()) {
    CHECK_MSG(!ReasonOf(job.status()).empty(), std::string(job.status().message()));
    return;
  }
  // Bound once more, it is the same: what a worker does with what the master sends it.
  const auto again = ValidateAndBind(job->spec, job->kernel, kAllCapabilities);
  CHECK_OK(again);
  CHECK(*again == *job);
  Plan(*job);
}

JobDescription SomeJob() {
  JobDescription description;
  description.job = JobId(7);
  KernelInfo& kernel = description.kernel;
  kernel.name = "saxpy";
  kernel.content_hash = 0xff;
  kernel.signature = *Signature::Parse("a:f32, x[n]:f32, image[n]:bytes -> y[n]:f32, s:f64 : sum");
  kernel.output_class = OutputClass::kBitwise;
  kernel.cost = {2.5, "n", 64};
  kernel.fault_reasons = {"ok", "negative"};
  JobSpec& spec = description.spec;
  spec.owner = "ada";
  spec.kernel = kernel.identity();
  spec.scalars["a"] = Scalar::F64(0.5);
  OperandSpec x;
  x.spec = {DType::kF32, {100}};
  x.source = Locator(GeneratorLocator{IotaGenerator{Scalar::F64(0), Scalar::F64(1)}});
  spec.operands["x"] = x;
  OperandSpec image;
  image.spec = {DType::kBytes, {100}};
  image.source = RaggedPacked{InlineLocator{std::string(808, '\0')}, InlineLocator{""}, 0};
  spec.operands["image"] = image;
  spec.labels["team"] = "x";
  spec.time_limit = absl::Seconds(5);
  return description;
}

Report SomeReport() {
  Report report;
  report.number = 9;
  Commit commit;
  commit.job = JobId(3);
  commit.runs = {{17, {4, 2}}, {40, {100, 1}}};
  commit.outputs = std::make_shared<const CommitOutputs>(
      CommitOutputs{{0, "abc"}, {1, Region{SegmentId(5), 64, 1 << 20, 0xdeadbeef}}});
  commit.failures = {{8, 1, "truncated image"}};
  commit.tasks = 3;
  report.commits = {commit};
  report.merges = {{JobId(3), 77, commit.outputs, 5, 1, ""}};
  report.crashes = {{JobId(4), {18, {6, 1}}, true, 13, "SIGSEGV"}};
  report.returns = {{JobId(4), {19, {7, 3}}}};
  report.job_faults = {{JobId(5), "PATH_CHANGED: /data/x.npy", true}};
  report.rates = {{"saxpy", DeviceKind::kCpu, 1e9, 2e-6}};
  report.backlogs = {{JobId(3), 12}};
  return report;
}

WorkerHello SomeHello() {
  WorkerHello hello;
  hello.name = "w1";
  hello.incarnation = 3;
  hello.version = "0.1.0";
  hello.devices = {{DeviceKind::kCpu, "a cpu", "", 8, 1 << 30, 2}};
  hello.kernels = {SomeJob().kernel};
  hello.held = {{JobId(3), {4, 8}, 1, LeaseId{Epoch(2), 9}}};
  hello.max_leases = 100;
  return hello;
}

WorkerWelcome SomeWelcome() {
  WorkerWelcome welcome;
  welcome.worker = WorkerId(1);
  welcome.epoch = Epoch(2);
  welcome.lease_ttl = absl::Seconds(5);
  welcome.heartbeat = absl::Seconds(1);
  welcome.adopted = {{JobId(7), 1, 0, 3, 2, 1, true, {5, 6}}};
  welcome.jobs = {SomeJob()};
  return welcome;
}

enum Kind : char { kJob, kReport, kHello, kWelcome, kMerge, kOperand, kRecall, kOutlook, kKinds };

template <class Proto, class Model>
std::string Seed(Kind kind, const Model& model) {
  Proto proto;
  Encode(model, &proto);
  return std::string(1, kind) + Bytes(proto);
}

// The first byte chooses the message.
FUZZ_SEEDS(wire) {
  MergeGrant merge{JobId(3), 4, {Partial{9, {{0, 4}}, SomeReport().commits[0].outputs, 4, 0}}};
  v1::Operand operand;
  EncodeOperand("x", SomeJob().spec.operands["x"], &operand);
  return {Seed<worker::v1::JobDescription>(kJob, SomeJob()),
          Seed<worker::v1::Report>(kReport, SomeReport()),
          Seed<worker::v1::Hello>(kHello, SomeHello()),
          Seed<worker::v1::Welcome>(kWelcome, SomeWelcome()),
          Seed<worker::v1::MergeGrant>(kMerge, merge),
          std::string(1, kOperand) + Bytes(operand),
          Seed<worker::v1::Recall>(kRecall, Recall{JobId(3), {4, 5}}),
          Seed<worker::v1::Outlook>(kOutlook, Outlook{JobId(3), 2.5})};
}

FUZZ_TARGET(wire) {
  static const google::protobuf::LogSilencer quiet;  // of strings that are not UTF-8
  if (input.empty()) return;
  const std::string_view bytes = input.substr(1);
  switch (static_cast<uint8_t>(input[0]) % kKinds) {
    case kJob:
      return FuzzJob(bytes);
    case kReport: {
      Report report;
      Travel<worker::v1::Report>(bytes, &report);
      return;
    }
    case kHello: {
      WorkerHello hello;
      Travel<worker::v1::Hello>(bytes, &hello);
      return;
    }
    case kWelcome: {
      WorkerWelcome welcome;
      Travel<worker::v1::Welcome>(bytes, &welcome);
      return;
    }
    case kMerge: {
      MergeGrant merge;
      Travel<worker::v1::MergeGrant>(bytes, &merge);
      return;
    }
    case kOperand: {
      v1::Operand operand;
      OperandSpec spec;
      if (!operand.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
      if (!Decode(&operand, &spec).ok()) return;
      (void)ValidateOperandSpec(spec);
      return;
    }
    case kRecall: {
      Recall recall;
      Travel<worker::v1::Recall>(bytes, &recall);
      return;
    }
    case kOutlook: {
      Outlook outlook;
      Travel<worker::v1::Outlook>(bytes, &outlook);
      return;
    }
  }
}

}  // namespace
}  // namespace tandem::wire
