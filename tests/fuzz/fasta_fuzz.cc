// FASTA: its letters and records, against a reader of another kind, and there and back.
#include <algorithm>
#include <string>

#include "client/lib/fasta.h"
#include "common/base/check.h"
#include "common/base/error.h"
#include "tests/fuzz/fuzz_target.h"

namespace tandem::client {
namespace {

// Records by their first letters: a `>` at the beginning of a line.
uint64_t CountHeaders(std::string_view text) {
  uint64_t headers = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '>' && (i == 0 || text[i - 1] == '\n')) ++headers;
  }
  return headers;
}

// Chunks cut anywhere make no difference.
void CheckInChunks(std::string_view text, const absl::StatusOr<Fasta>& whole) {
  for (const size_t size : {1, 2, 7}) {
    FastaParser parser;
    std::string letters;
    absl::Status status;
    for (size_t at = 0; at < text.size() && status.ok(); at += size) {
      status = parser.Take(text.substr(at, size), &letters);
    }
    if (status.ok()) status = parser.Finish();
    CHECK_EQ(status.ok(), whole.ok());
    if (!status.ok()) continue;
    CHECK_EQ(letters, whole->letters);
    CHECK_EQ(parser.records(), whole->records);
  }
}

FUZZ_SEEDS(fasta) {
  return {">one\nACGT\n",
          ">one\r\nACGTN\r\nacgtn\r\n>two\r\nTTTT",
          "; a comment\n>one\nACGT\n\n>two words\nAC-GT*.\n",
          ">empty\n>one\nA\n>empty\n",
          "ACGT\n",
          ">one\nAC1T\n",
          "\x1f\x8b\x08",
          ">only a header\n"};
}

FUZZ_TARGET(fasta) {
  const auto fasta = ParseFasta(input);
  CheckInChunks(input, fasta);
  if (input.substr(0, 3) == "\xEF\xBB\xBF") input.remove_prefix(3);  // a byte order mark
  if (!fasta.ok()) {
    CHECK(fasta.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(ReasonOf(fasta.status()) == reason::kBadFile);
    return;
  }
  CHECK(fasta->letters.size() <= input.size());
  CHECK_EQ(fasta->records, CountHeaders(input));
  std::string text = ">";
  for (const char c : fasta->letters) {
    if (c == kRecordBreak) {
      text += "\n>";
    } else {
      CHECK(c != '\r' && c != ' ' && c != '\t' && c != '>' && c != ';');
      if (text.back() == '>') text += '\n';
      text += c;
    }
  }
  const auto again = ParseFasta(text);
  CHECK_OK(again);
  CHECK_EQ(again->letters, fasta->letters);
}

}  // namespace
}  // namespace tandem::client
