#include "common/rpc/owner.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/rpc/version.h"

namespace tandem::rpc {
namespace {

bool IsOwnerCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

}  // namespace

absl::Status CheckOwner(std::string_view owner) {
  if (owner.empty() || owner.size() > kOwnerBytesMax || owner.front() == '.' ||
      owner.front() == '-' || !std::ranges::all_of(owner, IsOwnerCharacter)) {
    return InvalidError(
        reason::kBadArgument,
        StrCat("the owner ", Quoted(owner), " is not a user name: it must have 1 to ",
               kOwnerBytesMax, " of A-Z a-z 0-9 . _ - and begin with none of . -"));
  }
  return absl::OkStatus();
}

std::string LocalOwner() {
  std::vector<char> buffer(16 << 10);
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(geteuid(), &entry, buffer.data(), buffer.size(), &found) == 0 &&
      found != nullptr && CheckOwner(found->pw_name).ok()) {
    return found->pw_name;
  }
  return StrCat("uid-", geteuid());
}

void SetOwner(grpc::ClientContext* context, std::string_view owner) {
  context->AddMetadata(kOwnerKey, std::string(owner));
}

absl::StatusOr<std::string> OwnerOf(const grpc::ServerContextBase& context) {
  RETURN_IF_ERROR(CheckVersion(context));
  const auto& metadata = context.client_metadata();
  const auto [first, last] = metadata.equal_range(kOwnerKey);
  if (first == last || std::next(first) != last) {
    return Error(absl::StatusCode::kUnauthenticated, reason::kNotOwner,
                 StrCat("the call does not say whose it is: send one metadata entry ", kOwnerKey,
                        " with your user name"));
  }
  const std::string_view owner(first->second.data(), first->second.size());
  if (absl::Status status = CheckOwner(owner); !status.ok()) {
    return Error(absl::StatusCode::kUnauthenticated, reason::kNotOwner, ToStd(status.message()));
  }
  return std::string(owner);
}

}  // namespace tandem::rpc
