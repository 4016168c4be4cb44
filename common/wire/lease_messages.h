// Leases between model and proto: grants, commits, reports (common/model/lease_messages.h) to and
// from proto/tandem/worker/v1.
//
//   worker::v1::Report* out = message.add_reports();  wire::Encode(report, out);
//   Report report;  RETURN_IF_ERROR(wire::Decode(message.mutable_reports(0), &report));
//
// Decoding is strict: everything that a peer could get wrong (ids that are 0, empty or overflowing
// intervals, levels beyond the tree, a piece without bytes, a rate that is not a number, texts and
// lists beyond WireLimits) is INVALID_ARGUMENT PROTOCOL_ERROR with the path of the field. What
// only the core can know (is this lease current?) is not judged here.
//
// Decoding takes the proto's strings (a message may be used again after Clear()), so inline bytes
// are not copied. After an error both sides are valid and unspecified.
// Thread-safety: pure functions.
#ifndef TANDEM_COMMON_WIRE_LEASE_MESSAGES_H_
#define TANDEM_COMMON_WIRE_LEASE_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/model/lease_messages.h"
#include "tandem/worker/v1/worker.pb.h"

namespace tandem::wire {

struct WireLimits {
  static constexpr size_t kReasonBytes = 1024;     // failures, faults, signals
  static constexpr size_t kNameBytes = 256;        // names of kernels, models, uuids
  static constexpr uint32_t kOutputs = 64;         // outputs of a kernel
  static constexpr size_t kInlineBytes = 1 << 20;  // of one output piece
  static constexpr int kItems = 1 << 20;           // of any list in one message
};

// Outputs and failures.
void Encode(const Region& from, v1::Region* to);
absl::Status Decode(const v1::Region& from, Region* to);
void Encode(const OutputPiece& from, v1::OutputPiece* to);
absl::Status Decode(v1::OutputPiece* from, OutputPiece* to);
// A null handle is no pieces, and no pieces a null handle.
void Encode(const OutputsHandle& from, google::protobuf::RepeatedPtrField<v1::OutputPiece>* to);
absl::Status Decode(google::protobuf::RepeatedPtrField<v1::OutputPiece>* from, OutputsHandle* to);
// The reason is cut to WireLimits::kReasonBytes and made valid UTF-8.
void Encode(const TaskFailure& from, v1::TaskFailure* to);
absl::Status Decode(v1::TaskFailure* from, TaskFailure* to);

// Master to worker.
void Encode(const Grant& from, worker::v1::Grant* to);
absl::Status Decode(const worker::v1::Grant& from, Grant* to);
void Encode(const Partial& from, worker::v1::Partial* to);
absl::Status Decode(worker::v1::Partial* from, Partial* to);
void Encode(const MergeGrant& from, worker::v1::MergeGrant* to);
absl::Status Decode(worker::v1::MergeGrant* from, MergeGrant* to);
void Encode(const Recall& from, worker::v1::Recall* to);
absl::Status Decode(const worker::v1::Recall& from, Recall* to);
void Encode(const Outlook& from, worker::v1::Outlook* to);
absl::Status Decode(const worker::v1::Outlook& from, Outlook* to);

// Worker to master.
void Encode(const HeldLeaves& from, worker::v1::HeldLeaves* to);
absl::Status Decode(const worker::v1::HeldLeaves& from, HeldLeaves* to);
void Encode(const LeafRun& from, worker::v1::LeafRun* to);
absl::Status Decode(const worker::v1::LeafRun& from, LeafRun* to);
void Encode(const Commit& from, worker::v1::Commit* to);
absl::Status Decode(worker::v1::Commit* from, Commit* to);
void Encode(const MergeCommit& from, worker::v1::MergeCommit* to);
absl::Status Decode(worker::v1::MergeCommit* from, MergeCommit* to);
void Encode(const Crash& from, worker::v1::Crash* to);
absl::Status Decode(worker::v1::Crash* from, Crash* to);
void Encode(const Return& from, worker::v1::Return* to);
absl::Status Decode(const worker::v1::Return& from, Return* to);
void Encode(const JobFault& from, worker::v1::JobFault* to);
absl::Status Decode(worker::v1::JobFault* from, JobFault* to);
void Encode(const Backlog& from, worker::v1::Backlog* to);
absl::Status Decode(const worker::v1::Backlog& from, Backlog* to);
void Encode(const Report& from, worker::v1::Report* to);
absl::Status Decode(worker::v1::Report* from, Report* to);

void Encode(const DeviceReading& from, v1::DeviceReading* to);
absl::Status Decode(v1::DeviceReading* from, DeviceReading* to);
void Encode(const DeviceInfo& from, v1::Device* to);
absl::Status Decode(v1::Device* from, DeviceInfo* to);
void Encode(const KernelRate& from, v1::KernelRate* to);
absl::Status Decode(v1::KernelRate* from, KernelRate* to);
absl::Status DecodeKind(v1::DeviceKind from, std::string_view field, DeviceKind* to);

// lease_split.cc
void Encode(const TaskRange& from, v1::TaskSpan* to);
absl::Status Decode(const v1::TaskSpan& from, TaskRange* to);
void Encode(const LeaseShare& from, v1::LeaseShare* to);
absl::Status Decode(v1::LeaseShare* from, LeaseShare* to);
void Encode(const LeaseSplit& from, v1::LeaseSplit* to);
absl::Status Decode(v1::LeaseSplit* from, LeaseSplit* to);

// Intervals as the flat lists of the protos: first, count, first, count, … ascending and apart.
void EncodeIntervals(const std::vector<LeafInterval>& from,
                     google::protobuf::RepeatedField<uint64_t>* to);
absl::Status DecodeIntervals(const google::protobuf::RepeatedField<uint64_t>& from,
                             std::vector<LeafInterval>* to);

}  // namespace tandem::wire

#endif  // TANDEM_COMMON_WIRE_LEASE_MESSAGES_H_
