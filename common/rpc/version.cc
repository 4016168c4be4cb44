#include "common/rpc/version.h"

#include <charconv>
#include <system_error>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/strings.h"

namespace tandem::rpc {
namespace {

std::string Text(const Release& release) {
  const std::string version = release.version.empty() ? "of no known version" : release.version;
  return StrCat(version, " (API ", release.api / 1000, ".", release.api % 1000, ")");
}

// The only value of a key, or "".
std::string_view Find(const grpc::ServerContextBase& context, const char* key) {
  const auto& metadata = context.client_metadata();
  const auto it = metadata.find(key);
  if (it == metadata.end()) return "";
  return {it->second.data(), it->second.size()};
}

}  // namespace

std::string_view Version() { return TANDEM_VERSION; }

absl::Status CheckSkew(const Release& client, const Release& master) {
  if (ApiMajor(client.api) == ApiMajor(master.api)) return absl::OkStatus();
  return Error(absl::StatusCode::kFailedPrecondition, reason::kVersionSkew,
               StrCat("this client is ", Text(client), ", the master is ", Text(master),
                      ": they do not understand each other; install the same release on both"));
}

void SetVersion(grpc::ClientContext* context) {
  context->AddMetadata(kApiKey, std::to_string(kApi));
  context->AddMetadata(kVersionKey, std::string(Version()));
}

absl::Status CheckVersion(const grpc::ServerContextBase& context) {
  const std::string_view said = Find(context, kApiKey);
  if (said.empty()) return absl::OkStatus();
  Release client{std::string(Find(context, kVersionKey)), 0};
  const auto [end, error] = std::from_chars(said.data(), said.data() + said.size(), client.api);
  if (error != std::errc() || end != said.data() + said.size()) client.api = 0;
  return CheckSkew(client, {std::string(Version()), kApi});
}

}  // namespace tandem::rpc
