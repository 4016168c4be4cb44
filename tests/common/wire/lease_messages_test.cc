// Leases on the wire: what is said arrives, and what is malformed is refused with its field.
#include "common/wire/lease_messages.h"

#include <limits>
#include <string>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/rng.h"
#include "gmock/gmock.h"
#include "google/protobuf/stubs/logging.h"
#include "gtest/gtest.h"

namespace tandem::wire {
namespace {

using ::testing::HasSubstr;

OutputsHandle Outputs(std::vector<OutputPiece> pieces) {
  return std::make_shared<const CommitOutputs>(std::move(pieces));
}

Report MakeReport() {
  Report report;
  report.number = 9;
  Commit commit;
  commit.job = JobId(3);
  commit.runs = {{17, {4, 2}}, {40, {100, 1}}};
  commit.outputs = Outputs(
      {{0, std::string("\0\1\2", 3)}, {1, Region{SegmentId(5), 64, 1 << 20, 0xdeadbeefcafef00du}}});
  commit.failures = {{8, 1, "truncated image"}, {9, 0, "CRASH_LIMIT"}};
  commit.busy_ns = 123456789;
  commit.tasks = 3;
  report.commits = {commit};
  report.merges = {{JobId(3), 77, Outputs({{2, std::string("x")}}), 5, 1, "out of memory"}};
  report.crashes = {{JobId(4), {18, {6, 1}}, true, 13, "SIGSEGV", 4096}};
  report.returns = {{JobId(4), {19, {7, 3}}, 500, 400}};
  report.job_faults = {{JobId(5), "PATH_CHANGED: /data/x.npy", true}};
  report.rates = {{"saxpy", DeviceKind::kGpu, 1e9, 2e-6, "cuda:GPU-1", "k=21 m=3", 2e-9, 12e9, 11e9,
                   "copy up", 42, absl::Seconds(3)}};
  report.forgot = 6;
  LeaseSplit split{JobId(3), 17, 2, {40, 80}, {{40, 60}, {70, 80}}, {}};
  split.shares = {{DeviceKind::kCpu,
                   "cpu",
                   9,
                   2,
                   absl::Milliseconds(1),
                   absl::Milliseconds(2),
                   absl::Nanoseconds(3),
                   {},
                   absl::Nanoseconds(4),
                   {},
                   "cpu"},
                  {DeviceKind::kEmulated,
                   "emulated:EMULATED-0",
                   21,
                   1,
                   {},
                   absl::Milliseconds(3),
                   {},
                   absl::Nanoseconds(5),
                   absl::Nanoseconds(6),
                   absl::Nanoseconds(7),
                   "copy down"}};
  report.splits = {split};
  return report;
}

// Through the bytes of a message, as between two processes.
template <class Proto, class Model>
absl::StatusOr<Model> Travel(const Model& model) {
  Proto sent;
  Encode(model, &sent);
  Proto received;
  if (!received.ParseFromString(sent.SerializeAsString())) return absl::InternalError("parse");
  Model result;
  absl::Status status;
  if constexpr (requires { Decode(&received, &result); }) {
    status = Decode(&received, &result);
  } else {
    status = Decode(received, &result);
  }
  if (!status.ok()) return status;
  return result;
}

TEST(LeaseMessages, AReportArrivesAsItWasSent) {
  const Report sent = MakeReport();
  const absl::StatusOr<Report> got = Travel<worker::v1::Report>(sent);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->number, 9u);
  ASSERT_EQ(got->commits.size(), 1u);
  const Commit& commit = got->commits[0];
  EXPECT_EQ(commit.job, JobId(3));
  EXPECT_EQ(commit.runs, sent.commits[0].runs);
  ASSERT_NE(commit.outputs, nullptr);
  EXPECT_EQ(*commit.outputs, *sent.commits[0].outputs);
  EXPECT_EQ(commit.failures, sent.commits[0].failures);
  EXPECT_EQ(commit.busy_ns, 123456789u);
  EXPECT_EQ(commit.tasks, 3u);
  ASSERT_EQ(got->merges.size(), 1u);
  EXPECT_EQ(got->merges[0].n, 77u);
  EXPECT_EQ(got->merges[0].error, "out of memory");
  EXPECT_EQ(got->merges[0].failed, 1u);
  EXPECT_EQ(*got->merges[0].outputs, *sent.merges[0].outputs);
  ASSERT_EQ(got->crashes.size(), 1u);
  EXPECT_TRUE(got->crashes[0].task_known);
  EXPECT_EQ(got->crashes[0].task, 13u);
  EXPECT_EQ(got->crashes[0].signal, "SIGSEGV");
  EXPECT_EQ(got->crashes[0].suspected_leaves, 4096u);
  EXPECT_EQ(got->crashes[0].run, (LeafRun{18, {6, 1}}));
  ASSERT_EQ(got->returns.size(), 1u);
  EXPECT_EQ(got->returns[0].run, (LeafRun{19, {7, 3}}));
  EXPECT_EQ(got->returns[0].gpu_need_bytes, 500u);
  EXPECT_EQ(got->returns[0].gpu_budget_bytes, 400u);
  ASSERT_EQ(got->job_faults.size(), 1u);
  EXPECT_TRUE(got->job_faults[0].fatal);
  EXPECT_EQ(got->job_faults[0].reason, "PATH_CHANGED: /data/x.npy");
  ASSERT_EQ(got->rates.size(), 1u);
  EXPECT_EQ(got->rates, MakeReport().rates);
  EXPECT_EQ(got->forgot, 6u);
  EXPECT_EQ(got->splits, MakeReport().splits);
}

TEST(LeaseMessages, AGrantArrivesAsItWasSent) {
  const Grant sent{JobId(7), 1000, 4096, 3, 2048, 2, true, {5, 9}, 998};
  const absl::StatusOr<Grant> got = Travel<worker::v1::Grant>(sent);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->job, JobId(7));
  EXPECT_EQ(got->first_n, 1000u);
  EXPECT_EQ(got->first_leaf, 4096u);
  EXPECT_EQ(got->level, 3);
  EXPECT_EQ(got->count, 2048u);
  EXPECT_EQ(got->attempt, 2u);
  EXPECT_TRUE(got->suspect);
  EXPECT_EQ(got->skip_tasks, (std::vector<uint64_t>{5, 9}));
  EXPECT_EQ(got->suspect_set, 998u);
}

TEST(LeaseMessages, MergesRecallsAndHeldLeavesArriveAsTheyWereSent) {
  MergeGrant merge{JobId(2), 8, {}};
  merge.inputs.push_back({11, {{0, 4}, {8, 1}}, Outputs({{0, std::string("p")}}), 40, 2});
  const absl::StatusOr<MergeGrant> got = Travel<worker::v1::MergeGrant>(merge);
  ASSERT_TRUE(got.ok()) << got.status();
  ASSERT_EQ(got->inputs.size(), 1u);
  EXPECT_EQ(got->inputs[0].id, 11u);
  EXPECT_EQ(got->inputs[0].leaves, merge.inputs[0].leaves);
  EXPECT_EQ(*got->inputs[0].outputs, *merge.inputs[0].outputs);
  EXPECT_EQ(got->inputs[0].tasks, 40u);

  const absl::StatusOr<Recall> recall = Travel<worker::v1::Recall>(Recall{JobId(2), {3, 4}});
  ASSERT_TRUE(recall.ok());
  EXPECT_EQ(recall->leaves, (LeafInterval{3, 4}));

  const HeldLeaves held{JobId(6), {1, 2}, 3, LeaseId{Epoch(4), 5}};
  const absl::StatusOr<HeldLeaves> got_held = Travel<worker::v1::HeldLeaves>(held);
  ASSERT_TRUE(got_held.ok());
  EXPECT_EQ(got_held->lease, held.lease);
  EXPECT_EQ(got_held->leaves, held.leaves);
  EXPECT_EQ(got_held->attempt, 3u);
}

TEST(LeaseMessages, InlineBytesAreTakenNotCopied) {
  worker::v1::Report message;
  Encode(MakeReport(), &message);
  const std::string large(100'000, 'x');
  message.mutable_commits(0)->mutable_outputs(0)->set_inline_(large);
  const char* const before = message.commits(0).outputs(0).inline_().data();
  Report report;
  ASSERT_TRUE(Decode(&message, &report).ok());
  EXPECT_EQ(std::get<std::string>(report.commits[0].outputs->at(0).where).data(), before);
}

// Each entry spoils a good report in one way and names the field that the error must.
struct Hostile {
  const char* field;
  void (*spoil)(worker::v1::Report*);
};

class HostileReport : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileReport, IsRefusedWithItsField) {
  worker::v1::Report message;
  Encode(MakeReport(), &message);
  GetParam().spoil(&message);
  Report report;
  const absl::Status status = Decode(&message, &report);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << GetParam().field;
  EXPECT_EQ(ReasonOf(status), reason::kProtocolError);
  EXPECT_EQ(FieldOf(status), GetParam().field);
}

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
INSTANTIATE_TEST_SUITE_P(
    Fields, HostileReport,
    ::testing::Values(
        Hostile{"number", [](auto* r) { r->set_number(0); }},
        Hostile{"commits[0].job", [](auto* r) { r->mutable_commits(0)->set_job(0); }},
        Hostile{"commits[0].runs", [](auto* r) { r->mutable_commits(0)->clear_runs(); }},
        Hostile{"commits[0].runs[1].n",
                [](auto* r) { r->mutable_commits(0)->mutable_runs(1)->set_n(0); }},
        Hostile{"commits[0].runs[0].leaf_count",
                [](auto* r) { r->mutable_commits(0)->mutable_runs(0)->set_leaf_count(0); }},
        Hostile{"commits[0].runs[0].leaf_count",
                [](auto* r) {
                  r->mutable_commits(0)->mutable_runs(0)->set_first_leaf(kMax);
                  r->mutable_commits(0)->mutable_runs(0)->set_leaf_count(2);
                }},
        Hostile{"commits[0].outputs[0].output",
                [](auto* r) { r->mutable_commits(0)->mutable_outputs(0)->set_output(64); }},
        Hostile{"commits[0].outputs[0].where",
                [](auto* r) { r->mutable_commits(0)->mutable_outputs(0)->clear_where(); }},
        Hostile{"commits[0].outputs[0].inline",
                [](auto* r) {
                  r->mutable_commits(0)->mutable_outputs(0)->set_inline_(
                      std::string(WireLimits::kInlineBytes + 1, 'x'));
                }},
        Hostile{"commits[0].outputs[1].region.segment",
                [](auto* r) {
                  r->mutable_commits(0)->mutable_outputs(1)->mutable_region()->set_segment(0);
                }},
        Hostile{"commits[0].outputs[1].region.length",
                [](auto* r) {
                  auto* region = r->mutable_commits(0)->mutable_outputs(1)->mutable_region();
                  region->set_offset(kMax);
                  region->set_length(2);
                }},
        Hostile{"commits[0].failures[1]",
                [](auto* r) { r->mutable_commits(0)->mutable_failures(1)->set_task(8); }},
        Hostile{"commits[0].failures[0].reason",
                [](auto* r) { r->mutable_commits(0)->mutable_failures(0)->set_reason("bell\a"); }},
        Hostile{"commits[0].failures[0].reason",
                [](auto* r) {
                  r->mutable_commits(0)->mutable_failures(0)->set_reason(
                      std::string(WireLimits::kReasonBytes + 1, 'x'));
                }},
        Hostile{"merges[0].n", [](auto* r) { r->mutable_merges(0)->set_n(0); }},
        Hostile{"crashes[0].run.n",
                [](auto* r) { r->mutable_crashes(0)->mutable_run()->set_n(0); }},
        Hostile{"crashes[0].signal",
                [](auto* r) { r->mutable_crashes(0)->set_signal("\xC3\x28"); }},
        Hostile{"returns[0].run.leaf_count",
                [](auto* r) { r->mutable_returns(0)->mutable_run()->set_leaf_count(0); }},
        Hostile{"job_faults[0].reason", [](auto* r) { r->mutable_job_faults(0)->clear_reason(); }},
        Hostile{"rates[0].tasks_per_second",
                [](auto* r) {
                  r->mutable_rates(0)->set_tasks_per_second(
                      std::numeric_limits<double>::quiet_NaN());
                }},
        Hostile{"rates[0].fixed_seconds",
                [](auto* r) { r->mutable_rates(0)->set_fixed_seconds(-1); }},
        Hostile{"rates[0].seconds_per_task",
                [](auto* r) { r->mutable_rates(0)->set_seconds_per_task(-1); }},
        Hostile{"rates[0].up_bytes_per_second",
                [](auto* r) {
                  r->mutable_rates(0)->set_up_bytes_per_second(
                      std::numeric_limits<double>::infinity());
                }},
        Hostile{"rates[0].down_bytes_per_second",
                [](auto* r) { r->mutable_rates(0)->set_down_bytes_per_second(-1); }},
        Hostile{"rates[0].device_name",
                [](auto* r) { r->mutable_rates(0)->set_device_name(std::string(257, 'x')); }},
        Hostile{"rates[0].extents", [](auto* r) { r->mutable_rates(0)->set_extents("\xC3\x28"); }},
        Hostile{"rates[0].bound_by", [](auto* r) { r->mutable_rates(0)->set_bound_by("\x01"); }},
        Hostile{"rates[0].age_ns", [](auto* r) { r->mutable_rates(0)->set_age_ns(-1); }},
        Hostile{"rates[0].device",
                [](auto* r) { r->mutable_rates(0)->set_device(static_cast<v1::DeviceKind>(9)); }},
        Hostile{"rates[0].kernel", [](auto* r) { r->mutable_rates(0)->clear_kernel(); }},
        Hostile{"splits[0].job", [](auto* r) { r->mutable_splits(0)->set_job(0); }},
        Hostile{"splits[0].granted.end",
                [](auto* r) { r->mutable_splits(0)->mutable_granted()->set_end(40); }},
        Hostile{"splits[0].kept",
                [](auto* r) { r->mutable_splits(0)->mutable_kept(0)->set_begin(39); }},
        Hostile{"splits[0].kept",
                [](auto* r) { r->mutable_splits(0)->mutable_kept(1)->set_end(81); }},
        Hostile{"splits[0].kept",
                [](auto* r) { r->mutable_splits(0)->mutable_kept(1)->set_begin(59); }},
        Hostile{"splits[0].kept[1].end",
                [](auto* r) { r->mutable_splits(0)->mutable_kept(1)->set_end(70); }},
        Hostile{"splits[0].kept",
                [](auto* r) {
                  for (int i = 0; i < 64; ++i) {
                    *r->mutable_splits(0)->add_kept() = r->splits(0).kept(1);
                  }
                }},
        Hostile{"splits[0].shares[1].device",
                [](auto* r) {
                  r->mutable_splits(0)->mutable_shares(1)->set_device(static_cast<v1::DeviceKind>(9));
                }},
        Hostile{"splits[0].shares[0].device_name",
                [](auto* r) {
                  r->mutable_splits(0)->mutable_shares(0)->set_device_name(std::string(257, 'x'));
                }},
        Hostile{"splits[0].shares[0].bound_by",
                [](auto* r) { r->mutable_splits(0)->mutable_shares(0)->set_bound_by("\x01"); }}));

TEST(LeaseMessages, GrantsThatOverflowAreRefused) {
  Grant grant;
  worker::v1::Grant message;
  Encode(Grant{JobId(1), 1, 0, 62, 3, 0, false, {}}, &message);
  ASSERT_TRUE(Decode(message, &grant).ok());
  message.set_count(4);  // 4 × 2^62 leaves.
  EXPECT_EQ(FieldOf(Decode(message, &grant)), "count");
  message.set_level(63);
  message.set_count(1);
  EXPECT_EQ(FieldOf(Decode(message, &grant)), "level");
  message.set_level(0);
  message.set_first_n(kMax);
  message.set_count(2);
  EXPECT_EQ(FieldOf(Decode(message, &grant)), "count");
}

TEST(LeaseMessages, IntervalsMustAscendAndBeWhole) {
  google::protobuf::RepeatedField<uint64_t> flat;
  std::vector<LeafInterval> intervals;
  for (const uint64_t value : {0, 4, 4, 1}) flat.Add(value);
  ASSERT_TRUE(DecodeIntervals(flat, &intervals).ok());
  EXPECT_EQ(intervals, (std::vector<LeafInterval>{{0, 4}, {4, 1}}));
  flat.Set(2, 3);
  EXPECT_THAT(std::string(DecodeIntervals(flat, &intervals).message()), HasSubstr("ascending"));
  flat.RemoveLast();
  EXPECT_THAT(std::string(DecodeIntervals(flat, &intervals).message()), HasSubstr("half"));
}

TEST(LeaseMessages, AKernelsTextIsMadeFitForTheWire) {
  TaskFailure failure{1, 0, std::string("bad \xFF byte\x01") + std::string(5000, 'y')};
  v1::TaskFailure message;
  Encode(failure, &message);
  TaskFailure got;
  ASSERT_TRUE(Decode(&message, &got).ok());
  EXPECT_LE(got.reason.size(), WireLimits::kReasonBytes);
  EXPECT_THAT(got.reason, HasSubstr("bad \xEF\xBF\xBD byte yyy"));
}

// Bytes that are no message, or messages of random fields: refused or decoded, never more.
TEST(LeaseMessages, RandomBytesNeverDoHarm) {
  google::protobuf::LogSilencer quiet;
  Rng rng(20260131);
  worker::v1::Report good;
  Encode(MakeReport(), &good);
  const std::string bytes = good.SerializeAsString();
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string spoiled = bytes;
    for (uint64_t flips = rng.Between(1, 4); flips > 0; --flips) {
      spoiled[rng.Below(spoiled.size())] = static_cast<char>(rng.Next());
    }
    worker::v1::Report message;
    Report report;
    if (!message.ParseFromString(spoiled) || !Decode(&message, &report).ok()) ++refused;
  }
  EXPECT_GT(refused, 1000);
  EXPECT_LT(refused, 20'000);
}

}  // namespace
}  // namespace tandem::wire
