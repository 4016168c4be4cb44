#include "client/lib/npy.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::client {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";

absl::Status Bad(std::string_view what) {
  return InvalidError(reason::kBadFile, StrCat("not a usable .npy file: ", what));
}

uint64_t LittleEndian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

// Reads the one Python dictionary literal that a header holds.
class DictReader {
 public:
  explicit DictReader(std::string_view text) : text_(text) {}

  absl::Status Read(NpyHeader* header) {
    RETURN_IF_ERROR(Expect('{'));
    while (!Take('}')) {
      ASSIGN_OR_RETURN(const std::string_view key, QuotedText());
      RETURN_IF_ERROR(Expect(':'));
      RETURN_IF_ERROR(Value(key, header));
      if (!Take(',')) {
        RETURN_IF_ERROR(Expect('}'));
        break;
      }
    }
    Blanks();
    if (at_ < text_.size()) return Bad(StrCat("its header goes on at byte ", at_));
    if (!has_descr_ || !has_order_ || !has_shape_) {
      return Bad("its header lacks descr, fortran_order or shape");
    }
    return absl::OkStatus();
  }

 private:
  void Blanks() {
    constexpr std::string_view kBlanks = " \t\n\f\r";  // Python's
    at_ = std::min(text_.find_first_not_of(kBlanks, at_), text_.size());
  }
  bool Take(char c) {
    Blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  absl::Status Expect(char c) {
    if (Take(c)) return absl::OkStatus();
    return Bad(StrCat("its header has no '", c, "' at byte ", at_));
  }
  absl::StatusOr<std::string_view> QuotedText() {
    Blanks();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) {
      return Bad(StrCat("its header has no quoted text at byte ", at_));
    }
    const char quote = text_[at_++];
    const size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) return Bad("its header has an open quote");
    const std::string_view found = text_.substr(at_, end - at_);
    at_ = end + 1;
    return found;
  }
  absl::Status Value(std::string_view key, NpyHeader* header) {
    if (key == "descr") return Descr(header);
    if (key == "fortran_order") return Order(header);
    if (key == "shape") return ShapeOf(header);
    return Bad(StrCat("its header has the unknown key ", Quoted(key)));
  }
  absl::Status Descr(NpyHeader* header) {
    Blanks();
    if (at_ < text_.size() && text_[at_] == '[') {
      return Bad("it holds a structured array; save each field as an array of its own");
    }
    ASSIGN_OR_RETURN(const std::string_view descr, QuotedText());
    has_descr_ = true;
    header->descr = std::string(descr);
    header->big_endian = !descr.empty() && descr[0] == '>';
    std::string little(descr);
    if (header->big_endian) little[0] = '<';
    std::optional<DType> dtype = DTypeFromNpyDescr(little);
    if (little == "<u2" || descr == "|V2") dtype = DType::kBf16;
    if (dtype.has_value()) {
      header->spec.dtype = *dtype;
      header->big_endian = header->big_endian && DTypeSize(*dtype) > 1;
      return absl::OkStatus();
    }
    if (descr.find('O') != std::string_view::npos) {
      return Bad("it holds Python objects, which are never loaded; save numbers");
    }
    return Bad(StrCat("its dtype ", Quoted(descr), " is none of ", DTypeNames()));
  }
  absl::Status Order(NpyHeader* header) {
    Blanks();
    has_order_ = true;
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        header->fortran_order = value;
        return absl::OkStatus();
      }
    }
    return Bad("fortran_order is neither True nor False");
  }
  absl::Status ShapeOf(NpyHeader* header) {
    RETURN_IF_ERROR(Expect('('));
    has_shape_ = true;
    header->spec.shape.clear();
    while (!Take(')')) {
      ASSIGN_OR_RETURN(const int64_t extent, Number());
      header->spec.shape.push_back(extent);
      if (header->spec.shape.size() > NpyHeader::kRankMax) return Bad("it has over 32 dimensions");
      if (!Take(',')) {
        RETURN_IF_ERROR(Expect(')'));
        break;
      }
    }
    return absl::OkStatus();
  }
  absl::StatusOr<int64_t> Number() {
    Blanks();
    if (at_ < text_.size() && text_[at_] == '-') return Bad("its shape has a negative extent");
    int64_t value = 0;
    const size_t start = at_;
    for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])); ++at_) {
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, text_[at_] - '0', &value)) {
        return Bad("its shape has an extent beyond 2^63 - 1");
      }
    }
    if (at_ == start) return Bad(StrCat("its shape has no number at byte ", at_));
    if (at_ > start + 1 && text_[start] == '0') return Bad("its shape has a number like 03");
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote 3L
    return value;
  }

  const std::string_view text_;
  size_t at_ = 0;
  bool has_descr_ = false, has_order_ = false, has_shape_ = false;
};

}  // namespace

bool IsNpy(std::string_view prefix) { return prefix.substr(0, kNpyMagic.size()) == kNpyMagic; }

absl::StatusOr<NpyHeader> ParseNpyHeader(std::string_view prefix, uint64_t file_size) {
  if (prefix.size() < 10) {
    return InvalidError(reason::kTruncated,
                        StrCat("a .npy file has at least 10 bytes, this one ", prefix.size()));
  }
  if (!IsNpy(prefix)) return Bad("it does not begin with \\x93NUMPY");
  const int major = static_cast<uint8_t>(prefix[6]);
  const int minor = static_cast<uint8_t>(prefix[7]);
  if (major < 1 || major > 3 || minor != 0) {
    return Bad(StrCat("format version ", major, ".", minor, " is none of 1.0, 2.0, 3.0"));
  }
  const size_t length_bytes = major == 1 ? 2 : 4;
  if (prefix.size() < 8 + length_bytes) {
    return InvalidError(reason::kTruncated, "the .npy file ends within its header");
  }
  const uint64_t length = LittleEndian(prefix.substr(8, length_bytes));
  if (length > NpyHeader::kHeaderBytesMax) {
    return Bad(StrCat("its header claims ", length, " bytes; at most ", NpyHeader::kHeaderBytesMax,
                      " are read"));
  }
  NpyHeader header;
  header.data_offset = 8 + length_bytes + length;
  if (prefix.size() < header.data_offset || file_size < header.data_offset) {
    return InvalidError(reason::kTruncated, "the .npy file ends within its header");
  }
  RETURN_IF_ERROR(DictReader(prefix.substr(8 + length_bytes, length)).Read(&header));
  ASSIGN_OR_RETURN(const uint64_t bytes, header.spec.Bytes());
  const uint64_t there = file_size - header.data_offset;
  if (there < bytes) {
    return InvalidError(
        reason::kTruncated,
        StrCat("the .npy file holds ", there, " bytes of data; ", header.spec.ToString(), " takes ",
               bytes, ": it was cut off; write it again"));
  }
  if (there > bytes) {
    return Bad(
        StrCat("it holds ", there - bytes, " bytes more than ", header.spec.ToString(), " takes"));
  }
  return header;
}

std::string MakeNpyHeader(const TensorSpec& spec) {
  std::string_view descr = NpyDescr(spec.dtype);
  if (descr.empty()) descr = "<u2";
  std::string dict = StrCat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (");
  for (const int64_t extent : spec.shape) StrAppend(&dict, extent, ", ");
  if (spec.shape.size() > 1) dict.resize(dict.size() - 2);
  if (spec.shape.size() == 1) dict.resize(dict.size() - 1);
  dict += "), }";
  const size_t unpadded = 10 + dict.size() + 1;
  dict.append((64 - unpadded % 64) % 64, ' ');
  dict += '\n';
  std::string header(kNpyMagic);
  header += '\x01';
  header += '\0';
  header += static_cast<char>(dict.size() & 0xff);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

}  // namespace tandem::client
