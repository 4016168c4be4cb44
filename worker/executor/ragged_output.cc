#include "worker/executor/ragged_output.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace tandem::worker {
namespace {

// The most that one task may write: what a host with memory to spare can still hold twice.
constexpr uint64_t kRowBytesMax = uint64_t{1} << 36;
constexpr uint64_t kRowBytesMin = 256;
constexpr int64_t kCopyItems = 16;

}  // namespace

RaggedOutput::RaggedOutput(uint64_t tasks) : rows_(tasks), sinks_(tasks) {
  for (uint64_t i = 0; i < tasks; ++i) sinks_[i] = {&RaggedOutput::Write, &rows_[i]};
}

RaggedOutput::~RaggedOutput() {
  for (const Row& row : rows_) std::free(row.data);
}

void RaggedOutput::Trim(uint64_t tasks) {
  for (size_t i = tasks; i < rows_.size(); ++i) std::free(rows_[i].data);
  rows_.resize(tasks);
}

int32_t RaggedOutput::Write(void* context, const void* bytes, int64_t size) {
  Row* row = static_cast<Row*>(context);
  if (size < 0 || static_cast<uint64_t>(size) > kRowBytesMax - row->size) return 1;
  const uint64_t needed = row->size + static_cast<uint64_t>(size);
  if (needed > row->capacity) {
    const uint64_t capacity = std::max({needed, row->capacity + row->capacity / 2, kRowBytesMin});
    void* fresh = std::realloc(row->data, capacity);
    if (fresh == nullptr) return 1;
    row->data = static_cast<uint8_t*>(fresh);
    row->capacity = capacity;
  }
  if (size > 0) std::memcpy(row->data + row->size, bytes, static_cast<size_t>(size));
  row->size = needed;
  return 0;
}

uint64_t RaggedOutput::Bytes() const {
  uint64_t bytes = (rows_.size() + 1) * sizeof(uint64_t);
  for (const Row& row : rows_) bytes += row.size;
  return bytes;
}

void RaggedOutput::Store(HostCrew& crew, char* to) const {
  std::vector<uint64_t> offsets(rows_.size() + 1);
  for (size_t i = 0; i < rows_.size(); ++i) offsets[i + 1] = offsets[i] + rows_[i].size;
  const size_t table = offsets.size() * sizeof(uint64_t);
  std::memcpy(to, offsets.data(), table);
  crew.ParallelFor(static_cast<int64_t>(rows_.size()), kCopyItems, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      if (rows_[i].size == 0) continue;
      std::memcpy(to + table + offsets[i], rows_[i].data, rows_[i].size);
    }
  });
}

}  // namespace tandem::worker
