// XXH3-64, the checksum of pieces, records and chunks: guards against accidents, not against people
// (content addresses are SHA-256, see sha256.h).
//
//   Xxh3(bytes)                      one text
//   Xxh3Stream s; s.Update(a); s.Update(b); s.Digest() == Xxh3(a + b)
//
// Thread-safety: Xxh3 is pure; an Xxh3Stream belongs to one thread.
#ifndef TANDEM_COMMON_DATA_XXH3_H_
#define TANDEM_COMMON_DATA_XXH3_H_

#include <cstdint>
#include <memory>
#include <string_view>

struct XXH3_state_s;

namespace tandem {

uint64_t Xxh3(std::string_view bytes);

class Xxh3Stream {
 public:
  Xxh3Stream();
  ~Xxh3Stream();
  Xxh3Stream(Xxh3Stream&&) noexcept;
  Xxh3Stream& operator=(Xxh3Stream&&) noexcept;

  void Update(std::string_view bytes);
  // Of all bytes so far; more may follow.
  uint64_t Digest() const;
  // As if newly made.
  void Reset();

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace tandem

#endif  // TANDEM_COMMON_DATA_XXH3_H_
