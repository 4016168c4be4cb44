#include "common/model/ids.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/strings.h"

namespace tandem {

std::string LeaseId::ToString() const { return StrCat(epoch, ".", n); }

absl::StatusOr<BlobId> BlobId::FromHex(std::string_view hex) {
  BlobId id;
  if (!tandem::FromHex(hex, id.bytes_.data(), kBytes)) {
    return InvalidError(reason::kBadArgument,
                        StrCat("blob id ", Quoted(hex),
                               " is not 64 hexadecimal digits, the SHA-256 of the content"));
  }
  return id;
}

BlobId BlobId::FromRaw(std::string_view raw) {
  CHECK(raw.size() == kBytes);
  BlobId id;
  std::copy(raw.begin(), raw.end(), id.bytes_.begin());
  return id;
}

std::string BlobId::ToHex() const { return tandem::ToHex(bytes_.data(), kBytes); }

}  // namespace tandem
