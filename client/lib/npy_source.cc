#include "client/lib/npy_source.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::client {
namespace {

// Rows of a Fortran-ordered array that are gathered together, and the longest row that is.
constexpr uint64_t kBlockBytes = 64 << 20;
constexpr uint64_t kRowBytesMax = 512 << 20;

template <class Word, class Swap>
void SwapWords(absl::Span<char> bytes, Swap swap) {
  for (size_t at = 0; at + sizeof(Word) <= bytes.size(); at += sizeof(Word)) {
    Word word;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    word = swap(word);
    std::memcpy(bytes.data() + at, &word, sizeof word);
  }
}

void SwapBytes(absl::Span<char> bytes, uint64_t size) {
  if (size == 2) SwapWords<uint16_t>(bytes, [](uint16_t w) { return __builtin_bswap16(w); });
  if (size == 4) SwapWords<uint32_t>(bytes, [](uint32_t w) { return __builtin_bswap32(w); });
  if (size == 8) SwapWords<uint64_t>(bytes, [](uint64_t w) { return __builtin_bswap64(w); });
}

class SwappedOrigin final : public ByteOrigin {
 public:
  SwappedOrigin(std::string path, const NpyFile& file)
      : path_(std::move(path)),
        identity_(file.identity),
        offset_(file.header.data_offset),
        element_(DTypeSize(file.header.spec.dtype)) {}

  absl::Status Read(uint64_t from, TakeChunk take) const override {
    ASSIGN_OR_RETURN(const InputFile file, InputFile::OpenAgain(path_, identity_));
    uint64_t skip = from % element_;
    uint64_t at = offset_ + from - skip;
    std::string buffer(std::min(kChunkBytes, identity_.size - at), '\0');
    while (at < identity_.size) {
      const absl::Span<char> chunk(buffer.data(),
                                   std::min<uint64_t>(buffer.size(), identity_.size - at));
      RETURN_IF_ERROR(file.ReadAt(at, chunk));
      SwapBytes(chunk, element_);
      RETURN_IF_ERROR(take(std::string_view(chunk.data(), chunk.size()).substr(skip)));
      skip = 0;
      at += chunk.size();
    }
    return file.CheckUnchanged();
  }

 private:
  const std::string path_;
  const FileIdentity identity_;
  const uint64_t offset_, element_;
};

// An array whose first index runs fastest in the file: for each index of the other dimensions
// (a *column*), the elements of all rows lie together.
class FortranOrigin final : public ByteOrigin {
 public:
  // `shape`: without dimensions of extent 1; at least two are left.
  FortranOrigin(std::string path, const NpyFile& file, Shape shape)
      : path_(std::move(path)),
        identity_(file.identity),
        offset_(file.header.data_offset),
        element_(DTypeSize(file.header.spec.dtype)),
        swap_(file.header.big_endian),
        rows_(static_cast<uint64_t>(shape[0])),
        inner_(shape.begin() + 1, shape.end()) {
    for (const int64_t extent : inner_) columns_ *= static_cast<uint64_t>(extent);
  }
  uint64_t row_bytes() const { return columns_ * element_; }

  absl::Status Read(uint64_t from, TakeChunk take) const override {
    ASSIGN_OR_RETURN(const InputFile file, InputFile::OpenAgain(path_, identity_));
    const uint64_t block = std::clamp<uint64_t>(kBlockBytes / row_bytes(), 1, rows_);
    uint64_t skip = from % row_bytes();
    std::string columns, rows;
    for (uint64_t row = from / row_bytes(); row < rows_; row += block) {
      const uint64_t count = std::min(block, rows_ - row);
      columns.resize(count * row_bytes());
      rows.resize(columns.size());
      RETURN_IF_ERROR(ReadColumns(file, row, count, columns.data()));
      Turn(columns.data(), count, rows.data());
      if (swap_) SwapBytes(absl::MakeSpan(rows.data(), rows.size()), element_);
      RETURN_IF_ERROR(TakeInChunks(std::string_view(rows).substr(skip), take));
      skip = 0;
    }
    return file.CheckUnchanged();
  }

 private:
  // Rows [row, row + count) of each column, one column behind the other.
  absl::Status ReadColumns(const InputFile& file, uint64_t row, uint64_t count, char* to) const {
    if (count == rows_) return file.ReadAt(offset_, absl::MakeSpan(to, rows_ * row_bytes()));
    const uint64_t bytes = count * element_;
    for (uint64_t column = 0; column < columns_; ++column, to += bytes) {
      const uint64_t at = offset_ + (column * rows_ + row) * element_;
      RETURN_IF_ERROR(file.ReadAt(at, absl::MakeSpan(to, bytes)));
    }
    return absl::OkStatus();
  }

  // From columns in the file's order to rows in C order.
  void Turn(const char* columns, uint64_t count, char* rows) const {
    constexpr uint64_t kTile = 64;  // columns side by side: their lines stay in the cache
    std::vector<int64_t> index(inner_.size(), 0);
    uint64_t tile[kTile];
    for (uint64_t first = 0; first < columns_; first += kTile) {
      const uint64_t width = std::min(kTile, columns_ - first);
      for (uint64_t c = 0; c < width; ++c) tile[c] = NextColumn(&index) * count * element_;
      for (uint64_t row = 0; row < count; ++row) {
        char* to = rows + row * row_bytes() + first * element_;
        for (uint64_t c = 0; c < width; ++c, to += element_) {
          std::memcpy(to, columns + tile[c] + row * element_, element_);
        }
      }
    }
  }

  // The column of `index`, in the file's order; the index goes on, in C order.
  uint64_t NextColumn(std::vector<int64_t>* index) const {
    uint64_t column = 0;
    for (size_t d = inner_.size(); d-- > 0;) {
      column = column * static_cast<uint64_t>(inner_[d]) + static_cast<uint64_t>((*index)[d]);
    }
    for (size_t d = inner_.size(); d-- > 0;) {
      if (++(*index)[d] < inner_[d]) break;
      (*index)[d] = 0;
    }
    return column;
  }

  const std::string path_;
  const FileIdentity identity_;
  const uint64_t offset_, element_;
  const bool swap_;
  const uint64_t rows_;
  const std::vector<int64_t> inner_;
  uint64_t columns_ = 1;
};

// Without the dimensions that have no choice: they order nothing.
Shape Longer(const Shape& shape) {
  Shape longer;
  for (const int64_t extent : shape) {
    if (extent != 1) longer.push_back(extent);
  }
  return longer;
}

bool Turned(const NpyHeader& header) {
  return header.fortran_order && Longer(header.spec.shape).size() > 1;
}

}  // namespace

bool NpyFile::plain() const { return !header.big_endian && !Turned(header); }

absl::StatusOr<NpyFile> OpenNpy(const std::string& path) {
  ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  ASSIGN_OR_RETURN(const std::string prefix, file.ReadPrefix(NpyHeader::kHeaderBytesMax + 12));
  auto header = ParseNpyHeader(prefix, file.identity().size);
  if (!header.ok()) return WithContext(header.status(), Quoted(path));
  RETURN_IF_ERROR(file.CheckUnchanged());
  return NpyFile{file.identity(), *std::move(header)};
}

absl::StatusOr<ByteSource> NpyElements(const std::string& path, const NpyFile& file) {
  ASSIGN_OR_RETURN(const uint64_t bytes, file.header.spec.Bytes());
  if (bytes == 0) return ByteSource::OfMemory("");
  if (Turned(file.header)) {
    auto origin = std::make_shared<FortranOrigin>(path, file, Longer(file.header.spec.shape));
    if (origin->row_bytes() > kRowBytesMax) {
      return Error(absl::StatusCode::kResourceExhausted, reason::kLimitExceeded,
                   StrCat(Quoted(path), " is in Fortran order and a row of it has ",
                          HumanSize(origin->row_bytes()), ", more than ", HumanSize(kRowBytesMax),
                          ": save it in C order with numpy.ascontiguousarray"));
    }
    return ByteSource::Of(std::move(origin), bytes);
  }
  if (file.header.big_endian) {
    return ByteSource::Of(std::make_shared<SwappedOrigin>(path, file), bytes);
  }
  return ByteSource::OfFile(path, file.identity, file.header.data_offset);
}

}  // namespace tandem::client
