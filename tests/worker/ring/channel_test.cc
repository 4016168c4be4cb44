#include "worker/ring/channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "tandem/executor/v1/executor.pb.h"

namespace tandem::worker {
namespace {

using executor::v1::FromExecutor;
using executor::v1::ToExecutor;

constexpr size_t kSmallRing = 4096;

struct Ends {
  std::unique_ptr<Channel> supervisor;
  std::unique_ptr<Channel> executor;
  UniqueFd memory;  // another view of the shared bytes, to spoil them
};

Ends MakeEnds(const ChannelLimits& limits) {
  auto pair = MakeChannel(limits);
  EXPECT_TRUE(pair.ok()) << pair.status();
  Ends ends;
  ends.supervisor = std::move(pair->supervisor);
  ends.memory.reset(::dup(pair->executor_fds.memory.get()));
  auto executor = Channel::Open(std::move(pair->executor_fds), limits);
  EXPECT_TRUE(executor.ok()) << executor.status();
  ends.executor = *std::move(executor);
  return ends;
}

ToExecutor MessageOf(uint64_t first, size_t runs) {
  ToExecutor message;
  for (size_t i = 0; i < runs; ++i) message.add_runs()->set_piece(first + i);
  return message;
}

bool Readable(int fd, int timeout_ms = 0) {
  pollfd p{fd, POLLIN, 0};
  return ::poll(&p, 1, timeout_ms) == 1;
}

TEST(ChannelTest, MessagesArriveWholeInOrderAndOnce) {
  Ends ends = MakeEnds({kSmallRing});
  ToExecutor got;
  for (uint64_t round = 0; round < 1000; ++round) {
    ASSERT_TRUE(ends.supervisor->Send(MessageOf(round, round % 50)).ok());
    ASSERT_TRUE(*ends.executor->Receive(&got));
    ASSERT_EQ(got.SerializeAsString(), MessageOf(round, round % 50).SerializeAsString());
    ASSERT_FALSE(*ends.executor->Receive(&got));
  }
}

TEST(ChannelTest, WhatDoesNotFitWaitsAndFollowsInOrder) {
  Ends ends = MakeEnds({kSmallRing});
  for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(ends.supervisor->Send(MessageOf(i, 40)).ok());
  EXPECT_GT(ends.supervisor->outbox_bytes(), 0u);
  ToExecutor got;
  for (uint64_t i = 0; i < 100;) {
    auto received = ends.executor->Receive(&got);
    ASSERT_TRUE(received.ok());
    if (*received) {
      ASSERT_EQ(got.runs(0).piece(), i++);
    } else {
      ASSERT_TRUE(Readable(ends.supervisor->wake_fd()));  // the writer was told of the space
      ASSERT_TRUE(ends.supervisor->Awake().ok());
    }
  }
  EXPECT_EQ(ends.supervisor->outbox_bytes(), 0u);
}

TEST(ChannelTest, AMessageLargerThanTheRingIsStreamedThroughIt) {
  Ends ends = MakeEnds({kSmallRing});
  const ToExecutor large = MessageOf(1, 50'000);
  ASSERT_TRUE(ends.supervisor->Send(large).ok());
  ToExecutor got;
  int rounds = 0;
  while (!*ends.executor->Receive(&got)) {
    ASSERT_TRUE(ends.supervisor->Awake().ok());
    ASSERT_LT(++rounds, 1000);
  }
  EXPECT_EQ(got.SerializeAsString(), large.SerializeAsString());
}

TEST(ChannelTest, AMessageOverTheLimitIsRefusedAndNothingOfItIsSent) {
  Ends ends = MakeEnds({kSmallRing, /*message_bytes_max=*/1000});
  EXPECT_EQ(ends.supervisor->Send(MessageOf(1, 1000)).code(), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(ends.supervisor->Send(MessageOf(5, 1)).ok());
  ToExecutor got;
  ASSERT_TRUE(*ends.executor->Receive(&got));
  EXPECT_EQ(got.runs(0).piece(), 5u);
}

TEST(ChannelTest, APeerThatDoesNotReadEndsInAnErrorNotInEndlessMemory) {
  Ends ends = MakeEnds({kSmallRing, 1 << 20, /*outbox_bytes_max=*/10'000});
  absl::Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) status = ends.supervisor->Send(MessageOf(1, 100));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_LE(ends.supervisor->outbox_bytes(), 10'000u);
}

// Writes over the shared memory as a process that has lost its way would.
void Spoil(const Ends& ends, size_t from, size_t bytes, int value) {
  void* data =
      ::mmap(nullptr, from + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ends.memory.get(), 0);
  ASSERT_NE(data, MAP_FAILED);
  std::memset(static_cast<char*>(data) + from, value, bytes);
  ::munmap(data, from + bytes);
}

TEST(ChannelTest, ACorruptLengthIsAnErrorNotACrash) {
  Ends ends = MakeEnds({kSmallRing});
  ASSERT_TRUE(ends.supervisor->Send(MessageOf(1, 10)).ok());
  Spoil(ends, 4096, 4, 0xff);  // the frame's length
  ToExecutor got;
  EXPECT_EQ(ends.executor->Receive(&got).status().code(), absl::StatusCode::kDataLoss);
}

TEST(ChannelTest, AnUnreadableMessageIsAnErrorNotACrash) {
  Ends ends = MakeEnds({kSmallRing});
  ASSERT_TRUE(ends.supervisor->Send(MessageOf(1, 10)).ok());
  Spoil(ends, 4096 + 4, 10, 0xff);
  ToExecutor got;
  EXPECT_EQ(ends.executor->Receive(&got).status().code(), absl::StatusCode::kDataLoss);
}

TEST(ChannelTest, MemoryOfAnotherKindIsRefused) {
  auto pair = MakeChannel({kSmallRing});
  ASSERT_TRUE(pair.ok());
  ASSERT_EQ(::ftruncate(pair->executor_fds.memory.get(), 100), 0);
  EXPECT_EQ(Channel::Open(std::move(pair->executor_fds)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ChannelTest, TheOtherEndIsSignalledOnlyWhenItSleeps) {
  Ends ends = MakeEnds({kSmallRing});
  ToExecutor got;
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(ends.supervisor->Send(MessageOf(1, 1)).ok());
  EXPECT_EQ(ends.supervisor->wakes_sent(), 0u);
  EXPECT_FALSE(*ends.executor->PrepareToSleep());
  while (*ends.executor->Receive(&got)) {
  }
  EXPECT_TRUE(*ends.executor->PrepareToSleep());
  EXPECT_FALSE(Readable(ends.executor->wake_fd()));
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(ends.supervisor->Send(MessageOf(1, 1)).ok());
  EXPECT_EQ(ends.supervisor->wakes_sent(), 1u);
  EXPECT_TRUE(Readable(ends.executor->wake_fd()));
  EXPECT_TRUE(ends.executor->Awake().ok());
  EXPECT_FALSE(Readable(ends.executor->wake_fd()));
}

TEST(ChannelTest, DescriptorsAreNamedByTextAndBadTextIsRefused) {
  for (const char* text : {"", "1", "1,2", "1,2,3,4", "1,2,x", "1,,3", "-1,2,3", "1,2,3,"}) {
    EXPECT_EQ(ChannelFds::Parse(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  auto pair = MakeChannel({kSmallRing});
  ASSERT_TRUE(pair.ok());
  auto parsed = ChannelFds::Parse(pair->executor_fds.ToText());
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->memory.release(), pair->executor_fds.memory.get());
  EXPECT_EQ(parsed->own_wake.release(), pair->executor_fds.own_wake.get());
  EXPECT_EQ(parsed->peer_wake.release(), pair->executor_fds.peer_wake.get());
}

// The echoing half of the test below: answers each run with a done piece until told to stop.
void Echo(Channel* channel) {
  for (;;) {
    ToExecutor message;
    while (*channel->Receive(&message)) {
      if (message.shutdown()) return;
      FromExecutor answer;
      for (const auto& run : message.runs()) answer.add_done()->set_piece(run.piece());
      EXPECT_TRUE(channel->Send(answer).ok());
    }
    if (*channel->PrepareToSleep()) {
      pollfd p{channel->wake_fd(), POLLIN, 0};
      ::poll(&p, 1, -1);
    }
    EXPECT_TRUE(channel->Awake().ok());
  }
}

// Sends `messages` of various sizes with few in flight and many in flight; true when each came
// back.
bool Converse(Channel* channel, uint64_t messages) {
  uint64_t sent = 0, received = 0;
  bool in_order = true;
  const auto may_send = [&] {
    return sent < messages && sent - received < ((sent / 1000) % 2 == 0 ? 1u : 500u);
  };
  while (received < messages) {
    while (may_send()) {
      if (!channel->Send(MessageOf(sent, 1 + sent % 7)).ok()) return false;
      ++sent;
    }
    FromExecutor answer;
    while (*channel->Receive(&answer)) {
      in_order = in_order && answer.done(0).piece() == received &&
                 static_cast<uint64_t>(answer.done_size()) == 1 + received % 7;
      ++received;
    }
    if (received < messages && !may_send() && *channel->PrepareToSleep()) {
      if (!Readable(channel->wake_fd(), 60'000)) return false;  // a lost wake
    }
    if (!channel->Awake().ok()) return false;
  }
  return in_order;
}

TEST(ChannelTest, NoWakeIsLostBetweenTwoThreads) {
  Ends ends = MakeEnds({kSmallRing});
  std::thread executor(Echo, ends.executor.get());
  EXPECT_TRUE(Converse(ends.supervisor.get(), 50'000));
  ToExecutor stop;
  stop.set_shutdown(true);
  EXPECT_TRUE(ends.supervisor->Send(stop).ok());
  executor.join();
}

TEST(ChannelTest, TwoProcessesConverse) {
  auto pair = MakeChannel({kSmallRing});
  ASSERT_TRUE(pair.ok());
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto channel = Channel::Open(std::move(pair->executor_fds), {kSmallRing});
    if (!channel.ok()) ::_exit(3);
    Echo(channel->get());
    ::_exit(0);
  }
  EXPECT_TRUE(Converse(pair->supervisor.get(), 20'000));
  ToExecutor stop;
  stop.set_shutdown(true);
  EXPECT_TRUE(pair->supervisor->Send(stop).ok());
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace tandem::worker
