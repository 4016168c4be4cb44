// The Data service over a real connection: uploads that break and go on, owners that see only what
// is theirs, bytes that changed on the way, limits.
#include "common/data/data_service.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/rng.h"
#include "common/base/strings.h"
#include "common/data/data_client.h"
#include "common/data/host_id.h"
#include "common/data/region_pusher.h"
#include "common/data/sha256.h"
#include "common/data/xxh3.h"
#include "common/rpc/bulk.h"
#include "common/rpc/channel.h"
#include "common/rpc/owner.h"
#include "common/rpc/server.h"
#include "common/rpc/status.h"
#include "common/wire/job_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fault_file_system.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

std::string RandomBytes(size_t size, uint64_t seed) {
  Rng rng(seed);
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(rng.Next());
  return bytes;
}

BlobLocator BlobOf(const std::string& bytes) {
  BlobLocator blob;
  blob.id = Sha256Of(bytes);
  blob.size = bytes.size();
  return blob;
}

class DataServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "tandem_data_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    dir_ = name;
    Start();
  }
  void Restart() {
    server_.reset();
    Start();
  }
  void Start() {
    blobs_ = nullptr;
    segments_ = nullptr;
    blobs_ = *BlobStore::Open(RealFileSystem(), dir_, {});
    segments_ = *SegmentStore::Open(RealFileSystem(), dir_, {});
    DataServiceOptions options;
    options.blobs = blobs_.get();
    options.segments = segments_.get();
    options.pool = &pool_;
    options.local_host_id = HostId();
    options.push_limits.piece_bytes_max = 8 << 20;
    service_ = std::make_unique<DataService>(options);
    rpc::ServerOptions listen;
    listen.address = "127.0.0.1:0";
    grpc::Service* const services[] = {service_.get()};
    server_ = *rpc::Server::Start(listen, services);
  }
  void TearDown() override {
    server_.reset();
    std::filesystem::remove_all(dir_);
  }
  std::shared_ptr<grpc::Channel> Channel() {
    return rpc::ConnectForCallbacks(server_->address(), rpc::Traffic::kBulk);
  }
  DataClient ClientOf(const std::string& owner) { return DataClient(Channel(), owner); }

  std::string dir_;
  IoPool pool_{2};
  std::unique_ptr<BlobStore> blobs_;
  std::unique_ptr<SegmentStore> segments_;
  std::unique_ptr<DataService> service_;
  std::unique_ptr<rpc::Server> server_;
};

TEST_F(DataServiceTest, ABlobComesBackByteForByte) {
  DataClient ada = ClientOf("ada");
  for (const size_t size : {size_t{0}, size_t{1}, size_t{1} << 20, (size_t{5} << 20) + 17}) {
    const std::string bytes = RandomBytes(size, size + 1);
    const BlobLocator blob = BlobOf(bytes);
    const absl::StatusOr<uint64_t> sent = ada.PutBlob(blob, bytes);
    ASSERT_TRUE(sent.ok()) << sent.status();
    EXPECT_EQ(*sent, size);
    std::string got(size, '\0');
    ASSERT_TRUE(ada.ReadBlobInto(blob, 0, absl::MakeSpan(got.data(), got.size())).ok());
    EXPECT_EQ(got, bytes);
  }
}

TEST_F(DataServiceTest, PartsOfABlobCanBeReadAndNothingBeyond) {
  DataClient ada = ClientOf("ada");
  const std::string bytes = RandomBytes(3 << 20, 5);
  const BlobLocator blob = BlobOf(bytes);
  ASSERT_TRUE(ada.PutBlob(blob, bytes).ok());
  std::string got(1'500'000, '\0');
  ASSERT_TRUE(ada.ReadBlobInto(blob, 1'000'001, absl::MakeSpan(got.data(), got.size())).ok());
  EXPECT_EQ(got, bytes.substr(1'000'001, got.size()));
  const absl::Status beyond =
      ada.ReadBlobInto(blob, bytes.size() - 10, absl::MakeSpan(got.data(), 11));
  EXPECT_EQ(beyond.code(), absl::StatusCode::kOutOfRange) << beyond;
}

TEST_F(DataServiceTest, WhatIsThereIsNotSentAgain) {
  DataClient ada = ClientOf("ada");
  const std::string bytes = RandomBytes(100'000, 6);
  ASSERT_TRUE(ada.PutBlob(BlobOf(bytes), bytes).ok());
  EXPECT_EQ(*ada.PutBlob(BlobOf(bytes), bytes), 0u);
}

TEST_F(DataServiceTest, ABrokenUploadGoesOnWhereItBroke) {
  DataClient ada = ClientOf("ada");
  const std::string bytes = RandomBytes(8 << 20, 7);
  const BlobLocator blob = BlobOf(bytes);
  const absl::StatusOr<uint64_t> broken = ada.PutBlob(
      blob,
      [&](uint64_t offset, absl::Span<char> buffer) -> absl::Status {
        if (offset >= 5 << 20) return absl::DataLossError("the source is gone");
        bytes.copy(buffer.data(), buffer.size(), offset);
        return absl::OkStatus();
      },
      [](uint64_t) {});
  EXPECT_EQ(broken.status().message(), "the source is gone");
  uint64_t first_read = bytes.size();
  const absl::StatusOr<uint64_t> sent = ada.PutBlob(
      blob,
      [&](uint64_t offset, absl::Span<char> buffer) {
        first_read = std::min(first_read, offset);
        bytes.copy(buffer.data(), buffer.size(), offset);
        return absl::OkStatus();
      },
      [](uint64_t) {});
  ASSERT_TRUE(sent.ok()) << sent.status();
  // At most the rest; less when the broken call's bytes were still arriving.
  EXPECT_LE(*sent, bytes.size() - first_read);
  std::string got(bytes.size(), '\0');
  ASSERT_TRUE(ada.ReadBlobInto(blob, 0, absl::MakeSpan(got.data(), got.size())).ok());
  EXPECT_EQ(got, bytes);
}

TEST_F(DataServiceTest, BytesWithAnotherHashAreRefused) {
  DataClient ada = ClientOf("ada");
  std::string bytes = RandomBytes(100'000, 8);
  const BlobLocator blob = BlobOf(bytes);
  bytes[777] ^= 1;
  const absl::Status status = ada.PutBlob(blob, bytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(status), reason::kChecksumMismatch);
  EXPECT_FALSE(ada.StatBlobs(absl::MakeConstSpan(&blob, 1))->front().present);
}

TEST_F(DataServiceTest, KnowingAHashGrantsNothing) {
  DataClient ada = ClientOf("ada");
  DataClient eve = ClientOf("eve");
  const std::string bytes = RandomBytes(1000, 9);
  const BlobLocator blob = BlobOf(bytes);
  ASSERT_TRUE(ada.PutBlob(blob, bytes).ok());
  char buffer[1000];
  EXPECT_TRUE(absl::IsNotFound(eve.ReadBlobInto(blob, 0, absl::MakeSpan(buffer))));
  EXPECT_FALSE(eve.StatBlobs(absl::MakeConstSpan(&blob, 1))->front().present);
  EXPECT_TRUE(absl::IsNotFound(eve.LocateBlob(blob, HostId()).status()));
  // She must send every byte herself.
  EXPECT_EQ(*eve.PutBlob(blob, bytes), bytes.size());
  EXPECT_TRUE(eve.ReadBlobInto(blob, 0, absl::MakeSpan(buffer)).ok());
}

TEST_F(DataServiceTest, CallsWithoutAnOwnerAreRefused) {
  DataClient nobody = ClientOf("../ada");
  const BlobLocator blob = BlobOf("x");
  EXPECT_EQ(nobody.StatBlobs(absl::MakeConstSpan(&blob, 1)).status().code(),
            absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(nobody.ReadBlob(blob, 0, 0, [](std::string_view) { return absl::OkStatus(); }).code(),
            absl::StatusCode::kUnauthenticated);
}

TEST_F(DataServiceTest, OnlyReadersOnTheSameHostLearnAPath) {
  DataClient ada = ClientOf("ada");
  const std::string bytes = "on this host";
  const BlobLocator blob = BlobOf(bytes);
  ASSERT_TRUE(ada.PutBlob(blob, bytes).ok());
  EXPECT_EQ(*ada.LocateBlob(blob, "another host"), "");
  std::ifstream file(*ada.LocateBlob(blob, HostId()));
  std::string read;
  std::getline(file, read);
  EXPECT_EQ(read, bytes);
}

TEST_F(DataServiceTest, ABlobsSumsAreItsOwnersToSee) {
  DataClient ada = ClientOf("ada");
  const std::string bytes = RandomBytes((2 << 20) + 1, 3);
  const BlobLocator blob = BlobOf(bytes);
  ASSERT_TRUE(ada.PutBlob(blob, bytes).ok());
  const std::string_view view = bytes;
  const std::vector<uint64_t> expected = {Xxh3(view.substr(0, 1 << 20)),
                                          Xxh3(view.substr(1 << 20, 1 << 20)),
                                          Xxh3(view.substr(2 << 20))};
  EXPECT_EQ(*ada.BlobSums(blob), expected);
  EXPECT_TRUE(absl::IsNotFound(ClientOf("eve").BlobSums(blob).status()));
  EXPECT_TRUE(ada.BlobSums({blob.id, 0})->empty());
}

TEST_F(DataServiceTest, ManyBlobsAreAskedForInPages) {
  DataClient ada = ClientOf("ada");
  std::vector<BlobLocator> blobs;
  for (int i = 0; i < 2500; ++i) blobs.push_back(BlobOf(std::to_string(i)));
  ASSERT_TRUE(ada.PutBlob(blobs[2400], "2400").ok());
  const absl::StatusOr<std::vector<BlobPresence>> found = ada.StatBlobs(blobs);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->size(), blobs.size());
  for (size_t i = 0; i < found->size(); ++i) EXPECT_EQ((*found)[i].present, i == 2400);
}

// One message of a raw stream, as a hostile client would send it.
absl::Status SendRaw(const std::shared_ptr<grpc::Channel>& channel,
                     const std::vector<grpc::ByteBuffer>& messages) {
  grpc::ClientContext context;
  rpc::SetOwner(&context, "eve");
  grpc::ByteBuffer response;
  const std::unique_ptr<grpc::ClientWriter<grpc::ByteBuffer>> writer(
      grpc::internal::ClientWriterFactory<grpc::ByteBuffer>::Create(
          channel.get(),
          grpc::internal::RpcMethod("/tandem.v1.Data/PutBlob",
                                    grpc::internal::RpcMethod::CLIENT_STREAMING),
          &context, &response));
  for (const grpc::ByteBuffer& message : messages) (void)writer->Write(message);
  writer->WritesDone();
  return rpc::FromGrpc(writer->Finish());
}

TEST_F(DataServiceTest, UploadsAgainstTheProtocolAreRefused) {
  const grpc::Slice data("bytes");
  const grpc::ByteBuffer bytes = rpc::FrameBulk("", absl::MakeConstSpan(&data, 1));
  v1::PutBlobRequest header;
  wire::Encode(BlobOf("bytes"), header.mutable_header()->mutable_blob());
  const grpc::ByteBuffer first = rpc::FrameMessage(header);
  EXPECT_THAT(std::string(SendRaw(Channel(), {bytes}).message()), HasSubstr("header"));
  EXPECT_THAT(std::string(SendRaw(Channel(), {}).message()), HasSubstr("header"));
  EXPECT_THAT(std::string(SendRaw(Channel(), {first, first}).message()), HasSubstr("twice"));
  header.mutable_header()->set_offset(3);
  const absl::Status skipped = SendRaw(Channel(), {rpc::FrameMessage(header), bytes});
  EXPECT_EQ(skipped.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(FieldOf(skipped), "header.offset");
  header.mutable_header()->mutable_blob()->set_sha256("short");
  EXPECT_EQ(FieldOf(SendRaw(Channel(), {rpc::FrameMessage(header)})), "header.blob.sha256");
  EXPECT_TRUE(SendRaw(Channel(), {first, bytes}).ok());
}

// Collects what a pusher says.
class Pushed {
 public:
  RegionPusher::Callbacks callbacks() {
    return {[this](std::vector<PushedPiece> pieces) {
              absl::MutexLock lock(&mu_);
              for (PushedPiece& piece : pieces) regions_[piece.push_id] = piece.region;
            },
            [this](const absl::Status& status) {
              end_ = status;
              over_.Notify();
            }};
  }
  absl::Status Wait() {
    over_.WaitForNotification();
    return end_;
  }
  std::map<uint64_t, Region> regions() {
    absl::MutexLock lock(&mu_);
    return regions_;
  }
  void WaitForAnswers(size_t count) {
    absl::MutexLock lock(&mu_);
    const auto there = [&]()
                           ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return regions_.size() >= count; };
    mu_.Await(absl::Condition(&there));
  }

 private:
  absl::Mutex mu_;
  std::map<uint64_t, Region> regions_ ABSL_GUARDED_BY(mu_);
  absl::Status end_;
  absl::Notification over_;
};

TEST_F(DataServiceTest, PushedPiecesAreReadBackAndSurviveASync) {
  Pushed pushed;
  auto pusher = RegionPusher::Start(Channel(), "ada", pushed.callbacks());
  std::vector<std::string> pieces;
  Rng rng(11);
  for (int i = 0; i < 400; ++i) {
    pieces.push_back(RandomBytes(1 + rng.Below(i % 50 == 0 ? 3 << 20 : 9000), rng.Next()));
  }
  for (size_t i = 0; i < pieces.size(); ++i) pusher->Push(i + 1, pieces[i], nullptr);
  pusher->Close();
  ASSERT_TRUE(pushed.Wait().ok());
  const std::map<uint64_t, Region> regions = pushed.regions();
  ASSERT_EQ(regions.size(), pieces.size());
  DataClient ada = ClientOf("ada");
  for (const auto& [id, region] : regions) {
    const std::string& piece = pieces[id - 1];
    EXPECT_EQ(region.xxh3, Xxh3(piece));
    std::string got(region.length, '\0');
    ASSERT_TRUE(ada.ReadRegionInto(region, absl::MakeSpan(got.data(), got.size())).ok());
    EXPECT_EQ(got, piece);
  }
  EXPECT_TRUE(segments_->Sync({regions.at(1).segment}).ok());
}

// A service whose segments are in a file system that a test holds up.
class SlowDiskTest : public ::testing::Test {
 protected:
  SlowDiskTest() : segments_(*SegmentStore::Open(&fs_, "/data", {})) {
    DataServiceOptions options;
    options.segments = segments_.get();
    options.pool = &pool_;
    options.sync_pool = &sync_pool_;
    options.on_sync_failed = [this](const absl::Status& status) {
      failure_ = status;
      failed_.Notify();
    };
    service_ = std::make_unique<DataService>(options);
    rpc::ServerOptions listen;
    listen.address = "127.0.0.1:0";
    grpc::Service* const services[] = {service_.get()};
    server_ = *rpc::Server::Start(listen, services);
  }
  std::unique_ptr<RegionPusher> Pusher(Pushed* pushed) {
    return RegionPusher::Start(rpc::Connect(server_->address(), rpc::Traffic::kBulk), "ada",
                               pushed->callbacks());
  }

  FaultFileSystem fs_;
  IoPool pool_{2};
  IoPool sync_pool_{2};
  absl::Status failure_;
  absl::Notification failed_;
  std::unique_ptr<SegmentStore> segments_;
  std::unique_ptr<DataService> service_;
  std::unique_ptr<rpc::Server> server_;
};

TEST_F(SlowDiskTest, APieceIsAnsweredOnlyOnceItIsDurable) {
  Pushed pushed;
  auto pusher = Pusher(&pushed);
  const std::string piece = RandomBytes(100'000, 3);
  pusher->Push(1, piece, nullptr);
  pushed.WaitForAnswers(1);
  const Region region = pushed.regions().at(1);
  const SegmentExtent extent{region.segment, region.offset + region.length};
  const uint64_t syncs = fs_.Count(FaultFileSystem::Op::kSync);
  EXPECT_TRUE(segments_->SyncUpTo({extent}).ok());
  EXPECT_EQ(fs_.Count(FaultFileSystem::Op::kSync), syncs) << "a record has nothing to wait for";
  pusher->Close();
  EXPECT_TRUE(pushed.Wait().ok());
  server_.reset();
  fs_.Crash();
  segments_ = *SegmentStore::Open(&fs_, "/data", {});
  EXPECT_EQ(*segments_->Read(region), piece);
}

TEST_F(SlowDiskTest, ASlowSyncOfALargePieceHoldsUpNoOtherStream) {
  fs_.HoldSyncs(1 << 20);
  Pushed large, small;
  auto large_pusher = Pusher(&large);
  auto small_pusher = Pusher(&small);
  const std::string much = RandomBytes(5 << 20, 4), little = RandomBytes(1000, 5);
  large_pusher->Push(1, much, nullptr);
  for (uint64_t id = 1; id <= 3; ++id) {
    small_pusher->Push(id, little, nullptr);
    small.WaitForAnswers(id);
  }
  EXPECT_EQ(large.regions().size(), 0u);
  fs_.HoldSyncs(UINT64_MAX);
  large.WaitForAnswers(1);
  large_pusher->Close();
  small_pusher->Close();
  EXPECT_TRUE(large.Wait().ok());
  EXPECT_TRUE(small.Wait().ok());
}

TEST_F(SlowDiskTest, AFailedSyncEndsThePushUnansweredAndIsTold) {
  fs_.FailOnce(FaultFileSystem::Op::kSync);
  Pushed pushed;
  auto pusher = Pusher(&pushed);
  const std::string piece = RandomBytes(1000, 6);
  pusher->Push(1, piece, nullptr);
  EXPECT_FALSE(pushed.Wait().ok());
  EXPECT_EQ(pushed.regions().size(), 0u);
  failed_.WaitForNotification();
  EXPECT_EQ(ReasonOf(failure_), reason::kStoreFailed);
}

TEST_F(DataServiceTest, LargePiecesAreWrittenAsTheyComeAmongSmallOnes) {
  Pushed pushed;
  auto pusher = RegionPusher::Start(Channel(), "ada", pushed.callbacks());
  std::vector<std::string> pieces;
  for (const size_t size : {size_t{5}, size_t{7} << 20, (size_t{3} << 20) + 1, size_t{9},
                            size_t{2} << 20, size_t{8} << 20, size_t{1}}) {
    pieces.push_back(RandomBytes(size, size));
  }
  for (size_t i = 0; i < pieces.size(); ++i) pusher->Push(i + 1, pieces[i], nullptr);
  pusher->Close();
  ASSERT_TRUE(pushed.Wait().ok());
  const std::map<uint64_t, Region> regions = pushed.regions();
  ASSERT_EQ(regions.size(), pieces.size());
  for (const auto& [id, region] : regions) {
    const absl::StatusOr<std::string> got = segments_->Read(region);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(*got, pieces[id - 1]) << id;
  }
}

TEST_F(DataServiceTest, RegionsAreTheirOwnersAlsoAfterARestart) {
  Pushed pushed;
  auto pusher = RegionPusher::Start(Channel(), "ada.l-1", pushed.callbacks());
  const std::string piece = RandomBytes(1000, 13);
  pusher->Push(1, piece, nullptr);
  pusher->Close();
  ASSERT_TRUE(pushed.Wait().ok());
  const Region region = pushed.regions().at(1);
  for (const bool restarted : {false, true}) {
    if (restarted) Restart();
    std::string got(region.length, '\0');
    const absl::Status eve =
        ClientOf("eve").ReadRegionInto(region, absl::MakeSpan(got.data(), got.size()));
    EXPECT_EQ(ReasonOf(eve), reason::kSegmentNotFound) << eve;
    EXPECT_TRUE(
        ClientOf("ada.l-1").ReadRegionInto(region, absl::MakeSpan(got.data(), got.size())).ok());
    EXPECT_EQ(got, piece);
  }
}

TEST_F(DataServiceTest, APieceOverTheLimitBreaksTheStream) {
  Pushed pushed;
  auto pusher = RegionPusher::Start(Channel(), "ada", pushed.callbacks());
  const std::string piece((8 << 20) + 1, 'x');
  pusher->Push(1, piece, nullptr);
  const absl::Status end = pushed.Wait();
  EXPECT_EQ(end.code(), absl::StatusCode::kResourceExhausted) << end;
  EXPECT_EQ(ReasonOf(end), reason::kLimitExceeded);
}

TEST_F(DataServiceTest, ARegionWhoseBytesChangedIsNotHandedOut) {
  Pushed pushed;
  auto pusher = RegionPusher::Start(Channel(), "ada", pushed.callbacks());
  const std::string piece = RandomBytes(3 << 20, 12);
  pusher->Push(1, piece, nullptr);
  pusher->Close();
  ASSERT_TRUE(pushed.Wait().ok());
  const Region region = pushed.regions().at(1);
  {
    std::fstream file(*segments_->PathOf(region.segment),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(region.offset + 2'000'000));
    file.put(static_cast<char>(piece[2'000'000] ^ 1));
  }
  const absl::Status status =
      ClientOf("ada").ReadRegion(region, [](std::string_view) { return absl::OkStatus(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_EQ(ReasonOf(status), reason::kChecksumMismatch);
}

TEST_F(DataServiceTest, PushesToAServerThatIsGoneBreakOnce) {
  Pushed pushed;
  auto pusher = RegionPusher::Start(Channel(), "ada", pushed.callbacks());
  server_->Shutdown(absl::ZeroDuration());
  auto kept = std::make_shared<const std::string>(100'000, 'y');
  for (uint64_t id = 1; id <= 10; ++id) pusher->Push(id, *kept, kept);
  EXPECT_FALSE(pushed.Wait().ok());
  pusher->Push(11, *kept, kept);  // Dropped.
}

}  // namespace
}  // namespace tandem
