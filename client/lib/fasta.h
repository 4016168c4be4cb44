// FASTA: the letters of its records, as one operand.
//
// Records follow one another with kRecordBreak between them, a letter that is no base, so that no
// word spans two records. Case is kept (kernels take either); line ends LF and CRLF; blank lines
// and
// `;` comment lines are skipped; gzip is recognised and refused with the remedy.
//
// Thread-safety: pure functions.
#ifndef TANDEM_CLIENT_LIB_FASTA_H_
#define TANDEM_CLIENT_LIB_FASTA_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tandem::client {

inline constexpr char kRecordBreak = '\n';

struct Fasta {
  std::string letters;
  uint64_t records = 0;
};

// Errors: INVALID_ARGUMENT BAD_FILE: empty, no `>` header, no letters at all, binary (with the
// line).
absl::StatusOr<Fasta> ParseFasta(std::string_view text);

// By its name: .fa .fasta .fna .ffn .faa .frn
bool IsFastaName(std::string_view path);

}  // namespace tandem::client

#endif  // TANDEM_CLIENT_LIB_FASTA_H_
