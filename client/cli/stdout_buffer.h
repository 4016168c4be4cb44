// What stands between std::cout and stdout: it remembers why a write failed, so that output which
// did not arrive is an error with its cause.
//
//   StdoutBuffer buffer;                  // std::cout writes through it as long as it lives
//   …
//   if (const int error = buffer.Finish(); error != 0) …
//
// Thread-safety: one thread at a time, as std::cout's user. Ownership: gives std::cout its own
// buffer back at the end.
#ifndef TANDEM_CLIENT_CLI_STDOUT_BUFFER_H_
#define TANDEM_CLIENT_CLI_STDOUT_BUFFER_H_

#include <array>
#include <streambuf>

namespace tandem::cli {

class StdoutBuffer : public std::streambuf {
 public:
  StdoutBuffer();
  ~StdoutBuffer() override;

  // Writes what is left. 0, or the errno of the first write that failed.
  int Finish();

 protected:
  int_type overflow(int_type c) override;
  int sync() override;

 private:
  std::streambuf* const before_;
  std::array<char, 1 << 16> bytes_;
  int error_ = 0;
};

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_STDOUT_BUFFER_H_
