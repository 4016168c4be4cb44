// The master's records between plain data (master/core/records.h) and the log's bytes
// (proto/tandem/journal/v1).
//
//   RecordEncoder encoder;
//   encoder.Add(record, now); …
//   std::string payload = encoder.Take();          // one log record for one batch
//   RETURN_IF_ERROR(DecodeRecords(payload, [&](DecodedRecord r) { core.Replay(r.record); … }));
//
// Commits that follow one another in a batch, of one job, without a partial, become one record.
// Task failures and pieces of concatenated outputs are rows of the store, not part of the payload.
//
// Errors of decoding: DATA_LOSS STORE_CORRUPT for what no encoder writes; FAILED_PRECONDITION
// VERSION_SKEW for a newer format.
// Thread-safety: an encoder belongs to one thread; decoding is a pure function.
#ifndef TANDEM_MASTER_SERVER_RECORDS_H_
#define TANDEM_MASTER_SERVER_RECORDS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "master/core/records.h"
#include "tandem/journal/v1/journal.pb.h"

namespace tandem::master {

inline constexpr uint32_t kJournalFormatMajor = 1;
inline constexpr uint32_t kJournalFormatMinor = 1;

class RecordEncoder {
 public:
  // `now`: wall time, for the ends of jobs.
  // `account`: a serialized JobAccount, for the end of a job; or "".
  void Add(const Record& record, absl::Time now, const std::string& account = "");
  // The durable state behind all of the payload has this hash (MasterCore::DurableHash).
  void SetStateHash(uint64_t hash);
  bool empty() const { return records_.records().empty(); }
  // The payload; the encoder is empty again.
  std::string Take();

 private:
  bool Coalesce(const LeavesDone& record);

  journal::v1::Records records_;
  std::string buffer_;
};

struct DecodedRecord {
  Record record;
  std::optional<absl::Time> ended;  // Of a JobEnded …
  std::string account;              // … and its account, serialized; or "".
};
// Calls `visit` for each record in order. `state_hash`: what SetStateHash said; 0: nothing, or by
// another release, whose hashes are not this one's.
absl::Status DecodeRecords(std::string_view payload,
                           const std::function<absl::Status(DecodedRecord)>& visit,
                           uint64_t* state_hash = nullptr);

// A job's accepted record alone: what history keeps as its spec.
std::string EncodeJobSpec(const JobAccepted& accepted);
absl::Status DecodeJobSpec(std::string_view bytes, JobAccepted* accepted);

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_RECORDS_H_
