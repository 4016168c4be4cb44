#include "common/base/error.h"

#include "absl/strings/cord.h"
#include "absl/types/optional.h"
#include "common/base/check.h"
#include "common/base/strings.h"

namespace tandem {
namespace {

std::string Payload(const absl::Status& status, const char* key) {
  const absl::optional<absl::Cord> payload = status.GetPayload(key);
  return payload.has_value() ? std::string(*payload) : std::string();
}

}  // namespace

absl::Status Error(absl::StatusCode code, std::string_view reason, std::string_view message) {
  CHECK(code != absl::StatusCode::kOk);
  absl::Status status(code, ToAbsl(message));
  status.SetPayload(kReasonPayload, absl::Cord(ToAbsl(reason)));
  return status;
}

absl::Status InvalidError(std::string_view reason, std::string_view message) {
  return Error(absl::StatusCode::kInvalidArgument, reason, message);
}

std::string ReasonOf(const absl::Status& status) { return Payload(status, kReasonPayload); }

std::string FieldOf(const absl::Status& status) { return Payload(status, kFieldPayload); }

absl::Status WithField(absl::Status status, std::string_view field) {
  if (status.ok()) return status;
  const std::string inner = FieldOf(status);
  const std::string path = inner.empty() ? std::string(field) : StrCat(field, ".", inner);
  status.SetPayload(kFieldPayload, absl::Cord(path));
  return status;
}

absl::Status WithContext(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  absl::Status result(status.code(), StrCat(context, ": ", ToStd(status.message())));
  status.ForEachPayload(
      [&result](absl::string_view key, const absl::Cord& value) { result.SetPayload(key, value); });
  return result;
}

}  // namespace tandem
