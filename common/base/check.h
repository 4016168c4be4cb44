// CHECK and DCHECK: stop the process when a programmer's error is found.
//
// Never reachable from input or the network: bad input gets an absl::Status. Abseil of Debian 12
// has no absl/log/check.h; these keep its names, so that they can be replaced by it later.
//
//   CHECK(!queue.empty());
//   CHECK_MSG(n < limit, "segment number beyond the limit");
//
// Thread-safety: safe from any thread.
#ifndef TANDEM_COMMON_BASE_CHECK_H_
#define TANDEM_COMMON_BASE_CHECK_H_

#include <string>
#include <string_view>

#include "absl/base/optimization.h"
#include "absl/status/status.h"

namespace tandem::internal {

// Writes one line to stderr and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* expression,
                              std::string_view message);
[[noreturn]] void CheckOkFailed(const char* file, int line, const char* expression,
                                const absl::Status& status);

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <class T>
const absl::Status& StatusOf(const T& status_or) {
  return status_or.status();
}

}  // namespace tandem::internal

#define CHECK_MSG(condition, message)                                           \
  do {                                                                          \
    if (ABSL_PREDICT_FALSE(!(condition))) {                                     \
      ::tandem::internal::CheckFailed(__FILE__, __LINE__, #condition, message); \
    }                                                                           \
  } while (false)
#define CHECK(condition) CHECK_MSG(condition, "")
#define CHECK_EQ(a, b) CHECK((a) == (b))
#define CHECK_NE(a, b) CHECK((a) != (b))
#define CHECK_LT(a, b) CHECK((a) < (b))
#define CHECK_LE(a, b) CHECK((a) <= (b))
#define CHECK_GT(a, b) CHECK((a) > (b))
#define CHECK_GE(a, b) CHECK((a) >= (b))
// CHECK_OK(expression of type Status or StatusOr<T>).
#define CHECK_OK(expression)                                                            \
  do {                                                                                  \
    const auto& tandem_check_ok = (expression);                                         \
    if (ABSL_PREDICT_FALSE(!tandem_check_ok.ok())) {                                    \
      ::tandem::internal::CheckOkFailed(__FILE__, __LINE__, #expression,                \
                                        ::tandem::internal::StatusOf(tandem_check_ok)); \
    }                                                                                   \
  } while (false)

#ifdef NDEBUG
#define TANDEM_DCHECK_ENABLED false
#else
#define TANDEM_DCHECK_ENABLED true
#endif
#define DCHECK(condition)                        \
  do {                                           \
    if (TANDEM_DCHECK_ENABLED) CHECK(condition); \
  } while (false)
#define DCHECK_EQ(a, b) DCHECK((a) == (b))
#define DCHECK_NE(a, b) DCHECK((a) != (b))
#define DCHECK_LT(a, b) DCHECK((a) < (b))
#define DCHECK_LE(a, b) DCHECK((a) <= (b))
#define DCHECK_GT(a, b) DCHECK((a) > (b))
#define DCHECK_GE(a, b) DCHECK((a) >= (b))

#endif  // TANDEM_COMMON_BASE_CHECK_H_
