// Between libFuzzer, whose main this program has, and the one target that is linked in.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/base/check.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const tandem::fuzz::Target& target = []() -> const tandem::fuzz::Target& {
    CHECK_MSG(tandem::fuzz::Targets().size() == 1, "one target a program");
    return tandem::fuzz::Targets().front();
  }();
  target.run(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
