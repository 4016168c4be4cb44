// An executor for tests of the supervisor: it says it is ready and answers at once what it is told,
// with 8 bytes a leaf (the leaf's number). What it does otherwise is by the job's number:
//   13: dies by SIGSEGV in the first leaf of each piece · 14: never answers · 15: puts its output
//   into staging · 16: says something impossible · 17: refuses the job · 18: as 14, of a job with a
//   time limit
// Another device it drives as it does the CPU; unless NO_EMULATED_DEVICES is set: then it
// cannot.
#include <poll.h>
#include <sys/prctl.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "tandem/executor/v1/executor.pb.h"
#include "worker/ring/channel.h"
#include "worker/ring/launch.h"
#include "worker/ring/staging.h"
#include "worker/ring/start_page.h"

namespace tandem::worker {
namespace {

enum Job : uint64_t {
  kCrashes = 13,
  kHangs = 14,
  kStages = 15,
  kLies = 16,
  kRefuses = 17,
  kOverdue = 18
};

void Run(const executor::v1::RunPiece& run, StartSlot slot, StagingAllocator* staging,
         executor::v1::FromExecutor* reply) {
  slot.Start(run.job(), run.first_leaf(), 1);
  if (run.job() == kCrashes) {
    std::signal(SIGSEGV, SIG_DFL);  // A sanitizer would exit instead.
    std::raise(SIGSEGV);
  }
  if (run.job() == kHangs || run.job() == kOverdue) return;
  slot.Finish();
  if (run.job() == kRefuses) {
    executor::v1::JobError* error = reply->add_job_errors();
    error->set_job(run.job());
    error->set_reason("PATH_CHANGED: for a test");
    error->set_fatal(true);
    error->add_pieces(run.piece());
    return;
  }
  std::string bytes;
  for (uint64_t leaf = run.first_leaf(); leaf < run.first_leaf() + run.leaf_count(); ++leaf) {
    bytes.append(reinterpret_cast<const char*>(&leaf), sizeof(leaf));
  }
  executor::v1::PieceDone* done = reply->add_done();
  done->set_piece(run.piece());
  done->set_busy_ns(1000);
  done->set_tasks(run.leaf_count());
  tandem::v1::OutputPiece* output = done->add_outputs();
  if (run.job() == kLies) {
    output->mutable_region()->set_offset(uint64_t{1} << 40);
    output->mutable_region()->set_length(1);
  } else if (run.job() == kStages) {
    const auto block = staging->Allocate(bytes.size());
    CHECK_OK(block);
    std::memcpy(block->data, bytes.data(), bytes.size());
    output->mutable_region()->set_offset(block->offset);
    output->mutable_region()->set_length(bytes.size());
  } else {
    output->set_inline_(bytes);
  }
}

executor::v1::FromExecutor Ready(const std::string& device) {
  executor::v1::FromExecutor message;
  message.mutable_ready()->mutable_device()->set_kind(device == "cpu" ? tandem::v1::DEVICE_CPU
                                                      : device.starts_with(kCudaDevice)
                                                          ? tandem::v1::DEVICE_GPU
                                                          : tandem::v1::DEVICE_EMULATED);
  message.mutable_ready()->mutable_device()->set_cores(1);
  message.mutable_ready()->mutable_device()->set_groups(1);
  tandem::v1::Kernel* kernel = message.mutable_ready()->add_kernels();
  kernel->set_name("fake");
  kernel->set_signature("axis n -> y[n]:u64");
  kernel->set_content_hash(1);
  return message;
}

int Main(const std::vector<std::string>& arguments) {
  const auto launch = ParseLaunch(arguments);
  CHECK_OK(launch);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto fds = ChannelFds::Parse(launch->channel);
  CHECK_OK(fds);
  const auto channel = Channel::Open(*std::move(fds));
  CHECK_OK(channel);
  if (launch->device != "cpu" && std::getenv("NO_EMULATED_DEVICES") != nullptr) {
    executor::v1::FromExecutor why;
    why.set_cannot_start("as its test wants it");
    CHECK_OK((*channel)->Send(why));
    return 70;
  }
  const auto file = StagingFile::Open(UniqueFd(launch->staging_fd));
  CHECK_OK(file);
  StagingAllocator staging(file->get());
  const auto page = StartPage::Open(launch->start_page);
  CHECK_OK(page);
  CHECK_OK((*channel)->Send(Ready(launch->device)));
  for (;;) {
    executor::v1::ToExecutor message;
    while (*(*channel)->Receive(&message)) {
      executor::v1::FromExecutor reply;
      for (const auto& release : message.releases()) CHECK_OK(staging.Release(release.offset()));
      for (const auto& run : message.runs()) Run(run, (*page)->slot(0), &staging, &reply);
      if (reply.ByteSizeLong() > 0) CHECK_OK((*channel)->Send(reply));
      if (message.shutdown()) return 0;
    }
    if (*(*channel)->PrepareToSleep()) {
      pollfd fd{(*channel)->wake_fd(), POLLIN, 0};
      ::poll(&fd, 1, -1);
    }
    CHECK_OK((*channel)->Awake());
  }
}

}  // namespace
}  // namespace tandem::worker

int main(int argc, char** argv) {
  return tandem::worker::Main(std::vector<std::string>(argv + 1, argv + argc));
}
