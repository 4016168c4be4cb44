#include "common/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace tandem::internal {

void CheckFailed(const char* file, int line, const char* expression, std::string_view message) {
  std::fprintf(stderr, "%s:%d: CHECK failed: %s%s%.*s\n", file, line, expression,
               message.empty() ? "" : ": ", static_cast<int>(message.size()), message.data());
  std::abort();
}

void CheckOkFailed(const char* file, int line, const char* expression, const absl::Status& status) {
  CheckFailed(file, line, expression, status.ToString());
}

}  // namespace tandem::internal
