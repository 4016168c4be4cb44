#include "common/base/check.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(CheckDeathTest, NamesTheExpression) {
  EXPECT_DEATH(CHECK(1 + 1 == 3), "CHECK failed: 1 \\+ 1 == 3");
  EXPECT_DEATH(CHECK_MSG(false, "why"), "why");
  EXPECT_DEATH(CHECK_OK(absl::InternalError("broken")), "broken");
}

}  // namespace
}  // namespace tandem
