#include "client/lib/fasta.h"

#include <array>

#include "common/base/error.h"
#include "common/base/strings.h"

namespace tandem::client {
namespace {

// Letters of sequences, `*` (stop) and `-`, `.` (gaps).
constexpr std::array<bool, 256> kSequenceLetter = [] {
  std::array<bool, 256> table{};
  for (int c = 'A'; c <= 'Z'; ++c) table[c] = table[c + 'a' - 'A'] = true;
  table['*'] = table['-'] = table['.'] = true;
  return table;
}();

absl::Status Bad(uint64_t line, std::string_view what) {
  return InvalidError(reason::kBadFile, StrCat("not a usable FASTA file: line ", line, " ", what));
}

}  // namespace

absl::StatusOr<Fasta> ParseFasta(std::string_view text) {
  if (text.substr(0, 2) == "\x1f\x8b") {
    return InvalidError(reason::kBadFile, "the FASTA file is compressed; gunzip it first");
  }
  Fasta fasta;
  fasta.letters.reserve(text.size());
  uint64_t line_number = 0;
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', at);
    if (end == std::string_view::npos) end = text.size();
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++line_number;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t')) {
      line.remove_suffix(1);
    }
    if (line.empty() || line[0] == ';') continue;
    if (line[0] == '>') {
      if (!fasta.letters.empty()) fasta.letters += kRecordBreak;
      ++fasta.records;
      continue;
    }
    if (fasta.records == 0) {
      return Bad(line_number, "comes before any header; a record begins with a line '>name'");
    }
    for (const char c : line) {
      if (!kSequenceLetter[static_cast<uint8_t>(c)]) {
        return Bad(line_number, StrCat("has ", Quoted(std::string(1, c)), " in a sequence"));
      }
    }
    fasta.letters += line;
  }
  if (fasta.records == 0) return InvalidError(reason::kBadFile, "the FASTA file is empty");
  if (fasta.letters.find_first_not_of(kRecordBreak) == std::string::npos) {
    return InvalidError(reason::kBadFile, "the FASTA file has headers but no letters");
  }
  return fasta;
}

bool IsFastaName(std::string_view path) {
  for (const std::string_view end : {".fa", ".fasta", ".fna", ".ffn", ".faa", ".frn"}) {
    if (path.size() > end.size() && path.substr(path.size() - end.size()) == end) return true;
  }
  return false;
}

}  // namespace tandem::client
