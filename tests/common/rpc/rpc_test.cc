// Errors, addresses, owners, bulk framing and servers, as both ends of a connection see them.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/rng.h"
#include "common/rpc/bulk.h"
#include "common/rpc/channel.h"
#include "common/rpc/owner.h"
#include "common/rpc/server.h"
#include "common/rpc/status.h"
#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"
#include "tandem/v1/cluster.grpc.pb.h"
#include "tandem/v1/data.pb.h"

namespace tandem::rpc {
namespace {

using ::testing::HasSubstr;

absl::Status Rich() {
  return WithRetryDelay(
      WithField(InvalidError(reason::kShapeMismatch, "operand spot has 5 rows, not 6"),
                "spec.operands.spot"),
      absl::Milliseconds(1500));
}

TEST(RpcStatus, ReasonFieldAndRetryDelaySurviveTheTrip) {
  const absl::Status back = FromGrpc(ToGrpc(Rich()));
  EXPECT_EQ(back.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(back.message(), "operand spot has 5 rows, not 6");
  EXPECT_EQ(ReasonOf(back), reason::kShapeMismatch);
  EXPECT_EQ(FieldOf(back), "spec.operands.spot");
  EXPECT_EQ(RetryDelayOf(back), absl::Milliseconds(1500));
  EXPECT_TRUE(FromGrpc(ToGrpc(absl::OkStatus())).ok());
}

// What a client in another language reads: google.rpc.Status in grpc-status-details-bin.
TEST(RpcStatus, DetailsAreTheStandardOnes) {
  google::rpc::Status details;
  ASSERT_TRUE(details.ParseFromString(ToGrpc(Rich()).error_details()));
  EXPECT_EQ(details.code(), 3);
  ASSERT_EQ(details.details_size(), 3);
  EXPECT_EQ(details.details(0).type_url(), "type.googleapis.com/google.rpc.ErrorInfo");
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(details.details(0).UnpackTo(&info));
  EXPECT_EQ(info.domain(), "tandem");
  google::rpc::BadRequest bad;
  ASSERT_TRUE(details.details(1).UnpackTo(&bad));
  EXPECT_EQ(bad.field_violations(0).field(), "spec.operands.spot");
}

TEST(RpcStatus, LongAndForeignMessagesAreCutAndCleaned) {
  const grpc::Status sent = ToGrpc(absl::InternalError(std::string(10'000, 'x') + "\xFF"));
  EXPECT_EQ(sent.error_message().size(), kErrorMessageBytesMax);
  EXPECT_EQ(sent.error_details(), "");
  const absl::Status plain = FromGrpc(grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone"));
  EXPECT_EQ(ReasonOf(plain), "");
  EXPECT_EQ(RetryDelayOf(plain), absl::InfiniteDuration());
  EXPECT_TRUE(absl::IsUnavailable(
      FromGrpc(grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone", "\x01garbage"))));
}

TEST(Address, LoopbackIsToldFromTheRest) {
  for (const char* text : {"127.0.0.1:1", "127.9.8.7:0", "localhost:7460", "[::1]:9", "unix:/a"}) {
    const absl::StatusOr<Address> address = ParseAddress(text);
    ASSERT_TRUE(address.ok()) << text;
    EXPECT_TRUE(IsLoopback(*address)) << text;
  }
  for (const char* text : {"0.0.0.0:1", "10.0.0.1:1", "[::]:1", "example.org:80"}) {
    const absl::StatusOr<Address> address = ParseAddress(text);
    ASSERT_TRUE(address.ok()) << text;
    EXPECT_FALSE(IsLoopback(*address)) << text;
  }
  for (const char* text : {"", "host", ":1", "a:b:1", "h:99999", "h:-1", "h:1x", "unix:"}) {
    EXPECT_EQ(ReasonOf(ParseAddress(text).status()), reason::kBadArgument) << text;
  }
}

TEST(Address, APeerIsNamedByItsHost) {
  EXPECT_EQ(HostOfPeer("ipv4:10.0.0.7:43124"), "10.0.0.7");
  EXPECT_EQ(HostOfPeer("ipv6:%5B::1%5D:43124"), "::1");
  EXPECT_EQ(HostOfPeer("ipv6:[fe80::1]:9"), "fe80::1");
  EXPECT_EQ(HostOfPeer("ipv6:%5Bfe80::1%25eth0%5D:9"), "fe80::1%eth0");
  EXPECT_EQ(HostOfPeer("unix:/run/tandem.sock"), "unix:/run/tandem.sock");
  EXPECT_EQ(HostOfPeer(""), "");
}

TEST(Owner, OnlyUserNamesAreOwners) {
  for (const char* owner : {"ada", "a.b-c_9", "X"}) EXPECT_TRUE(CheckOwner(owner).ok()) << owner;
  for (const std::string& owner :
       {std::string(), std::string(".."), std::string("-rf"), std::string("a/b"),
        std::string("a\nb"), std::string(65, 'a'), std::string("\xC3\xBC")}) {
    EXPECT_FALSE(CheckOwner(owner).ok()) << owner;
  }
  EXPECT_TRUE(CheckOwner(LocalOwner()).ok());
}

std::string Joined(const BulkMessage& message) {
  std::string all;
  for (const std::string_view piece : message.data) all += piece;
  return all;
}

grpc::ByteBuffer Cut(const std::string& bytes, Rng* rng) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size();) {
    const size_t size = std::min<size_t>(rng->Between(0, 40), bytes.size() - at);
    slices.emplace_back(bytes.substr(at, size));
    at += size;
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

// The oracle is protobuf itself: both directions, however the bytes are cut into slices.
TEST(Bulk, FramesAndReadsWhatProtobufWould) {
  Rng rng(7);
  for (int round = 0; round < 500; ++round) {
    v1::PushRequest expected;
    for (uint64_t i = rng.Below(4); i > 0; --i) {
      v1::PushHeader* header = expected.add_headers();
      header->set_push_id(rng.Next());
      header->set_length(rng.Next() >> 40);
      header->set_xxh3(rng.Next());
    }
    std::string data(rng.Below(300), '\0');
    for (char& c : data) c = static_cast<char>(rng.Next());
    v1::PushRequest fields = expected;
    expected.set_data(data);

    BulkMessage read;
    ASSERT_TRUE(ParseBulk(Cut(expected.SerializeAsString(), &rng), &read).ok());
    EXPECT_EQ(Joined(read), data);
    v1::PushRequest read_fields;
    ASSERT_TRUE(read_fields.ParseFromString(read.fields));
    EXPECT_EQ(read_fields.SerializeAsString(), fields.SerializeAsString());

    const grpc::Slice slice(data);
    const grpc::ByteBuffer framed =
        FrameBulk(fields.SerializeAsString(), absl::MakeConstSpan(&slice, 1));
    v1::PushRequest parsed;
    ASSERT_TRUE(ParseMessage(framed, &parsed).ok());
    EXPECT_EQ(parsed.SerializeAsString(), expected.SerializeAsString());
  }
}

TEST(Bulk, BrokenFramingIsRefused) {
  const auto refused = [](const std::string& bytes) {
    const grpc::Slice slice(bytes);
    BulkMessage message;
    return ReasonOf(ParseBulk(grpc::ByteBuffer(&slice, 1), &message)) == reason::kProtocolError;
  };
  EXPECT_TRUE(refused("\x0a"));  // A tag without a length.
  EXPECT_TRUE(
      refused("\x0a\x05"
              "abc"));                                       // Fewer bytes than said.
  EXPECT_TRUE(refused(std::string("\x0a\x00\x0a\x00", 4)));  // Data twice.
  EXPECT_TRUE(refused("\x0b"));                              // A group.
  EXPECT_TRUE(refused("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"));
  EXPECT_TRUE(refused("\x12\xff\xff\xff\xff\x0f"));  // Another field of 4 GiB.
  EXPECT_FALSE(
      refused("\x0a\x03"
              "abc"));
  EXPECT_FALSE(refused(""));
}

class FailingCluster final : public v1::Cluster::CallbackService {
 public:
  grpc::ServerUnaryReactor* GetMaster(grpc::CallbackServerContext* context,
                                      const v1::GetMasterRequest*,
                                      v1::MasterInfo* response) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    const absl::StatusOr<std::string> owner = OwnerOf(*context);
    if (owner.ok()) response->set_cluster_id(*owner);
    reactor->Finish(ToGrpc(owner.ok() && *owner == "eve" ? Rich() : owner.status()));
    return reactor;
  }
};

absl::StatusOr<std::unique_ptr<Server>> StartAt(const std::string& address, bool insecure,
                                                grpc::Service* service) {
  ServerOptions options;
  options.address = address;
  options.insecure = insecure;
  return Server::Start(options, absl::MakeConstSpan(&service, 1));
}

TEST(Server, CarriesOwnersThereAndErrorsBack) {
  FailingCluster service;
  auto server = StartAt("127.0.0.1:0", false, &service);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto stub = v1::Cluster::NewStub(Connect((*server)->address(), Traffic::kControl));
  const auto call = [&stub](const char* owner) -> absl::StatusOr<std::string> {
    grpc::ClientContext context;
    if (owner != nullptr) SetOwner(&context, owner);
    v1::MasterInfo info;
    absl::Status status = FromGrpc(stub->GetMaster(&context, {}, &info));
    if (!status.ok()) return status;
    return info.cluster_id();
  };
  EXPECT_EQ(*call("ada"), "ada");
  EXPECT_EQ(ReasonOf(call("eve").status()), reason::kShapeMismatch);
  EXPECT_EQ(FieldOf(call("eve").status()), "spec.operands.spot");
  EXPECT_EQ(call(nullptr).status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(call("../ada").status().code(), absl::StatusCode::kUnauthenticated);
}

TEST(Server, ListensBeyondLoopbackOnlyWhenToldTo) {
  FailingCluster service;
  const absl::Status refused = StartAt("0.0.0.0:0", false, &service).status();
  EXPECT_EQ(ReasonOf(refused), reason::kInsecure);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--insecure"));
  EXPECT_TRUE(StartAt("0.0.0.0:0", true, &service).ok());
}

TEST(Server, TwoNeverShareAPort) {
  FailingCluster first_service;
  FailingCluster second_service;
  auto first = StartAt("127.0.0.1:0", false, &first_service);
  ASSERT_TRUE(first.ok());
  const absl::Status second = StartAt((*first)->address(), false, &second_service).status();
  EXPECT_EQ(ReasonOf(second), reason::kAddressInUse) << second;
  EXPECT_THAT(std::string(second.message()), HasSubstr((*first)->address()));
}

}  // namespace
}  // namespace tandem::rpc
