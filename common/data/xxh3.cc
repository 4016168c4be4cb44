#include "common/data/xxh3.h"

#include <xxhash.h>

namespace tandem {

uint64_t Xxh3(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

void Xxh3Stream::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

Xxh3Stream::Xxh3Stream() : state_(XXH3_createState()) { Reset(); }
Xxh3Stream::~Xxh3Stream() = default;
Xxh3Stream::Xxh3Stream(Xxh3Stream&&) noexcept = default;
Xxh3Stream& Xxh3Stream::operator=(Xxh3Stream&&) noexcept = default;

void Xxh3Stream::Update(std::string_view bytes) {
  XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
}
uint64_t Xxh3Stream::Digest() const { return XXH3_64bits_digest(state_.get()); }
void Xxh3Stream::Reset() { XXH3_64bits_reset(state_.get()); }

}  // namespace tandem
