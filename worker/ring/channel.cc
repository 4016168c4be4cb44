#include "worker/ring/channel.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::worker {
namespace {

constexpr uint64_t kChannelMagic = 0x314c4843444e5454;  // "TTNDCHL1"
constexpr size_t kFrameHeader = sizeof(uint32_t);

// Begins the shared memory; the two rings' bytes follow at kDataOffset.
struct SharedHeader {
  uint64_t magic;
  uint64_t ring_bytes;
  RingControl to_executor;
  RingControl from_executor;
};
constexpr size_t kDataOffset = 4096;
static_assert(sizeof(SharedHeader) <= kDataOffset);

SharedHeader* HeaderOf(const Mapping& mapping) {
  return reinterpret_cast<SharedHeader*>(mapping.data());
}
char* RingData(const Mapping& mapping, bool to_executor) {
  return mapping.data() + kDataOffset + (to_executor ? 0 : HeaderOf(mapping)->ring_bytes);
}
RingControl* Control(const Mapping& mapping, bool to_executor) {
  return to_executor ? &HeaderOf(mapping)->to_executor : &HeaderOf(mapping)->from_executor;
}

absl::Status Corrupt(std::string_view what) {
  return Error(
      absl::StatusCode::kDataLoss, reason::kProtocolError,
      StrCat("the shared ring is corrupt: ", what, "; the other process must be restarted"));
}

absl::StatusOr<UniqueFd> Duplicate(const UniqueFd& fd) {
  UniqueFd copy(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.ok()) return absl::ErrnoToStatus(errno, "cannot duplicate a descriptor");
  return copy;
}

absl::StatusOr<UniqueFd> MakeEventFd() {
  UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.ok()) return absl::ErrnoToStatus(errno, "cannot make an eventfd");
  return fd;
}

}  // namespace

std::string ChannelFds::ToText() const {
  return StrCat(memory.get(), ",", own_wake.get(), ",", peer_wake.get());
}

absl::StatusOr<ChannelFds> ChannelFds::Parse(std::string_view text) {
  std::vector<int> numbers;
  for (const std::string_view piece : Split(text, ',')) {
    int number = -1;
    const auto end = std::from_chars(piece.data(), piece.data() + piece.size(), number);
    if (end.ec != std::errc() || end.ptr != piece.data() + piece.size() || number < 0) break;
    numbers.push_back(number);
  }
  if (numbers.size() != 3 || std::count(text.begin(), text.end(), ',') != 2) {
    return InvalidError(reason::kBadArgument,
                        StrCat("a channel is three descriptors such as 3,4,5; got ", Quoted(text)));
  }
  ChannelFds fds;
  fds.memory.reset(numbers[0]);
  fds.own_wake.reset(numbers[1]);
  fds.peer_wake.reset(numbers[2]);
  return fds;
}

absl::StatusOr<ChannelPair> MakeChannel(const ChannelLimits& limits) {
  if (!std::has_single_bit(limits.ring_bytes) || limits.ring_bytes < kDataOffset) {
    return InvalidError(reason::kBadArgument, StrCat("ring_bytes is a power of two of at least ",
                                                     kDataOffset, "; got ", limits.ring_bytes));
  }
  const size_t bytes = kDataOffset + 2 * limits.ring_bytes;
  ChannelFds supervisor;
  supervisor.memory.reset(::memfd_create("tandem-channel", MFD_CLOEXEC));
  if (!supervisor.memory.ok()) return absl::ErrnoToStatus(errno, "cannot make shared memory");
  if (::ftruncate(supervisor.memory.get(), static_cast<off_t>(bytes)) != 0) {
    return absl::ErrnoToStatus(errno, "cannot size shared memory");
  }
  ASSIGN_OR_RETURN(supervisor.own_wake, MakeEventFd());
  ASSIGN_OR_RETURN(supervisor.peer_wake, MakeEventFd());
  ASSIGN_OR_RETURN(Mapping mapping, Mapping::Make(supervisor.memory.get(), bytes, true, "channel"));
  HeaderOf(mapping)->magic = kChannelMagic;
  HeaderOf(mapping)->ring_bytes = limits.ring_bytes;

  ChannelPair pair;
  ASSIGN_OR_RETURN(pair.executor_fds.memory, Duplicate(supervisor.memory));
  ASSIGN_OR_RETURN(pair.executor_fds.own_wake, Duplicate(supervisor.peer_wake));
  ASSIGN_OR_RETURN(pair.executor_fds.peer_wake, Duplicate(supervisor.own_wake));
  pair.supervisor = std::unique_ptr<Channel>(
      new Channel(std::move(supervisor), std::move(mapping), limits, /*supervisor=*/true));
  return pair;
}

absl::StatusOr<std::unique_ptr<Channel>> Channel::Open(ChannelFds fds,
                                                       const ChannelLimits& limits) {
  struct stat info = {};
  if (::fstat(fds.memory.get(), &info) != 0) {
    return absl::ErrnoToStatus(errno, "the channel's descriptor cannot be used");
  }
  const auto bytes = static_cast<size_t>(info.st_size);
  if (bytes <= kDataOffset) return InvalidError(reason::kBadArgument, "not a channel: too small");
  ASSIGN_OR_RETURN(Mapping mapping, Mapping::Make(fds.memory.get(), bytes, true, "channel"));
  const SharedHeader* header = HeaderOf(mapping);
  if (header->magic != kChannelMagic || !std::has_single_bit(header->ring_bytes) ||
      (bytes - kDataOffset) / 2 != header->ring_bytes) {
    return InvalidError(reason::kBadArgument,
                        "not a channel of this version: worker and executor must be of one build");
  }
  return std::unique_ptr<Channel>(
      new Channel(std::move(fds), std::move(mapping), limits, /*supervisor=*/false));
}

Channel::Channel(ChannelFds fds, Mapping mapping, const ChannelLimits& limits, bool supervisor)
    : limits_(limits),
      fds_(std::move(fds)),
      mapping_(std::move(mapping)),
      writer_(Control(mapping_, supervisor), RingData(mapping_, supervisor),
              HeaderOf(mapping_)->ring_bytes),
      reader_(Control(mapping_, !supervisor), RingData(mapping_, !supervisor),
              HeaderOf(mapping_)->ring_bytes) {}

absl::Status Channel::Send(const google::protobuf::MessageLite& message) {
  const size_t size = message.ByteSizeLong();
  if (size > limits_.message_bytes_max) {
    return Error(absl::StatusCode::kResourceExhausted, reason::kLimitExceeded,
                 StrCat("a message of ", size, " bytes is over the channel's limit of ",
                        limits_.message_bytes_max));
  }
  ASSIGN_OR_RETURN(const bool written, WriteInPlace(message, static_cast<uint32_t>(size)));
  if (written) return absl::OkStatus();
  if (outbox_bytes() + kFrameHeader + size > limits_.outbox_bytes_max) {
    return Error(absl::StatusCode::kResourceExhausted, reason::kLimitExceeded,
                 StrCat("the other process does not read: ", outbox_bytes(), " bytes wait, and ",
                        size, " more are over the limit of ", limits_.outbox_bytes_max));
  }
  const auto length = static_cast<uint32_t>(size);
  const size_t at = outbox_.size();
  outbox_.resize(at + kFrameHeader + size);
  std::memcpy(outbox_.data() + at, &length, kFrameHeader);
  message.SerializeWithCachedSizesToArray(
      reinterpret_cast<uint8_t*>(outbox_.data() + at + kFrameHeader));
  return Flush();
}

// True when the whole frame went straight into the ring.
absl::StatusOr<bool> Channel::WriteInPlace(const google::protobuf::MessageLite& message,
                                           uint32_t size) {
  if (outbox_bytes() > 0) return false;
  ASSIGN_OR_RETURN(const size_t free, writer_.Free());
  const size_t frame = kFrameHeader + size;
  char* to = frame <= free ? writer_.Contiguous(frame) : nullptr;
  if (to == nullptr) return false;
  std::memcpy(to, &size, kFrameHeader);
  message.SerializeWithCachedSizesToArray(reinterpret_cast<uint8_t*>(to + kFrameHeader));
  writer_.Advance(frame);
  PublishAndWake();
  return true;
}

absl::Status Channel::Flush() {
  while (outbox_bytes() > 0) {
    ASSIGN_OR_RETURN(const size_t free, writer_.Free());
    const size_t size = std::min(free, outbox_bytes());
    if (size > 0) {
      writer_.Append(outbox_.data() + outbox_sent_, size);
      outbox_sent_ += size;
      PublishAndWake();
      continue;
    }
    ASSIGN_OR_RETURN(const bool wait, writer_.PrepareToWait());
    if (!wait) continue;
    // Bounded by what waits, not by what has passed through.
    if (outbox_sent_ > outbox_.size() / 2) {
      outbox_.erase(0, outbox_sent_);
      outbox_sent_ = 0;
    }
    return absl::OkStatus();
  }
  outbox_.clear();
  outbox_sent_ = 0;
  return absl::OkStatus();
}

absl::StatusOr<bool> Channel::Receive(google::protobuf::MessageLite* message) {
  return partial_missing_ > 0 ? Assemble(message) : ReceiveWhole(message);
}

absl::StatusOr<bool> Channel::ReceiveWhole(google::protobuf::MessageLite* message) {
  ASSIGN_OR_RETURN(const size_t available, reader_.Available());
  if (available < kFrameHeader) return false;
  uint32_t size = 0;
  reader_.Copy(0, kFrameHeader, reinterpret_cast<char*>(&size));
  if (size > limits_.message_bytes_max) return Corrupt(StrCat("a frame of ", size, " bytes"));
  const size_t frame = kFrameHeader + size;
  const char* bytes = frame <= available ? reader_.Contiguous(frame) : nullptr;
  if (bytes == nullptr) {
    partial_.clear();
    partial_.reserve(size);
    partial_missing_ = size;
    ConsumeAndWake(kFrameHeader);
    return Assemble(message);
  }
  const bool parsed = message->ParseFromArray(bytes + kFrameHeader, static_cast<int>(size));
  ConsumeAndWake(frame);
  if (!parsed) return Corrupt("an unreadable message");
  return true;
}

absl::StatusOr<bool> Channel::Assemble(google::protobuf::MessageLite* message) {
  ASSIGN_OR_RETURN(const size_t available, reader_.Available());
  const size_t size = std::min(available, partial_missing_);
  const size_t at = partial_.size();
  partial_.resize(at + size);
  reader_.Copy(0, size, partial_.data() + at);
  partial_missing_ -= size;
  if (size > 0) ConsumeAndWake(size);
  if (partial_missing_ > 0) return false;
  const bool parsed = message->ParseFromString(partial_);
  partial_ = std::string();
  if (!parsed) return Corrupt("an unreadable message");
  return true;
}

// Bytes that make no progress possible are nothing to stay awake for.
absl::StatusOr<bool> Channel::PrepareToSleep() {
  return reader_.PrepareToSleep(partial_missing_ > 0 ? 1 : kFrameHeader);
}

void Channel::ConsumeAndWake(size_t size) {
  reader_.Consume(size);
  if (reader_.TakeWaiter()) WakePeer();
}

void Channel::PublishAndWake() {
  writer_.Publish();
  if (writer_.TakeSleeper()) WakePeer();
}

absl::Status Channel::Awake() {
  AwakeOnly();
  return Flush();
}

void Channel::AwakeOnly() {
  reader_.Awake();
  uint64_t count = 0;
  while (::read(fds_.own_wake.get(), &count, sizeof(count)) < 0 && errno == EINTR) {
  }
}

namespace {
// An eventfd that is full is readable already, which is all that a signal is for.
void Signal(int fd) {
  const uint64_t one = 1;
  while (::write(fd, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}
}  // namespace

void Channel::WakeSelf() { Signal(fds_.own_wake.get()); }

void Channel::WakePeer() {
  wakes_sent_.fetch_add(1, std::memory_order_relaxed);
  Signal(fds_.peer_wake.get());
}

}  // namespace tandem::worker
