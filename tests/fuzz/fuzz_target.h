// A fuzz target: one decoder under hostile bytes, with an oracle that says more than "no crash".
//
//   FUZZ_SEEDS(signature) { return {"x[n]:f32 -> y[n]:f32"}; }
//   FUZZ_TARGET(signature) { const auto parsed = Signature::Parse(input); … CHECK(…); }
//
// A file holds one target, named like the file (signature_fuzz.cc) and its corpus
// (corpus/signature/). The same object is linked into a program that replays the corpus (every
// build, ctest label `fuzz`) and into a libFuzzer program (preset `fuzz`). What an oracle finds
// wrong ends the process by CHECK.
//
// Thread-safety: targets are registered before main and called from one thread.
#ifndef TANDEM_TESTS_FUZZ_FUZZ_TARGET_H_
#define TANDEM_TESTS_FUZZ_FUZZ_TARGET_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::fuzz {

struct Target {
  const char* name;
  void (*run)(std::string_view input);
  std::vector<std::string> (*seeds)();
};
// All that are linked in.
std::vector<Target>& Targets();

struct Registration {
  explicit Registration(const Target& target) { Targets().push_back(target); }
};

// Takes numbers off the end of an input, so that its beginning stays text: zeros when it is used
// up.
class Tail {
 public:
  explicit Tail(std::string_view input) : rest_(input) {}
  template <class T>
  T Take() {
    T value = 0;
    const size_t size = rest_.size() < sizeof value ? rest_.size() : sizeof value;
    if (size == 0) return value;
    std::memcpy(&value, rest_.data() + rest_.size() - size, size);
    rest_.remove_suffix(size);
    return value;
  }
  std::string_view TakeBytes(size_t size) {
    const std::string_view taken =
        rest_.substr(rest_.size() - (size < rest_.size() ? size : rest_.size()));
    rest_.remove_suffix(taken.size());
    return taken;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

}  // namespace tandem::fuzz

#define FUZZ_SEEDS(name) static std::vector<std::string> FuzzSeeds_##name()
// Comes behind FUZZ_SEEDS of the same name; `input` is what came.
#define FUZZ_TARGET(name)                                      \
  static void Fuzz_##name(std::string_view input);             \
  static const ::tandem::fuzz::Registration registered_##name( \
      {#name, &Fuzz_##name, &FuzzSeeds_##name});               \
  static void Fuzz_##name(std::string_view input)

#endif  // TANDEM_TESTS_FUZZ_FUZZ_TARGET_H_
