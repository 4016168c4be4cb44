#include "client/cli/stdout_buffer.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <iostream>

namespace tandem::cli {

StdoutBuffer::StdoutBuffer() : before_(std::cout.rdbuf(this)) {
  setp(bytes_.data(), bytes_.data() + bytes_.size());
}

StdoutBuffer::~StdoutBuffer() {
  Finish();
  std::cout.rdbuf(before_);
}

int StdoutBuffer::Finish() {
  std::cout.flush();
  if (std::fflush(stdout) != 0 && error_ == 0) error_ = errno;  // what was written past std::cout
  return error_;
}

StdoutBuffer::int_type StdoutBuffer::overflow(int_type c) {
  if (sync() != 0) return traits_type::eof();
  if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
  return traits_type::not_eof(c);
}

int StdoutBuffer::sync() {
  const char* from = pbase();
  while (from < pptr() && error_ == 0) {
    const ssize_t written = write(STDOUT_FILENO, from, static_cast<size_t>(pptr() - from));
    if (written >= 0) {
      from += written;
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
  setp(bytes_.data(), bytes_.data() + bytes_.size());
  return error_ == 0 ? 0 : -1;
}

}  // namespace tandem::cli
