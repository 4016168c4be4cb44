#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace tandem::fuzz {
namespace {

// What decoders trip over: ends of ranges, and the bytes of texts.
constexpr char kBytes[] = {0,   1,   2,   127, -128, -1,  ' ', ',',
                           '(', ')', '[', ']', '-',  '>', '0', '9'};
constexpr uint64_t kNumbers[] = {0,
                                 1,
                                 0x7f,
                                 0x80,
                                 0xff,
                                 0x7fff,
                                 0xffff,
                                 0x7fffffff,
                                 0xffffffff,
                                 uint64_t{1} << 62,
                                 uint64_t{1} << 63,
                                 ~uint64_t{0}};

}  // namespace

void Mutator::MutateOnce() {
  const size_t at = Below(input_.size());
  const size_t length = 1 + Below(std::min<size_t>(input_.size() - at, 16));
  switch (rng_.Between(0, 7)) {
    case 0:
      if (!input_.empty()) input_[at] = static_cast<char>(input_[at] ^ (1 << Below(8)));
      return;
    case 1:
      if (!input_.empty()) input_[at] = kBytes[Below(std::size(kBytes))];
      return;
    case 2:
      input_.insert(at, 1, kBytes[Below(std::size(kBytes))]);
      return;
    case 3:
      input_.erase(at, length);
      return;
    case 4:
      input_.insert(Below(input_.size() + 1), input_.substr(at, length));
      return;
    case 5: {
      const uint64_t number = kNumbers[Below(std::size(kNumbers))];
      const size_t size = std::min<size_t>(size_t{1} << Below(4), input_.size() - at);
      std::memcpy(input_.data() + at, &number, size);
      return;
    }
    case 6: {  // the beginning of this one and the end of another
      const std::string& other = known_[Below(known_.size())];
      input_ = input_.substr(0, at) + other.substr(Below(other.size()));
      return;
    }
    default:
      if (!input_.empty()) input_[at] = static_cast<char>(rng_.Between(0, 255));
  }
}

const std::string& Mutator::Next() {
  input_ = known_[Below(known_.size())];
  for (size_t rounds = 1 + Below(8); rounds > 0; --rounds) MutateOnce();
  if (input_.size() > kBytesMax) input_.resize(kBytesMax);
  return input_;
}

}  // namespace tandem::fuzz
