// HashCache: the content hashes of files that were hashed before, so that a file that has not
// changed is not read again only to learn that the master has it.
//
//   ASSIGN_OR_RETURN(BlobId id, HashCache::OfUser()->IdOf(source));
//
// A file is taken for the same while device, inode, size, modification time and change time are
// (the last cannot be set back by anybody). One that changed less than two seconds before it was
// hashed is not remembered: a change within the same tick of the clock would not show. A wrong
// entry can waste an upload, never corrupt one: the master checks every hash.
//
// The file holds 64 bytes an entry, (key, hash), appended; $TANDEM_HASH_CACHE names it ("" for
// none), else it is tandem/blob-ids under $XDG_CACHE_HOME or ~/.cache. What cannot be read or
// written is as if it were not there.
//
// Thread-safety: safe from any thread, and from several processes. Ownership: holds its entries.
#ifndef TANDEM_CLIENT_LIB_HASH_CACHE_H_
#define TANDEM_CLIENT_LIB_HASH_CACHE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "client/lib/byte_source.h"
#include "common/model/ids.h"

namespace tandem::client {

class HashCache {
 public:
  // Smaller sources are hashed faster than looked up.
  static constexpr uint64_t kSourceBytesMin = uint64_t{1} << 20;
  // More entries: the older half goes.
  static constexpr size_t kEntriesMax = size_t{1} << 16;

  // `path` "": nothing is remembered.
  explicit HashCache(std::string path) : path_(std::move(path)) {}
  // The user's own. Never destroyed.
  static HashCache* OfUser();
  static std::string PathOfUser();

  // Errors: those of reading the source.
  absl::StatusOr<BlobId> IdOf(const ByteSource& source);
  // The master found other bytes behind this hash.
  void Forget(const BlobId& id);
  // How often nothing had to be read.
  uint64_t hits() const;

 private:
  void Load() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Add(const BlobId& key, const BlobId& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Rewrite() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool MakeFolder() const;

  const std::string path_;
  mutable absl::Mutex mu_;
  bool loaded_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t hits_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t last_ ABSL_GUARDED_BY(mu_) = 0;
  struct Entry {
    BlobId id;
    uint64_t order = 0;  // Larger: newer.
  };
  std::map<BlobId, Entry> entries_ ABSL_GUARDED_BY(mu_);  // By the source's identity.
};

}  // namespace tandem::client

#endif  // TANDEM_CLIENT_LIB_HASH_CACHE_H_
