// A client before masters of other releases: it says so, with both versions, before anything else.
#include "common/rpc/version.h"

#include <atomic>
#include <memory>
#include <string>

#include "client/lib/client.h"
#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/rpc/server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tandem/v1/cluster.grpc.pb.h"

namespace tandem::client {
namespace {

using ::testing::HasSubstr;

class OtherMaster final : public v1::Cluster::CallbackService {
 public:
  explicit OtherMaster(uint32_t api) : api_(api) {}
  grpc::ServerUnaryReactor* GetMaster(grpc::CallbackServerContext* context,
                                      const v1::GetMasterRequest* request,
                                      v1::MasterInfo* response) override {
    ++asked_;
    EXPECT_EQ(request->api(), rpc::kApi);
    EXPECT_EQ(request->client_version(), rpc::Version());
    response->set_version("7.8.9");
    response->set_api(api_);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  grpc::ServerUnaryReactor* ListWorkers(grpc::CallbackServerContext* context,
                                        const v1::ListWorkersRequest*,
                                        v1::ListWorkersResponse*) override {
    const auto& metadata = context->client_metadata();
    EXPECT_EQ(metadata.count(rpc::kApiKey), 1u);
    EXPECT_EQ(metadata.count(rpc::kVersionKey), 1u);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  int asked() const { return asked_; }

 private:
  const uint32_t api_;
  std::atomic<int> asked_ = 0;
};

struct Before {
  explicit Before(uint32_t api) : master(api) {
    grpc::Service* services[] = {&master};
    server = *rpc::Server::Start({.address = "127.0.0.1:0"}, services);
    client = *Client::Connect({.address = server->address()});
  }
  OtherMaster master;
  std::unique_ptr<rpc::Server> server;
  std::unique_ptr<Client> client;
};

TEST(Version, AnotherMajorIsRefusedByEveryCallWithBothVersions) {
  for (const uint32_t api : {0u, rpc::kApi + 1000}) {
    Before before(api);
    const absl::Status statuses[] = {
        before.client->ListWorkers().status(), before.client->Get(JobId(1)).status(),
        before.client->ReadOutput(JobId(1), "x", {},
                                  [](std::string_view) { return absl::OkStatus(); })};
    for (const absl::Status& status : statuses) {
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_EQ(ReasonOf(status), reason::kVersionSkew);
      EXPECT_THAT(std::string(status.message()), HasSubstr("7.8.9"));
      EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(rpc::Version())));
    }
  }
}

TEST(Version, TheSameMajorIsAskedOnce) {
  Before before(rpc::kApi + 7);
  EXPECT_TRUE(before.client->ListWorkers().ok());
  EXPECT_TRUE(before.client->ListWorkers().ok());
  EXPECT_EQ(before.master.asked(), 1);
}

TEST(Version, ACallThatTheMasterDoesNotHaveIsOfANewerRelease) {
  Before before(rpc::kApi);
  const absl::Status status = before.client->Explain(JobId(1)).status();
  EXPECT_EQ(ReasonOf(status), reason::kVersionSkew);
  EXPECT_THAT(std::string(status.message()), HasSubstr("older release"));
}

}  // namespace
}  // namespace tandem::client
