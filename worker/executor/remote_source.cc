#include "worker/executor/remote_source.h"

#include <map>
#include <utility>

#include "absl/base/call_once.h"
#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/data/data_client.h"
#include "common/data/host_id.h"
#include "common/rpc/channel.h"

namespace tandem::worker {
namespace {

class RemoteSource final : public OperandSource {
 public:
  RemoteSource(std::string address, std::string owner)
      : address_(std::move(address)), owner_(std::move(owner)), host_(HostId()) {}

  absl::StatusOr<std::string> LocateBlob(const BlobLocator& blob) override {
    return client().LocateBlob(blob, host_);
  }
  // A master of an older release knows none.
  absl::StatusOr<std::vector<uint64_t>> BlobSums(const BlobLocator& blob) override {
    absl::StatusOr<std::vector<uint64_t>> sums = client().BlobSums(blob);
    if (absl::IsUnimplemented(sums.status())) return std::vector<uint64_t>();
    return sums;
  }
  absl::Status ReadBlob(const BlobLocator& blob, uint64_t offset, uint64_t length,
                        char* to) override {
    return client().ReadBlobInto(blob, offset, absl::MakeSpan(to, length));
  }
  absl::Status ReadRegion(const Region& region, char* to) override {
    return client().ReadRegionInto(region, absl::MakeSpan(to, region.length));
  }

 private:
  // Most jobs' operands need no connection; it is made on first use.
  DataClient& client() {
    absl::call_once(made_, [this] {
      client_ = std::make_unique<DataClient>(rpc::Connect(address_, rpc::Traffic::kBulk), owner_);
    });
    return *client_;
  }

  const std::string address_;
  const std::string owner_;
  const std::string host_;
  absl::once_flag made_;
  std::unique_ptr<DataClient> client_;
};

struct Known {
  absl::Mutex mu;
  std::map<std::string, std::shared_ptr<OperandSource>> sources ABSL_GUARDED_BY(mu);
};

}  // namespace

OperandSources RemoteSources(std::string owner) {
  auto known = std::make_shared<Known>();
  return [known, owner = std::move(owner)](const std::string& address) {
    absl::MutexLock lock(&known->mu);
    std::shared_ptr<OperandSource>& source = known->sources[address];
    if (source == nullptr) source = std::make_shared<RemoteSource>(address, owner);
    return source;
  };
}

}  // namespace tandem::worker
