#include "common/wire/session.h"

#include <string>
#include <utility>

#include "common/base/status_macros.h"
#include "common/wire/decode_util.h"
#include "common/wire/job_spec.h"
#include "common/wire/kernel.h"
#include "common/wire/lease_messages.h"
#include "common/wire/lists.h"

namespace tandem::wire {
namespace {

constexpr int kDevicesMax = 1024;
constexpr int kKernelsMax = 4096;

absl::Status TakeName(std::string* from, bool required, std::string_view field, std::string* to) {
  if (required && from->empty()) return Malformed(field, "is missing");
  RETURN_IF_ERROR(CheckText(*from, WireLimits::kNameBytes, field));
  *to = std::move(*from);
  return absl::OkStatus();
}

absl::Status DecodeSpan(int64_t nanos, std::string_view field, absl::Duration* to) {
  if (nanos <= 0) return Malformed(field, "is not positive");
  *to = absl::Nanoseconds(nanos);
  return absl::OkStatus();
}

}  // namespace

void Encode(const WorkerHello& from, worker::v1::Hello* to) {
  to->set_name(from.name);
  to->set_incarnation(from.incarnation);
  to->set_version(from.version);
  to->set_protocol(from.protocol);
  to->set_max_epoch(from.max_epoch);
  EncodeList(from.devices, to->mutable_devices());
  EncodeList(from.kernels, to->mutable_kernels());
  EncodeList(from.held, to->mutable_held());
  to->set_host_id(from.host_id);
  to->set_max_leases(from.max_leases);
}

absl::Status Decode(worker::v1::Hello* from, WorkerHello* to) {
  RETURN_IF_ERROR(TakeName(from->mutable_name(), true, "name", &to->name));
  if (from->incarnation() == 0) return Malformed("incarnation", "is missing");
  to->incarnation = from->incarnation();
  RETURN_IF_ERROR(TakeName(from->mutable_version(), true, "version", &to->version));
  if (from->protocol() == 0) return Malformed("protocol", "is missing");
  to->protocol = from->protocol();
  to->max_epoch = from->max_epoch();
  RETURN_IF_ERROR(DecodeList(from->mutable_devices(), &to->devices, kDevicesMax, "devices"));
  RETURN_IF_ERROR(DecodeList(from->mutable_kernels(), &to->kernels, kKernelsMax, "kernels"));
  RETURN_IF_ERROR(DecodeList(from->mutable_held(), &to->held, WireLimits::kItems, "held"));
  RETURN_IF_ERROR(TakeName(from->mutable_host_id(), false, "host_id", &to->host_id));
  to->max_leases = from->max_leases();
  return absl::OkStatus();
}

void Encode(const JobDescription& from, worker::v1::JobDescription* to) {
  to->set_job(from.job.value());
  Encode(from.spec, to->mutable_spec());
  Encode(from.kernel, to->mutable_kernel());
}

absl::Status Decode(worker::v1::JobDescription* from, JobDescription* to) {
  if (from->job() == 0) return Malformed("job", "is missing");
  to->job = JobId(from->job());
  RETURN_IF_ERROR(WithField(Decode(from->mutable_spec(), &to->spec), "spec"));
  return WithField(Decode(from->mutable_kernel(), &to->kernel), "kernel");
}

void Encode(const WorkerWelcome& from, worker::v1::Welcome* to) {
  to->set_worker(from.worker.value());
  to->set_epoch(from.epoch.value());
  to->set_lease_ttl_ns(absl::ToInt64Nanoseconds(from.lease_ttl));
  to->set_heartbeat_ns(absl::ToInt64Nanoseconds(from.heartbeat));
  EncodeList(from.adopted, to->mutable_adopted());
  EncodeList(from.jobs, to->mutable_jobs());
  to->set_cluster_id(from.cluster_id);
  to->set_host_id(from.host_id);
}

absl::Status Decode(worker::v1::Welcome* from, WorkerWelcome* to) {
  if (from->worker() == 0) return Malformed("worker", "is missing");
  if (from->epoch() == 0) return Malformed("epoch", "is missing");
  to->worker = WorkerId(from->worker());
  to->epoch = Epoch(from->epoch());
  RETURN_IF_ERROR(DecodeSpan(from->lease_ttl_ns(), "lease_ttl_ns", &to->lease_ttl));
  RETURN_IF_ERROR(DecodeSpan(from->heartbeat_ns(), "heartbeat_ns", &to->heartbeat));
  constexpr int kMax = WireLimits::kItems;
  RETURN_IF_ERROR(DecodeList(from->mutable_adopted(), &to->adopted, kMax, "adopted"));
  RETURN_IF_ERROR(DecodeList(from->mutable_jobs(), &to->jobs, kMax, "jobs"));
  RETURN_IF_ERROR(TakeName(from->mutable_cluster_id(), false, "cluster_id", &to->cluster_id));
  return TakeName(from->mutable_host_id(), false, "host_id", &to->host_id);
}

}  // namespace tandem::wire
