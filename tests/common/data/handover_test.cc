// Memory that is handed over instead of sent: what the master takes, what it refuses, and that a
// push whose memory cannot be had harms no other.
#include "common/data/handover.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/rng.h"
#include "common/base/strings.h"
#include "common/data/data_service.h"
#include "common/data/region_pusher.h"
#include "common/data/segment_store.h"
#include "common/data/xxh3.h"
#include "common/rpc/channel.h"
#include "common/rpc/owner.h"
#include "common/rpc/server.h"
#include "common/rpc/status.h"
#include "common/wire/lease_messages.h"
#include "gtest/gtest.h"
#include "tandem/v1/data.grpc.pb.h"

namespace tandem {
namespace {

std::string RandomBytes(size_t size, uint64_t seed) {
  Rng rng(seed);
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(rng.Next());
  return bytes;
}

UniqueFd Memory(const std::string& bytes) {
  UniqueFd fd(memfd_create("test", MFD_CLOEXEC));
  EXPECT_EQ(pwrite(fd.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  return fd;
}

class HandoverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "tandem_handover_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    dir_ = name;
    Open({});
  }
  void TearDown() override {
    desk_ = nullptr;
    std::filesystem::remove_all(dir_);
  }
  void Open(HandoverLimits limits) {
    desk_ = nullptr;
    auto opened = HandoverDesk::Open(dir_, limits);
    ASSERT_TRUE(opened.ok()) << opened.status();
    desk_ = *std::move(opened);
  }
  std::unique_ptr<Handover> Give(int fd) {
    auto given = Handover::Give(desk_->path(), fd);
    EXPECT_TRUE(given.ok()) << given.status();
    return given.ok() ? *std::move(given) : nullptr;
  }
  void WaitForConnections(size_t count) {
    while (desk_->connections() != count) std::this_thread::yield();
  }
  // A connection that says what it likes.
  UniqueFd Connect() {
    UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, desk_->path().c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return socket;
  }
  static void Say(const UniqueFd& socket, std::string message, const std::vector<int>& fds) {
    iovec vector = {message.data(), message.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(8 * sizeof(int))> control = {};
    msghdr header = {};
    header.msg_iov = &vector;
    header.msg_iovlen = 1;
    if (!fds.empty()) {
      header.msg_control = control.data();
      header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
      cmsghdr* part = CMSG_FIRSTHDR(&header);
      part->cmsg_level = SOL_SOCKET;
      part->cmsg_type = SCM_RIGHTS;
      part->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
      std::memcpy(CMSG_DATA(part), fds.data(), fds.size() * sizeof(int));
    }
    sendmsg(socket.get(), &header, MSG_NOSIGNAL);
  }

  std::string dir_;
  std::unique_ptr<HandoverDesk> desk_;
};

constexpr char kGreeting[] = "tandem.handover.1 ";
constexpr char kToken[] = "0123456789abcdef";

TEST_F(HandoverTest, MemoryIsFoundByItsTokenUntilItsGiverLetsGo) {
  const std::string bytes = RandomBytes(100'000, 1);
  UniqueFd memory = Memory(bytes);
  auto handover = Give(memory.get());
  ASSERT_NE(handover, nullptr);
  memory.reset();  // What was passed is the master's own.
  std::shared_ptr<const HandedFile> file = desk_->Find(handover->token());
  ASSERT_NE(file, nullptr);
  std::string got(90'000, '\0');
  ASSERT_TRUE(file->ReadAt(10'000, got.data(), got.size()).ok());
  EXPECT_EQ(got, bytes.substr(10'000));
  EXPECT_TRUE(file->Holds(10'000, 90'000));
  EXPECT_FALSE(file->Holds(10'000, 90'001));
  EXPECT_FALSE(file->Holds(UINT64_MAX, 2));
  EXPECT_EQ(desk_->Find(RandomBytes(HandoverDesk::kTokenBytes, 2)), nullptr);
  const std::string token = handover->token();
  handover = nullptr;
  WaitForConnections(0);
  EXPECT_EQ(desk_->Find(token), nullptr);
  EXPECT_TRUE(file->ReadAt(0, got.data(), got.size()).ok()) << "who has it keeps it";
}

TEST_F(HandoverTest, EachGiverHasATokenOfItsOwn) {
  const UniqueFd one = Memory("one"), two = Memory("two");
  auto first = Give(one.get()), second = Give(two.get());
  EXPECT_NE(first->token(), second->token());
  char byte = 0;
  ASSERT_TRUE(desk_->Find(second->token())->ReadAt(0, &byte, 1).ok());
  EXPECT_EQ(byte, 't');
  ASSERT_TRUE(desk_->Find(first->token())->ReadAt(0, &byte, 1).ok());
  EXPECT_EQ(byte, 'o');
}

TEST_F(HandoverTest, MemoryThatShrinksIsAShortReadAndNoSignal) {
  const UniqueFd memory = Memory(RandomBytes(10'000, 3));
  auto handover = Give(memory.get());
  const auto file = desk_->Find(handover->token());
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(ftruncate(memory.get(), 4'000), 0);
  std::string got(10'000, '\0');
  const absl::Status status = file->ReadAt(0, got.data(), got.size());
  EXPECT_EQ(ReasonOf(status), reason::kTruncated) << status;
  EXPECT_TRUE(file->ReadAt(0, got.data(), 4'000).ok());
}

TEST_F(HandoverTest, WhatIsNoMemoryOpenForReadingIsRefused) {
  const std::string fifo = StrCat(dir_, "/fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const UniqueFd memory = Memory("secret");
  const std::string writable = StrCat("/proc/self/fd/", memory.get());
  std::map<std::string, UniqueFd> bad;
  bad["another file"].reset(open("/proc/self/status", O_RDONLY | O_CLOEXEC));
  bad["directory"].reset(open(dir_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  bad["fifo"].reset(open(fifo.c_str(), O_RDWR | O_CLOEXEC));
  bad["device"].reset(open("/dev/zero", O_RDONLY | O_CLOEXEC));
  bad["only a name"].reset(open(writable.c_str(), O_PATH | O_CLOEXEC));
  bad["only for writing"].reset(open(writable.c_str(), O_WRONLY | O_CLOEXEC));
  bad["socket"].reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  for (const auto& [what, fd] : bad) {
    ASSERT_TRUE(fd.ok()) << what;
    auto handover = Give(fd.get());
    ASSERT_NE(handover, nullptr) << what;
    EXPECT_EQ(desk_->Find(handover->token()), nullptr) << what;
  }
  auto good = Give(memory.get());
  EXPECT_NE(desk_->Find(good->token()), nullptr);
}

TEST_F(HandoverTest, AConnectionThatSaysSomethingElseIsClosed) {
  const UniqueFd memory = Memory("bytes"), other = Memory("other");
  const std::string right = StrCat(kGreeting, kToken);
  const std::vector<std::pair<std::string, std::vector<int>>> wrong = {
      {right, {}},
      {right, {memory.get(), other.get()}},
      {right, {memory.get(), other.get(), memory.get(), other.get(), memory.get(), other.get()}},
      {right + "x", {memory.get()}},
      {right.substr(1), {memory.get()}},
      {StrCat("tandem.handover.2 ", kToken), {memory.get()}},
      {std::string(100'000, 'x'), {memory.get()}},
  };
  for (const auto& [message, fds] : wrong) {
    const UniqueFd socket = Connect();
    Say(socket, message, fds);
    EXPECT_EQ(desk_->Find(kToken), nullptr) << message.substr(0, 50);
    char byte = 0;
    EXPECT_LE(recv(socket.get(), &byte, 1, 0), 0) << "it is closed";
  }
  const UniqueFd silent = Connect(), socket = Connect();
  Say(socket, right, {memory.get()});
  EXPECT_NE(desk_->Find(kToken), nullptr);
  Say(socket, right, {other.get()});
  WaitForConnections(1);  // One message too many; the silent one stays.
  EXPECT_EQ(desk_->Find(kToken), nullptr);
}

TEST_F(HandoverTest, ATokenInUseIsNotGivenASecondFile) {
  const UniqueFd memory = Memory("mine"), other = Memory("other");
  const UniqueFd first = Connect(), second = Connect();
  Say(first, StrCat(kGreeting, kToken), {memory.get()});
  ASSERT_NE(desk_->Find(kToken), nullptr);
  Say(second, StrCat(kGreeting, kToken), {other.get()});
  WaitForConnections(1);
  char byte = 0;
  ASSERT_TRUE(desk_->Find(kToken)->ReadAt(0, &byte, 1).ok());
  EXPECT_EQ(byte, 'm');
}

TEST_F(HandoverTest, MoreConnectionsThanTheLimitAreClosed) {
  Open({.connections_max = 2});
  const UniqueFd memory = Memory("bytes");
  auto one = Give(memory.get()), two = Give(memory.get());
  ASSERT_NE(desk_->Find(one->token()), nullptr);
  ASSERT_NE(desk_->Find(two->token()), nullptr);
  auto three = Handover::Give(desk_->path(), memory.get());
  if (three.ok()) {  // Else the desk has closed it already.
    EXPECT_EQ(desk_->Find((*three)->token()), nullptr);
  }
  one = nullptr;
  WaitForConnections(1);
  auto four = Give(memory.get());
  EXPECT_NE(desk_->Find(four->token()), nullptr);
}

TEST_F(HandoverTest, ADeskOpensWhereAnotherWasKilledAndUnderAnyName) {
  dir_ = StrCat(dir_, "/", std::string(200, 'd'));
  std::filesystem::create_directories(dir_);
  std::ofstream(StrCat(dir_, "/handover")) << "left over";
  Open({});
  const UniqueFd memory = Memory("bytes");
  auto handover = Give(memory.get());
  EXPECT_NE(desk_->Find(handover->token()), nullptr);
  struct stat info = {};
  ASSERT_EQ(stat(desk_->path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const std::string path = desk_->path();
  desk_ = nullptr;
  EXPECT_TRUE(absl::IsNotFound(Handover::Give(path, memory.get()).status()));
  std::filesystem::remove_all(dir_);
  dir_ = std::filesystem::path(dir_).parent_path();
}

// A Data service with a desk.
class HandedPushTest : public HandoverTest {
 protected:
  void SetUp() override {
    HandoverTest::SetUp();
    segments_ = *SegmentStore::Open(RealFileSystem(), dir_, {});
    Serve(desk_.get());
  }
  void TearDown() override {
    server_ = nullptr;
    HandoverTest::TearDown();
  }
  void Serve(HandoverDesk* desk) {
    server_ = nullptr;
    DataServiceOptions options;
    options.segments = segments_.get();
    options.pool = &pool_;
    options.desk = desk;
    options.push_limits.piece_bytes_max = 32 << 20;
    options.push_limits.copy_bytes_max = 1 << 20;
    service_ = std::make_unique<DataService>(options);
    rpc::ServerOptions listen;
    listen.address = "127.0.0.1:0";
    grpc::Service* const services[] = {service_.get()};
    server_ = *rpc::Server::Start(listen, services);
  }
  // Pushes all of these, through one pusher.
  struct Piece {
    std::string_view bytes;
    HandedPlace place;
  };
  std::map<uint64_t, PushedPiece> Push(const std::vector<Piece>& pieces) {
    std::map<uint64_t, PushedPiece> answers;
    absl::Mutex mu;
    bool over = false;
    absl::Status end;
    auto pusher = RegionPusher::Start(
        rpc::ConnectForCallbacks(server_->address(), rpc::Traffic::kBulk), "ada",
        {[&](std::vector<PushedPiece> pushed) {
           absl::MutexLock lock(&mu);
           for (const PushedPiece& piece : pushed) answers[piece.push_id] = piece;
         },
         [&](const absl::Status& status) {
           absl::MutexLock lock(&mu);
           end = status;
           over = true;
         }});
    for (size_t i = 0; i < pieces.size(); ++i) {
      pusher->Push(i + 1, pieces[i].bytes, nullptr, pieces[i].place);
    }
    pusher->Close();
    absl::MutexLock lock(&mu);
    mu.Await(absl::Condition(&over));
    EXPECT_TRUE(end.ok()) << end;
    return answers;
  }
  // What a stream answers to these headers, and how it ends.
  struct Answers {
    std::map<uint64_t, Region> pushed;
    std::map<uint64_t, v1::PushRefusal> refused;
    absl::Status end;
  };
  Answers Say(const std::vector<v1::PushHeader>& headers, const std::string& data) {
    const auto stub = v1::Data::NewStub(rpc::Connect(server_->address(), rpc::Traffic::kBulk));
    grpc::ClientContext context;
    rpc::SetOwner(&context, "eve");
    const auto stream = stub->PushRegions(&context);
    v1::PushRequest request;
    for (const v1::PushHeader& header : headers) *request.add_headers() = header;
    request.set_data(data);
    stream->Write(request);
    stream->WritesDone();
    Answers answers;
    v1::PushResponse response;
    while (stream->Read(&response)) {
      for (const v1::PushedRegion& pushed : response.pushed()) {
        EXPECT_TRUE(wire::Decode(pushed.region(), &answers.pushed[pushed.push_id()]).ok());
      }
      for (const v1::RefusedPush& refused : response.refused()) {
        answers.refused[refused.push_id()] = refused.why();
      }
    }
    answers.end = rpc::FromGrpc(stream->Finish());
    return answers;
  }
  static v1::PushHeader Header(uint64_t id, std::string_view bytes, const std::string& token,
                               uint64_t offset) {
    v1::PushHeader header;
    header.set_push_id(id);
    header.set_length(bytes.size());
    header.set_xxh3(Xxh3(bytes));
    header.mutable_handed()->set_file(token);
    header.mutable_handed()->set_offset(offset);
    return header;
  }
  static v1::PushHeader Streamed(uint64_t id, std::string_view bytes) {
    v1::PushHeader header = Header(id, bytes, "", 0);
    header.clear_handed();
    return header;
  }

  IoPool pool_{2};
  std::unique_ptr<SegmentStore> segments_;
  std::unique_ptr<DataService> service_;
  std::unique_ptr<rpc::Server> server_;
};

TEST_F(HandedPushTest, HandedOverAndSentPiecesOfOneStreamAreAllThere) {
  const std::string bytes = RandomBytes(20 << 20, 7);
  const UniqueFd memory = Memory(bytes);
  auto handover = Give(memory.get());
  const std::string_view all = bytes;
  std::vector<Piece> pieces;
  uint64_t at = 0;
  for (const size_t size : {size_t{1}, size_t{300'000}, size_t{9} << 20, size_t{1} << 20,
                            size_t{100}, (size_t{3} << 20) + 1, size_t{256} << 10}) {
    pieces.push_back({all.substr(at, size), {handover->token(), at}});
    pieces.push_back({all.substr(at, size / 2 + 1), {}});
    at += size;
  }
  const std::map<uint64_t, PushedPiece> answers = Push(pieces);
  ASSERT_EQ(answers.size(), pieces.size());
  for (const auto& [id, answer] : answers) {
    EXPECT_EQ(answer.handed_over, id % 2 == 1) << id;
    const absl::StatusOr<std::string> got = segments_->Read(answer.region);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(*got, pieces[id - 1].bytes) << id;
  }
}

TEST_F(HandedPushTest, ABadPieceIsRefusedByItselfAndLeavesNothing) {
  const std::string bytes = RandomBytes(3 << 20, 8);
  const std::string_view all = bytes;
  const UniqueFd memory = Memory(bytes);
  auto handover = Give(memory.get());
  const std::string& token = handover->token();
  const std::string sent = RandomBytes(5'000, 9);
  v1::PushHeader too_long = Header(4, all, token, 0);
  too_long.set_length(all.size() + 1);
  const Answers answers =
      Say({Header(1, all.substr(0, 2 << 20), token, 0), Header(2, "x", std::string(16, 'x'), 0),
           Header(3, all.substr(0, 2), token, bytes.size() - 1), too_long,
           Header(5, all.substr(0, 2), token, UINT64_MAX),
           Header(6, all.substr(0, 4096), token, 4096), Header(7, all.substr(0, 2 << 20), token, 1),
           Streamed(8, sent), Header(9, all.substr(1'000, 70'000), token, 1'000)},
          sent);
  EXPECT_TRUE(answers.end.ok()) << answers.end;
  const std::map<uint64_t, v1::PushRefusal> refused = {
      {2, v1::PUSH_REFUSAL_NOT_HANDED_OVER},   {3, v1::PUSH_REFUSAL_TRUNCATED},
      {4, v1::PUSH_REFUSAL_TRUNCATED},         {5, v1::PUSH_REFUSAL_TRUNCATED},
      {6, v1::PUSH_REFUSAL_CHECKSUM_MISMATCH}, {7, v1::PUSH_REFUSAL_CHECKSUM_MISMATCH}};
  EXPECT_EQ(answers.refused, refused);
  ASSERT_EQ(answers.pushed.size(), 3u);
  EXPECT_EQ(*segments_->Read(answers.pushed.at(1)), all.substr(0, 2 << 20));
  EXPECT_EQ(*segments_->Read(answers.pushed.at(8)), sent);
  EXPECT_EQ(*segments_->Read(answers.pushed.at(9)), all.substr(1'000, 70'000));
  const uint64_t kept = (2 << 20) + 5'000 + 70'000;
  EXPECT_LT(segments_->TotalBytes(), kept + 3 * 64) << "but for alignment";
}

TEST_F(HandedPushTest, NoMemoryBehindATokenIsAnAnswerAndNoWait) {
  const std::string fifo = StrCat(dir_, "/fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const UniqueFd pipe(open(fifo.c_str(), O_RDWR | O_CLOEXEC));
  const UniqueFd directory(open(dir_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const UniqueFd file(open("/proc/self/status", O_RDONLY | O_CLOEXEC));
  std::vector<std::unique_ptr<Handover>> given;
  std::vector<v1::PushHeader> headers;
  for (const UniqueFd* fd : {&pipe, &directory, &file}) {
    given.push_back(Give(fd->get()));
    headers.push_back(Header(given.size(), "Name", given.back()->token(), 0));
  }
  const Answers answers = Say(headers, "");
  EXPECT_TRUE(answers.end.ok()) << answers.end;
  EXPECT_EQ(answers.pushed.size(), 0u);
  ASSERT_EQ(answers.refused.size(), 3u);
  for (const auto& [id, why] : answers.refused) {
    EXPECT_EQ(why, v1::PUSH_REFUSAL_NOT_HANDED_OVER) << id;
  }
}

TEST_F(HandedPushTest, ATokenOfAnotherSizeEndsTheStream) {
  const Answers answers = Say({Header(1, "x", "short", 0)}, "");
  EXPECT_EQ(ReasonOf(answers.end), reason::kProtocolError) << answers.end;
}

TEST_F(HandedPushTest, WhatTheMasterCannotHaveIsSent) {
  const std::string bytes = RandomBytes(2 << 20, 10);
  const UniqueFd memory = Memory(bytes);
  auto handover = Give(memory.get());
  ASSERT_EQ(ftruncate(memory.get(), 1 << 20), 0);
  const std::string_view all = bytes;
  const std::vector<Piece> pieces = {{all, {handover->token(), 0}},
                                     {all.substr(0, 100'000), {handover->token(), 0}}};
  const std::map<uint64_t, PushedPiece> answers = Push(pieces);
  ASSERT_EQ(answers.size(), 2u);
  for (const auto& [id, answer] : answers) {
    EXPECT_EQ(*segments_->Read(answer.region), pieces[id - 1].bytes) << id;
  }
  EXPECT_FALSE(answers.at(1).handed_over);
}

TEST_F(HandedPushTest, AMasterWithoutADeskIsSentEverything) {
  const std::string bytes = RandomBytes(100'000, 11);
  const UniqueFd memory = Memory(bytes);
  auto handover = Give(memory.get());
  Serve(nullptr);
  const std::map<uint64_t, PushedPiece> answers = Push({{bytes, {handover->token(), 0}}});
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_FALSE(answers.at(1).handed_over);
  EXPECT_EQ(*segments_->Read(answers.at(1).region), bytes);
}

}  // namespace
}  // namespace tandem
