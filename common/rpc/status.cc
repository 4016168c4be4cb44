#include "common/rpc/status.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/types/optional.h"
#include "common/base/error.h"
#include "common/base/strings.h"
#include "common/wire/decode_util.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace tandem::rpc {
namespace {

constexpr char kRetryPayload[] = "tandem/retry_ns";

void AddDetails(const absl::Status& status, google::rpc::Status* to) {
  if (const std::string reason = ReasonOf(status); !reason.empty()) {
    google::rpc::ErrorInfo info;
    info.set_reason(reason);
    info.set_domain(kErrorDomain);
    to->add_details()->PackFrom(info);
  }
  if (const std::string field = FieldOf(status); !field.empty()) {
    google::rpc::BadRequest bad;
    bad.add_field_violations()->set_field(wire::CleanText(field, kErrorMessageBytesMax));
    bad.mutable_field_violations(0)->set_description(to->message());
    to->add_details()->PackFrom(bad);
  }
  if (const absl::Duration delay = RetryDelayOf(status); delay != absl::InfiniteDuration()) {
    google::rpc::RetryInfo retry;
    absl::Duration rest;
    retry.mutable_retry_delay()->set_seconds(absl::IDivDuration(delay, absl::Seconds(1), &rest));
    retry.mutable_retry_delay()->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
    to->add_details()->PackFrom(retry);
  }
}

void TakeDetail(const google::protobuf::Any& detail, absl::Status* status) {
  google::rpc::ErrorInfo info;
  google::rpc::BadRequest bad;
  google::rpc::RetryInfo retry;
  if (detail.Is<google::rpc::ErrorInfo>() && detail.UnpackTo(&info)) {
    if (info.domain() == kErrorDomain) {
      status->SetPayload(kReasonPayload, absl::Cord(info.reason()));
    }
  } else if (detail.Is<google::rpc::BadRequest>() && detail.UnpackTo(&bad)) {
    if (bad.field_violations_size() > 0) {
      status->SetPayload(kFieldPayload, absl::Cord(bad.field_violations(0).field()));
    }
  } else if (detail.Is<google::rpc::RetryInfo>() && detail.UnpackTo(&retry)) {
    *status = WithRetryDelay(*status, absl::Seconds(retry.retry_delay().seconds()) +
                                          absl::Nanoseconds(retry.retry_delay().nanos()));
  }
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(wire::CleanText(ToStd(status.message()), kErrorMessageBytesMax));
  AddDetails(status, &details);
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), details.message(),
                      details.details().empty() ? "" : details.SerializeAsString());
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  google::rpc::Status details;
  if (!status.error_details().empty() && details.ParseFromString(status.error_details())) {
    for (const google::protobuf::Any& detail : details.details()) TakeDetail(detail, &result);
  }
  return result;
}

absl::Status WithRetryDelay(absl::Status status, absl::Duration delay) {
  if (!status.ok()) {
    status.SetPayload(kRetryPayload, absl::Cord(std::to_string(absl::ToInt64Nanoseconds(delay))));
  }
  return status;
}

absl::Duration RetryDelayOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kRetryPayload);
  int64_t nanos = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &nanos)) {
    return absl::InfiniteDuration();
  }
  return absl::Nanoseconds(nanos);
}

}  // namespace tandem::rpc
