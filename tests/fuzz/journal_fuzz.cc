// What is read back from the log: the records of the master, and the framing of a commit's batches.
// What is decoded can be written again, and then reads the same.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/model/bound_job.h"
#include "google/protobuf/stubs/logging.h"
#include "master/server/records.h"
#include "master/store/log_codec.h"
#include "tests/fuzz/fuzz_target.h"

namespace tandem::master {
namespace {

void CheckRefusal(const absl::Status& status) {
  const bool known =
      (status.code() == absl::StatusCode::kDataLoss && ReasonOf(status) == reason::kStoreCorrupt) ||
      (status.code() == absl::StatusCode::kFailedPrecondition &&
       ReasonOf(status) == reason::kVersionSkew);
  CHECK_MSG(known, std::string(status.message()));
}

// The records of a payload, written again one by one so that none is joined with another.
absl::Status Rewrite(std::string_view payload, std::vector<std::string>* rewritten) {
  return DecodeRecords(payload, [&](DecodedRecord decoded) {
    RecordEncoder encoder;
    encoder.Add(decoded.record, decoded.ended.value_or(absl::UnixEpoch()));
    rewritten->push_back(encoder.Take());
    return absl::OkStatus();
  });
}

// Maps may be written in any order: equal after a second round is what can be asked.
void FuzzRecords(std::string_view payload) {
  std::vector<std::string> records;
  const absl::Status status = Rewrite(payload, &records);
  if (!status.ok()) CheckRefusal(status);
  for (const std::string& record : records) {
    std::vector<std::string> again;
    CHECK_OK(Rewrite(record, &again));
    CHECK_EQ(again.size(), 1u);
    CHECK_EQ(again[0].size(), record.size());
  }
}

void FuzzBatches(std::string_view payload) {
  BatchReader reader(payload);
  std::vector<AppendBatch> batches;
  size_t bytes = 0;
  while (!reader.done()) {
    std::vector<std::string_view> records;
    const absl::Status status = reader.Next(&records);
    if (!status.ok()) return CheckRefusal(status);
    AppendBatch& batch = batches.emplace_back();
    for (const std::string_view record : records) {
      bytes += record.size();
      batch.records.emplace_back().payload = std::string(record);
    }
  }
  CHECK(bytes <= payload.size());
  if (batches.empty()) return;
  std::string written;
  CHECK_OK(EncodeCommit(batches, StoreLimits(), &written));
  // A number may have been padded; written anew it is not.
  CHECK(written.size() <= payload.size());
  BatchReader again(written);
  for (const AppendBatch& batch : batches) {
    std::vector<std::string_view> records;
    CHECK_OK(again.Next(&records));
    CHECK_EQ(records.size(), batch.records.size());
    for (size_t i = 0; i < records.size(); ++i) CHECK(records[i] == batch.records[i].payload);
  }
  CHECK(again.done());
}

std::shared_ptr<const BoundJob> SomeJob() {
  KernelInfo kernel;
  kernel.name = "sum";
  kernel.content_hash = 7;
  kernel.signature = *Signature::Parse("x[n]:f32 -> total:f64 : sum");
  kernel.output_class = OutputClass::kBitwise;
  kernel.whole_leaf = true;
  JobSpec spec;
  spec.owner = "ada";
  spec.kernel = "sum";
  OperandSpec x;
  x.spec = {DType::kF32, {1000}};
  x.source = Locator(GeneratorLocator{ConstantGenerator{*Scalar::F64(1).ConvertTo(DType::kF32)}});
  spec.operands["x"] = x;
  const auto bound = ValidateAndBind(spec, kernel);
  CHECK_OK(bound);
  return std::make_shared<const BoundJob>(*bound);
}

OutputsHandle SomeOutputs() {
  return std::make_shared<const CommitOutputs>(
      CommitOutputs{{0, std::string(8, 'x')}, {1, Region{SegmentId(5), 64, 100, 9}}});
}

std::vector<Record> SomeRecords() {
  LeavesDone done;
  done.job = JobId(3);
  done.leaves = {{0, 4}, {8, 1}};
  done.tasks_failed = 1;
  LeavesDone partial = done;
  partial.outputs = SomeOutputs();
  partial.partial_id = 9;
  partial.partial_tasks = 5;
  PartialsMerged merged;
  merged.job = JobId(3);
  merged.consumed = {7, 8};
  merged.result = Partial{9, {{0, 8}}, SomeOutputs(), 8, 0};
  return {JobAccepted{JobId(3), SomeJob(), "request", 5, absl::FromUnixSeconds(1)},
          done,
          partial,
          merged,
          LeavesRetried{.job = JobId(3), .leaves = {4, 1}, .attempt = 1, .strikes = 2},
          JobCancelled{JobId(3)},
          JobEnded{JobId(3), 4, "why"},
          JobDeleted{JobId(3)},
          WorkerKnown{WorkerId(1), "w1"},
          WorkerForgotten{WorkerId(1)},
          KernelAnnounced{std::make_shared<const KernelInfo>(SomeJob()->kernel)},
          IdsIssued{JobId(9), WorkerId(4)}};
}

constexpr char kRecords = 'r', kBatches = 'b';

// The first byte chooses.
FUZZ_SEEDS(journal) {
  std::vector<std::string> seeds;
  RecordEncoder all;
  for (const Record& record : SomeRecords()) {
    RecordEncoder one;
    one.Add(record, absl::FromUnixSeconds(2));
    seeds.push_back(kRecords + one.Take());
    all.Add(record, absl::FromUnixSeconds(2));
  }
  seeds.push_back(kRecords + all.Take());
  seeds.push_back({kBatches, 2, 1, 'a', 2, 'b', 'c', 0, 1, 0});
  seeds.push_back({kBatches, '\xff', '\xff', '\xff', '\xff', '\x0f'});
  return seeds;
}

FUZZ_TARGET(journal) {
  static const google::protobuf::LogSilencer quiet;  // of strings that are not UTF-8
  if (input.empty()) return;
  if (input[0] == kBatches) return FuzzBatches(input.substr(1));
  FuzzRecords(input.substr(1));
}

}  // namespace
}  // namespace tandem::master
