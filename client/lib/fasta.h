// FASTA: the letters of its records, as one operand.
//
// Records follow one another with kRecordBreak between them, a letter that is no base, so that no
// word spans two records. Case is kept (kernels take either); line ends LF and CRLF; blank lines
// and `;` comment lines are skipped. Refused with the line and the remedy: gzip, letters before any
// header, what is no letter, line ends of CR alone.
//
//   ASSIGN_OR_RETURN(FastaFile genome, OpenFasta(path));    // reads it once, to know its length
//   genome.letters.Read(0, …);                              // and again, in chunks
//
// Thread-safety: a FastaParser belongs to one thread; the functions are pure but for reading files.
#ifndef TANDEM_CLIENT_LIB_FASTA_H_
#define TANDEM_CLIENT_LIB_FASTA_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/byte_source.h"

namespace tandem::client {

inline constexpr char kRecordBreak = '\n';

// Takes a file in chunks cut anywhere.
class FastaParser {
 public:
  // Appends the chunk's letters. Errors: INVALID_ARGUMENT BAD_FILE with the line.
  absl::Status Take(std::string_view chunk, std::string* letters);
  // At the end of the file. Errors: BAD_FILE: empty, no letters at all.
  absl::Status Finish();
  uint64_t records() const { return records_; }

 private:
  enum class In : uint8_t { kLineStart, kSkippedLine, kSequence, kBlanks };
  // The first bytes, once they are all there: they say what kind of file it is.
  absl::Status TakeHead(std::string* letters);
  absl::Status TakeText(std::string_view chunk, std::string* letters);
  absl::Status StartLine(char first, std::string* letters);
  // What follows a blank or CR that ought to end its line.
  absl::Status AfterBlanks(char next) const;
  absl::Status Bad(std::string_view what) const;

  In in_ = In::kLineStart;
  std::string head_;
  bool began_ = false;  // behind the head
  bool any_letter_ = false;
  bool after_cr_ = false;
  uint64_t line_ = 1;
  uint64_t records_ = 0;
};

struct Fasta {
  std::string letters;
  uint64_t records = 0;
};
// A whole file in memory. Errors: as FastaParser.
absl::StatusOr<Fasta> ParseFasta(std::string_view text);

struct FastaFile {
  ByteSource letters;
  uint64_t records = 0;
};
// Errors: as InputFile::Open and FastaParser, with the path.
absl::StatusOr<FastaFile> OpenFasta(const std::string& path);

// By its name, in either case: .fa .fasta .fna .ffn .faa .frn
bool IsFastaName(std::string_view path);

}  // namespace tandem::client

#endif  // TANDEM_CLIENT_LIB_FASTA_H_
