// The shared-memory ring with a hostile process at its other end: it writes any bytes into the
// memory, positions included. The honest end answers DATA_LOSS or goes on, never reads or writes
// outside, and keeps within its bounds.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>

#include "common/base/check.h"
#include "common/base/error.h"
#include "google/protobuf/stubs/logging.h"
#include "tandem/executor/v1/executor.pb.h"
#include "tests/fuzz/fuzz_target.h"
#include "worker/ring/channel.h"
#include "worker/ring/launch.h"

namespace tandem::worker {
namespace {

constexpr size_t kRing = 4096;
constexpr size_t kControl = 16;  // magic and size, before the two rings' words
constexpr size_t kData = 4096;   // where the bytes of the first ring begin
constexpr ChannelLimits kLimits = {
    .ring_bytes = kRing, .message_bytes_max = 64 << 10, .outbox_bytes_max = 256 << 10};

// The memory as the other process sees it.
class Hostile {
 public:
  explicit Hostile(int fd) : size_(kData + 2 * kRing) {
    void* at = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED);
    data_ = static_cast<char*>(at);
  }
  ~Hostile() { ::munmap(data_, size_); }
  Hostile(const Hostile&) = delete;
  Hostile& operator=(const Hostile&) = delete;

  void Write(size_t at, std::string_view bytes) {
    for (size_t i = 0; i < bytes.size(); ++i) data_[(at + i) % size_] = bytes[i];
  }
  // The words of the ring that it writes (from_executor) and of the one that it reads.
  RingControl* control(bool writes) {
    return reinterpret_cast<RingControl*>(data_ + 64) + (writes ? 1 : 0);
  }
  char* written() { return data_ + kData + kRing; }

 private:
  const size_t size_;
  char* data_;
};

enum class State { kWhole, kBroken };

State ReceiveAll(Channel* channel) {
  executor::v1::FromExecutor message;
  for (int i = 0; i < 4096; ++i) {
    const auto received = channel->Receive(&message);
    if (!received.ok()) {
      CHECK(received.status().code() == absl::StatusCode::kDataLoss);
      return State::kBroken;
    }
    if (!*received) return State::kWhole;
  }
  return State::kWhole;
}

State SendOne(Channel* channel, size_t size) {
  executor::v1::ToExecutor message;
  message.add_setups()->set_master_data_address(std::string(size, 'x'));
  const absl::Status status = channel->Send(message);
  CHECK(channel->outbox_bytes() <= kLimits.outbox_bytes_max);
  if (status.ok() || absl::IsResourceExhausted(status)) return State::kWhole;
  CHECK(absl::IsDataLoss(status));
  return State::kBroken;
}

// One step of the script: an operation and its operand.
State Step(uint8_t operation, fuzz::Tail* script, Hostile* hostile, Channel* channel) {
  switch (operation % 8) {
    case 0: {  // bytes, where the next ones belong
      const std::string_view bytes = script->TakeBytes(script->Take<uint8_t>());
      RingControl* control = hostile->control(true);
      const uint64_t tail = control->tail.load();
      for (size_t i = 0; i < bytes.size(); ++i) hostile->written()[(tail + i) % kRing] = bytes[i];
      control->tail.store(tail + bytes.size());
      return State::kWhole;
    }
    case 1:
      return ReceiveAll(channel);
    case 2:
      return SendOne(channel, script->Take<uint16_t>());
    case 3:  // it reads, or says so
      hostile->control(false)->head.fetch_add(script->Take<uint16_t>());
      return State::kWhole;
    case 4:
      hostile->control(true)->tail.store(script->Take<uint64_t>());
      return State::kWhole;
    case 5: {  // anything anywhere, but for the head of the memory, which only its maker reads
      const size_t at = kControl + script->Take<uint16_t>() % (kData + 2 * kRing - 2 * kControl);
      const auto value = script->Take<uint64_t>();
      hostile->Write(at, std::string_view(reinterpret_cast<const char*>(&value), kControl / 2));
      return State::kWhole;
    }
    case 6: {
      const auto sleeps = channel->PrepareToSleep();
      if (!sleeps.ok()) return State::kBroken;
      return channel->Awake().ok() ? State::kWhole : State::kBroken;
    }
    default: {
      const absl::Status status = channel->Flush();
      return status.ok() ? State::kWhole : State::kBroken;
    }
  }
}

std::string Framed(const google::protobuf::MessageLite& message) {
  const std::string bytes = message.SerializeAsString();
  const auto size = static_cast<uint32_t>(bytes.size());
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + bytes;
}

// Scripts are read from their end.
std::string Script(std::initializer_list<std::string> steps) {
  std::string script;
  for (const std::string& step : steps) script = step + script;
  return script;
}
std::string Put(const std::string& bytes) { return bytes + static_cast<char>(bytes.size()) + '\0'; }

// "3,4,5" and the arguments of an executor, which come by the same hand.
void FuzzTexts(std::string_view text) {
  (void)ChannelFds::Parse(text).ok();
  const auto cpus = ParseCpuList(text);
  if (cpus.ok()) {
    const auto again = ParseCpuList(FormatCpuList(*cpus));
    CHECK_OK(again);
    CHECK(*again == *cpus);
  }
}

FUZZ_SEEDS(ring) {
  executor::v1::FromExecutor message;
  message.add_done()->set_piece(7);
  message.add_returned_pieces(9);
  const std::string frame = Framed(message);
  return {Script({Put(frame), "\1", Put(frame), Put(frame), "\1"}),
          Script({Put(frame.substr(0, 5)), "\1", Put(frame.substr(5)), "\1"}),
          Script({std::string("\x10\x02\2", 3), std::string("\x00\x04\3", 3), "\7"}),
          Script({std::string(8, '\xff') + '\4', "\1"}),
          Script({Put(std::string(4, '\xff')), "\1"}),
          Script({"\6", std::string("\xff\xff\2", 3), "\6"}),
          "T0-3,8,10-11",
          "T3,4,5"};
}

FUZZ_TARGET(ring) {
  static const google::protobuf::LogSilencer quiet;
  if (!input.empty() && input[0] == 'T') return FuzzTexts(input.substr(1));
  auto pair = MakeChannel(kLimits);
  CHECK_OK(pair);
  Hostile hostile(pair->executor_fds.memory.get());
  fuzz::Tail script(input);
  while (!script.rest().empty()) {
    const auto operation = script.Take<uint8_t>();
    if (Step(operation, &script, &hostile, pair->supervisor.get()) == State::kBroken) return;
  }
  // What was written honestly by the other end of a channel that is whole arrives.
  ReceiveAll(pair->supervisor.get());
}

}  // namespace
}  // namespace tandem::worker
