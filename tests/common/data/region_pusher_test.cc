// RegionPusher in a process that has no server: whoever drops the last reference, on whatever
// thread, nothing breaks.
#include "common/data/region_pusher.h"

#include <string>

#include "absl/synchronization/notification.h"
#include "common/rpc/channel.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

TEST(RegionPusherAlone, TheLastChannelMayGoInACallback) {
  const auto bytes = std::make_shared<const std::string>(1000, 'x');
  for (int round = 0; round < 100; ++round) {
    absl::Notification broken;
    absl::Status why;
    // The pusher's call is the only holder of its channel.
    auto pusher =
        RegionPusher::Start(rpc::ConnectForCallbacks("127.0.0.1:1", rpc::Traffic::kBulk), "ada",
                            {[](std::vector<PushedPiece>) {},
                             [&](const absl::Status& status) {
                               why = status;
                               broken.Notify();
                             }});
    pusher->Push(1, *bytes, bytes);
    if (round % 2 == 0) pusher.reset();
    broken.WaitForNotification();
    EXPECT_FALSE(why.ok());
  }
}

}  // namespace
}  // namespace tandem
