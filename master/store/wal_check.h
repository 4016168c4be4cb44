// CheckWal: is the damage in a write-ahead log the torn end of a crash, or a hole in what was
// durable?
//
// SQLite ends its log at the first frame whose checksum is wrong and drops the rest without a word.
// That is right for the last transaction, which a crash may have torn. But each commit is synced
// before the next one is written, so when a commit and then more frames of the same log follow a
// bad frame, that frame was durable once, and to go on would lose commits that were promised. The
// same holds for a log whose header is damaged. This scan finds that before SQLite opens the file.
// (Damage to the last commit alone looks like a torn one and is cut like it.)
//
// File format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log. A frame's checksum goes
// on from that of the frame before it, which stands in that frame's header; so frames after a bad
// one can be checked as well.
// Thread-safety: a pure function of the file.
#ifndef TANDEM_MASTER_STORE_WAL_CHECK_H_
#define TANDEM_MASTER_STORE_WAL_CHECK_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace tandem::master {

// Bytes of the torn end: 0 for no file or a whole one. Errors: DATA_LOSS (STORE_CORRUPT) naming the
// file, the offset of the damage and the commits after it; INTERNAL (JOURNAL_IO).
absl::StatusOr<uint64_t> CheckWal(const std::string& path);

}  // namespace tandem::master

#endif  // TANDEM_MASTER_STORE_WAL_CHECK_H_
