#include "master/store/log_codec.h"

#include <xxhash.h>

#include <array>
#include <variant>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::master {
namespace {

void AppendVarint(std::string* to, uint64_t value) {
  while (value >= 0x80) {
    to->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  to->push_back(static_cast<char>(value));
}

// Numbers are hashed in little-endian order, so that a store can be moved between machines.
template <size_t N>
uint64_t HashNumbers(const std::array<uint64_t, N>& numbers) {
  std::array<unsigned char, N * 8> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<unsigned char>(numbers[i / 8] >> (i % 8 * 8));
  }
  return XXH3_64bits(bytes.data(), bytes.size());
}

absl::Status TooLarge(std::string_view what, uint64_t bytes, uint64_t limit) {
  return InvalidError(reason::kTooLarge,
                      StrCat(what, " of ", bytes, " bytes is over the limit of ", limit));
}

}  // namespace

absl::Status Corrupt(std::string_view what) {
  return Error(absl::StatusCode::kDataLoss, reason::kStoreCorrupt, what);
}

absl::Status StaleEpoch(Epoch writer, Epoch store) {
  return Error(absl::StatusCode::kFailedPrecondition, reason::kStaleEpoch,
               StrCat("the store is at epoch ", store, " and takes nothing of epoch ", writer,
                      ": another master has taken over; this one must stop"));
}

absl::Status EncodeCommit(absl::Span<const AppendBatch> batches, const StoreLimits& limits,
                          std::string* payload) {
  if (batches.empty()) return InvalidError(reason::kBadArgument, "an append needs a batch");
  payload->clear();
  uint64_t inline_bytes = 0;
  for (const AppendBatch& batch : batches) {
    AppendVarint(payload, batch.records.size());
    for (const LogRecord& record : batch.records) {
      if (record.payload.size() > limits.record_bytes_max) {
        return TooLarge("a record", record.payload.size(), limits.record_bytes_max);
      }
      AppendVarint(payload, record.payload.size());
      payload->append(record.payload);
    }
    for (const OutputRow& row : batch.outputs) {
      if (const auto* bytes = std::get_if<std::string>(&row.where)) inline_bytes += bytes->size();
    }
    if (payload->size() + inline_bytes > limits.append_bytes_max) {
      return TooLarge("an append", payload->size() + inline_bytes, limits.append_bytes_max);
    }
  }
  return absl::OkStatus();
}

uint64_t ChainChecksum(uint64_t previous, const CommitHeader& header, std::string_view payload) {
  const uint64_t seed = HashNumbers(
      std::array<uint64_t, 4>{previous, header.last_seq, header.batches, header.epoch.value()});
  return XXH3_64bits_withSeed(payload.data(), payload.size(), seed);
}

absl::Status CheckLink(uint64_t previous_seq, uint64_t previous_checksum,
                       const CommitHeader& header, std::string_view payload) {
  if (header.batches == 0 || header.last_seq <= previous_seq ||
      header.last_seq - previous_seq != header.batches) {
    return Corrupt(StrCat("the log has a gap after sequence ", previous_seq,
                          ": the next commit ends at ", header.last_seq, " and holds ",
                          header.batches, " batches"));
  }
  if (ChainChecksum(previous_checksum, header, payload) != header.checksum) {
    return Corrupt(StrCat("the commit of sequence ", previous_seq + 1, " to ", header.last_seq,
                          " is not what was written: the chained checksum differs"));
  }
  return absl::OkStatus();
}

bool BatchReader::ReadVarint(uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    *value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

absl::Status BatchReader::Next(std::vector<std::string_view>* records) {
  records->clear();
  uint64_t count = 0;
  // A record takes a byte at least, so a count beyond what is left is not one that was written.
  if (!ReadVarint(&count) || count > rest_.size()) {
    return Corrupt("a batch says it has more records than there are bytes");
  }
  records->reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t length = 0;
    if (!ReadVarint(&length) || length > rest_.size()) {
      return Corrupt("a record says it is longer than what is left");
    }
    records->push_back(rest_.substr(0, length));
    rest_.remove_prefix(length);
  }
  return absl::OkStatus();
}

uint64_t SnapshotChecksum(uint64_t seq, std::string_view bytes) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(),
                              HashNumbers(std::array<uint64_t, 1>{seq}));
}

uint64_t RowChecksum(const OutputRow& row) {
  const auto* bytes = std::get_if<std::string>(&row.where);
  const Region region = bytes == nullptr ? std::get<Region>(row.where) : Region();
  const uint64_t seed = HashNumbers(std::array<uint64_t, 12>{
      row.job.value(), row.output, row.generation, row.first_task, row.task_count, row.skip_tasks,
      row.piece_tasks, bytes == nullptr ? 1u : 0u, region.segment.value(), region.offset,
      region.length, region.xxh3});
  if (bytes == nullptr) return seed;
  return XXH3_64bits_withSeed(bytes->data(), bytes->size(), seed);
}

}  // namespace tandem::master
