// How a commit is written: its batches' records as one payload, and its place in the chain.
//
// Payload: for each batch a varint count of records, then for each record a varint length and its
// bytes. The checksum of a commit covers its payload, its numbers and the checksum of the commit
// before it.
//
// Thread-safety: pure functions; a BatchReader belongs to one thread.
#ifndef TANDEM_MASTER_STORE_LOG_CODEC_H_
#define TANDEM_MASTER_STORE_LOG_CODEC_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/ids.h"
#include "master/store/rows.h"
#include "master/store/store.h"

namespace tandem::master {

// What stands beside a commit's payload.
struct CommitHeader {
  uint64_t last_seq = 0;
  uint64_t batches = 0;  // The commit holds (last_seq - batches, last_seq].
  Epoch epoch;
  uint64_t checksum = 0;
};

// The checksum before the first commit of all.
inline constexpr uint64_t kChainStart = 0;

// Replaces *payload. Errors: INVALID_ARGUMENT for no batch or for what is over the limits.
absl::Status EncodeCommit(absl::Span<const AppendBatch> batches, const StoreLimits& limits,
                          std::string* payload);
uint64_t ChainChecksum(uint64_t previous, const CommitHeader& header, std::string_view payload);
// That the commit follows one that ended at `previous_seq` with `previous_checksum`. Errors:
// DATA_LOSS (STORE_CORRUPT) naming the sequence number and what is wrong.
absl::Status CheckLink(uint64_t previous_seq, uint64_t previous_checksum,
                       const CommitHeader& header, std::string_view payload);

// Goes through a payload batch by batch.
class BatchReader {
 public:
  explicit BatchReader(std::string_view payload) : rest_(payload) {}
  bool done() const { return rest_.empty(); }
  // Replaces *records with views into the payload. Errors: DATA_LOSS for what EncodeCommit does not
  // write; allocates no more than the payload's size allows.
  absl::Status Next(std::vector<std::string_view>* records);

 private:
  bool ReadVarint(uint64_t* value);

  std::string_view rest_;
};

uint64_t SnapshotChecksum(uint64_t seq, std::string_view bytes);
// The checksum of a row of the output index, over every field.
uint64_t RowChecksum(const OutputRow& row);

absl::Status Corrupt(std::string_view what);
absl::Status StaleEpoch(Epoch writer, Epoch store);

}  // namespace tandem::master

#endif  // TANDEM_MASTER_STORE_LOG_CODEC_H_
