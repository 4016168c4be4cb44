#include "common/cli/environment.h"

#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(EnvironmentTest, ANameThatIsNearlyOneOfOursIsSaid) {
  const char* const environment[] = {"TANDEM_ADRESS=127.0.0.1:1", "TANDEM_OUTPTU", "HOME=/",
                                     nullptr};
  EXPECT_THAT(MistypedVariables(environment),
              ElementsAre("TANDEM_ADRESS is read by no program; did you mean TANDEM_ADDRESS?",
                          "TANDEM_OUTPTU is read by no program; did you mean TANDEM_OUTPUT?"));
  std::ostringstream out;
  WarnOfMistypedVariables("tandem", environment, out);
  EXPECT_EQ(out.str(),
            "tandem: TANDEM_ADRESS is read by no program; did you mean TANDEM_ADDRESS?\n"
            "tandem: TANDEM_OUTPTU is read by no program; did you mean TANDEM_OUTPUT?\n");
}

TEST(EnvironmentTest, OthersVariablesAndOursAreLeftAlone) {
  const char* const environment[] = {"TANDEM_ADDRESS=",
                                     "TANDEM_=x",
                                     "TANDEM_SOFTCUDA=/x",
                                     "TANDEM_BICYCLE=1",
                                     "TANDEMADDRESS=x",
                                     "tandem_adress=1",
                                     "ADRESS=1",
                                     "TANDEM_E2E_PATIENCE=9",
                                     nullptr};
  EXPECT_THAT(MistypedVariables(environment), IsEmpty());
}

}  // namespace
}  // namespace tandem::cli
