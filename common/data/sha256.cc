#include "common/data/sha256.h"

#include <openssl/evp.h>

#include <array>
#include <cstdint>

#include "common/base/check.h"

namespace tandem {

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) { Reset(); }
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::Update(std::string_view bytes) {
  CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

BlobId Sha256::Finish() const {
  std::unique_ptr<evp_md_ctx_st, Free> copy(EVP_MD_CTX_new());
  CHECK(EVP_MD_CTX_copy_ex(copy.get(), context_.get()) == 1);
  std::array<uint8_t, BlobId::kBytes> bytes{};
  unsigned int size = 0;
  CHECK(EVP_DigestFinal_ex(copy.get(), bytes.data(), &size) == 1 && size == bytes.size());
  return BlobId(bytes);
}

void Sha256::Reset() { CHECK(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1); }

BlobId Sha256Of(std::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.Finish();
}

}  // namespace tandem
