// RETURN_IF_ERROR and ASSIGN_OR_RETURN, under their upstream names.
//
//   RETURN_IF_ERROR(store.Append(records));
//   ASSIGN_OR_RETURN(const Signature signature, Signature::Parse(text));
//
// The left side of ASSIGN_OR_RETURN may declare a variable or name an existing one; a type with a
// comma in it needs parentheses or an alias. Thread-safety: as the expressions given.
#ifndef TANDEM_COMMON_BASE_STATUS_MACROS_H_
#define TANDEM_COMMON_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define RETURN_IF_ERROR(expression)                                                           \
  do {                                                                                        \
    if (absl::Status tandem_status = (expression); ABSL_PREDICT_FALSE(!tandem_status.ok())) { \
      return tandem_status;                                                                   \
    }                                                                                         \
  } while (false)

#define ASSIGN_OR_RETURN(lhs, expression) \
  TANDEM_ASSIGN_OR_RETURN_IMPL(TANDEM_MACRO_CAT(tandem_status_or_, __LINE__), lhs, expression)

#define TANDEM_ASSIGN_OR_RETURN_IMPL(temporary, lhs, expression)                 \
  auto temporary = (expression);                                                 \
  if (ABSL_PREDICT_FALSE(!temporary.ok())) return std::move(temporary).status(); \
  lhs = *std::move(temporary)

#define TANDEM_MACRO_CAT(a, b) TANDEM_MACRO_CAT_INNER(a, b)
#define TANDEM_MACRO_CAT_INNER(a, b) a##b

#endif  // TANDEM_COMMON_BASE_STATUS_MACROS_H_
