// Handover: how a worker on the master's host hands over memory instead of sending its bytes.
//
//   // worker                                              // master
//   Handover::Give(desk_path, staging_fd)  ── socket ──▶   HandoverDesk::Open(directory)
//   header.file = handover->token()        ── gRPC ────▶   desk->Find(header.file)->ReadAt(…)
//
// The worker passes the descriptor itself (SCM_RIGHTS) over a Unix socket in the master's
// directory, and with it a token of its own making: 128 random bits, which its pushes then name.
// Nothing is answered and nobody waits: what was sent before a push is found by that push. The
// master lets go of the memory when the worker closes its end.
//
// Whoever connects can make the master read only what it could read itself, since it must hold a
// descriptor that is open for reading; a path or a process id is never taken from it. What is no
// memory of this host (memfd or tmpfs) is refused, so that a read never waits for a network, a pipe
// or somebody's file system; and it is read, never mapped, so that a file which shrinks meanwhile
// is a short read and no signal.
//
// Thread-safety: HandoverDesk and HandedFile are safe from any thread; a Handover is for one.
// Ownership: a desk owns its socket, a thread, and a descriptor for each connection; who has found
// a file keeps it. A Handover owns its end; the descriptor that was passed stays the caller's.
// Invariants: 1. A token is never given a second file while its first connection lives.
#ifndef TANDEM_COMMON_DATA_HANDOVER_H_
#define TANDEM_COMMON_DATA_HANDOVER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/base/unique_fd.h"

namespace tandem {

// The worker's end.
class Handover {
 public:
  // Errors: of the socket: NOT_FOUND and PERMISSION_DENIED among them, UNAVAILABLE when the desk
  // has a queue. Never waits.
  static absl::StatusOr<std::unique_ptr<Handover>> Give(const std::string& desk_path, int fd);

  const std::string& token() const { return token_; }

 private:
  Handover(UniqueFd socket, std::string token)
      : socket_(std::move(socket)), token_(std::move(token)) {}

  const UniqueFd socket_;
  const std::string token_;
};

// Memory that was handed over.
class HandedFile {
 public:
  explicit HandedFile(UniqueFd fd) : fd_(std::move(fd)) {}

  // It has bytes [offset, offset + length) now.
  bool Holds(uint64_t offset, uint64_t length) const;
  // Exactly `size` bytes. Errors: OUT_OF_RANGE (TRUNCATED) when the file ends before.
  absl::Status ReadAt(uint64_t offset, char* buffer, size_t size) const;

 private:
  const UniqueFd fd_;
};

struct HandoverLimits {
  size_t connections_max = 256;  // More are closed at once: their pushes are streamed.
};

// The master's end.
class HandoverDesk {
 public:
  static constexpr size_t kTokenBytes = 16;

  // Listens at <directory>/handover, in place of what an earlier process left there.
  static absl::StatusOr<std::unique_ptr<HandoverDesk>> Open(const std::string& directory,
                                                            HandoverLimits limits = {});
  ~HandoverDesk();

  // For workers on this host; absolute.
  const std::string& path() const { return path_; }
  // The memory that this token was given with; null: none, or it was refused or is gone.
  std::shared_ptr<const HandedFile> Find(std::string_view token);
  size_t connections() const;

 private:
  struct Connection {
    UniqueFd socket;
    std::string token;  // "": nothing was handed over yet
  };

  HandoverDesk(std::string path, UniqueFd listener, UniqueFd epoll, UniqueFd stop,
               HandoverLimits limits);
  void Run();
  // Takes all that has come, without waiting. Adds why something was not taken.
  using Objections = std::vector<const char*>;
  void Pump(Objections* objections) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Accept() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // False: the connection is over.
  bool Take(Connection* connection, Objections* objections) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string path_;
  const UniqueFd listener_, epoll_, stop_;
  const HandoverLimits limits_;

  mutable absl::Mutex mu_;
  std::map<int, Connection> connections_ ABSL_GUARDED_BY(mu_);  // by descriptor
  std::map<std::string, std::shared_ptr<const HandedFile>, std::less<>> files_
      ABSL_GUARDED_BY(mu_);                  // by token
  bool stuck_ ABSL_GUARDED_BY(mu_) = false;  // A connection cannot be accepted now.
  std::thread thread_;
};

}  // namespace tandem

#endif  // TANDEM_COMMON_DATA_HANDOVER_H_
