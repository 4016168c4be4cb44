#include "common/data/blob_sums.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tandem {
namespace {

struct Header {
  char magic[8] = {'T', 'D', 'M', 'S', 'U', 'M', 'S', '1'};
  uint64_t blob_bytes = 0;
  uint64_t xxh3 = 0;  // Of the sums.
};
static_assert(sizeof(Header) == 24);

std::string_view BytesOf(const std::vector<uint64_t>& sums) {
  return {reinterpret_cast<const char*>(sums.data()), sums.size() * sizeof(uint64_t)};
}

}  // namespace

void BlobSummer::Update(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto part =
        static_cast<size_t>(std::min<uint64_t>(bytes.size(), kBlobBlockBytes - filled_));
    block_.Update(bytes.substr(0, part));
    bytes.remove_prefix(part);
    filled_ += part;
    if (filled_ < kBlobBlockBytes) continue;
    sums_.push_back(block_.Digest());
    block_.Reset();
    filled_ = 0;
  }
}

std::vector<uint64_t> BlobSummer::Finish() const {
  std::vector<uint64_t> sums = sums_;
  if (filled_ > 0) sums.push_back(block_.Digest());
  return sums;
}

std::string EncodeBlobSums(uint64_t blob_bytes, const std::vector<uint64_t>& sums) {
  Header header;
  header.blob_bytes = blob_bytes;
  header.xxh3 = Xxh3(BytesOf(sums));
  std::string text(reinterpret_cast<const char*>(&header), sizeof(header));
  text += BytesOf(sums);
  return text;
}

std::optional<std::vector<uint64_t>> DecodeBlobSums(uint64_t blob_bytes, std::string_view text) {
  Header header, wanted;
  std::vector<uint64_t> sums(static_cast<size_t>(BlobBlocks(blob_bytes)));
  if (text.size() != sizeof(header) + sums.size() * sizeof(uint64_t)) return std::nullopt;
  std::memcpy(&header, text.data(), sizeof(header));
  text.remove_prefix(sizeof(header));
  if (!text.empty()) std::memcpy(sums.data(), text.data(), text.size());
  if (std::memcmp(header.magic, wanted.magic, sizeof(header.magic)) != 0 ||
      header.blob_bytes != blob_bytes || header.xxh3 != Xxh3(BytesOf(sums))) {
    return std::nullopt;
  }
  return sums;
}

}  // namespace tandem
