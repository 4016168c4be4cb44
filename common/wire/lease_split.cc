// How devices shared out leases, on the wire: from workers to the master, and on to clients.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "common/base/status_macros.h"
#include "common/wire/decode_util.h"
#include "common/wire/lease_messages.h"
#include "common/wire/lists.h"

namespace tandem::wire {
namespace {

constexpr int kSpansMax = 64, kSharesMax = 64;

uint64_t ToNanos(absl::Duration duration) {
  return static_cast<uint64_t>(std::max<int64_t>(absl::ToInt64Nanoseconds(duration), 0));
}
absl::Duration FromNanos(uint64_t ns) {
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  return absl::Nanoseconds(static_cast<int64_t>(std::min(ns, kMax)));
}

}  // namespace

void Encode(const TaskRange& from, v1::TaskSpan* to) {
  to->set_begin(from.begin);
  to->set_end(from.end);
}

absl::Status Decode(const v1::TaskSpan& from, TaskRange* to) {
  if (from.begin() >= from.end()) return Malformed("end", "is not behind its begin");
  *to = {from.begin(), from.end()};
  return absl::OkStatus();
}

void Encode(const LeaseShare& from, v1::LeaseShare* to) {
  to->set_device(static_cast<v1::DeviceKind>(from.device));
  to->set_device_name(CleanText(from.device_name, WireLimits::kNameBytes));
  to->set_tasks(from.tasks);
  to->set_pieces(from.pieces);
  to->set_begin_ns(ToNanos(from.begin));
  to->set_end_ns(ToNanos(from.end));
  to->set_host_ns(ToNanos(from.host));
  to->set_up_ns(ToNanos(from.up));
  to->set_grid_ns(ToNanos(from.grid));
  to->set_down_ns(ToNanos(from.down));
  to->set_bound_by(CleanText(from.bound_by, WireLimits::kNameBytes));
}

absl::Status Decode(v1::LeaseShare* from, LeaseShare* to) {
  RETURN_IF_ERROR(DecodeKind(from->device(), "device", &to->device));
  RETURN_IF_ERROR(CheckText(from->device_name(), WireLimits::kNameBytes, "device_name"));
  RETURN_IF_ERROR(CheckText(from->bound_by(), WireLimits::kNameBytes, "bound_by"));
  to->device_name = std::move(*from->mutable_device_name());
  to->tasks = from->tasks();
  to->pieces = from->pieces();
  to->begin = FromNanos(from->begin_ns());
  to->end = FromNanos(from->end_ns());
  to->host = FromNanos(from->host_ns());
  to->up = FromNanos(from->up_ns());
  to->grid = FromNanos(from->grid_ns());
  to->down = FromNanos(from->down_ns());
  to->bound_by = std::move(*from->mutable_bound_by());
  return absl::OkStatus();
}

void Encode(const LeaseSplit& from, v1::LeaseSplit* to) {
  to->set_job(from.job.value());
  to->set_lease(from.lease);
  to->set_leases(from.leases);
  Encode(from.granted, to->mutable_granted());
  EncodeList(from.kept, to->mutable_kept());
  EncodeList(from.shares, to->mutable_shares());
}

absl::Status Decode(v1::LeaseSplit* from, LeaseSplit* to) {
  if (from->job() == 0) return Malformed("job", "is missing");
  to->job = JobId(from->job());
  to->lease = from->lease();
  to->leases = from->leases();
  RETURN_IF_ERROR(WithField(Decode(from->granted(), &to->granted), "granted"));
  RETURN_IF_ERROR(DecodeList(from->mutable_kept(), &to->kept, kSpansMax, "kept"));
  uint64_t begin = to->granted.begin;
  for (const TaskRange& kept : to->kept) {
    if (kept.begin < begin || kept.end > to->granted.end) {
      return Malformed("kept", "is not in order, or not of what was granted");
    }
    begin = kept.end;
  }
  return DecodeList(from->mutable_shares(), &to->shares, kSharesMax, "shares");
}

}  // namespace tandem::wire
