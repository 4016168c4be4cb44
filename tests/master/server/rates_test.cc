// What workers have learned of how long work takes, as a master shows it and has it forgotten.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/rpc/owner.h"
#include "common/rpc/status.h"
#include "common/rpc/version.h"
#include "gtest/gtest.h"
#include "tandem/v1/cluster.grpc.pb.h"
#include "tests/master/server/fake_worker.h"
#include "tests/master/server/master_fixture.h"

namespace tandem::master {
namespace {

Report RatesReport(std::vector<KernelRate> rates, uint64_t forgot = 0) {
  Report report;
  report.rates = std::move(rates);
  report.forgot = forgot;
  return report;
}

KernelRate RateOn(const char* device, double tasks_per_second, const char* extents = "") {
  KernelRate rate;
  rate.kernel = "noop@1";
  rate.device = DeviceKind::kCpu;
  rate.device_name = device;
  rate.extents = extents;
  rate.tasks_per_second = tasks_per_second;
  rate.samples = 3;
  rate.age = absl::Seconds(7);
  return rate;
}

class RatesTest : public MasterTest {
 protected:
  void SetUp() override {
    MasterTest::SetUp();
    cluster_ = v1::Cluster::NewStub(channel_);
  }
  template <class Request>
  absl::StatusOr<v1::WorkerInfo> Call(grpc::Status (v1::Cluster::Stub::*method)(
                                          grpc::ClientContext*, const Request&, v1::WorkerInfo*),
                                      const Request& request) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    rpc::SetOwner(&context, "ada");
    rpc::SetVersion(&context);
    v1::WorkerInfo info;
    const absl::Status status = rpc::FromGrpc((cluster_.get()->*method)(&context, request, &info));
    if (!status.ok()) return status;
    return info;
  }
  absl::StatusOr<v1::WorkerInfo> Forget(const std::string& worker, const std::string& kernel = "") {
    v1::ForgetRatesRequest request;
    request.set_worker(worker);
    request.set_kernel(kernel);
    return Call(&v1::Cluster::Stub::ForgetRates, request);
  }
  absl::StatusOr<v1::WorkerInfo> Show(const std::string& worker) {
    v1::GetWorkerRequest request;
    request.set_worker(worker);
    return Call(&v1::Cluster::Stub::GetWorker, request);
  }

  std::unique_ptr<v1::Cluster::Stub> cluster_;
};

// Among the pulses, of which there is one a second.
worker::v1::MasterMessage HearForget(FakeWorker* worker) {
  worker::v1::MasterMessage heard;
  for (int i = 0; i < 100 && heard.forgets_size() == 0; ++i) heard = worker->Read();
  return heard;
}

TEST_F(RatesTest, EachIsOfAKernelItsExtentsAndADeviceAndGrowsOld) {
  FakeWorker worker(master_->address(), "w");
  ASSERT_TRUE(worker.Attach().ok());
  worker.Say(RatesReport({RateOn("cpu", 10), RateOn("cuda:GPU-1", 20), RateOn("cpu", 15, "k=2")}));
  ASSERT_TRUE(worker.WaitForAck(worker.Say(RatesReport({RateOn("cpu", 30)}))));
  const absl::StatusOr<v1::WorkerInfo> shown = Show("w");
  ASSERT_TRUE(shown.ok()) << shown.status();
  ASSERT_EQ(shown->rates_size(), 3);
  EXPECT_EQ(shown->rates(0).device_name(), "cuda:GPU-1");
  EXPECT_EQ(shown->rates(1).extents(), "k=2");
  EXPECT_EQ(shown->rates(2).tasks_per_second(), 30) << "the latest last";
  EXPECT_GE(shown->rates(2).age_ns(), absl::ToInt64Nanoseconds(absl::Seconds(7)));
}

TEST_F(RatesTest, ListsHaveTheLatestFew) {
  FakeWorker worker(master_->address(), "w");
  ASSERT_TRUE(worker.Attach().ok());
  std::vector<KernelRate> rates;
  for (int i = 0; i < 20; ++i) rates.push_back(RateOn("cpu", i + 1, std::to_string(i).c_str()));
  ASSERT_TRUE(worker.WaitForAck(worker.Say(RatesReport(rates))));
  EXPECT_EQ(Show("w")->rates_size(), 20);
  grpc::ClientContext context;
  rpc::SetVersion(&context);
  v1::ListWorkersResponse list;
  ASSERT_TRUE(cluster_->ListWorkers(&context, v1::ListWorkersRequest(), &list).ok());
  ASSERT_EQ(list.workers(0).rates_size(), 8);
  EXPECT_EQ(list.workers(0).rates(7).extents(), "19");
}

TEST_F(RatesTest, ForgettingIsAnsweredWhenTheWorkerHasForgotten) {
  FakeWorker worker(master_->address(), "w");
  ASSERT_TRUE(worker.Attach().ok());
  ASSERT_TRUE(worker.WaitForAck(worker.Say(RatesReport({RateOn("cpu", 10), RateOn("gpu", 20)}))));
  std::thread script([&worker] {
    const worker::v1::MasterMessage heard = HearForget(&worker);
    ASSERT_EQ(heard.forgets_size(), 1);
    EXPECT_EQ(heard.forgets(0).kernel(), "noop");
    worker.Say(RatesReport({RateOn("gpu", 5)}, heard.forgets(0).number()));
  });
  const absl::StatusOr<v1::WorkerInfo> left = Forget("w", "noop");
  script.join();
  ASSERT_TRUE(left.ok()) << left.status();
  ASSERT_EQ(left->rates_size(), 1) << "what was told before is void";
  EXPECT_EQ(left->rates(0).tasks_per_second(), 5);
}

TEST_F(RatesTest, AWorkerThatIsLostBeforeItHasForgottenIsSaidToBe) {
  FakeWorker worker(master_->address(), "w");
  ASSERT_TRUE(worker.Attach().ok());
  std::thread script([&worker] {
    EXPECT_EQ(HearForget(&worker).forgets_size(), 1);
    worker.Vanish();
  });
  const absl::Status lost = Forget("w").status();
  script.join();
  EXPECT_EQ(ReasonOf(lost), reason::kWorkerLost) << lost;
  EXPECT_EQ(lost.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(Forget("w").status()), reason::kWorkerLost);
  EXPECT_EQ(ReasonOf(Forget("v").status()), reason::kWorkerNotFound);
  EXPECT_EQ(FieldOf(Forget("").status()), "worker");
  EXPECT_EQ(FieldOf(Forget("w", std::string(300, 'x')).status()), "kernel");
}

TEST_F(RatesTest, AMasterThatStopsAnswersWhoStillWaits) {
  FakeWorker worker(master_->address(), "w");
  ASSERT_TRUE(worker.Attach().ok());
  absl::Status status;
  std::thread asks([&] { status = Forget("w").status(); });
  EXPECT_EQ(HearForget(&worker).forgets_size(), 1);
  std::thread reads([&worker] { EXPECT_EQ(worker.Read().forgets_size(), 0); });
  master_.reset();
  asks.join();
  reads.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
}

}  // namespace
}  // namespace tandem::master
