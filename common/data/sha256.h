// SHA-256: the content address of a blob.
//
//   Sha256 hash; hash.Update(a); hash.Update(b); hash.Finish() == Sha256Of(a + b)
//
// Thread-safety: a Sha256 belongs to one thread; Sha256Of is pure.
#ifndef TANDEM_COMMON_DATA_SHA256_H_
#define TANDEM_COMMON_DATA_SHA256_H_

#include <memory>
#include <string_view>

#include "common/model/ids.h"

struct evp_md_ctx_st;

namespace tandem {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void Update(std::string_view bytes);
  // The digest of all bytes so far; more may follow.
  BlobId Finish() const;
  // As if newly made.
  void Reset();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

BlobId Sha256Of(std::string_view bytes);

}  // namespace tandem

#endif  // TANDEM_COMMON_DATA_SHA256_H_
