#include "client/lib/fasta.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>
#include <utility>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::client {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Letters of sequences, `*` (stop) and `-`, `.` (gaps).
constexpr std::array<bool, 256> kSequenceLetter = [] {
  std::array<bool, 256> table{};
  for (int c = 'A'; c <= 'Z'; ++c) table[c] = table[c + 'a' - 'A'] = true;
  table['*'] = table['-'] = table['.'] = true;
  return table;
}();

bool IsLetter(char c) { return kSequenceLetter[static_cast<uint8_t>(c)]; }
bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// The letters of a file, made while it is read.
class FastaOrigin final : public ByteOrigin {
 public:
  FastaOrigin(std::string path, const FileIdentity& identity)
      : path_(std::move(path)), identity_(identity) {}

  absl::Status Read(uint64_t from, TakeChunk take) const override {
    FastaParser parser;
    std::string letters;
    RETURN_IF_ERROR(ByteSource::OfFile(path_, identity_, 0)
                        .Read(0, [&](std::string_view chunk) -> absl::Status {
                          letters.clear();
                          RETURN_IF_ERROR(parser.Take(chunk, &letters));
                          const uint64_t skip = std::min<uint64_t>(from, letters.size());
                          from -= skip;
                          return TakeInChunks(std::string_view(letters).substr(skip), take);
                        }));
    return parser.Finish();
  }

 private:
  const std::string path_;
  const FileIdentity identity_;
};

}  // namespace

absl::Status FastaParser::Bad(std::string_view what) const {
  return InvalidError(reason::kBadFile, StrCat("not a usable FASTA file: line ", line_, " ", what));
}

absl::Status FastaParser::TakeHead(std::string* letters) {
  began_ = true;
  if (std::string_view(head_).substr(0, 2) == "\x1f\x8b") {
    return InvalidError(reason::kBadFile, "the FASTA file is compressed; gunzip it first");
  }
  return head_ == kByteOrderMark ? absl::OkStatus() : TakeText(head_, letters);
}

absl::Status FastaParser::StartLine(char first, std::string* letters) {
  if (first == '>') {
    if (any_letter_) *letters += kRecordBreak;
    ++records_;
  }
  in_ = first == '>' || first == ';' ? In::kSkippedLine : In::kSequence;
  if (in_ == In::kSkippedLine || records_ > 0 || IsBlank(first)) return absl::OkStatus();
  if (!IsLetter(first) && first != '@') return Bad("has no text; is it binary?");
  return Bad(StrCat("comes before any header; a record begins with a line '>name'",
                    first == '@' ? "; is it FASTQ?" : ""));
}

absl::Status FastaParser::AfterBlanks(char next) const {
  if (after_cr_) {
    return Bad("ends with CR alone, as on an old Mac; write its line ends as LF (tr '\\r' '\\n')");
  }
  return Bad(StrCat("has a blank before ", Quoted(std::string(1, next)), " in a sequence"));
}

absl::Status FastaParser::Take(std::string_view chunk, std::string* letters) {
  if (!began_) {
    const std::string_view head = chunk.substr(0, kByteOrderMark.size() - head_.size());
    head_ += head;
    chunk.remove_prefix(head.size());
    if (head_.size() < kByteOrderMark.size()) return absl::OkStatus();
    RETURN_IF_ERROR(TakeHead(letters));
  }
  return TakeText(chunk, letters);
}

absl::Status FastaParser::TakeText(std::string_view chunk, std::string* letters) {
  for (size_t at = 0; at < chunk.size();) {
    const char c = chunk[at];
    if (c == '\n') {
      in_ = In::kLineStart;
      after_cr_ = false;
      ++line_;
      ++at;
    } else if (in_ == In::kLineStart) {
      RETURN_IF_ERROR(StartLine(c, letters));  // and look again
    } else if (in_ == In::kSkippedLine) {
      if (after_cr_ && c != '\r') return AfterBlanks(c);
      const size_t end = std::min(chunk.find_first_of("\r\n", at), chunk.size());
      after_cr_ = end < chunk.size() && chunk[end] == '\r';
      at = end + (after_cr_ ? 1 : 0);
    } else if (IsBlank(c)) {
      in_ = In::kBlanks;
      after_cr_ = c == '\r';
      ++at;
    } else if (in_ == In::kBlanks) {
      return AfterBlanks(c);
    } else {
      size_t end = at;
      while (end < chunk.size() && IsLetter(chunk[end])) ++end;
      if (end == at) return Bad(StrCat("has ", Quoted(chunk.substr(at, 1)), " in a sequence"));
      any_letter_ = true;
      letters->append(chunk.substr(at, end - at));
      at = end;
    }
  }
  return absl::OkStatus();
}

absl::Status FastaParser::Finish() {
  std::string none;  // So short a file has no letters that are right.
  if (!began_) RETURN_IF_ERROR(TakeHead(&none));
  if (records_ == 0) return InvalidError(reason::kBadFile, "the FASTA file is empty");
  if (!any_letter_) {
    return InvalidError(reason::kBadFile, "the FASTA file has headers but no letters");
  }
  return absl::OkStatus();
}

absl::StatusOr<Fasta> ParseFasta(std::string_view text) {
  FastaParser parser;
  Fasta fasta;
  fasta.letters.reserve(text.size());
  RETURN_IF_ERROR(parser.Take(text, &fasta.letters));
  RETURN_IF_ERROR(parser.Finish());
  fasta.records = parser.records();
  return fasta;
}

absl::StatusOr<FastaFile> OpenFasta(const std::string& path) {
  ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  FastaParser parser;
  uint64_t size = 0;
  std::string letters;
  absl::Status status =
      ByteSource::OfFile(path, file.identity(), 0).Read(0, [&](std::string_view chunk) {
        letters.clear();
        const absl::Status taken = parser.Take(chunk, &letters);
        size += letters.size();
        return taken;
      });
  if (status.ok()) status = parser.Finish();
  if (!status.ok()) return WithContext(status, Quoted(path));
  return FastaFile{ByteSource::Of(std::make_shared<FastaOrigin>(path, file.identity()), size),
                   parser.records()};
}

bool IsFastaName(std::string_view path) {
  const size_t dot = path.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return false;
  std::string end(path.substr(dot));
  std::transform(end.begin(), end.end(), end.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  for (const std::string_view known : {".fa", ".fasta", ".fna", ".ffn", ".faa", ".frn"}) {
    if (end == known) return true;
  }
  return false;
}

}  // namespace tandem::client
