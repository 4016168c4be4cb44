#include "common/data/handover.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem {
namespace {

// One message a connection: these words, then the token; with it one descriptor.
constexpr std::string_view kGreeting = "tandem.handover.1 ";
constexpr size_t kMessageBytes = kGreeting.size() + HandoverDesk::kTokenBytes;
constexpr char kName[] = "handover";
constexpr int kStuckMilliseconds = 100;

absl::Status SocketError(int error, const std::string& path) {
  if (error == EAGAIN) return absl::UnavailableError(StrCat(path, " has a queue"));
  return absl::ErrnoToStatus(error, path);
}

// A socket's address holds some 100 bytes; any path fits as a name in an open directory.
class AddressOf {
 public:
  explicit AddressOf(const std::string& path) {
    const std::filesystem::path whole(path);
    directory_.reset(::open(whole.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    address_.sun_family = AF_UNIX;
    const std::string name =
        StrCat("/proc/self/fd/", directory_.get(), "/", whole.filename().string());
    fits_ = name.size() < sizeof(address_.sun_path);
    if (fits_) std::memcpy(address_.sun_path, name.c_str(), name.size() + 1);
  }
  bool ok() const { return directory_.ok() && fits_; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  static socklen_t size() { return sizeof(sockaddr_un); }

 private:
  UniqueFd directory_;
  sockaddr_un address_ = {};
  bool fits_ = false;
};

UniqueFd NewSocket() {
  return UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

absl::StatusOr<std::string> NewToken() {
  std::string token(HandoverDesk::kTokenBytes, '\0');
  if (::getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size())) {
    return absl::ErrnoToStatus(errno, "getrandom");
  }
  return token;
}

// This user's own processes, and root's, which could read all that is this user's anyway.
bool MayHandOver(int socket) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == ::geteuid() || peer.uid == 0);
}

// Why a descriptor is not taken; null: it is.
const char* Objection(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || (flags & O_PATH) != 0 || (flags & O_ACCMODE) == O_WRONLY) {
    return "it is not open for reading";
  }
  struct stat info = {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return "it is no regular file";
  // Only files in memory know seals.
  if (::fcntl(fd, F_GET_SEALS) < 0) return "it is no memory";
  return nullptr;
}

void LogRefused(const std::vector<const char*>& objections) {
  for (const char* objection : objections) TLOG(Warning, "handover_refused", "why", objection);
}

struct Received {
  ssize_t bytes = 0;  // 0: the peer has closed; -1: nothing there, or an error (errno)
  bool whole = false;
  std::array<char, kMessageBytes> message = {};
  UniqueFd fd;
};

Received Receive(int socket) {
  Received received;
  iovec vector = {received.message.data(), received.message.size()};
  // Room for more than one, so that all that came is known, and closed.
  constexpr size_t kFdsMax = 4;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kFdsMax * sizeof(int))> control = {};
  msghdr header = {};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  received.bytes = ::recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (received.bytes <= 0) return received;
  std::array<UniqueFd, kFdsMax> fds;
  size_t count = 0;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t here = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < here && count < kFdsMax; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      fds[count++].reset(fd);
    }
  }
  received.whole = count == 1 && (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0 &&
                   static_cast<size_t>(received.bytes) == kMessageBytes &&
                   std::string_view(received.message.data(), kGreeting.size()) == kGreeting;
  received.fd = std::move(fds[0]);
  return received;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Handover>> Handover::Give(const std::string& desk_path, int fd) {
  ASSIGN_OR_RETURN(std::string token, NewToken());
  const AddressOf address(desk_path);
  if (!address.ok()) return absl::NotFoundError(StrCat("no directory holds ", desk_path));
  UniqueFd socket = NewSocket();
  if (!socket.ok() || ::connect(socket.get(), address.get(), AddressOf::size()) != 0) {
    return SocketError(errno, desk_path);
  }
  std::string message = StrCat(kGreeting, token);
  iovec vector = {message.data(), message.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
  msghdr header = {};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  cmsghdr* part = CMSG_FIRSTHDR(&header);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(part), &fd, sizeof(int));
  if (::sendmsg(socket.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT) !=
      static_cast<ssize_t>(message.size())) {
    return SocketError(errno, desk_path);
  }
  return std::unique_ptr<Handover>(new Handover(std::move(socket), std::move(token)));
}

bool HandedFile::Holds(uint64_t offset, uint64_t length) const {
  struct stat info = {};
  if (::fstat(fd_.get(), &info) != 0) return false;
  const uint64_t size = static_cast<uint64_t>(info.st_size);
  return offset <= size && length <= size - offset;
}

absl::Status HandedFile::ReadAt(uint64_t offset, char* buffer, size_t size) const {
  for (size_t done = 0; done < size;) {
    const ssize_t got =
        ::pread(fd_.get(), buffer + done, size - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, "reading memory that was handed over");
    if (got == 0) {
      return Error(absl::StatusCode::kOutOfRange, reason::kTruncated,
                   StrCat("the memory that was handed over ends at ", offset + done, ", before ",
                          offset + size));
    }
    done += static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<HandoverDesk>> HandoverDesk::Open(const std::string& directory,
                                                                 HandoverLimits limits) {
  std::error_code error;
  const std::string path =
      (std::filesystem::absolute(directory, error) / kName).lexically_normal().string();
  if (error) return absl::InternalError(StrCat(directory, ": ", error.message()));
  const AddressOf address(path);
  UniqueFd listener = NewSocket();
  if (!address.ok() || !listener.ok()) return absl::ErrnoToStatus(errno, path);
  ::unlink(path.c_str());
  if (::bind(listener.get(), address.get(), AddressOf::size()) != 0 ||
      ::chmod(path.c_str(), 0600) != 0 || ::listen(listener.get(), SOMAXCONN) != 0) {
    return absl::ErrnoToStatus(errno, path);
  }
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll.ok() || !stop.ok()) return absl::ErrnoToStatus(errno, path);
  for (const int fd : {listener.get(), stop.get()}) {
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.fd = fd;
    if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      return absl::ErrnoToStatus(errno, path);
    }
  }
  return std::unique_ptr<HandoverDesk>(
      new HandoverDesk(path, std::move(listener), std::move(epoll), std::move(stop), limits));
}

HandoverDesk::HandoverDesk(std::string path, UniqueFd listener, UniqueFd epoll, UniqueFd stop,
                           HandoverLimits limits)
    : path_(std::move(path)),
      listener_(std::move(listener)),
      epoll_(std::move(epoll)),
      stop_(std::move(stop)),
      limits_(limits),
      thread_([this] { Run(); }) {}

HandoverDesk::~HandoverDesk() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof(one));
  thread_.join();
  ::unlink(path_.c_str());
}

void HandoverDesk::Run() {
  while (true) {
    std::array<pollfd, 2> fds = {{{epoll_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}}};
    ::poll(fds.data(), fds.size(), -1);
    bool stuck = false;
    Objections objections;
    if (fds[1].revents == 0) {
      absl::MutexLock lock(&mu_);
      Pump(&objections);
      stuck = stuck_;
    }
    LogRefused(objections);
    // Without a descriptor to spare, the connection that waits would wake us for ever.
    if (stuck) ::poll(&fds[1], 1, kStuckMilliseconds);
    if (fds[1].revents != 0) return;
  }
}

std::shared_ptr<const HandedFile> HandoverDesk::Find(std::string_view token) {
  std::shared_ptr<const HandedFile> file;
  Objections objections;
  {
    absl::MutexLock lock(&mu_);
    auto found = files_.find(token);
    if (found == files_.end()) {
      Pump(&objections);  // It may have come, and not been looked at yet.
      found = files_.find(token);
    }
    if (found != files_.end()) file = found->second;
  }
  LogRefused(objections);
  return file;
}

size_t HandoverDesk::connections() const {
  absl::MutexLock lock(&mu_);
  return connections_.size();
}

void HandoverDesk::Pump(Objections* objections) {
  std::array<epoll_event, 64> events;
  bool more = true;
  while (more) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), 0);
    more = false;
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<size_t>(i)].data.fd;
      if (fd == listener_.get()) {
        Accept();
        more = true;  // What they say may be there already.
        continue;
      }
      const auto found = connections_.find(fd);
      if (found == connections_.end() || Take(&found->second, objections)) continue;
      if (!found->second.token.empty()) files_.erase(found->second.token);
      connections_.erase(found);
    }
  }
}

void HandoverDesk::Accept() {
  while (true) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    stuck_ = !socket.ok() && (errno == EMFILE || errno == ENFILE || errno == ENOMEM);
    if (!socket.ok()) return;
    if (connections_.size() >= limits_.connections_max || !MayHandOver(socket.get())) continue;
    const int fd = socket.get();
    epoll_event event = {};
    event.events = EPOLLIN | EPOLLRDHUP;
    event.data.fd = fd;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) continue;
    connections_[fd].socket = std::move(socket);
  }
}

bool HandoverDesk::Take(Connection* connection, Objections* objections) {
  Received received = Receive(connection->socket.get());
  if (received.bytes < 0) return errno == EAGAIN || errno == EINTR;
  // A second message is one too many.
  if (received.bytes == 0 || !received.whole || !connection->token.empty()) return false;
  const std::string token(received.message.data() + kGreeting.size(), kTokenBytes);
  if (const char* objection = Objection(received.fd.get()); objection != nullptr) {
    objections->push_back(objection);
    return false;
  }
  if (!files_.emplace(token, std::make_shared<const HandedFile>(std::move(received.fd))).second) {
    return false;
  }
  connection->token = token;
  return true;
}

}  // namespace tandem
